// The panels beside the timeline: they show the current items of an order, and reload when the order changed.

import { get, ownPath, post, reached } from "./api.js";
import { explain } from "./problems.js";
import { bytes, capital, duration, money, moment, number, plural, stateName } from "./format.js";
import { isHere, settings } from "./settings.js";
import { groupOf } from "./people.js";
import { retryRefund, reversePayment, settleRefund } from "./payments.js";
import { button, chip, copyable, dialog, el, facts, stateChip, timeOf, toast } from "./ui.js";

const COPY_TONES = { "in sync": "good" };

/** The panels: the data that each needs besides the order, how it shows the data, and whether only a laptop has it. */
const PANELS = [
  { title: "Copies", load: ({ id, signal }) => get(`/local/orders/${id}/copies`, { signal }), draw: copies, laptop: true },
  { title: "Invoice", load: ({ whole }) => whole?.invoices, draw: invoices },
  { title: "Parcels", load: ({ whole }) => whole && { parcels: whole.shipments, returns: whole.returns }, draw: parcels },
  { title: "Payments and refunds", load: ({ whole }) => whole && { status: whole.order.status, payments: whole.payments, refunds: whole.refunds }, draw: moneys },
  { title: "Mails", load: ({ whole }) => whole?.mails, draw: mails, laptop: true },
  { title: "Archive", load: archived, draw: archive, laptop: true },
];

/** Returns the panels, and `refresh(whole)`, which redraws each panel whose data changed. `look`: reloads the order. */
export function sidePanels(id, me, signal, look) {
  const made = PANELS.filter(isHere).map((panel) => ({ ...panel, place: el("div", null, none("Nothing to show yet.")), known: undefined }));
  const element = el("aside", { class: "panels", "aria-label": "Details of the order" },
    made.map(({ title, place }) => el("section", { class: "card panel", "aria-label": title }, el("h2", null, title), place)));
  const refresh = (whole) => Promise.all(made.map((panel) => renew(panel, { id, me, signal, look, whole })));
  return { element, refresh };
}

async function renew(panel, about) {
  try {
    const found = await panel.load(about);
    const known = JSON.stringify(found ?? null);
    if (known === panel.known) return;
    panel.known = known;
    panel.place.replaceChildren(...[panel.draw(found, about)].flat(Infinity).filter(Boolean));
  } catch (error) {
    if (about.signal.aborted) return;
    panel.known = undefined;
    panel.place.replaceChildren(el("p", { class: "notice bad" }, explain(error)));
  }
}

const none = (text) => el("p", { class: "hint" }, text);
const archivedWith = (whole) => whole?.order?.archived;

// Copies ---------------------------------------------------------------------------------------------------------------
/** Shows the copies of the order. A late copy is no error, because the readers write it a moment after its source. */
function copies({ in_sync: inSync, checked_at: at, copies: all }, { whole }) {
  const apart = all.filter((one) => one.state !== "in sync").length;
  const late = whole?.order ? `, ${duration(Math.max(0, Date.parse(at) - Date.parse(whole.order.updated_at)))}` : "";
  const sum = inSync ? chip("All in sync", "good") : chip(`${apart} of ${plural(all.length, "copy", "copies")} follow${late}`, "waiting");
  const checked = el("span", { class: "hint" }, "checked ", timeOf(at));
  if (!all.length) return none("The order has no copies.");
  return [el("p", { class: "row tight" }, sum, checked), el("ul", { class: "plain-list" }, all.map(copy))];
}

function copy({ type, PK, SK, state, expected, found }) {
  const compared = state !== "in sync" && [el("h4", null, "Expected"), json(expected), el("h4", null, "Found"), json(found)];
  return el("li", null, el("details", null,
    el("summary", null, el("span", null, type), " ", chip(state, COPY_TONES[state] ?? "waiting")),
    facts(["PK", el("code", null, PK)], ["SK", el("code", null, SK)]), compared || ""));
}

export const json = (value) => el("pre", { tabindex: "0", "aria-label": "JSON" }, value == null ? "nothing" : JSON.stringify(value, null, 2));

// Invoice --------------------------------------------------------------------------------------------------------------
function invoices(all, { me, whole }) {
  if (archivedWith(whole)) return none("The invoice is in the archive with the order.");
  if (!all?.length) return none("The invoice is issued when the order is paid.");
  return all.map((one) => invoice(one, me));
}

function invoice({ invoice_id: id, corrects, issued_at: at, currency, lines, shipping, discount, taxes, total }, me) {
  const print = async () => {
    const { url } = await get(ownPath(me, `/invoices/${id}/print-link`), { as: me, tries: 3 });
    const { pathname, search } = new URL(url);
    window.open(reached(`/api${pathname}${search}`), "_blank", "noopener");
  };
  const shown = (amount) => money(amount, currency);
  return [
    facts(
      [corrects ? "Credit note" : "Number", id],
      ["Corrects", corrects],
      ["Issued", timeOf(at)],
      ...lines.map((line) => [`${number(line.quantity)} × ${line.name}`, shown(corrects ? line.credited : line.price * line.quantity)]),
      ["Shipping", shown(shipping)],
      ["Discount", discount && `− ${shown(discount.amount)}`],
      ...taxes.filter((tax) => tax.rate).map((tax) => [`Included tax, ${tax.rate / 100} %`, shown(tax.tax)]),
      ["Total", el("strong", null, shown(total))]),
    button("Open to print", print, { kind: "small" }),
  ];
}

