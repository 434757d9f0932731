// Shows one entry of the journal, for the live log and the panel of a node.

import { bytes, duration, fineTime, units } from "./format.js";
import { chip, el, facts, orderLink, shape, timeOf } from "./ui.js";

/** The label of each kind of entry. */
const KINDS = {
  request: "Request", record: "Stream record", delivery: "Reader", published: "Event", copied: "Copies", effect: "Reaction", failed: "Failed",
  parked: "Parked", redriven: "Redriven", chaos: "Chaos", process: "Process", behind: "Lag", time: "Clock", warehouse: "Warehouse",
};
const SHOWN_ABOVE = new Set(["id", "at", "kind", "text", "order_id"]);

/** Returns a list item. */
export function entryItem(entry) {
  const reason = entry.reason ?? entry.error;
  return el("li", { class: `entry kind-${entry.kind} ${isBad(entry) ? "is-bad" : ""}` },
    el("span", { class: "dot" }, icon(entry.kind)),
    el("div", { class: "entry-body" },
      el("p", { class: "entry-text" }, el("span", { class: "kind-name" }, KINDS[entry.kind] ?? entry.kind), " ", entry.text),
      reason && !entry.text.includes(reason) && el("p", { class: "entry-reason" }, `Reason: ${reason}`),
      el("div", { class: "entry-meta" }, timeOf(entry.at, fineTime), measures(entry), entry.order_id && orderLink(entry.order_id), details(entry))));
}

function isBad({ kind, outcome, status }) {
  return kind === "failed" || kind === "parked" || outcome === "failed" || status >= 500;
}

/** Returns the measured values of an entry, each as a chip. */
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

// Line icons, drawn here so that no file is loaded; each has its meaning as text beside it. ------------------------------
const PATHS = {
  request: "M4 12h14M12 6l6 6-6 6",
  record: "M5 6c0-1.7 3.1-3 7-3s7 1.3 7 3-3.1 3-7 3-7-1.3-7-3zm0 0v12c0 1.7 3.1 3 7 3s7-1.3 7-3V6M5 12c0 1.7 3.1 3 7 3s7-1.3 7-3",
  delivery: "M4 13l3-8h10l3 8v6H4zM4 13h5l1.5 2.5h3L15 13h5",
  published: "M12 11v2M8.5 8.5a5 5 0 0 0 0 7M15.5 8.5a5 5 0 0 1 0 7M5.5 5.5a9.2 9.2 0 0 0 0 13M18.5 5.5a9.2 9.2 0 0 1 0 13",
  copied: "M9 9h11v11H9zM6 15H4V4h11v2",
  effect: "M5 12.5l4.5 4.5L19 7.5",
  failed: "M6 6l12 12M18 6L6 18",
  parked: "M9 20V4h5a4.5 4.5 0 0 1 0 9H9",
  chaos: "M13 3L5 14h6l-1 7 8-11h-6z",
  process: "M12 3v8M7 6a8 8 0 1 0 10 0",
};

const icon = (name) => shape("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" }, shape("path", { d: PATHS[name] ?? PATHS.process }));
