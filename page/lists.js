// Shows a list of the API as a table, page by page. Also the links of the view of customers.

import { get } from "./api.js";
import { plural, shortId } from "./format.js";
import { announce, button, el, table } from "./ui.js";

export const PAGE = 20;

export const addressOf = (said) => `#/customers?${new URLSearchParams(Object.entries(said).filter(([, value]) => value))}`;
export const customerLink = (id, text = shortId(id)) => el("a", { href: `#/customers/${encodeURIComponent(id)}`, title: id }, text);

/** Shows a list as a table, with a button that adds the next page. `path` may have a query. */
export async function paged({ path, me, signal, caption, heads, line, none, limit = PAGE }) {
  const page = (cursor) => {
    const [base, query] = path.split("?");
    const said = new URLSearchParams(query);
    said.set("limit", limit);
    if (cursor) said.set("cursor", cursor);
    return get(`/api/${base}?${said}`, { as: me, signal });
  };
  const first = await page();
  if (!first.items.length && !first.cursor) return [none];
  const shown = table(caption, heads, first.items.map(line), { hideCaption: true });
  const more = el("div", { class: "row" });
  const offer = (cursor) => more.replaceChildren(...(cursor ? [button("Show more", () => next(cursor))] : []));
  const next = async (cursor) => {
    const found = await page(cursor);
    shown.body.append(...found.items.map(line));
    offer(found.cursor);
    announce(`${plural(found.items.length, "more row")} shown`);
  };
  offer(first.cursor);
  return [shown, more];
}
