// The records of the shop by time, for staff: documents, payments and refunds, money that needs a person, imports and webhooks.

import { get, once, pause, post } from "./api.js";
import { asUtc, field, form, rangeFields } from "./forms.js";
import { capital, filled, money, number, plural, shortId, stateName } from "./format.js";
import { customerLink, paged } from "./lists.js";
import { missingCreditNotes, unmatchedPayments } from "./payments.js";
import { isStaff, person, staffMember, staffNote } from "./people.js";
import { chip, el, empty, facts, fill, orderLink, row, scrollToCurrent, stateChip, table, tabs, timeOf } from "./ui.js";

const AMOUNT = { text: "Amount", number: true };
const POLL_MS = 1000;

/** Returns the row of a payment or a refund. `item`: null if it is in the archive with its order. */
const moneyRow = (entry, item, text) =>
  row(timeOf(entry.created_at), item ? text(item) : "–", orderLink(entry.order_id), item ? stateChip(item.status) : chip("Archived", "over"), { number: item ? money(item.amount, item.currency) : "–" });

/** The lists. `ranged`: whether the list has a time range. `open`: draws what is no list, instead of `path`. */
const RECORDS = {
  invoices: {
    title: "Invoices", lead: "All invoices and credit notes, by the day of their issue.", path: "invoices", ranged: true,
    heads: ["Number", "Issued", "Order", "Customer", { text: "Total", number: true }], none: ["No documents", "The first invoice is issued when an order is paid."],
    line: ({ invoice_id: id, corrects, issued_at: at, order_id: order, customer_id: customer, total, currency }) =>
      row([id, corrects && el("span", { class: "hint" }, ` corrects ${corrects}`)], timeOf(at), orderLink(order), customerLink(customer), { number: money(corrects ? -total : total, currency) }),
  },
  payments: {
    title: "Payments", lead: "All payments by time, also failed and unmatched ones.", path: "payments", ranged: true,
    heads: ["Received", "Method", "Order", "Status", AMOUNT], none: ["No payments", "Payments appear here when they are reported or recorded."],
    line: (entry) => moneyRow(entry, entry.payment, ({ method }) => stateName(method)),
  },
  refunds: {
    title: "Refunds", lead: "All refunds by time, also refunds at the payment provider.", path: "refunds", ranged: true,
    heads: ["Requested", "Why", "Order", "Status", AMOUNT], none: ["No refunds", "Refunds appear here when they are requested or reported."],
    line: (entry) => moneyRow(entry, entry.refund, ({ why }) => stateName(why)),
  },
  unmatched: { title: "Unmatched payments", lead: "Money that matches no order, oldest first.", ...unmatchedPayments },
  undocumented: { title: "Missing credit notes", lead: "Orders with money that left without a credit note, oldest first.", ...missingCreditNotes },
  audit: { title: "Audit trail", lead: "Who of the staff and the operators changed what, and why.", open: openAudit },
  exports: { title: "Exports", lead: "Files of a list, as CSV and as NDJSON, for a spreadsheet or the bookkeeper.", open: openExport },
  webhooks: { title: "Webhooks", lead: "Addresses to which the shop sends its events, and each attempt to send one.", open: (view) => fill(view.card, "webhooks", async () => (await import("./webhooks.js")).show(view)) },
  imports: { title: "Import products", lead: "Create or change products, and add stock, from a CSV or NDJSON file.", open: openImport },
};

export function show(place, { query, signal }) {
  const me = isStaff(person()) ? person() : staffMember();
  const name = Object.hasOwn(RECORDS, query.get("list")) ? query.get("list") : "invoices";
  const list = RECORDS[name];
  const asked = { list: name, from: query.get("from") ?? "", to: query.get("to") ?? "", order: query.get("order") === "oldest" ? "oldest" : "newest" };
  const heading = el("h1", null, "Records");
  const card = el("section", { class: "card", "aria-label": list.title });
  const links = tabs("Records", Object.entries(RECORDS).map(([one, { title }]) => [title, addressOf({ list: one }), one === name]));
  place.append(
    el("div", { class: "view-head" }, heading, el("p", { class: "lead" }, list.lead), staffNote(me)),
    links, list.ranged ? rangeForm(asked) : "", card);
  scrollToCurrent(links);
  if (list.open) list.open({ card, me, query, signal });
  else fill(card, list.title.toLowerCase(), () => paged({ caption: `${list.title}, ${asked.order} first`, ...list, path: pathOf(list, asked), me, signal, none: empty(...list.none), line: (one) => list.line(one, me) }));
  return heading;
}

