// Formats amounts, times, ids and states.

const LOCALE = "en-GB";
const TIME = new Intl.DateTimeFormat(LOCALE, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const FINE_TIME = new Intl.DateTimeFormat(LOCALE, {
  hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3,
});
const MOMENT = new Intl.DateTimeFormat(LOCALE, { dateStyle: "medium", timeStyle: "short" });
const NUMBER = new Intl.NumberFormat(LOCALE);
const UNITS = new Intl.NumberFormat(LOCALE, { maximumFractionDigits: 1 });

/** Formats an amount in minor units: 1250 EUR is €12.50. */
export function money(minor, currency) {
  const format = new Intl.NumberFormat(LOCALE, { style: "currency", currency });
  return format.format(minor / 10 ** format.resolvedOptions().maximumFractionDigits);
}

/** Returns an address in one line, without the parts that it lacks. */
export function addressText({ name, company, street, street2, postcode, city, region, country }) {
  return [name, company, street, street2, `${postcode} ${city}`.trim(), region, country].filter(Boolean).join(", ");
}

const COMPACT = { notation: "compact", maximumSignificantDigits: 3 };
/** Formats a number for an axis: 12400 is 12.4k, and 1240000 EUR is €12.4k. */
export const compactNumber = (value) => compact(new Intl.NumberFormat(LOCALE, COMPACT), value);

export function compactMoney(minor, currency) {
  const digits = new Intl.NumberFormat(LOCALE, { style: "currency", currency }).resolvedOptions().maximumFractionDigits;
  return compact(new Intl.NumberFormat(LOCALE, { ...COMPACT, style: "currency", currency }), minor / 10 ** digits);
}

/** Writes thousands as k. The locale would write K, the sign of the kelvin. */
const compact = (format, value) => format.formatToParts(value).map((part) => (part.type === "compact" ? part.value.replace("K", "k") : part.value)).join("");

export const time = (at) => TIME.format(new Date(at));
export const fineTime = (at) => FINE_TIME.format(new Date(at));
export const moment = (at) => MOMENT.format(new Date(at));
export const number = (value) => NUMBER.format(value);
export const units = (value) => UNITS.format(value);
export const shortId = (id) => (id.length > 12 ? id.slice(0, 8) : id);
export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** Formats milliseconds as a short duration, such as 35 ms, 2.2 s, 3 min or 400 days. */
export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${UNITS.format(ms / 1000)} s`;
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)} min`;
  if (ms < 172_800_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${NUMBER.format(Math.round(ms / 86_400_000))} days`;
}

export function bytes(count) {
  return count < 1024 ? `${count} bytes` : `${UNITS.format(count / 1024)} KiB`;
}

/** By state: its label and its tone, which is waiting, moving, good, bad or over. */
const STATES = {
  PENDING: ["Awaiting payment", "waiting"],
  PAID: ["Paid", "moving"],
  FULFILLING: ["Being packed", "moving"],
  CANCEL_REQUESTED: ["Cancel requested", "waiting"],
  PARTIALLY_SHIPPED: ["Partly shipped", "moving"],
  CUT_REQUESTED: ["Rest cancel requested", "waiting"],
  SHIPPED: ["Shipped", "moving"],
  DELIVERED: ["Delivered", "good"],
  PARTIALLY_RETURNED: ["Partly returned", "over"],
  RETURNED: ["Returned", "over"],
  CANCELLED: ["Cancelled", "over"],
  LAPSED: ["Lapsed, never paid", "over"],
  ARCHIVING: ["Being archived", "over"],
  REQUESTED: ["Requested", "waiting"],
  DISPATCHED: ["In transit", "moving"],
  AUTHORISED: ["Authorised", "waiting"],
  CAPTURED: ["Captured", "good"],
  FAILED: ["Failed", "bad"],
  UNMATCHED: ["Matches no order", "bad"],
  DISPUTED: ["Disputed", "bad"],
  REFUNDED: ["Refunded", "over"],
  SENT: ["Sent", "moving"],
  SUCCEEDED: ["Done", "good"],
  SETTLED: ["Settled by hand", "good"],
};

export const stateName = (state) => STATES[state]?.[0] ?? capital(String(state).toLowerCase().replaceAll("_", " "));
export const stateTone = (state) => STATES[state]?.[1] ?? "over";
