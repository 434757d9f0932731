// Shows a list of the API as a table, page by page. Also the links of the view of customers, and the rows of orders.

import { get } from "./api.js";
import { filled, money, number, plural, shortId } from "./format.js";
import { announce, chip, el, moreButton, orderLink, row, stateChip, table, timeOf } from "./ui.js";

export const PAGE = 20;

export const addressOf = (said) => `#/customers?${filled(said)}`;
export const customerLink = (id, text = shortId(id)) => el("a", { href: `#/customers/${encodeURIComponent(id)}`, title: id }, text);

export const ORDER_HEADS = ["Order", "Status", "Placed", { text: "Pieces", number: true }, { text: "Total", number: true }];
export const orderRow = (order) => row(orderLink(order.order_id), order.archived ? chip("Archived", "over") : stateChip(order.status), timeOf(order.placed_at),
  { number: order.items == null ? "–" : number(order.items) }, { number: money(order.total, order.currency) });

/** Shows a list as a table, with a button that adds the next page. `path` may have a query. */
export async function paged({ path, me, signal, caption, heads, line, none, limit = PAGE }) {
  const [base, query] = path.split("?");
  const page = (cursor) => get(`/api/${base}?${filled({ ...Object.fromEntries(new URLSearchParams(query)), limit, cursor })}`, { as: me, signal });
  const first = await page();
  if (!first.items.length && !first.cursor) return [none];
  const shown = table(caption, heads, first.items.map(line), { hideCaption: true });
  return [shown, moreButton(first.cursor, async (cursor) => {
    const found = await page(cursor);
    shown.body.append(...found.items.map(line));
    announce(`${plural(found.items.length, "more row")} shown`);
    return found.cursor;
  })];
}