const addressOf = (said) => `#/records?${filled(said)}`;

function pathOf({ path, ranged }, { from, to, order }) {
  return ranged ? `${path}?${filled({ from, to, order })}` : path;
}

function rangeForm(asked) {
  const [from, to, order] = rangeFields(asked);
  return form({ class: "inline", "aria-label": "Time range" }, [from, to, order], "Show", () => {
    location.hash = addressOf({ ...asked, from: asUtc(from.control.value), to: asUtc(to.control.value), order: order.control.value });
  }, { kind: "" });
}

// Audit trail ----------------------------------------------------------------------------------------------------------
const SUBJECTS = { ORDER: "Order", PRODUCT: "Product", CUSTOMER: "Customer", COMPANY: "Company", DISCOUNT: "Discount code", staff: "Staff member", ops: "Operator" };

/** Shows the commands on an item or of a person, which `about` in the address names, such as ORDER:o1 or staff:ann. */
function openAudit({ card, me, query, signal }) {
  const about = query.get("about") ?? "";
  const [kind, ...rest] = about.split(":");
  const what = field("Of", "kind", {}, { options: Object.entries(SUBJECTS).map(([one, text]) => [one, text, one === kind]) });
  const id = field("Number, e-mail address, id or name", "id", { required: true, value: rest.join(":"), autocomplete: "off", spellcheck: "false" });
  const list = el("div", { class: "stack" });
  card.append(form({ class: "inline", "aria-label": "Audit trail of" }, [what, id], "Show", async () => {
    const text = id.control.value.trim();
    location.hash = addressOf({ list: "audit", about: `${what.control.value}:${await idOf(what.control.value, text, { as: me, signal })}` });
  }, { kind: "" }), list);
  if (!about) return;
  const asked = filled({ [["staff", "ops"].includes(kind) ? "person" : "item"]: about });
  fill(list, "the audit trail", () => paged({
    path: `audit?${asked}`, me, signal, caption: "Commands, newest first", heads: ["Time", "Who", "What", "On", "Why", "Before and after"],
    line: (one) => row(timeOf(one.at), one.by, one.command, one.item, one.reason ?? "–", changesOf(one)), none: empty("No commands", "No command of staff or operators is kept about it."),
  }));
}

/** Returns the id for what a person writes: the number of an order, or the e-mail address of a customer. */
async function idOf(kind, text, asked) {
  if (kind === "ORDER") return (await get(`/api/orders?${filled({ number: text })}`, asked)).items[0]?.order_id ?? text;
  if (kind === "CUSTOMER" && text.includes("@")) return (await get(`/api/customers?${filled({ email: text })}`, asked)).items[0]?.customer_id ?? text;
  return text;
}

/** Returns the attributes that a command changed, such as "price: 1250 → 1300". */
function changesOf({ values_before: before, values_after: after }) {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  if (!names.length) return "–";
  return el("details", null, el("summary", null, plural(names.length, "attribute")), names.map((name) => el("p", { class: "hint" }, `${name}: ${before?.[name] ?? "–"} → ${after?.[name] ?? "–"}`)));
}

// Exports --------------------------------------------------------------------------------------------------------------
/** Shows a form to request an export, and the progress of the export in the address. */
function openExport({ card, me, query, signal }) {
  const what = field("List", "list", {}, { options: ["orders", "invoices", "payments", "refunds"].map((one) => [one, capital(one)]) });
  const [from, to] = ["From", "Before"].map((label, at) => field(label, ["from", "to"][at], { type: "date", required: true }));
  const asker = form({ class: "inline", "aria-label": "Export a list" }, [what, from, to], "Export", async () => {
    const body = { list: what.control.value, from: from.control.value, to: to.control.value };
    const made = await once("export", body, (key) => post("/api/exports", body, { as: me, key }));
    location.hash = addressOf({ list: "exports", export: made.export_id });
  });
  const progress = el("div", { class: "stack", "aria-live": "polite" });
  card.append(asker, progress);
  if (query.get("export")) fill(progress, "the export", () => showExport(progress, `/api/exports/${encodeURIComponent(query.get("export"))}`, { me, signal }));
}

