// The result of a query of the table: its cost, the sent requests, and the items by type.

import { plural, units } from "./format.js";
import { chip, el, empty, row, storyLink, table } from "./ui.js";

const LONG = 60;

/** The parts of a result; `asked`: the query, with the selected fields and filter. */
export function answerParts(found, asked) {
  const one = found.units === 1 ? "unit" : "units";
  return [
    el("h2", { tabindex: "-1" }, `${found.id}: ${found.question}`),
    el("p", { class: "row tight costs" },
      chip(`${found.read} read, ${found.shown} shown`, "good"), chip(`${units(found.units)} ${one} consumed`, "plain"),
      chip(plural(found.requests.length, "request"), "plain"), chip(plural(found.pages, "page"), "plain")),
    ...reasons(found, asked),
    el("details", { class: "requests", open: found.requests.length < 2 }, el("summary", null, requestsTitle(found.requests)), el("ol", null, found.requests.map(request))),
    found.boto3 && el("details", { class: "requests" }, el("summary", null, "The request as code"), el("h3", null, "boto3"), el("pre", null, found.boto3), el("h3", null, "AWS CLI"), el("pre", null, found.cli)),
    ...(found.groups.length ? found.groups.map(group) : [nothing(found)]),
    found.cursor != null && el("p", { class: "hint" }, "There are more items. The next page starts after ", el("code", null, found.cursor)),
  ].filter(Boolean);
}

/** Explains why fewer items are shown than were read. */
function reasons({ passed_over: passedOver, filtered }, { where, fields }) {
  const passed = passedOver - filtered;
  const texts = [
    filtered > 0 && `The filter read ${plural(filtered, "item")} that it did not return. They cost units like the others.`,
    passed > 0 && `${plural(passed, "item")} read but not shown: after the end of the page, expired, or not part of the result.`,
    Object.keys(where).length > 0 && "The conditions filter the items after the read. They do not reduce the units.",
    fields.length > 0 && "Only the selected fields are shown. The request read whole items.",
  ];
  return texts.filter(Boolean).map((text) => el("p", { class: "hint" }, text));
}

function requestsTitle({ length }) {
  if (!length) return "No request was sent: no item can match";
  return length === 1 ? "The request" : `The ${length} requests`;
}

/** The first request completely, and only the differences of the others. */
function request({ operation, sent }, at) {
  const title = at === 0 ? `1. ${operation}` : `${at + 1}. ${operation}, like request 1 except for`;
  const names = Object.entries(sent);
  const lines = names.map(([name, text]) => el("div", null, el("dt", null, name), el("dd", null, text ?? "(not sent)")));
  return el("li", null, el("h3", null, title), lines.length > 0 && el("dl", { class: "sent" }, lines));
}

function group({ type, fields, items }) {
  const rows = items.map((texts) => row(...texts.map((text, at) => value(fields[at], text))));
  return table(`${type} (${items.length})`, fields, rows);
}

/** A value: an order id links to its timeline, and a long value can be opened. */
function value(field, text) {
  if (field === "order_id" && text) return storyLink(text);
  if (text.length <= LONG) return text;
  return el("details", { class: "long" }, el("summary", null, `${text.slice(0, LONG - 20)}…`), text);
}

function nothing({ read }) {
  return read
    ? empty("No item is shown", "The items that were read are not part of the result, or the conditions exclude them.")
    : empty("Nothing was found", "No such item exists. A request consumes units even if it finds nothing.");
}
