// The access patterns of the shop, run by hand: each with its arguments, and the result below.

import { get, post } from "./api.js";
import { answerParts } from "./answers.js";
import { asUtc, checkbox, field, form, localMoment } from "./forms.js";
import { plural } from "./format.js";
import { person } from "./people.js";
import { announce, button, el, fill } from "./ui.js";

let lists = 0;

export function show(place, { id, query, signal }) {
  const heading = el("h1", null, "Table");
  const asking = el("section", { class: "card", "aria-label": "Query" });
  const answered = el("section", { class: "card", "aria-label": "Result", hidden: true });
  place.append(
    el("div", { class: "view-head" }, heading, el("p", { class: "lead" }, "All access patterns of the table. Run one to see its requests, the result and the consumed units. Nothing is written.")),
    asking, answered);
  fill(asking, "access patterns", async () => {
    const known = await get(`/local/patterns?${new URLSearchParams({ user: person() })}`, { signal });
    return chooser(known, { id, query, answered, signal });
  });
  return heading;
}

/** The selection of a pattern, and below it the form of the selected one. */
function chooser(known, { id, query, answered, signal }) {
  const chosen = known.items.find((one) => one.id === id) ?? known.items[0];
  const which = field("Access pattern", "pattern", {}, { options: known.items.map((one) => [one.id, `${one.id}: ${one.question}`, one === chosen]) });
  const place = el("div");
  const draw = (one, said) => {
    const made = questionForm(one, known, said, (asked) => {
      history.replaceState(null, "", addressOf(one, asked)); // it can be kept, and is there after a reload
      return showPages(answered, one, asked, signal);
    });
    place.replaceChildren(made);
    return made;
  };
  which.control.addEventListener("change", () => {
    answered.hidden = true;
    draw(known.items.find((one) => one.id === which.control.value), new URLSearchParams());
  });
  const made = draw(chosen, query);
  if (chosen.id === id && query.size && made.checkValidity()) setTimeout(() => made.requestSubmit()); // once it is on the page
  return el("div", { class: "stack" }, which, place);
}

function addressOf(one, { arguments: known, from, to, limit, filter, project }) {
  const said = Object.entries({ ...known, from, to, limit, filter, project }).filter(([, value]) => value);
  return `#/table/${encodeURIComponent(one.id)}?${new URLSearchParams(said)}`;
}

// The form -------------------------------------------------------------------------------------------------------------
function questionForm(one, known, said, ask) {
  const examples = { ...known.examples, ...one.examples };
  const argument = (name, needed) => argumentField(name, { needed, value: said.get(name), examples: examples[name] ?? [], number: one.numbers.includes(name) });
  const parts = [
    one.needs.length > 0 && el("div", { class: "asked-fields" }, one.needs.map((name) => argument(name, true))),
    narrowing(one, argument, said),
    expressions(one, said),
    choosing(one),
  ];
  return form({ class: "stack", "aria-label": one.question }, parts.filter(Boolean), "Run", (made) => ask(readForm(made, one)));
}

/** An argument, with values that find items here: a required argument is filled in with the first. */
function argumentField(name, { needed, value, examples, number }) {
  const list = `examples-${(lists += 1)}`;
  const attributes = { required: needed, value: value ?? (needed ? examples[0] : null), list: examples.length > 0 && list, autocomplete: "off", autocapitalize: "none", spellcheck: "false", inputmode: number && "numeric" };
  const made = field(name, `arguments.${name}`, attributes, { hint: needed ? null : "Optional" });
  if (examples.length) made.append(el("datalist", { id: list }, examples.map((text) => el("option", { value: text }))));
  return made;
}

/** Optional arguments of a pattern with several items: more key fields, a range, a limit. */
function narrowing(one, argument, said) {
  if (!one.pages) return null;
  const limit = field("Items per page", "limit", { type: "number", min: "1", max: "100", required: true, value: said.get("limit") ?? "20" });
  const range = one.range ? rangeFields(one, said) : [];
  const more = one.may.map((name) => argument(name, false));
  more[0]?.control.addEventListener("input", ({ target }) => range.forEach(({ control }) => (control.disabled = target.value !== "")));
  const known = more.length > 0 && el("details", { open: one.may.some((name) => said.has(name)) }, el("summary", null, "More key attributes"), el("div", { class: "asked-fields" }, more));
  return el("div", { class: "stack" }, el("div", { class: "asked-fields" }, range, limit), known || "");
}

