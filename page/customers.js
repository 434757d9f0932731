// Lists for staff, such as all customers and discount codes. The page of one customer, for staff and for the customer.

import { call, get, once, post } from "./api.js";
import { ask } from "./ask.js";
import { asUtc, checkbox, decimalField, field, form, moneyFields, rangeFields, wholeOf } from "./forms.js";
import { addressText, capital, filled, money, number, plural, shortId } from "./format.js";
import { ORDER_HEADS, addressOf, customerLink, orderRow, paged } from "./lists.js";
import { choseLanguage, groupOf, person, staffMember, staffNote } from "./people.js";
import { settings as shop } from "./settings.js";
import { seedOffer } from "./seedShop.js";
import { button, chip, copyable, dialog, el, empty, facts, fill, row, scrollToCurrent, stateChip, orderLink, table, tabs, timeOf, toast } from "./ui.js";

export function show(place, { id, query, signal }) {
  if (id) return showCustomer(place, id, signal);
  const me = staffMember();
  const name = Object.hasOwn(LISTS, query.get("list")) ? query.get("list") : "customers";
  const heading = el("h1", null, "Customers");
  const list = LISTS[name];
  const card = el("section", { class: "card", "aria-label": list.title });
  place.append(
    el("div", { class: "view-head" }, heading, el("p", { class: "lead" }, list.lead), staffNote(me)),
    tabs("Lists", Object.entries(LISTS).map(([one, { title }]) => [title, one === "customers" ? "#/customers" : `#/customers?list=${one}`, one === name])));
  scrollToCurrent(place.querySelector(".tabs"));
  list.open({ place, card, me, query, signal });
  place.append(card);
  return heading;
}

// Lists ----------------------------------------------------------------------------------------------------------------
const LISTS = {
  customers: { title: "Customers", lead: "All customers, newest first.", open: openCustomers },
  companies: { title: "Companies", lead: "The companies for which customers buy, sorted by id.", open: (list) => fill(list.card, "companies", async () => (await import("./companies.js")).show(list)) },
  discounts: { title: "Discount codes", lead: "The codes that customers send with an order, sorted by code.", open: openDiscounts },
};

const CUSTOMER_COLUMNS = [
  ["Name", ({ customer_id: id, name }) => customerLink(id, name)],
  ["E-mail address", ({ email }) => email],
  ["Company", ({ company_id: company }) => (company ? el("a", { href: addressOf({ list: "companies", company }) }, company) : "–")],
  ["Registered", ({ created_at: at }) => timeOf(at)],
];

function openCustomers({ place, card, me, query, signal }) {
  const wanted = query.get("email") ?? "";
  const email = field("E-mail address", "email", { type: "email", value: wanted, autocomplete: "off", spellcheck: "false", required: true });
  const all = wanted && el("a", { class: "button quiet", href: "#/customers" }, "All customers");
  place.append(form({ class: "inline customers-tools", "aria-label": "Find a customer" }, email, "Find", () => {
    location.hash = addressOf({ email: email.control.value.trim() });
  }, { kind: "", also: all ? [all] : [] }));
  fill(card, "customers", () => paged({
    path: wanted ? `customers?${filled({ email: wanted })}` : "customers", me, signal, caption: "Customers",
    heads: CUSTOMER_COLUMNS.map(([head]) => head), line: (customer) => row(...CUSTOMER_COLUMNS.map(([, cell]) => cell(customer))),
    none: wanted ? empty("No customer has this e-mail address", "Check the spelling. Upper and lower case do not matter.") : empty("No customers yet", "A user becomes a customer with the first order.", seedOffer()),
  }));
}

function openDiscounts({ place, card, me, signal }) {
  const show = () => fill(card, "discount codes", () => paged({
    path: "discounts", me, signal, caption: "Discount codes",
    heads: ["Code", { text: "Discount", number: true }, "Valid from", "Valid until", { text: "Minimum", number: true }, { text: "Limit", number: true }, "Actions"],
    line: (discount) => discountRow(discount, me, signal),
    none: empty("No discount codes yet", "Customers send a code with an order."),
  }));
  place.append(el("div", { class: "row" }, button("New discount code", () => newDiscount(me, show)), button("Issue a gift card", () => newGiftCard(me), { kind: "quiet" })));
  show();
}

