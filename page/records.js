// The records of the shop by time, for staff: documents, payments and refunds, money that needs a person, and imports.

import { get, once, pause, post } from "./api.js";
import { asUtc, field, form, rangeFields } from "./forms.js";
import { money, number, plural, shortId, stateName } from "./format.js";
import { customerLink, paged } from "./lists.js";
import { missingCreditNotes, unmatchedPayments } from "./payments.js";
import { isStaff, person, staffMember, staffNote } from "./people.js";
import { chip, el, empty, facts, fill, orderLink, row, scrollToCurrent, stateChip, table, timeOf } from "./ui.js";

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
  imports: { title: "Import products", lead: "Create or change products, and add stock, from a CSV or NDJSON file.", open: openImport },
};

export function show(place, { query, signal }) {
  const me = isStaff(person()) ? person() : staffMember();
  const name = Object.hasOwn(RECORDS, query.get("list")) ? query.get("list") : "invoices";
  const list = RECORDS[name];
  const asked = { list: name, from: query.get("from") ?? "", to: query.get("to") ?? "", order: query.get("order") === "oldest" ? "oldest" : "newest" };
  const heading = el("h1", null, "Records");
  const card = el("section", { class: "card", "aria-label": list.title });
  const tabs = el("nav", { class: "tabs", "aria-label": "Records" },
    Object.entries(RECORDS).map(([one, { title }]) => el("a", { href: addressOf({ list: one }), "aria-current": one === name && "page" }, title)));
  place.append(
    el("div", { class: "view-head" }, heading, el("p", { class: "lead" }, list.lead), staffNote(me)),
    tabs, list.ranged ? rangeForm(asked) : "", card);
  scrollToCurrent(tabs);
  if (list.open) list.open({ card, me, query, signal });
  else fill(card, list.title.toLowerCase(), () => paged({ caption: `${list.title}, ${asked.order} first`, ...list, path: pathOf(list, asked), me, signal, none: empty(...list.none), line: (one) => list.line(one, me) }));
  return heading;
}

const filled = (said) => new URLSearchParams(Object.entries(said).filter(([, value]) => value));
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
    pause(POLL_MS, signal).then(async () => place.replaceChildren(...[await showImport(place, path, { me, signal })].flat()), () => {});
    return [...head, el("progress", { max: lines, value: lines - waiting, "aria-label": "Lines done" })];
  }
  if (!rejected) return [...head, el("p", null, `${plural(written + unchanged, "line")} done. No line was rejected.`)];
  const { items } = await get(`${path}/rejected?limit=100`, { as: me, signal });
  return [...head, table("Rejected lines", ["Line", "Field", "Why"], items.map(({ line, field: name, why }) => row(number(line), name, why)))];
}
