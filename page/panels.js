// The panels beside the timeline: they show the current items of an order, and reload when the order changed.

import { get, ownPath, post, reached } from "./api.js";
import { explain } from "./problems.js";
import { bytes, capital, day, duration, money, moment, number, percent, plural } from "./format.js";
import { textOf } from "./labels.js";
import { isHere, settings } from "./settings.js";
import { groupOf } from "./people.js";
import { retryRefund, reversePayment, settleRefund } from "./payments.js";
import { button, chip, copyable, dialog, el, facts, json, stateChip, timeOf, toast } from "./ui.js";

const COPY_TONES = { "in sync": "good" };

/** The panels: the data that each needs besides the order, how it shows the data, and whether only a laptop has it. Those of a laptop are in English. */
const PANELS = [
  { title: () => "Copies", load: ({ id, signal }) => get(`/local/orders/${id}/copies`, { signal }), draw: copies, laptop: true },
  { title: () => textOf("invoice"), load: ({ whole }) => whole?.invoices, draw: invoices },
  { title: () => textOf("parcels"), load: ({ whole }) => whole && { parcels: whole.shipments, returns: whole.returns }, draw: parcels },
  { title: () => textOf("payments"), load: ({ whole }) => whole && { status: whole.order.status, payments: whole.payments, refunds: whole.refunds }, draw: moneys },
  { title: () => "Mails", load: ({ whole }) => whole?.mails, draw: mails, laptop: true },
  { title: () => "Archive", load: archived, draw: archive, laptop: true },
];

/** Returns the panels, and `refresh(whole)`, which redraws each panel whose data changed. `look`: reloads the order. */
export function sidePanels(id, me, signal, look) {
  const made = PANELS.filter(isHere).map((panel) => ({ ...panel, place: el("div", null, none(textOf("panel.none"))), known: undefined }));
  const element = el("aside", { class: "panels", "aria-label": textOf("order.details") },
    made.map(({ title, place }) => el("section", { class: "card panel", "aria-label": title() }, el("h2", null, title()), place)));
  const refresh = (whole) => Promise.all(made.map((panel) => renew(panel, { id, me, signal, look, whole })));
  return { element, refresh };
}

/** Loads the data of a panel, {place, load, draw}, and redraws it if they changed. */
export async function renew(panel, about) {
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

// Invoice --------------------------------------------------------------------------------------------------------------
function invoices(all, { me }) {
  if (!all?.length) return none(textOf("invoice.none"));
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
      [corrects ? textOf("invoice.credit_note") : textOf("invoice.number"), id],
      [textOf("invoice.corrects"), corrects],
      [textOf("invoice.issued"), timeOf(at)],
      ...lines.map((line) => [line.quantity ? `${number(line.quantity)} × ${line.name}` : line.name, shown(corrects ? line.credited : line.price * line.quantity)]),
      [textOf("shipping"), shown(shipping)],
      [textOf("discount"), discount && `− ${shown(discount.amount)}`],
      ...taxes.filter((tax) => tax.rate).map((tax) => [textOf("included_tax", { percent: percent(tax.rate) }), shown(tax.tax)]),
      [textOf("order.total"), el("strong", null, shown(total))]),
    button(textOf("invoice.print"), print, { kind: "small" }),
  ];
}

// Parcels --------------------------------------------------------------------------------------------------------------
function parcels(there, { whole }) {
  if (!there?.parcels.length) return none(textOf("parcels.none"));
  const names = Object.fromEntries((whole.order?.lines ?? []).map((line) => [line.product_id, line.name]));
  const contents = (quantities) => Object.entries(quantities).map(([id, count]) => `${number(count)} × ${names[id] ?? id}`).join(", ");
  return el("ul", { class: "plain-list" },
    there.parcels.map((one) => el("li", null,
      el("p", { class: "row tight" }, stateChip(one.status), el("span", null, contents(one.quantities))),
      el("p", { class: "hint" }, one.carrier ? `${one.carrier}, ${one.tracking_number}` : textOf("parcels.no_carrier")))),
    there.returns.map((one) => el("li", null,
      el("p", { class: "row tight" }, chip(textOf("parcels.returned"), "over"), el("span", null, contents(one.quantities))),
      el("p", { class: "hint" }, textOf("parcels.refunded", { amount: money(one.amount, one.currency) })))));
}

// Payments and refunds -------------------------------------------------------------------------------------------------
function moneys(there, { me, whole, look }) {
  if (!there?.payments.length) return none(textOf("payments.none"));
  const isShopStaff = groupOf(me) === "staff";
  const about = { order: whole.order, me, done: look };
  const said = (one, text, ...hints) => [
    el("p", { class: "row tight" }, stateChip(one.status), el("span", null, text)),
    [...hints, one.note && textOf("payments.note", { note: one.note }), one.reason && textOf("payments.reason", { reason: words(one.reason) })].filter(Boolean).map((hint) => el("p", { class: "hint" }, hint))];
  const command = (text, run, amount) => button(text, run, { kind: "small", "aria-label": `${text}: ${amount}` });
  const payment = (one) => {
    const amount = money(one.amount, one.currency);
    return el("li", null,
      said(one, `${textOf(`method.${one.method}`)}, ${amount}`,
        one.reference && textOf("payments.received", { day: day(one.received_on), reference: one.reference }),
        one.refunded > 0 && textOf("payments.refunded", { amount: money(one.refunded, one.currency) }),
        ...Object.values(one.disputes ?? {}).map((dispute) => `${textOf("payments.dispute", { amount: money(dispute.amount, one.currency), state: textOf(`dispute.${dispute.status}`) })}${dispute.reason ? `, ${words(dispute.reason)}` : ""}`)),
      el("div", { class: "row tight" },
        isShopStaff && one.received_on && one.status === "CAPTURED" && there.status === "PENDING" && command("Reverse", () => reversePayment(about, one), amount),
        settings.laptop && one.method === "CARD" && one.status !== "FAILED" && command("At the provider", async () => (await import("./provider.js")).openAtProvider(one), amount)));
  };
  const refund = (one) => {
    const amount = money(one.amount, one.currency);
    return el("li", null,
      said(one, textOf("payments.refund", { amount, why: textOf(`why.${one.why}`) }), one.cause && textOf("payments.cause", { cause: textOf(`cause.${one.cause}`) })),
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
  if (!items.length) return none("No mail was sent yet. If one is due, the diagnosis says why it is missing.");
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