// Parcels --------------------------------------------------------------------------------------------------------------
function parcels(there, { whole }) {
  if (archivedWith(whole)) return none("The parcels are in the archive with the order.");
  if (!there?.parcels.length) return none("The first parcel is requested when the order is paid.");
  const names = Object.fromEntries((whole.order?.lines ?? []).map((line) => [line.product_id, line.name]));
  const contents = (quantities) => Object.entries(quantities).map(([id, count]) => `${number(count)} × ${names[id] ?? id}`).join(", ");
  return el("ul", { class: "plain-list" },
    there.parcels.map((one) => el("li", null,
      el("p", { class: "row tight" }, stateChip(one.status), el("span", null, contents(one.quantities))),
      el("p", { class: "hint" }, one.carrier ? `${one.carrier}, ${one.tracking_number}` : "No carrier yet"))),
    there.returns.map((one) => el("li", null,
      el("p", { class: "row tight" }, chip("Returned", "over"), el("span", null, contents(one.quantities))),
      el("p", { class: "hint" }, `${money(one.amount, one.currency)} refunded`))));
}

// Payments and refunds -------------------------------------------------------------------------------------------------
function moneys(there, { me, whole, look }) {
  if (archivedWith(whole)) return none("The payments and refunds are in the archive with the order.");
  if (!there?.payments.length) return none("No payment was made yet.");
  const isShopStaff = groupOf(me) === "staff";
  const about = { order: whole.order, me, done: look };
  const said = (one, text, ...hints) => [
    el("p", { class: "row tight" }, stateChip(one.status), el("span", null, text)),
    [...hints, one.note && `Note: ${one.note}`, one.reason && `Reason: ${words(one.reason)}`].filter(Boolean).map((hint) => el("p", { class: "hint" }, hint))];
  const command = (text, run, amount) => button(text, run, { kind: "small", "aria-label": `${text}: ${amount}` });
  const payment = (one) => {
    const amount = money(one.amount, one.currency);
    return el("li", null,
      said(one, `${stateName(one.method)}, ${amount}`,
        one.reference && `Received on ${one.received_on}, reference: ${one.reference}`,
        one.refunded > 0 && `Refunded: ${money(one.refunded, one.currency)}`,
        ...Object.values(one.disputes ?? {}).map((dispute) => `Dispute, ${money(dispute.amount, one.currency)}: ${dispute.status.toLowerCase()}${dispute.reason ? `, ${words(dispute.reason)}` : ""}`)),
      el("div", { class: "row tight" },
        isShopStaff && one.received_on && one.status === "CAPTURED" && there.status === "PENDING" && command("Reverse", () => reversePayment(about, one), amount),
        settings.laptop && one.method === "CARD" && one.status !== "FAILED" && command("At the provider", async () => (await import("./provider.js")).openAtProvider(one), amount)));
  };
  const refund = (one) => {
    const amount = money(one.amount, one.currency);
    return el("li", null,
      said(one, `Refund, ${amount}, reason: ${words(one.why.toLowerCase())}`, one.cause && `Cause: ${words(one.cause.toLowerCase())}`),
      isShopStaff && one.status === "FAILED" && el("div", { class: "row tight" },
        command("Retry", () => retryRefund(about, one), amount), command("Settle", () => settleRefund(about, one), amount)));
  };
  return el("ul", { class: "plain-list" }, there.payments.map(payment), there.refunds.map(refund));
}

const words = (name) => name.replaceAll("_", " ");

// Mails ----------------------------------------------------------------------------------------------------------------
function mails(items, { whole }) {
  if (!items) return none("The mails cannot be read now.");
  if (!items.length && archivedWith(whole)) return none("The records of the sent mails have expired.");
  if (!items.length) return none("No mail was sent yet.");
  return el("ul", { class: "plain-list" }, items.map((mail) => el("li", null,
    el("button", { type: "button", class: "link", onclick: () => openMail(mail) }, mail.subject),
    el("p", { class: "hint" }, `to ${mail.to}, `, timeOf(mail.at)))));
}

function openMail({ id, subject, to, at }) {
  const frame = el("iframe", { src: `/local/mails/${encodeURIComponent(id)}`, title: `Mail: ${subject}`, sandbox: "", loading: "lazy" });
  dialog(subject, () => [el("p", { class: "hint" }, `To ${to}, `, timeOf(at)), frame], { wide: true });
}

// Archive --------------------------------------------------------------------------------------------------------------
/** Loads the archive object only if it exists, because the browser's console shows each 404 as an error. */
async function archived({ id, whole, signal }) {
  if (!archivedWith(whole)) return { endsAt: whole?.ends_at ?? null };
  return get(`/local/orders/${id}/archive`, { signal });
}

function archive({ endsAt, bucket, key, bytes: size, sha256, stored_at: at, storage_class: storage, items }) {
  if (endsAt !== undefined) return notArchived(endsAt);
  const holds = Object.entries(items).map(([type, count]) => `${number(count)} ${type}`).join(", ");
  return facts(
    ["Object", copyable(key, "the object's key")], ["Bucket", el("code", null, bucket)], ["Size", bytes(size)],
    ["SHA-256", el("code", { class: "id" }, sha256)], ["Stored", timeOf(at)], ["Storage", storage && capital(storage.toLowerCase())], ["Contents", holds]);
}

function notArchived(endsAt) {
  if (!endsAt) return none("The order is archived some time after it is delivered, cancelled or lapsed.");
  const advance = async () => toast((await post("/local/chaos", { switch: "advance", by: "400d" }, { tries: 1 })).said);
  return [none(`The order is archived on ${moment(endsAt)}.`), button("Advance the clock by 400 days", advance, { kind: "small" })];
}
