// The story of an order: how it stands, what happened to it as it happens, and what there is of it by now.

import { get, Problem } from "./api.js";
import { actionButtons } from "./actions.js";
import { follow } from "./live.js";
import { money, number, plural, shortId, stateName } from "./format.js";
import { sidePanels } from "./panels.js";
import { choose, isStaff, person, STAFF_MEMBER } from "./people.js";
import { Timeline } from "./timeline.js";
import { announce, button, chip, copyable, el, empty, facts, failure, loading, row, stateChip, table, timeOf } from "./ui.js";

const SETTLED_MS = 400;
const AT_LATEST_MS = 1500;
const SAID_EVERY_MS = 2500;
const MOST_PAGES = 5;

export function show(place, { id, signal, again }) {
  const me = person();
  const heading = el("h1", null, `Order ${shortId(id)}`);
  const head = el("div", { class: "card story-head" }, loading("Loading the order …"));
  const panels = sidePanels(encodeURIComponent(id), me, signal);
  const timeline = new Timeline();
  const state = el("p", { class: "live", role: "status" }, "Opening …");
  const story = el("section", { "aria-labelledby": "story" }, el("div", { class: "card-head" }, el("h2", { id: "story" }, "Story"), state), timeline.element);
  place.append(
    el("div", { class: "view-head" }, heading, copyable(id, "the order's number")), head,
    el("div", { class: "story-columns" }, story, panels.element));

  const about = { id, me, signal, again, known: undefined };
  const look = (about.look = oneAtATime(async () => {
    const whole = await lookAt(head, about);
    if (whole) await panels.refresh(whole);
  }));
  const lookSoon = settled(look, signal);
  look();
  read(timeline, { id, signal, state, onNews: lookSoon });
  return heading;
}

/** Runs never overlap, so that no older answer is drawn last; who asks meanwhile has one more run after it. */
function oneAtATime(run) {
  let running = null;
  let wanted = false;
  return () => {
    wanted = true;
    running ??= (async () => {
      try {
        while (wanted) {
          wanted = false;
          await run();
        }
      } finally {
        running = null;
      }
    })();
    return running;
  };
}

/** Calls `run` once nothing happened for a moment, or has not stopped happening for a while. */
function settled(run, signal) {
  let timer, since;
  return () => {
    since ??= Date.now();
    clearTimeout(timer);
    timer = setTimeout(() => {
      since = undefined;
      if (!signal.aborted) run();
    }, Math.max(0, Math.min(SETTLED_MS, since + AT_LATEST_MS - Date.now())));
  };
}

/** The story so far, and then as it goes on. */
async function read(timeline, { id, signal, state, onNews }) {
  const path = `/local/orders/${encodeURIComponent(id)}/story`;
  try {
    for (let after = 0, more = true; more; after = timeline.last) {
      const { entries } = await get(`${path}?after=${after}`, { signal });
      timeline.add(entries);
      more = entries.length >= 500;
    }
  } catch (error) {
    if (!signal.aborted) state.replaceWith(failure(error, () => location.reload()));
    return;
  }
  const nothing = empty("Nothing is told of it yet", "What happens to it from now on appears here by itself. The journal begins with the last start of the shop.");
  if (!timeline.last) timeline.element.append(nothing);
  const say = teller();
  follow({
    after: timeline.last, order: id, signal,
    onState: (open) => state.replaceChildren(open ? chip("Live", "good") : chip("Connecting again …", "waiting")),
    on: (entries) => {
      nothing.remove();
      timeline.add(entries);
      say(entries);
      if (!entries.every(isLook)) onNews();
    },
  });
}

/** A look that failed is told as well; to look again because of it would never end. */
const isLook = ({ kind, route = "" }) => kind === "request" && route.startsWith("GET ");

/** Tells who listens what is new: many entries at once, and not too often. */
function teller() {
  let unsaid = [];
  return (entries) => {
    if (!unsaid.length) {
      setTimeout(() => {
        announce(`${plural(unsaid.length, "new entry", "new entries")}. Last: ${unsaid.at(-1).text}`);
        unsaid = [];
      }, SAID_EVERY_MS);
    }
    unsaid.push(...entries);
  };
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

/** The order with all it owns; it may take several pages. */
async function wholeOrder(id, me, signal) {
  const whole = { order: null, payments: [], invoices: [], shipments: [], returns: [], refunds: [], ends_at: null };
  let cursor = null;
  for (let page = 0; page === 0 || (cursor && page < MOST_PAGES); page += 1) {
    const query = new URLSearchParams({ limit: "100", ...(cursor && { cursor }) });
    const found = await get(`/api/orders/${encodeURIComponent(id)}/whole?${query}`, { as: me, signal });
    for (const [name, value] of Object.entries(whole)) whole[name] = Array.isArray(value) ? [...value, ...found[name]] : value ?? found[name];
    cursor = found.cursor;
  }
  if (!whole.order) throw new Problem(404, { type: "/docs#not-found", what: "order" });
  return whole;
}

function notFound(error, { me, again, look }) {
  if (error.status !== 404 || isStaff(me)) return failure(error, look);
  const asStaff = () => {
    choose(STAFF_MEMBER);
    document.getElementById("who").value = STAFF_MEMBER;
    again();
  };
  return failure(error, look, button("Look as staff", asStaff));
}

function standing(order, { me, look }) {
  const { status, archived, total, currency, lines, address } = order;
  const actions = actionButtons({ order, me, done: look });
  const paid = order.paid > 0 && money(order.paid, currency);
  return [
    el("div", { class: "row story-state" }, el("div", { class: "row tight" }, stateChip(status), archived && chip("Archived", "over")), el("div", { class: "row actions" }, actions)),
    facts(
      ["Total", el("strong", null, money(total, currency))], ["Paid", paid], ["Still due", order.due > 0 && money(order.due, currency)],
      ["Given back", order.refunded > 0 && money(order.refunded, currency)], ["Placed", timeOf(order.placed_at)],
      ["Goes to", address && `${address.name}, ${address.street}, ${address.postcode} ${address.city}, ${address.country}`],
      ["Customer", el("span", { class: "id", title: order.customer_id }, order.customer_name || shortId(order.customer_id))]),
    archived && el("p", { class: "notice" }, `It is ${stateName(status).toLowerCase()} and archived: only this stays in the table, all else lies in the archive.`),
    lines && linesTable(lines, currency),
  ];
}

function linesTable(lines, currency) {
  const heads = ["Product", ...["Price", "Ordered", "Shipped", "Delivered", "Returned"].map((text) => ({ text, number: true }))];
  const counts = ({ quantity, shipped, delivered, returned }) => [quantity, shipped, delivered, returned].map((count) => ({ number: number(count) }));
  return table("Its lines", heads, lines.map((line) => row(line.name, { number: money(line.price, currency) }, ...counts(line))), { hideCaption: true });
}