function rangeFields(one, said) {
  const end = (name, label) => {
    const attributes = one.is_time
      ? { type: "datetime-local", value: localMoment(said.get(name)), disabled: said.has(one.range) }
      : { value: said.get(name), disabled: said.has(one.range), autocomplete: "off" };
    return field(`${label} (${one.range})`, name, attributes);
  };
  return [end("from", "From"), end("to", "Before")];
}

/** DynamoDB's own filter and projection, in its syntax, with names and values instead of placeholders. */
function expressions(one, said) {
  const text = (label, name, hint) => field(label, name, { value: said.get(name), autocomplete: "off", autocapitalize: "none", spellcheck: "false" }, { hint });
  const filter = one.pages && text("Filter expression", "filter", "Such as status = SHIPPED AND total > 1000");
  const projection = text("Projection expression", "project", "Such as status,address.city");
  return el("details", { open: said.has("filter") || said.has("project") },
    el("summary", null, "DynamoDB expressions"),
    el("div", { class: "stack chosen" }, [filter, projection].filter(Boolean),
      el("p", { class: "hint" }, "DynamoDB applies both after it has read the items. They save bytes, and no units.")));
}

/** The fields and the filter for the items that were read. */
function choosing(one) {
  const conditions = el("div", { class: "stack" }, condition(one));
  const another = button("Add a condition", () => conditions.append(condition(one)), { kind: "small" });
  const boxes = one.fields.map((name) => checkbox(name, "fields", { value: name }));
  return el("details", null,
    el("summary", null, "Filter the result"),
    el("div", { class: "stack chosen" },
      el("p", { class: "hint" }, "Filters do not reduce the consumed units: whole items are read."),
      el("fieldset", null, el("legend", null, "Show only items where"), conditions, el("div", { class: "row" }, another)),
      el("fieldset", null, el("legend", null, "Show only these fields"), el("div", { class: "boxes" }, boxes))));
}

function condition(one) {
  const which = field("Field", "where", {}, { options: [["", "any"], ...one.fields.map((name) => [name, name])] });
  const value = field("Is", "is", { autocomplete: "off" }, { hint: "Leave empty to find items without a value" });
  return el("div", { class: "inline" }, which, value);
}

/** The values of the form, as they are sent. */
function readForm(made, one) {
  const data = new FormData(made);
  const said = (name) => String(data.get(name) ?? "").trim();
  const known = [...one.needs, ...one.may].map((name) => [name, said(`arguments.${name}`)]).filter(([, text]) => text);
  const values = data.getAll("is");
  const where = data.getAll("where").map((name, at) => [name, values[at]]).filter(([name]) => name);
  const asked = { arguments: Object.fromEntries(known), where: Object.fromEntries(where), fields: data.getAll("fields"), filter: said("filter"), project: said("project") };
  if (!one.pages) return asked;
  const moment = one.is_time ? asUtc : (text) => text;
  return { ...asked, from: moment(said("from")), to: moment(said("to")), limit: Number(said("limit")) };
}

// The answer -----------------------------------------------------------------------------------------------------------
/** Forward by cursor, back by the earlier cursors. The form shows the errors of an invalid query. */
async function showPages(place, one, asked, signal) {
  const cursors = [null];
  await turn();

  async function turn() {
    const cursor = cursors.at(-1);
    const found = await post(`/local/patterns/${encodeURIComponent(one.id)}`, { ...asked, ...(cursor && { cursor }) }, { signal });
    place.replaceChildren(...answerParts(found, asked), one.pages ? turning(found.cursor) : "");
    place.hidden = false;
    announce(`${plural(found.shown, "item")} shown`);
  }

  /** The buttons are replaced with their page: the focus moves to the head of the new one. */
  async function read() {
    await turn();
    place.querySelector("h2").focus();
  }

  function turning(next) {
    const back = button("Previous page", () => (cursors.pop(), read()), { disabled: cursors.length === 1 });
    const on = button("Next page", () => (cursors.push(next), read()), { disabled: !next });
    return el("nav", { class: "row pages", "aria-label": "Pages" }, back, el("span", null, `Page ${cursors.length}`), on);
  }
}
