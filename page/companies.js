// The list of companies, and a company with its members, for staff.

import { call, get } from "./api.js";
import { ask } from "./ask.js";
import { field, form } from "./forms.js";
import { filled, money } from "./format.js";
import { PAGE, addressOf, customerLink, paged } from "./lists.js";
import { Rejection } from "./problems.js";
import { timeOf, button, el, empty, facts, moreButton, orderLink, row, stateChip, table, toast } from "./ui.js";

/** Returns what the card of the list contains. */
export async function show({ me, query, signal }) {
  const wanted = query.get("company");
  if (wanted) return [el("p", null, el("a", { href: addressOf({ list: "companies" }) }, "All companies")), ...await company(wanted, me, signal)];
  const create = () => ask("New company", [field("Id", "company_id", { required: true }, { hint: "Such as acme." }), field("Name", "name", { required: true })], "Create the company", "/api/companies",
    { me, done: ({ company_id: id }) => (location.hash = addressOf({ list: "companies", company: id })), said: ({ name }) => `The company ${name} is created.` });
  const shown = await paged({
    path: "companies", me, signal, caption: "Companies", heads: ["Name", "Id", "Created"],
    line: ({ company_id: id, name, created_at: at }) => row(el("a", { href: addressOf({ list: "companies", company: id }) }, name), el("code", { class: "id" }, id), timeOf(at)),
    none: empty("No companies yet", "Staff create companies, and add the customers who buy for them."),
  });
  return [el("div", { class: "row" }, button("New company", create)), ...shown];
}

async function company(id, me, signal) {
  const path = `/api/companies/${encodeURIComponent(id)}`;
  const first = await get(`${path}?limit=${PAGE}`, { as: me, signal });
  const line = (one) => row(customerLink(one.customer_id, one.name), one.email ?? "–");
  const members = table("Members", ["Name", "E-mail address"], first.members.map(line));
  const shown = el("div", null, first.members.length ? members : empty("No members", "No customer buys for this company."));
  const added = (customer) => {
    members.body.append(line(customer));
    shown.replaceChildren(members);
  };
  const more = moreButton(first.cursor, async (cursor) => {
    const found = await get(`${path}?${filled({ limit: PAGE, cursor })}`, { as: me, signal });
    members.body.append(...found.members.map(line));
    return found.cursor;
  });
  const { name, created_at: at } = first.company;
  const orders = await paged({
    path: `companies/${encodeURIComponent(id)}/orders`, me, signal, caption: "Orders, newest first", heads: ["Order", "Status", "Placed", "Customer", { text: "Total", number: true }],
    line: (one) => row(orderLink(one.order_id), stateChip(one.status), timeOf(one.placed_at), customerLink(one.customer_id, one.customer_name || undefined), { number: money(one.total, one.currency) }),
    none: empty("No orders", "The orders that members place for the company appear here."),
  });
  return [
    el("h2", null, name), facts(["Id", el("code", { class: "id" }, id)], ["Created", timeOf(at)]),
    shown, more, addMember(id, me, signal, added), el("h3", null, "Orders"), ...orders];
}

/** Returns the form that adds a customer, who is found by e-mail address. `added`: called with the customer. */
function addMember(id, me, signal, added) {
  const email = field("E-mail address of a customer", "email", { type: "email", required: true, autocomplete: "off" });
  return form({ class: "inline", "aria-label": "Add a member" }, email, "Add the member", async () => {
    const [customer] = (await get(`/api/customers?${filled({ email: email.control.value.trim() })}`, { as: me, signal })).items;
    if (!customer) throw new Rejection("No customer has this e-mail address.");
    await call("PUT", `/api/companies/${encodeURIComponent(id)}/members/${encodeURIComponent(customer.customer_id)}`, { as: me });
    toast(`${customer.name} buys for the company now.`);
    added(customer);
  }, { kind: "" });
}