function newDiscount(me, done) {
  const fields = [
    field("Code", "code", { required: true, autocomplete: "off", spellcheck: "false" }),
    decimalField("Discount in percent", "rate", null, 100, { max: "100" }),
    field("Valid until (optional)", "valid_until", { type: "date" }),
    field("Maximum number of orders (optional)", "limit", { type: "number", min: "1" })];
  ask("New discount code", fields, "Create the code", "/api/discounts", { me, done, said: ({ code }) => `The code ${code} is created. The list shows it after a moment.` });
}

function newGiftCard(me) {
  const done = ({ code, balance, currency }) => dialog("Gift card", () => [el("p", null, `Pass on this code of ${money(balance, currency)} now. The shop does not store it.`), copyable(code, "the code")]);
  ask("Issue a gift card", moneyFields(1000), "Issue the card", "/api/gift-cards", { me, done, said: () => "The gift card is issued." });
}

/** Returns the row of a discount code. The number of its uses needs a request, so it loads only on a click. */
function discountRow(discount, me, signal) {
  const shown = el("tr");
  const path = `/api/discounts/${encodeURIComponent(discount.code)}`;
  const draw = (now) => {
    const isOver = now.valid_until && Date.parse(now.valid_until) <= Date.now();
    const end = async () => {
      draw(await post(`${path}/end`, null, { as: me }));
      toast(`The code ${now.code} is ended. Orders that use it keep their discount.`);
      shown.querySelector("th").focus();
    };
    const count = async () => draw(await get(path, { as: me, signal }));
    const limit = now.limit == null ? "none" : now.left === undefined
      ? [number(now.limit), " ", button("Show what is left", count, { kind: "small quiet", "aria-label": `Show what is left of ${now.code}` })]
      : `${number(now.left)} of ${number(now.limit)} left`;
    const cells = row(el("code", { class: "id" }, now.code), { number: `${number(now.rate / 100)} %` }, timeOf(now.valid_from), now.valid_until ? timeOf(now.valid_until) : "no end",
      { number: now.minimum && now.currency ? money(now.minimum, now.currency) : "–" }, { number: limit },
      isOver ? chip("Ended", "over") : button("End", end, { kind: "small danger", "aria-label": `End the code ${now.code}` }));
    shown.replaceChildren(...cells.children);
    shown.querySelector("th").tabIndex = -1;
  };
  draw(discount);
  return shown;
}

// One customer ---------------------------------------------------------------------------------------------------------
/** Shows the page of a customer. Customers see only their own page, and use it as themselves. Staff see all pages. */
function showCustomer(place, id, signal) {
  const isOwn = id === "me" || (id === person() && !groupOf(person()));
  const me = isOwn ? person() : staffMember() ?? person();
  const heading = el("h1", null, isOwn ? "My page" : "Customer");
  const card = el("section", { class: "card", "aria-label": "Profile" });
  const isStaff = groupOf(me) === "staff";
  const base = `customers/${encodeURIComponent(id)}`;
  place.append(
    el("div", { class: "view-head" }, heading, isStaff ? staffNote(me) : el("p", { class: "lead" }, "Your profile, your orders, and what the shop keeps about them.")),
    isStaff && el("p", null, el("a", { href: "#/customers" }, "All customers")), card);
  const about = { me, base, isOwn, isStaff, signal };
  fill(card, "the customer", async () => {
    const page = await get(`/api/${base}/page?limit=10`, { as: me, signal });
    if (!isOwn) heading.textContent = page.customer.name;
    document.title = document.title.replace(/^[^–]*/, `${heading.textContent} `);
    place.querySelector(".customer-parts")?.remove();
    place.append(el("div", { class: "customer-parts" }, parts(about, page)));
    return profile(about, page);
  });
  return heading;
}

function profile({ me, base, isOwn, isStaff }, { customer, settings }) {
  const { customer_id: id, name, email, created_at: at } = customer;
  const full = field("Name", "name", { value: name, required: true, autocomplete: "off" });
  const rename = form({ class: "inline", "aria-label": "Change the name" }, full, "Save the name", async () => {
    await call("PATCH", `/api/${base}`, { body: { name: full.control.value }, as: me });
    toast("The name is saved. Lists show it after a moment.");
  }, { kind: "" });
  return [
    el("h2", { class: "customer-title" }, "Profile"),
    facts(
      ["Name", name], ["E-mail address", email], ["Customer id", copyable(id, "the customer id")],
      ["Company", customer.company_id && (isStaff ? el("a", { href: addressOf({ list: "companies", company: customer.company_id }) }, customer.company_id) : customer.company_id)],
      [customer.order_id ? "Ordered as a guest" : "Registered", timeOf(at)], ["Order", customer.order_id && orderLink(customer.order_id)]),
    el("details", null, el("summary", null, "Change the name"), rename),
    el("details", null, el("summary", null, "Language of mails, invoices and orders"), languageForm({ me, base, isOwn }, customer.language)),
    !isStaff && el("details", null, el("summary", null, "Orders that you placed as a guest"), button("Add them to my orders", () => joinOrders(me, base))),
    el("details", null, el("summary", null, "Which mails the customer wants"), choices({ me, base }, settings.notifications)),
  ];
}