async function showExport(place, path, { me, signal }) {
  const { export_id: id, list, from, to, status, rows, parts, expires_at: end } = await get(path, { as: me, signal });
  const file = (name, address) => el("a", { href: address, download: "" }, name);
  const files = parts.map(({ csv, ndjson }, at) => el("li", null, `Part ${at + 1}: `, file("CSV", csv), ", ", file("NDJSON", ndjson)));
  if (["REQUESTED", "RUNNING"].includes(status)) again(place, () => showExport(place, path, { me, signal }), signal);
  return [
    el("h2", null, `Export ${shortId(id)}`), facts(["List", capital(list)], ["From", timeOf(from)], ["Before", timeOf(to)], ["State", stateChip(status)], ["Rows", number(rows)], ["Kept until", timeOf(end)]),
    files.length > 0 && el("ul", { class: "plain-list" }, files),
    status === "DONE" && el("p", { class: "hint" }, rows ? "The links work for 15 minutes. Reload the page for new ones." : "No row is in this time range."),
    status === "FAILED" && el("p", { class: "notice bad" }, "The range has too many rows. Export a shorter one."),
  ];
}

/** Shows the progress again after a moment. */
const again = (place, load, signal) => pause(POLL_MS, signal).then(async () => place.replaceChildren(...[await load()].flat().filter(Boolean))).catch(() => {});

// Imports --------------------------------------------------------------------------------------------------------------
const TYPES = { csv: "text/csv", ndjson: "application/x-ndjson" };

/** Shows a form to send a file, and the progress of the import in the address. */
function openImport({ card, me, query, signal }) {
  const file = field("File", "file", { type: "file", accept: Object.keys(TYPES).map((type) => `.${type}`).join(","), required: true },
    { hint: "The first line of a CSV file has the names of columns, such as product_id,name,price,currency,quantity. Prices are in minor units, such as cents." });
  const sender = form({ class: "stack", "aria-label": "Import products" }, file, "Import the file", async () => {
    const [chosen] = file.control.files;
    const body = new Blob([await chosen.text()], { type: TYPES[chosen.name.split(".").pop().toLowerCase()] ?? TYPES.csv });
    const made = await once("import", await body.text(), (key) => post("/api/products:import", body, { as: me, key }));
    location.hash = addressOf({ list: "imports", import: made.import_id });
  });
  const progress = el("div", { class: "stack", "aria-live": "polite" });
  card.append(sender, progress);
  if (query.get("import")) fill(progress, "the import", () => showImport(progress, `/api/imports/${encodeURIComponent(query.get("import"))}`, { me, signal }));
}

async function showImport(place, path, { me, signal }) {
  const found = await get(path, { as: me, signal });
  const { state, lines, written, unchanged, rejected, waiting, started_at: at } = found;
  const head = [el("h2", null, `Import ${shortId(found.import_id)}`), facts(
    ["State", stateChip(state)], ["Started", timeOf(at)], ["Lines", number(lines)], ["Written", number(written)], ["Unchanged", number(unchanged)], ["Rejected", number(rejected)], ["Waiting", number(waiting)])];
  if (state !== "DONE") {
    again(place, () => showImport(place, path, { me, signal }), signal);
    return [...head, el("progress", { max: lines, value: lines - waiting, "aria-label": "Lines done" })];
  }
  if (!rejected) return [...head, el("p", null, `${plural(written + unchanged, "line")} done. No line was rejected.`)];
  const { items } = await get(`${path}/rejected?limit=100`, { as: me, signal });
  return [...head, table("Rejected lines", ["Line", "Field", "Why"], items.map(({ line, field: name, why }) => row(number(line), name, why)))];
}
