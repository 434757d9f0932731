// The board: the open orders of all customers by state, page by page, and the commands of staff.

import { get } from "./api.js";
import { actionButtons } from "./actions.js";
import { asUtc, field, form, localMoment } from "./forms.js";
import { money, plural, shortId, stateName } from "./format.js";
import { isStaff, person, staffMember } from "./people.js";
import { Rejection } from "./problems.js";
import { announce, button, chip, el, empty, fill, row, stateChip, storyLink, table, timeOf } from "./ui.js";
import { labels } from "./labels.js";

const OPEN = ["PENDING", "PAID", "FULFILLING", "CANCEL_REQUESTED", "PARTIALLY_SHIPPED", "CUT_REQUESTED", "SHIPPED"];
const PAGE = 20;
const HEADS = ["Order", "Status", "Placed", "Customer", { text: "Total", number: true }, "Actions"];

export function show(place, { query, signal }) {
  const me = isStaff(person()) ? person() : staffMember();
  const asked = {
    status: OPEN.includes(query.get("status")) ? query.get("status") : OPEN[0],
    from: query.get("from") ?? "",
    to: query.get("to") ?? "",
    order: query.get("order") === "oldest" ? "oldest" : "newest",
  };
  const heading = el("h1", null, "Board");
  const list = el("section", { class: "card", "aria-label": `Orders: ${stateName(asked.status)}` });
  place.append(
    el("div", { class: "view-head" }, heading, el("p", { class: "lead" }, labels.board(me))),
    tabs(asked), el("div", { class: "board-tools" }, filters(asked), finder(list, me, signal)), list);
  showPages(list, asked, me, signal);
  return heading;
}

/** The address of the board with some parameters changed, so that it can be bookmarked, and Back works. */
function addressOf(asked) {
  const said = Object.entries(asked).filter(([name, value]) => value && !(name === "order" && value === "newest"));
  return `#/board?${new URLSearchParams(said)}`;
}

function tabs(asked) {
  const tab = (status) => el("a", { href: addressOf({ ...asked, status }), "aria-current": status === asked.status && "page" }, stateName(status));
  return el("nav", { class: "tabs", "aria-label": "Status" }, OPEN.map(tab));
}

function filters(asked) {
  const from = field("Placed from", "from", { type: "datetime-local", value: localMoment(asked.from) });
  const to = field("Placed before", "to", { type: "datetime-local", value: localMoment(asked.to) });
  const order = field("Sort", "order", {}, { options: [["newest", "newest first", asked.order === "newest"], ["oldest", "oldest first", asked.order === "oldest"]] });
  const all = (asked.from || asked.to) && el("a", { class: "button quiet", href: addressOf({ status: asked.status }) }, "All times");
  return form({ class: "inline", "aria-label": "Filter by time" }, [from, to, order], "Show", () => {
    location.hash = addressOf({ status: asked.status, from: asUtc(from.control.value), to: asUtc(to.control.value), order: order.control.value });
  }, { kind: "", also: all ? [all] : [] });
}

/** Delivered, cancelled and archived orders are in no list of the board, but are found by their number. */
function finder(list, me, signal) {
  const number = field("Order number", "number", { required: true, autocomplete: "off", spellcheck: "false" });
  return form({ class: "inline", "aria-label": "Find an order" }, number, "Find", async () => {
    const { items } = await get(`/api/orders?${new URLSearchParams({ number: number.control.value.trim() })}`, { as: me, signal });
    if (!items.length) throw new Rejection("No order has this number.");
    const rows = items.map((order) => orderRow(order, me, signal)); // seldom more than one
    list.replaceChildren(el("h2", null, "Found"), table("The order", HEADS, rows, { hideCaption: true }));
    announce(`Found: ${items.map((order) => stateName(order.status)).join(", ")}`);
  }, { kind: "" });
}

/** Pages forward by cursor, back by the cursors that led here. */
function showPages(list, asked, me, signal) {
  const cursors = [null];
  const turn = () => fill(list, "orders", page);
  turn();

  async function page() {
    const cursor = cursors.at(-1);
    const said = Object.entries({ ...asked, limit: PAGE, cursor }).filter(([, value]) => value);
    const found = await get(`/api/orders?${new URLSearchParams(said)}`, { as: me, signal });
    const title = el("h2", null, stateName(asked.status));
    const reload = button("Refresh", turn, { kind: "small quiet" });
    const head = el("div", { class: "card-head" }, title, reload);
    announce(`${plural(found.items.length, "order")} shown`);
    if (!found.items.length && cursors.length === 1) return [head, nothing(asked)];
    const rows = found.items.map((order) => orderRow(order, me, signal));
    return [head, table(`Orders: ${stateName(asked.status)}, ${asked.order} first`, HEADS, rows, { hideCaption: true }), turning(found.cursor)];
  }

  function turning(next) {
    const back = button("Previous page", () => (cursors.pop(), turn()), { disabled: cursors.length === 1 });
    const on = button("Next page", () => (cursors.push(next), turn()), { disabled: !next });
    return el("nav", { class: "row pages", "aria-label": "Pages" }, back, el("span", null, `Page ${cursors.length}`), on);
  }
}

function nothing(asked) {
  const text = asked.from || asked.to ? "Choose another time range or another status." : "Orders appear here when they reach this status. Find delivered orders by their number.";
  return empty(`No order has the status “${stateName(asked.status)}”`, text);
}

/** A row of an order: after a command, it shows the new state and the next commands. */
function orderRow(order, me, signal) {
  const shown = el("tr");
  const draw = (now) => {
    const done = async () => {
      draw(await get(`/api/orders/${order.order_id}`, { as: me, signal }));
      shown.querySelector("button, a")?.focus();
    };
    const status = now.archived ? chip("Archived", "over") : stateChip(now.status);
    const buttons = el("div", { class: "row tight" }, actionButtons({ order: now, me, done, small: true }));
    const cells = row(storyLink(order.order_id), status, timeOf(order.placed_at), el("span", { class: "id", title: order.customer_id }, order.customer_name || shortId(order.customer_id)), { number: money(now.total, now.currency) }, buttons.children.length ? buttons : "–");
    shown.replaceChildren(...cells.children);
  };
  draw(order);
  return shown;
}
