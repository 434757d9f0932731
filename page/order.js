// An order: its state, its trace or timeline, and its current items.

import { get, ownPath, Problem } from "./api.js";
import { actionButtons } from "./actions.js";
import { diagnosisPanel } from "./diagnosis.js";
import { addressText, filled, money, number, shortId, stateName } from "./format.js";
import { history } from "./history.js";
import { textOf } from "./labels.js";
import { customerLink } from "./lists.js";
import { sidePanels } from "./panels.js";
import { choose, groupOf, isStaff, person, staffMember } from "./people.js";
import { isHere, settings } from "./settings.js";
import { oneAtATime, trace } from "./trace.js";
import { button, chip, copyable, el, facts, failure, loading, row, stateChip, table, timeOf } from "./ui.js";

const MOST_PAGES = 5;

/** How to show the order's timeline: on a laptop live, with spans from the journal; on AWS as it was at the last refresh. */
const COURSES = [
  { laptop: true, open: trace },
  { laptop: false, open: history },
];

export function show(place, { id, query, signal, again, me = person() }) {
  const heading = el("h1", null, textOf("order.title", { id: shortId(id) }));
  const head = el("div", { class: "card order-head" }, loading(textOf("order.loading")));
  const panels = sidePanels(encodeURIComponent(id), me, signal, () => look());
  const look = oneAtATime(async () => {
    const whole = await lookAt(head, about);
    if (!whole) return;
    course.update(whole);
    await Promise.all([panels.refresh(whole), diagnosis && diagnosis.refresh(whole)]);
  });
  const diagnosis = groupOf(me) === "staff" && diagnosisPanel({ id, me, signal, done: () => look() });
  const about = { id, me, signal, again, look, known: undefined };
  const [{ open }] = COURSES.filter(isHere);
  const course = open({ id, query, signal, look });
  const courseHead = el("div", { class: "card-head" }, el("h2", { id: "course" }, textOf("order.timeline")), course.state);
  const happened = el("section", { "aria-labelledby": "course" }, courseHead, course.element);
  place.append(
    el("div", { class: "view-head" }, heading, copyable(id, textOf("order.id"))), head, diagnosis ? diagnosis.element : "",
    el("div", { class: "order-columns" }, happened, el("div", { class: "order-aside" }, course.aside, panels.element)));

  look();
  return heading;
}

// How it stands --------------------------------------------------------------------------------------------------------
async function lookAt(head, about) {
  const { id, me, signal } = about;
  try {
    const whole = await wholeOrder(id, me, signal);
    const known = JSON.stringify(whole.order);
    if (about.known !== known) {
      about.known = known;
      head.replaceChildren(...standing(whole.order, about).filter(Boolean));
    }
    return whole;
  } catch (error) {
    if (!signal.aborted) {
      about.known = undefined;
      head.replaceChildren(notFound(error, about));
    }
    return null;
  }
}

/** Loads the order with all its items, which may take several pages. Only the local shop knows the mails. */
async function wholeOrder(id, me, signal) {
  const whole = { order: null, payments: [], invoices: [], shipments: [], returns: [], refunds: [], timeline: [], ends_at: null };
  let cursor = null;
  for (let page = 0; page === 0 || (cursor && page < MOST_PAGES); page += 1) {
    const found = await get(ownPath(me, `/orders/${encodeURIComponent(id)}/whole?${filled({ limit: 100, cursor })}`), { as: me, signal });
    for (const [name, value] of Object.entries(whole)) whole[name] = Array.isArray(value) ? [...value, ...found[name]] : value ?? found[name];
    cursor = found.cursor;
  }
  if (!whole.order) throw new Problem(404, { type: "/docs#not-found", what: "order" });
  if (settings.laptop) whole.mails = await mailsOf(id, signal);
  return whole;
}

/** Returns the mails about the order, or null if they cannot be read. The order is shown nevertheless. */
async function mailsOf(id, signal) {
  try {
    return (await get(`/local/orders/${encodeURIComponent(id)}/mails`, { signal })).items;
  } catch (error) {
    if (signal.aborted) throw error;
    return null;
  }
}

function notFound(error, { me, again, look }) {
  if (error.status !== 404 || isStaff(me) || !choose) return failure(error, look);
  const asStaff = () => {
    choose(staffMember());
    again();
  };
  return failure(error, look, button("View as staff", asStaff));
}

function standing(order, { me, look }) {
  const { status, archived, total, currency, lines, address } = order;
  const actions = actionButtons({ order, me, done: look });
  const paid = order.paid > 0 && money(order.paid, currency);
  const trail = groupOf(me) === "staff" && el("a", { href: `#/records?list=audit&about=ORDER:${encodeURIComponent(order.order_id)}` }, "Who changed it");
  return [
    el("div", { class: "row order-state" }, el("div", { class: "row tight" }, stateChip(status), archived && chip(textOf("order.archived"), "over")), el("div", { class: "row actions" }, actions, trail)),
    facts(
      [textOf("order.total"), el("strong", null, money(total, currency))], [textOf("order.paid"), paid], [textOf("order.due"), order.due > 0 && money(order.due, currency)],
      [textOf("shipping"), order.shipping_method?.name],
      [textOf("order.refunded"), order.refunded > 0 && money(order.refunded, currency)], [textOf("order.placed"), timeOf(order.placed_at)],
      [textOf("order.address"), address && addressText(address)],
      [textOf("order.reference"), order.reference], [textOf("order.note"), order.note], [textOf("order.cancel_reason"), order.cancel_reason],
      ...Object.entries(order.metadata ?? {}), [textOf("order.placed_by"), order.placed_by],
      [textOf("order.customer"), trail ? customerLink(order.customer_id, order.customer_name || undefined) : el("span", { class: "id", title: order.customer_id }, order.customer_name || shortId(order.customer_id))]),
    archived && el("p", { class: "notice" }, textOf("order.archive", { state: stateName(status).toLowerCase() })),
    lines && linesTable(lines, currency),
  ];
}

function linesTable(lines, currency) {
  const counted = [textOf("lines.price"), textOf("lines.ordered"), textOf("lines.shipped"), textOf("lines.delivered"), textOf("lines.returned")];
  const heads = [textOf("lines.product"), ...counted.map((text) => ({ text, number: true }))];
  const counts = ({ quantity, shipped, delivered, returned }) => [quantity, shipped, delivered, returned].map((count) => ({ number: number(count) }));
  return table(textOf("lines"), heads, lines.map((line) => row(line.name, { number: money(line.price, currency) }, ...counts(line))), { hideCaption: true });
}
