// The board, for staff: the orders of all customers by state, with their commands. It updates itself.

import { get, repeat } from "./api.js";
import { actionButtons } from "./actions.js";
import { asUtc, field, form, rangeFields } from "./forms.js";
import { duration, filled, money, number, plural, shortId, stateName } from "./format.js";
import { isStaff, person, staffMember, staffNote } from "./people.js";
import { Rejection } from "./problems.js";
import { announce, button, chip, el, empty, fill, pageButtons, row, stateChip, scrollToCurrent, orderLink, table, timeOf } from "./ui.js";
import { seedOffer } from "./seedShop.js";
import { labels } from "./labels.js";

const OPEN = ["PENDING", "PAID", "FULFILLING", "CANCEL_REQUESTED", "PARTIALLY_SHIPPED", "CUT_REQUESTED", "SHIPPED"];
const CLOSED = ["DELIVERED", "PARTIALLY_RETURNED", "RETURNED", "CANCELLED", "LAPSED"];
/** The status in the address if the list has all orders, or the open orders of all states. */
const ALL = "", ALL_OPEN = "OPEN";
const ATTENTION = { OWED: "money is owed", OVER_REFUNDED: "more was refunded than paid", UNDOCUMENTED: "a credit note is missing" };
const PAGE = 20;
const MOST_COUNTED = 100;
const LIST_MS = 4000;
const ALL_MS = 10_000;
const COUNTS_MS = 30_000;
const HEADS = ["Order", "Status", "Placed", "Customer", { text: "Total", number: true }, "Actions"];

export function show(place, { query, signal }) {
  const me = isStaff(person()) ? person() : staffMember();
  const asked = {
    status: [...OPEN, ...CLOSED, ALL_OPEN].includes(query.get("status")) ? query.get("status") : ALL,
    from: query.get("from") ?? "",
    to: query.get("to") ?? "",
    order: query.get("order") === "oldest" ? "oldest" : "newest",
  };
  const heading = el("h1", null, "Board");
  const list = el("section", { class: "card", "aria-label": `Orders: ${nameOf(asked.status)}` });
  const { element: states, showCount } = tabs(asked, me, signal);
  const pages = showPages(list, asked, { me, signal, showCount });
  place.append(
    el("div", { class: "view-head" }, heading, el("p", { class: "lead" }, labels.board), staffNote(me)),
    states, el("div", { class: "board-tools" }, filters(asked), finder(list, me, signal, pages.stop)),
    list);
  scrollToCurrent(states);
  return heading;
}

const nameOf = (status) => ({ [ALL]: "All", [ALL_OPEN]: "All open" })[status] ?? stateName(status);

const isAsking = () => document.querySelector("dialog[open]") !== null;

/** Returns the address of the board with these parameters, so that bookmarks and the Back button work. */
const addressOf = ({ order, ...asked }) => `#/board?${filled({ ...asked, order: order === "newest" ? "" : order })}`;

/**
 * Returns a tab for each state, with its number of orders, and `showCount(status, page)`, which shows the number of a page.
 * The API returns no counts. So this counts a page of ids, unless the list has all open orders and counts them.
 */
function tabs(asked, me, signal) {
  const counts = new Map(OPEN.map((status) => [status, el("span", { class: "board-count" })]));
  const showCount = (status, { items, cursor }) => (counts.get(status).textContent = `${number(items.length)}${cursor ? "+" : ""}`);
  const tab = (status) => el("a", { href: addressOf({ ...asked, status }), "aria-current": status === asked.status && "page" }, nameOf(status), counts.has(status) && " ", counts.get(status));
  const count = async (status) => {
    const query = filled({ status, from: asked.from, to: asked.to, limit: MOST_COUNTED, fields: "order_id" });
    showCount(status, await get(`/api/orders?${query}`, { as: me, signal }));
  };
  const countAll = () => Promise.all(OPEN.map(count));
  if (asked.status !== ALL_OPEN) {
    countAll().catch(() => {});
    repeat(async () => isAsking() || countAll(), COUNTS_MS, signal);
  }
  return { element: el("nav", { class: "tabs", "aria-label": "Status" }, [ALL, ALL_OPEN, ...OPEN].map(tab)), showCount };
}