function languageForm({ me, base, isOwn }, chosen) {
  const options = Object.entries(shop.languages).map(([code, name]) => [code, name, code === (chosen ?? shop.language)]);
  const language = field("Language", "language", {}, { options });
  return form({ class: "inline", "aria-label": "Change the language" }, language, "Save the language", async () => {
    await call("PATCH", `/api/${base}`, { body: { language: language.control.value }, as: me });
    if (isOwn) await choseLanguage(language.control.value);
    toast("The language is saved.");
  }, { kind: "" });
}

async function joinOrders(me, base) {
  const { order_ids: ids, more } = await post(`/api/${base}/guest-orders`, null, { as: me });
  toast(ids.length ? `${plural(ids.length, "order")} moved to your account${more ? ". There are more: press the button again" : ""}.` : "No order was placed as a guest with your e-mail address.");
}

const CHOICES = { email: "Mails at all", order_changes: "Changes of an order", shipments: "Parcels", refunds: "Returns and refunds", product_alerts: "News of followed products" };

function choices({ me, base }, chosen) {
  const boxes = Object.entries(CHOICES).map(([name, text]) => checkbox(text, name, { checked: chosen[name] }));
  return form({ class: "stack", "aria-label": "Which mails the customer wants" }, boxes, "Save", async (made) => {
    const body = Object.fromEntries(Object.keys(CHOICES).map((name) => [name, made.elements[name].checked]));
    await call("PUT", `/api/${base}/settings/notifications`, { body, as: me });
    toast("The choice is saved.");
  }, { kind: "" });
}

/** Returns the parts of the page. Orders load with the profile, each other part when the user opens it. */
function parts(about, page) {
  const orders = el("section", { class: "card", "aria-label": "Orders" });
  drawOrders(orders, about, page);
  return [orders, ...PARTS.filter(({ staff = false }) => !staff || about.isStaff).map((part) => folded(part, about))];
}

function folded({ title, load }, about) {
  const place = el("div", { class: "stack" });
  const made = el("details", { class: "card customer-part" }, el("summary", null, title), place);
  made.addEventListener("toggle", () => made.open && fill(place, title.toLowerCase(), () => load(about, place)));
  return made;
}

function drawOrders(place, about, { orders, cursor }) {
  const list = el("div", { class: "stack" });
  const [from, to] = rangeFields({});
  const range = form({ class: "inline", "aria-label": "Orders of a time range" }, [from, to], "Show", () => {
    const query = filled({ from: asUtc(from.control.value), to: asUtc(to.control.value) });
    return fill(list, "orders", () => ordersOf(about, `?${query}`));
  }, { kind: "" });
  place.replaceChildren(el("h2", { class: "customer-title" }, "Orders"), el("div", { class: "stack" }, range, list));
  if (!orders.length) {
    list.append(empty("No orders yet", "A new order appears here after a moment."));
    return;
  }
  const more = el("div", { class: "row" });
  const all = async () => list.replaceChildren(...(await ordersOf(about, "")));
  if (cursor) more.append(button("Show more orders", all));
  list.append(table("Orders, newest first", ORDER_HEADS, orders.map(orderRow), { hideCaption: true }), more);
}

const ordersOf = ({ me, base, signal }, query) => paged({
  path: `${base}/orders${query}`, me, signal, caption: "Orders, newest first", heads: ORDER_HEADS, line: orderRow,
  none: empty("No order in this time", "Choose another time range."),
});

async function credit(about, place) {
  const { me, base, isStaff, signal } = about;
  const shown = await paged({
    path: `${base}/accounts`, me, signal, caption: "Accounts", heads: ["Account", { text: "Balance", number: true }, "Changed", "Movements"],
    line: (account) => row(el("code", { class: "id", title: account.account_id }, shortId(account.account_id)), { number: money(account.balance, account.currency) }, timeOf(account.updated_at),
      button("Show", () => fill(entries, "movements", () => movements(account, me, signal)), { kind: "small", "aria-label": `Show the movements of account ${shortId(account.account_id)}` })),
    none: empty("No credit", "The customer has no store credit. A new account is listed after a moment."),
  });
  const entries = el("div", { class: "stack" });
  return [...shown, entries, isStaff && issue(about, () => fill(place, "credit", () => credit(about, place)))];
}

