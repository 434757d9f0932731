// Loads the sales of each minute in a range of time, and shows them as charts and as a table.

import { get } from "./api.js";
import { timeChart } from "./chart.js";
import { compactMoney, compactNumber, filled, money, moment, number, plural } from "./format.js";
import { staffMember } from "./people.js";
import { seedOffer } from "./seedShop.js";
import { sumByBucket, timeBucketsOf, total } from "./timeBuckets.js";
import { el, empty, row, table } from "./ui.js";

const PAGE = 100;
const MOST_PAGES = 30;
const LOCALE = "en-GB";
const CLOCK = new Intl.DateTimeFormat(LOCALE, { hour: "2-digit", minute: "2-digit" });
const DATE = new Intl.DateTimeFormat(LOCALE, { day: "numeric", month: "short" });
const ZONE = new Intl.DateTimeFormat().resolvedOptions().timeZone;

/** Returns the charts of the sales in [from, to), in ms, and their table. */
export async function sales({ from, to, signal }) {
  const buckets = timeBucketsOf(from, to);
  const { points, isAll } = await read(buckets.edges[0], buckets.edges.at(-1), signal);
  if (!points.length) return empty("Nothing was sold in this time", "An order counts shortly after its payment. Choose another time range, or pay for an order in the shop.", seedOffer());
  const sums = sumByBucket(points, buckets.edges);
  const all = measures(total(points));
  const until = points.at(-1).minute;
  return [
    !isAll && el("p", { class: "notice" }, `There is too much data: this shows the sales until ${moment(until)}. Choose a shorter time range.`),
    el("div", { class: "charts" }, all.map((measure) => chart(measure, sums, buckets))),
    asTable(all, sums, buckets),
    el("p", { class: "hint" }, `Times are in ${ZONE}. A return is subtracted at the time of the return.`),
  ].filter(Boolean);
}

/** Returns whether anything was sold in [from, to), in ms. */
export async function isSold({ from, to, signal }) {
  return (await page(from, to, { limit: 1 }, signal)).items.length > 0;
}

/** Loads the points of a range page by page, up to a limit. Each minute has one point for each currency. */
async function read(from, to, signal) {
  const points = [];
  let cursor = null;
  for (let pages = 0; pages < MOST_PAGES; pages += 1) {
    const found = await page(from, to, { limit: PAGE, cursor }, signal);
    points.push(...found.items);
    cursor = found.cursor;
    if (!cursor) return { points, isAll: true };
  }
  return { points, isAll: false };
}

function page(from, to, more, signal) {
  const query = filled({ from: new Date(from).toISOString(), to: new Date(to).toISOString(), ...more });
  return get(`/api/insight/sales-by-minute?${query}`, { as: staffMember(), signal });
}

/** Returns the charts, with revenue for each currency: {title, sum, of: bucket → value, write, short: value → text}. */
function measures(sum) {
  const currencies = Object.keys(sum.revenue).sort();
  return [
    { title: "Orders", of: (one) => one.orders, sum: sum.orders, write: number, short: compactNumber },
    { title: "Pieces", of: (one) => one.pieces, sum: sum.pieces, write: number, short: compactNumber },
    ...currencies.map((currency) => ({
      title: `Revenue in ${currency}`, of: (one) => one.revenue[currency] ?? 0, sum: sum.revenue[currency], write: (value) => money(value, currency), short: (value) => compactMoney(value, currency),
    })),
  ];
}

function chart({ title, of, sum, write, short }, sums, buckets) {
  const bars = sums.map((one) => ({ at: shortTime(one.from, buckets), value: of(one), description: `${stretch(one, buckets)}: ${write(of(one))}` }));
  const most = sums.reduce((best, one) => (of(one) > of(best) ? one : best));
  const name = `${title} per ${buckets.per}, from ${moment(buckets.edges[0])} to ${moment(buckets.edges.at(-1))}: ${write(sum)} in total, the maximum is in ${stretch(most, buckets)}: ${write(of(most))}.`;
  return timeChart({ title: `${title} per ${buckets.per}`, sum: `${write(sum)} in total`, name, bars, write: short });
}

/** Returns a table with the same values. It leaves out times without sales. */
function asTable(all, sums, buckets) {
  const sold = sums.filter((one) => all.some(({ of }) => of(one) !== 0));
  const heads = ["Time", ...all.map(({ title }) => ({ text: title, number: true }))];
  const rows = sold.map((one) => row(stretch(one, buckets), ...all.map(({ of, write }) => ({ number: write(of(one)) }))));
  const caption = `Sales per ${buckets.per}: ${plural(sold.length, "row")}, without the times that have no sale`;
  return el("details", null, el("summary", null, "Show as a table"), table(caption, heads, rows));
}

// Times ----------------------------------------------------------------------------------------------------------------
/** Returns a label below an axis: the time of the day, with the date if the range has several days. */
function shortTime(at, { edges, isDays }) {
  if (isDays) return DATE.format(at);
  return DATE.format(edges[0]) === DATE.format(edges.at(-1) - 1) || edges.at(-1) - edges[0] < 90_000_000 ? CLOCK.format(at) : `${DATE.format(at)} ${CLOCK.format(at)}`;
}

function stretch({ from, to }, { isDays, step }) {
  if (isDays) return step > 86_400_000 ? `${DATE.format(from)} to ${DATE.format(to - 1)}` : DATE.format(from);
  return `${DATE.format(from)}, ${CLOCK.format(from)} to ${CLOCK.format(to)}`;
}