function filters(asked) {
  const [from, to, order] = rangeFields(asked);
  const closed = CLOSED.includes(asked.status) ? asked.status : "";
  const status = field("Closed status", "status", {}, { options: [["", "any", !closed], ...CLOSED.map((one) => [one, stateName(one).toLowerCase(), one === closed])] });
  const all = (asked.from || asked.to) && el("a", { class: "button quiet", href: addressOf({ status: asked.status }) }, "All times");
  const made = form({ class: "inline", "aria-label": "Filter" }, [status, from, to, order], "Show", () => {
    location.hash = addressOf({ status: status.control.value || (closed ? ALL : asked.status), from: asUtc(from.control.value), to: asUtc(to.control.value), order: order.control.value });
  }, { kind: "", also: all ? [all] : [] });
  const isOpen = closed || addressOf({ ...asked, status: "" }) !== addressOf({}) || matchMedia("(min-width: 60rem)").matches;
  return el("details", { open: Boolean(isOpen) }, el("summary", null, "Time range and sorting"), made);
}

// Finding --------------------------------------------------------------------------------------------------------------
/** The ways to find an order in any state: [label, text if none is found, find(text, carrier, read) → orders]. */
const WAYS = {
  number: ["Order number", "No order has this number.", async (text, _, read) => (await read("orders", { number: text })).items],
  tracking: ["Tracking number", "No parcel of this carrier has this tracking number.", async (text, carrier, read) => {
    const { items } = await read("shipments", { carrier, tracking_number: text });
    return Promise.all([...new Set(items.map((parcel) => parcel.order_id))].map((id) => read(`orders/${id}`)));
  }],
  phone: ["Phone number", "No order has this phone number.", async (text, _, read) => (await read("orders", { phone: text })).items],
  email: ["E-mail address", "No customer has this e-mail address.", async (text, _, read) => {
    const [customer] = (await read("customers", { email: text })).items;
    if (!customer) return [];
    const { items } = await read(`customers/${customer.customer_id}/orders`, { limit: PAGE });
    if (!items.length) throw new Rejection(`${customer.name} has no orders.`);
    return items.map((order) => ({ ...order, customer_name: customer.name }));
  }],
};

/** Returns the search form. It finds orders in any state, also archived orders. */
function finder(list, me, signal, stopPages) {
  const way = field("Find by", "way", {}, { options: Object.entries(WAYS).map(([name, [label]]) => [name, label.toLowerCase()]) });
  const text = field(WAYS.number[0], "text", { required: true, autocomplete: "off", spellcheck: "false" });
  const carrier = field("Carrier", "carrier", { value: "DHL", required: true });
  const adapt = () => {
    text.querySelector("label").textContent = WAYS[way.control.value][0];
    carrier.hidden = carrier.control.disabled = way.control.value !== "tracking";
  };
  way.control.addEventListener("change", adapt);
  adapt();
  const read = (path, query = {}) => get(`/api/${path}?${new URLSearchParams(query)}`, { as: me, signal });
  return form({ class: "inline", "aria-label": "Find an order" }, [way, carrier, text], "Find", async () => {
    const [, none, find] = WAYS[way.control.value];
    stopPages();
    list.replaceChildren();
    const items = await find(text.control.value.trim(), carrier.control.value.trim(), read);
    if (!items.length) throw new Rejection(none);
    const rows = items.map((order) => orderRow(order, me, signal).shown);
    list.replaceChildren(el("h2", null, "Found"), table("Found orders", HEADS, rows, { hideCaption: true }));
    announce(`Found: ${items.map((order) => stateName(order.status)).join(", ")}`);
  }, { kind: "" });
}

