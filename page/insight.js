// Insight, for staff: the sales in a range of time, and the best sellers of a month.

import { repeat } from "./api.js";
import { asUtc, field, form, localMoment } from "./forms.js";
import { filled } from "./format.js";
import { isStaff, person, staffMember, staffNote } from "./people.js";
import { isSold, sales } from "./sales.js";
import { bestSellers } from "./bestSellers.js";
import { announce, button, el, fill, renew, scrollToCurrent } from "./ui.js";

const HOUR = 3_600_000;
const RANGES = { hour: ["Last hour", HOUR], day: ["Last 24 hours", 24 * HOUR], month: ["Last 30 days", 720 * HOUR] };
const LONGEST = 8784 * HOUR;
const EVERY_MS = 5000;
const MONTH = /^\d{4}-(0[1-9]|1[0-2])$/;

export function show(place, { query, signal }) {
  const asked = askedIn(query);
  const heading = el("h1", null, "Insight");
  const sold = el("div", { class: "stack" });
  const best = el("div", { class: "stack" });
  const parts = [
    [sold, "sales", async () => {
      asked.range ??= await rangeWithSales(signal);
      markCurrent(times, asked);
      return sales({ ...rangeOf(asked), signal });
    }],
    [best, "the best sellers", () => bestSellers({ month: asked.best, signal })],
  ];
  const times = tabs(asked);
  const again = () => Promise.all(parts.map(([part, , load]) => renew(part, load)));
  place.append(
    el("div", { class: "view-head" }, heading, el("p", { class: "lead" }, "Sales and best sellers. Each paid order counts once, shortly after its payment."), staffNote(isStaff(person()) ? person() : staffMember())),
    el("section", { class: "card", "aria-label": "Sold" }, head("Sold", refreshers(again, signal)), el("div", { class: "stack" }, times, ownRange(asked), sold)));
  scrollToCurrent(times);
  const [soldFilled] = parts.map(([part, what, load]) => fill(part, what, load));
  // The best sellers appear after the sales, whose height is not known before, so that the sales do not move them.
  soldFilled.then(() => place.append(el("section", { class: "card", "aria-label": "Best sellers" }, head("Best sellers", null), el("div", { class: "stack" }, monthForm(asked), best))));
  return heading;
}

/** Returns the parameters in the address. Replaces invalid parameters by defaults. `range`: null if the view chooses it. */
function askedIn(query) {
  const [from, to] = ["from", "to"].map((name) => (Number.isNaN(Date.parse(query.get(name))) ? "" : query.get(name)));
  const best = MONTH.test(query.get("best")) ? query.get("best") : new Date().toISOString().slice(0, 7);
  const isOwn = from && to && !wrongTime(from, to);
  return { range: Object.hasOwn(RANGES, query.get("range")) ? query.get("range") : null, best, ...(isOwn && { range: "own", from, to }) };
}

/** Returns the error in a range that the user entered, or "" if the range is valid. */
function wrongTime(from, to) {
  const long = Date.parse(to) - Date.parse(from);
  if (long <= 0) return "The end must be after the start.";
  return long > LONGEST ? "The time range must not be longer than 366 days." : "";
}

/** Returns the start and the end of a range in ms. The range "last hour" ends now. */
function rangeOf({ range, from, to }) {
  if (range === "own") return { from: Date.parse(from), to: Date.parse(to) };
  const now = Date.now();
  return { from: now - RANGES[range][1], to: now };
}

const addressOf = (asked) => `#/insight?${filled(asked)}`;
const head = (title, more) => el("div", { class: "card-head" }, el("h2", null, title), more);

/** Returns the shortest range that has sales, or the longest. */
async function rangeWithSales(signal) {
  const names = Object.keys(RANGES);
  for (const range of names.slice(0, -1)) if (await isSold({ ...rangeOf({ range }), signal })) return range;
  return names.at(-1);
}

function markCurrent(times, { range }) {
  for (const link of times.children) link.ariaCurrent = link.dataset.range === range ? "page" : null;
}

function tabs({ range, best }) {
  const tab = ([name, [text]]) => el("a", { href: addressOf({ range: name, best }), "data-range": name, "aria-current": name === range && "page" }, text);
  return el("nav", { class: "tabs", "aria-label": "Time" }, Object.entries(RANGES).map(tab));
}

function ownRange({ from, to, best }) {
  const begin = field("From", "from", { type: "datetime-local", value: localMoment(from), required: true });
  const end = field("To", "to", { type: "datetime-local", value: localMoment(to), required: true });
  const made = form({ class: "inline", "aria-label": "Custom time range" }, [begin, end], "Show", () => {
    location.hash = addressOf({ from: asUtc(begin.control.value), to: asUtc(end.control.value), best });
  }, { kind: "" });
  made.addEventListener("input", () => end.control.setCustomValidity(wrongTime(begin.control.value, end.control.value)));
  return made;
}

function monthForm(asked) {
  const month = field("Month", "best", { type: "month", value: asked.best, required: true, pattern: "[0-9]{4}-(0[1-9]|1[0-2])", placeholder: "2026-11" });
  return form({ class: "inline", "aria-label": "Another month" }, [month], "Show", () => {
    location.hash = addressOf({ ...asked, range: asked.range !== "own" && asked.range, best: month.control.value });
  }, { kind: "" });
}

/** Returns two buttons: one reloads at once, the other every few seconds while the tab is visible. */
function refreshers(again, signal) {
  let stop = () => {};
  const live = el("button", { type: "button", class: "button small", "aria-pressed": "false" }, "Update every 5 seconds");
  live.addEventListener("click", () => {
    const isOn = live.getAttribute("aria-pressed") !== "true";
    live.setAttribute("aria-pressed", String(isOn));
    stop();
    if (isOn) stop = repeat(again, EVERY_MS, signal);
  });
  const once = async () => {
    await again();
    announce("Refreshed");
  };
  return el("div", { class: "row tight" }, button("Refresh", once, { kind: "small quiet" }), live);
}
