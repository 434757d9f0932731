// The panel of a span (a step of an order's trace): its images, AWS requests or mail.

import { get } from "./api.js";
import { redriveButton } from "./failures.js";
import { duration, fineTime, plural, units } from "./format.js";
import { chip, el, facts, fill, json, terms, timeOf } from "./ui.js";

/** The name of each kind of span on the page. */
export const KINDS = {
  request: "Request", write: "Write", record: "Stream record", reader: "Reader", event: "Event", reaction: "Reaction",
  mail: "Mail", schedule: "Scheduled run", parked: "Parked", chaos: "Chaos",
};

const CANCELLED = { ConditionalCheckFailed: "condition failed", TransactionConflict: "conflict" };

/** Returns the panel. `go(id)` shows another span, and `changed` is called after a redrive. */
export function spanPanel(span, { path, signal, parent, effects, changed, go, close }) {
  const place = el("div", { class: "stack" });
  const link = (one) => el("button", { type: "button", class: "link", onclick: () => go(one.id) }, [one.name, one.detail].filter(Boolean).join(": "));
  const panel = el("section", { class: "card span-panel", id: "span-panel", "aria-label": `${KINDS[span.kind]}: ${span.name}` },
    el("div", { class: "card-head" }, el("div", null, el("h2", null, span.name), chip(KINDS[span.kind] ?? span.kind, "plain")),
      el("button", { type: "button", class: "close", "aria-label": "Close the details", onclick: close }, "✕")),
    facts(
      ["Start", timeOf(new Date(span.began_at).toISOString(), fineTime)],
      ["Waited", times(span, "waiting")], ["Took", times(span, "working") ?? times(span, "failed")],
      ["Units", span.units && `${units(span.units.read ?? 0)} read, ${units(span.units.write ?? 0)} write`],
      ["Result", span.detail], ["Problem", span.problem && el("span", { class: "bad-text" }, span.problem)],
      ["Caused by", parent && link(parent)],
      ["Led to", effects.length > 0 && effects.length < 6 ? el("ul", null, effects.map((one) => el("li", null, link(one)))) : effects.length > 0 && plural(effects.length, "span")]),
    span.attempts > 1 && attempts(span), place);
  fill(place, "the details", async () => details(span, await get(`${path}/spans/${encodeURIComponent(span.id)}`, { signal }), changed));
  return panel;
}

function times({ segments }, state) {
  const ms = segments.filter((one) => one.state === state).reduce((sum, one) => sum + one.ms, 0);
  return ms > 0 ? duration(ms) : null;
}

function attempts({ segments }) {
  let number = 0;
  const line = ({ state, ms }) => {
    if (state === "waiting") return el("li", { class: "hint" }, `waits ${duration(ms)}`);
    number += 1;
    return el("li", null, `Attempt ${number} `, state === "failed" ? chip("failed", "bad") : chip("done", "good"), ms > 0 && ` ${duration(ms)}`);
  };
  return el("div", null, el("h3", null, "Attempts"), el("ol", { class: "attempts" }, segments.map(line)));
}

function details(span, found, changed) {
  const entries = found.entries ?? [];
  const requests = [...(found.requests ?? []), ...unique(entries.flatMap((entry) => entry.requests ?? []))];
  return [
    found.failure && el("div", { class: "row" }, redriveButton({ key: found.failure, kind: span.kind, reason: span.problem ?? "" }, changed)),
    span.kind === "record" && images(entries[0]),
    found.reaction && reaction(found.reaction, entries),
    span.kind === "mail" && mail(found),
    requests.length > 0 && el("div", null, el("h3", null, plural(requests.length, "AWS request")), requests.map(request)),
    el("details", null, el("summary", null, "As JSON"), json(found, "The span as JSON")),
  ].filter(Boolean);
}

/** Removes repeated requests: several entries can contain the same invocation of a batch. */
const unique = (requests) => [...new Map(requests.map((one) => [`${one.operation} ${one.began_at}`, one])).values()];

// A stream record -------------------------------------------------------------------------------------------------------
function images({ PK, SK, old: oldImage = {}, new: newImage = {}, bytes, event }) {
  const [old, now] = [flat(oldImage), flat(newImage)];
  const names = [...new Set([...Object.keys(old), ...Object.keys(now)])].sort();
  const changed = names.filter((name) => old[name] !== now[name]);
  const line = (name) => [name, [name in old && el("del", null, old[name]), name in old && name in now && " → ", name in now && el("ins", null, now[name])]];
  const unchanged = names.length - changed.length;
  return el("div", { class: "images" },
    facts(["PK", el("code", null, PK)], ["SK", el("code", null, SK)], ["Size of the record", bytes && `${bytes} bytes`]),
    el("h3", null, { INSERT: "New image", REMOVE: "Old image" }[event] ?? "Changes"),
    terms("diff", changed.map(line)),
    unchanged > 0 && el("details", null, el("summary", null, `${plural(unchanged, "attribute")} unchanged`),
      terms("diff", names.filter((name) => !changed.includes(name)).map((name) => [name, now[name]]))));
}

/** Returns the values of an image as text, by path. Each attribute of a map has its own path. */
function flat(value, path = "") {
  if (value === null || typeof value !== "object" || Array.isArray(value) || (path && !Object.keys(value).length)) return { [path]: typeof value === "string" ? value : JSON.stringify(value) };
  return Object.assign({}, ...Object.entries(value).map(([name, one]) => flat(one, path ? `${path}.${name}` : name)));
}

// Reactions and mails ---------------------------------------------------------------------------------------------------
function reaction({ effect, guard }, entries) {
  const errors = entries.filter((entry) => entry.kind === "failed" || entry.error).map((entry) => entry.error);
  const message = entries.flatMap((entry) => entry.messages ?? []).find((one) => one.event);
  return el("div", null, el("h3", null, "Reaction"), facts(
    ["Event", message && `${message.event}, ${message.event_id.slice(0, 8)}`], ["Effect", effect], ["Guard against repeats", guard],
    ["Errors", errors.length > 0 && el("span", { class: "bad-text" }, [...new Set(errors)].join(", "))]));
}

function mail({ name, requests: [{ message_id: id }] }) {
  return el("iframe", { src: `/local/mails/${encodeURIComponent(id)}`, title: name, sandbox: "", loading: "lazy" });
}

// AWS requests ----------------------------------------------------------------------------------------------------------
function request({ service, operation, ms, units: used, error, keys = [], items = 0, message_id: id }) {
  const outcome = error ? chip(error, "waiting") : null;
  const head = el("p", { class: "row tight" }, el("strong", null, operation), el("span", { class: "hint" }, [service, duration(ms), used && plural(used, "unit")].filter(Boolean).join(", ")), outcome);
  const key = (one) => el("li", null, el("span", { class: "key-op" }, one.op), " ", el("code", null, [one.PK, one.SK].filter(Boolean).join(" / ")),
    one.index && ` ${one.index}`, one.condition && el("span", { class: "hint" }, ` if ${one.condition}`), one.outcome && el("span", { class: "bad-text" }, ` ${CANCELLED[one.outcome] ?? one.outcome}`));
  const more = items - keys.length;
  return el("div", { class: "aws-request" }, head, keys.length > 0 && el("ul", null, keys.map(key), more > 0 && el("li", null, `and ${more} more`)), id && el("p", { class: "hint" }, `Message ${id}`));
}