// The list -------------------------------------------------------------------------------------------------------------
/** Shows a list page by page, with the API's cursors; keeps earlier cursors for Back. Updates the page that it shows. */
function showPages(list, asked, { me, signal, showCount }) {
  const place = el("div", null); // a separate element, so that a late answer does not replace the results of a search
  const cursors = [null];
  const arrived = el("span", null);
  let rows = new Map();
  const turn = () => fill(place, "orders", page);
  const stop = repeat(async () => rows && !isAsking() && update(await read()), asked.status === ALL_OPEN ? ALL_MS : LIST_MS, signal);
  list.append(place);
  turn();
  return { stop };

  function read() {
    return asked.status === ALL_OPEN ? readAll() : readState(asked.status, cursors.at(-1));
  }

  function readState(status, cursor) {
    return get(`/api/orders?${filled({ ...asked, status, limit: PAGE, cursor })}`, { as: me, signal });
  }

  /** Merges the first pages of all open states, because the API lists the open orders of one state. */
  async function readAll() {
    const found = await Promise.all(OPEN.map((status) => readState(status)));
    found.forEach((page, at) => showCount(OPEN[at], page));
    const all = found.flatMap((page) => page.items).sort((one, other) => one.placed_at.localeCompare(other.placed_at));
    if (asked.order === "newest") all.reverse();
    return { items: all.slice(0, PAGE), all, isCut: all.length > PAGE || found.some((page) => page.cursor) };
  }

  async function page() {
    rows = null; // do not update the rows while another page loads
    const found = await read();
    const head = el("div", { class: "card-head" }, el("h2", null, nameOf(asked.status)), el("div", { class: "row tight" }, arrived, button("Refresh", turn, { kind: "small quiet" })));
    rows = new Map(found.items.map((order) => [order.order_id, orderRow(order, me, signal)]));
    arrived.replaceChildren();
    announce(`${plural(found.items.length, "order")} shown`);
    if (!found.items.length && cursors.length === 1 && !found.cursor) return [head, nothing(asked)];
    const shown = [...rows.values()].map((one) => one.shown);
    const below = asked.status === ALL_OPEN ? found.isCut && el("p", { class: "hint" }, `These are the ${asked.order} ${PAGE}. Choose a status to see more.`) : pageButtons(cursors, found.cursor, turn);
    const counted = found.discarded > 0 && el("p", { class: "hint" }, `${plural(found.read, "order")} read, ${number(found.discarded)} with another status.`);
    return [head, table(`Orders: ${nameOf(asked.status)}, ${asked.order} first`, HEADS, shown, { hideCaption: true }), counted || "", below || ""];
  }

  /** Updates the state in each row, but moves no row. For new orders, shows a button that reloads the list. */
  async function update({ items, all = items }) {
    if (!rows) return;
    const now = new Map(all.map((order) => [order.order_id, order]));
    const added = items.filter((order) => !rows.has(order.order_id)).length;
    if (added && !rows.size) return turn();
    const text = `Show ${plural(added, "new order")}`;
    if (!added) arrived.replaceChildren();
    else if (arrived.textContent !== text) arrived.replaceChildren(button(text, turn, { kind: "small" }));
    await Promise.all([...rows].map(([id, one]) => one.update(now.get(id), asked.status)));
  }
}

function nothing(asked) {
  const text = asked.from || asked.to ? "Choose another time range or another status." : "Orders appear here when they reach this status.";
  if (asked.status === ALL || asked.status === ALL_OPEN) return empty(asked.status === ALL ? "No orders" : "No open orders", text, seedOffer());
  return empty(`No order has the status “${stateName(asked.status)}”`, text);
}

/**
 * Returns the row of an order: {shown, update(order, status)}. After a command, it shows the new state and commands.
 * `update` shows the current state of the order. `order` is undefined if the order has left the list of `status`. If the
 * row still shows this status then, or the list has all orders or all open ones, `update` reads the order.
 */
function orderRow(order, me, signal) {
  const shown = el("tr");
  let drawn = null;
  const read = () => get(`/api/orders/${order.order_id}`, { as: me, signal });
  const draw = (now) => {
    const done = async () => {
      draw(await read());
      shown.querySelector("button, a")?.focus();
    };
    const focused = shown.contains(document.activeElement) && document.activeElement.textContent;
    const status = now.archived ? chip("Archived", "over") : stateChip(now.status);
    const buttons = el("div", { class: "row tight" }, actionButtons({ order: now, me, done, small: true }));
    const customer = el("a", { href: `#/customers/${encodeURIComponent(order.customer_id)}`, title: order.customer_id }, order.customer_name || shortId(order.customer_id));
    const why = (now.attention ?? order.attention ?? []).map((reason) => ATTENTION[reason] ?? reason).join(", ");
    const state = why ? el("div", { class: "row tight" }, status, chip(`Check: ${why}`, "bad")) : status;
    const placed = el("span", null, timeOf(order.placed_at), el("span", { class: "hint" }, ` ${duration(Math.max(0, Date.now() - Date.parse(order.placed_at)))} ago`));
    const cells = row(orderLink(order.order_id), state, placed, customer, { number: money(now.total, now.currency) }, buttons.children.length ? buttons : "–");
    shown.replaceChildren(...cells.children);
    if (focused) ([...shown.querySelectorAll("a, button")].find((one) => one.textContent === focused) ?? shown.querySelector("a")).focus({ preventScroll: true });
    drawn = now;
  };
  const update = async (now, status) => {
    const isShown = status === ALL || (status === ALL_OPEN ? OPEN.includes(drawn.status) : drawn.status === status);
    const changed = now ?? (isShown ? await read() : drawn);
    if (changed.version > drawn.version) draw(changed);
  };
  draw(order);
  return { shown, update };
}
