// Adds up the sales of minutes in equal periods (buckets), such as hours or days, in the viewer's time zone.

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [
  [MINUTE, "minute"], [5 * MINUTE, "5 minutes"], [15 * MINUTE, "15 minutes"], [30 * MINUTE, "half hour"], [HOUR, "hour"],
  [3 * HOUR, "3 hours"], [6 * HOUR, "6 hours"], [DAY, "day"], [7 * DAY, "7 days"], [30 * DAY, "30 days"], [365 * DAY, "year"],
];
const MOST = 62;

/** Returns the shortest equal buckets that cover [from, to), in ms, without being too many: {edges, step, per}. */
export function timeBucketsOf(from, to) {
  const [step, per] = STEPS.find(([one]) => (to - from) / one < MOST) ?? STEPS.at(-1);
  const edges = [begin(from, step)];
  while (edges.at(-1) < to) edges.push(next(edges.at(-1), step));
  return { edges, step, per, isDays: step >= DAY };
}

/** Returns the start of the bucket. A day in the viewer's time zone may have 23 or 25 hours. */
function begin(at, step) {
  if (step >= DAY) return new Date(at).setHours(0, 0, 0, 0);
  const ahead = new Date(at).getTimezoneOffset() * MINUTE;
  return Math.floor((at - ahead) / step) * step + ahead;
}

function next(at, step) {
  if (step < DAY) return at + step;
  const date = new Date(at);
  return date.setDate(date.getDate() + step / DAY);
}

/** Adds up the points of minutes, oldest first, in buckets: [{from, to, orders, pieces, revenue: {EUR: …}}]. */
export function sumByBucket(points, edges) {
  const buckets = edges.slice(0, -1).map((from, at) => ({ from, to: edges[at + 1], ...nothing() }));
  let at = 0;
  for (const point of points) {
    const minute = Date.parse(point.minute);
    while (at < buckets.length - 1 && minute >= buckets[at].to) at += 1;
    add(buckets[at], point);
  }
  return buckets;
}

const nothing = () => ({ orders: 0, pieces: 0, revenue: {} });

function add(sum, { orders, pieces, currency, revenue }) {
  sum.orders += orders;
  sum.pieces += pieces;
  sum.revenue[currency] = (sum.revenue[currency] ?? 0) + revenue;
}

export function total(points) {
  const sum = nothing();
  for (const point of points) add(sum, point);
  return sum;
}