const movements = (account, me, signal) => paged({
  path: `accounts/${encodeURIComponent(account.account_id)}/entries`, me, signal, caption: "Movements, newest first",
  heads: ["Time", "Reason", "Order", { text: "Amount", number: true }, { text: "Balance", number: true }],
  line: (entry) => row(timeOf(entry.at), capital(entry.reason.toLowerCase().replaceAll("_", " ")), entry.order_id ? orderLink(entry.order_id) : "–",
    { number: money(entry.amount, account.currency) }, { number: money(entry.balance, account.currency) }),
  none: empty("No movements", "Credit that arrives or is used appears here."),
});

function issue({ me, base }, done) {
  const [amount, currency] = moneyFields(1000);
  return form({ class: "inline", "aria-label": "Issue store credit" }, [amount, currency], "Issue store credit", async () => {
    const body = { amount: wholeOf(amount.control), currency: currency.control.value };
    const made = await once(`credit of ${base}`, body, (key) => post(`/api/${base}/credit`, body, { as: me, key }));
    toast(`${money(made.amount, made.currency)} is issued.`);
    await done();
  }, { kind: "" });
}

/** Shows invoices, and the addresses of the newest invoices, because the shop stores no list of addresses. */
async function invoices({ me, base, signal }) {
  const addresses = new Map();
  const list = el("ul", { class: "plain-list" });
  const shown = await paged({
    path: `${base}/invoices`, me, signal, caption: "Invoices and credit notes, newest first", heads: ["Number", "Order", "Issued", { text: "Total", number: true }],
    line: ({ invoice_id: id, corrects, order_id: order, issued_at: at, total, currency, address }) => {
      if (address) {
        const text = addressText(address);
        if (!addresses.has(text)) list.append(el("li", null, text));
        addresses.set(text, true);
      }
      return row(id, orderLink(order), timeOf(at), { number: money(corrects ? -total : total, currency) });
    },
    none: empty("No invoices", "An invoice is issued a moment after an order is paid."),
  });
  return [...shown, addresses.size > 0 && el("h3", null, "Delivery addresses of these invoices"), addresses.size > 0 && list];
}

const reviews = ({ me, base, signal }) => paged({
  path: `${base}/reviews`, me, signal, caption: "Reviews, newest first", heads: ["Product", "Stars", "Text", "Order", "Written"],
  line: (one) => row(one.product_id, el("span", { title: `${one.stars} of 5 stars` }, `${one.stars} of 5`), one.text || "–", orderLink(one.order_id), timeOf(one.written_at)),
  none: empty("No reviews", "Customers can review products that were delivered to them."),
});

const mails = ({ me, base, signal }) => paged({
  path: `${base}/notifications`, me, signal, caption: "Mails, newest first", heads: ["Time", "About", "Status", "Order or product"],
  line: (one) => row(timeOf(one.at), one.event, stateChip(one.status), one.order_id ? orderLink(one.order_id) : one.product_id ?? "–"),
  none: empty("No mails", "The list keeps a mail for half a year."),
});

async function suppression({ me, base, signal }, place) {
  const path = `/api/${base}/mail-suppression`;
  const { suppressed, reason, since } = await get(path, { as: me, signal });
  if (!suppressed) return el("p", null, "Mails to this address are sent.");
  const lift = async () => {
    await call("DELETE", path, { as: me });
    toast("Mails to this address are sent again.");
    await fill(place, "the suppression", () => suppression({ me, base, signal }, place));
  };
  return [
    el("p", { class: "notice bad" }, `Mails to this address are not sent: ${reason === "COMPLAINT" ? "the customer reported a mail as spam" : "a mail bounced"}.`),
    facts(["Since", since && timeOf(since)]), el("div", { class: "row" }, button("Send mails again", lift)),
  ];
}

/** The parts of the page that load when the user opens them, and whether only staff see the part. */
const PARTS = [
  { title: "Credit", load: credit },
  { title: "Invoices and addresses", load: invoices },
  { title: "Reviews", load: reviews },
  { title: "Mails", load: mails },
  { title: "Suppression of mails", load: suppression, staff: true },
];
