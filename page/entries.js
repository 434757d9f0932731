// One entry of the activity log, for the timeline and for the live log of the stream.

import { bytes, duration, fineTime, units } from "./format.js";
import { icon } from "./icons.js";
import { chip, el, facts, storyLink, timeOf } from "./ui.js";

/** The label of each kind, and its level in the chain that begins with the request. */
export const KINDS = {
  request: ["Request", 0],
  record: ["Stream record", 1],
  delivery: ["Reader", 2],
  published: ["Event", 2],
  copied: ["Copies", 3],
  effect: ["Reaction", 3],
  failed: ["Failed", 3],
  parked: ["Parked", 2],
  redriven: ["Redriven", 0],
  chaos: ["Chaos", 0],
  process: ["Process", 0],
  behind: ["Lag", 0],
  time: ["Clock", 0],
  warehouse: ["Warehouse", 0],
};
const SHOWN_ABOVE = new Set(["id", "at", "kind", "text", "order_id"]);

/** A list item; `linked` also links the order, for lists with entries of several orders. */
export function entryItem(entry, { linked = false } = {}) {
  const [name, depth] = KINDS[entry.kind] ?? [entry.kind, 0];
  const reason = entry.reason ?? entry.error;
  return el("li", { class: `entry kind-${entry.kind} depth-${depth} ${isBad(entry) ? "is-bad" : ""}` },
    el("span", { class: "dot" }, icon(entry.kind)),
    el("div", { class: "entry-body" },
      el("p", { class: "entry-text" }, el("span", { class: "kind-name" }, name), " ", entry.text),
      reason && !entry.text.includes(reason) && el("p", { class: "entry-reason" }, `Reason: ${reason}`),
      el("div", { class: "entry-meta" }, timeOf(entry.at, fineTime), measures(entry), linked && entry.order_id && storyLink(entry.order_id), details(entry))));
}

export function isBad({ kind, outcome, status }) {
  return kind === "failed" || kind === "parked" || outcome === "failed" || status >= 500;
}

/** The measurements, each as a chip. */
function measures({ status, ms, units: used, attempt, lag_ms: lag, outcome, records, bytes: size, by }) {
  return [
    status && chip(String(status), status < 400 ? "good" : "bad"),
    outcome && chip(outcome, outcome === "done" ? "good" : outcome === "retrying" ? "waiting" : "bad"),
    records && chip(`${records} ${records === 1 ? "record" : "records"}`, "plain"),
    used && chip(unitsText(used), "plain"),
    ms != null && chip(`took ${duration(ms)}`, "plain"),
    lag != null && chip(`${duration(lag)} behind`, "plain"),
    attempt > 1 && chip(`attempt ${attempt}`, "waiting"),
    size && chip(bytes(size), "plain"),
    by === "expiry" && chip("by expiry", "waiting"),
  ];
}

export function unitsText({ read = 0, write = 0 }) {
  const parts = [read && `${units(read)} read`, write && `${units(write)} write`].filter(Boolean);
  return parts.length ? `${parts.join(", ")} units` : "no units";
}

function details(entry) {
  const rest = Object.entries(entry).filter(([name, value]) => !SHOWN_ABOVE.has(name) && value != null);
  if (!rest.length) return null;
  const shown = (value) => el("code", null, typeof value === "object" ? JSON.stringify(value) : String(value));
  return el("details", null, el("summary", null, "Details"), facts(...rest.map(([name, value]) => [name.replaceAll("_", " "), shown(value)])));
}
