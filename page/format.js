// Formats amounts, times, ids and states.

import { locale, textOf } from "./labels.js";

const TIME = { hour: "2-digit", minute: "2-digit", second: "2-digit" };
const FINE_TIME = { ...TIME, fractionalSecondDigits: 3 };
const MOMENT = { dateStyle: "medium", timeStyle: "short" };
const DAY = { dateStyle: "medium", timeZone: "UTC" };
const NUMBER = {};
const UNITS = { maximumFractionDigits: 1 };
const kept = new Map();

/** Returns the formatter of the current language. Each is kept, because it takes long to make one. */
function formatter(kind, options) {
  const key = `${locale()} ${kind.name} ${JSON.stringify(options)}`;
  if (!kept.has(key)) kept.set(key, new kind(locale(), options));
  return kept.get(key);
}

const numberIn = (options) => formatter(Intl.NumberFormat, options);
const timeIn = (options) => formatter(Intl.DateTimeFormat, options);

/** Returns the parameters of an address. Leaves out those without a value. */
export const filled = (said) => new URLSearchParams(Object.entries(said).filter(([, value]) => value));

/** Formats an amount in minor units: 1250 EUR is €12.50. */
export const money = (minor, currency) => numberIn({ style: "currency", currency }).format(minor / scaleOf(currency));

/** Returns how many minor units a unit of the currency has: 100 for EUR, 1 for JPY. */
export const scaleOf = (currency) => 10 ** numberIn({ style: "currency", currency }).resolvedOptions().maximumFractionDigits;

/** Returns an address in one line, without the parts that it lacks. */
export function addressText({ name, company, street, street2, postcode, city, region, country }) {
  return [name, company, street, street2, `${postcode} ${city}`.trim(), region, country].filter(Boolean).join(", ");
}

const COMPACT = { notation: "compact", maximumSignificantDigits: 3 };
/** Formats a number for an axis: 12400 is 12.4k, and 1240000 EUR is €12.4k. */
export const compactNumber = (value) => compact(numberIn(COMPACT), value);

export function compactMoney(minor, currency) {
  return compact(numberIn({ ...COMPACT, style: "currency", currency }), minor / scaleOf(currency));
}

/** Writes thousands as k. The locale would write K, the sign of the kelvin. */
const compact = (format, value) => format.formatToParts(value).map((part) => (part.type === "compact" ? part.value.replace("K", "k") : part.value)).join("");

export const time = (at) => timeIn(TIME).format(new Date(at));
export const fineTime = (at) => timeIn(FINE_TIME).format(new Date(at));
export const moment = (at) => timeIn(MOMENT).format(new Date(at));
export const day = (at) => timeIn(DAY).format(new Date(at));
export const number = (value) => numberIn(NUMBER).format(value);
export const units = (value) => numberIn(UNITS).format(value);
/** Formats a tax rate in hundredths of a percent: 1950 is 19.5 %. */
export const percent = (rate) => `${number(rate / 100)} %`;
export const shortId = (id) => (id.length > 12 ? id.slice(0, 8) : id);
export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** Returns the next round number: 1, 2 or 5 times a power of ten. */
export function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((times) => times * power).find((one) => one >= least);
}

/** Formats milliseconds as a short duration, such as 35 ms, 2.2 s, 3 min or 400 days. */
export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${units(ms / 1000)} s`;
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)} min`;
  if (ms < 172_800_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${number(Math.round(ms / 86_400_000))} days`;
}

export function bytes(count) {
  return count < 1024 ? `${count} bytes` : `${units(count / 1024)} KiB`;
}

/** By state: its tone, which is waiting, moving, good, bad or over. */
const TONES = {
  PENDING: "waiting",
  PAID: "moving",
  FULFILLING: "moving",
  CANCEL_REQUESTED: "waiting",
  PARTIALLY_SHIPPED: "moving",
  CUT_REQUESTED: "waiting",
  SHIPPED: "moving",
  DELIVERED: "good",
  REQUESTED: "waiting",
  DISPATCHED: "moving",
  AUTHORISED: "waiting",
  CAPTURED: "good",
  FAILED: "bad",
  UNMATCHED: "bad",
  DISPUTED: "bad",
  SENT: "moving",
  SUCCEEDED: "good",
  SETTLED: "good",
};

export const stateName = (state) => textOf(`state.${state}`);
export const stateTone = (state) => TONES[state] ?? "over";
