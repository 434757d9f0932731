// The list of companies, and a company with its members, for staff.

import { get } from "./api.js";
import { PAGE, addressOf, customerLink, paged } from "./lists.js";
import { timeOf, button, el, empty, facts, row, table } from "./ui.js";

/** Returns what the card of the list contains. */
export async function show({ me, query, signal }) {
  const wanted = query.get("company");
  if (wanted) return [el("p", null, el("a", { href: addressOf({ list: "companies" }) }, "All companies")), ...await company(wanted, me, signal)];
  return paged({
    path: "companies", me, signal, caption: "Companies", heads: ["Name", "Id", "Created"],
    line: ({ company_id: id, name, created_at: at }) => row(el("a", { href: addressOf({ list: "companies", company: id }) }, name), el("code", { class: "id" }, id), timeOf(at)),
    none: empty("No companies yet", "Staff create companies, and add the customers who buy for them."),
  });
}

async function company(id, me, signal) {
  const path = `/api/companies/${encodeURIComponent(id)}`;
  const first = await get(`${path}?limit=${PAGE}`, { as: me, signal });
  const line = (one) => row(customerLink(one.customer_id, one.name), one.email ?? "–");
  const members = table("Members", ["Name", "E-mail address"], first.members.map(line));
  const more = el("div", { class: "row" });
  const offer = (cursor) => more.replaceChildren(...(cursor ? [button("Show more", () => next(cursor))] : []));
  const next = async (cursor) => {
    const found = await get(`${path}?${new URLSearchParams({ limit: PAGE, cursor })}`, { as: me, signal });
    members.body.append(...found.members.map(line));
    offer(found.cursor);
  };
  offer(first.cursor);
  const { name, created_at: at } = first.company;
  return [el("h2", null, name), facts(["Id", el("code", { class: "id" }, id)], ["Created", timeOf(at)]), first.members.length ? members : empty("No members", "No customer buys for this company."), more];
}
