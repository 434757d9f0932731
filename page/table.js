// Reads the table by a question (an access pattern) or by a key. A user can share a query, because it is in the address.

import { get, post } from "./api.js";
import { collectionParts } from "./answers.js";
import { asUtc, checkbox, field, form, localMoment } from "./forms.js";
import { filled, plural } from "./format.js";
import { person } from "./people.js";
import { announce, button, el, fill, pageButtons, tabs, terms } from "./ui.js";

/** The question that the view shows first: all items of an order. */
const FIRST = "A12b";
const PREVIEW_AFTER_MS = 250;
let lists = 0;

export function show(place, { id, query, signal }) {
  const heading = el("h1", null, "Table");
  const asking = el("section", { class: "card", "aria-label": "Query" });
  const answered = el("section", { class: "card", "aria-label": "Result", hidden: true });
  const byKey = query.has("pk") || query.has("index");
  place.append(
    el("div", { class: "view-head" }, heading, el("p", { class: "lead" }, "One table holds all items. Read it by question or by key. Nothing is written.")),
    tabs("Ways to read", [["Questions", `#/table/${FIRST}`, !byKey], ["Any key", "#/table?pk=", byKey]]),
    asking, answered);
  fill(asking, "access patterns", async () => {
    const known = await get(`/local/patterns?${filled({ user: person() ?? "alice" })}`, { signal });
    const view = { known, query, answered, signal };
    return byKey ? keyForm(view) : questions(id, view);
  });
  return heading;
}

const addressOf = (path, asked) => `#/table${path}?${filled(asked)}`;

// Questions ------------------------------------------------------------------------------------------------------------
/** Returns all questions by noun, a search box for them, and beside them the form of the chosen question. */
function questions(id, { known, query, answered, signal }) {
  const place = el("div", { class: "question" });
  const links = new Map(known.items.map((one) => [one, questionLink(one, (event) => pick(event, one))]));
  const draw = (one, said) => {
    for (const [other, link] of links) link.ariaCurrent = other === one ? "page" : null;
    const made = questionForm(one, known, said, { answered, signal });
    place.replaceChildren(el("h2", { tabindex: "-1" }, `${one.id}: ${one.question}`), questionFacts(one), made);
    return made;
  };
  const pick = (event, one) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return; // let the browser open a new tab
    event.preventDefault();
    history.pushState(null, "", `#/table/${one.id}`);
    answered.hidden = true;
    draw(one, new URLSearchParams());
    place.querySelector("h2").focus();
  };
  const chosen = known.items.find((one) => one.id === id) ?? known.items.find((one) => one.id === FIRST);
  const made = draw(chosen, query);
  const isAsked = chosen.id === id ? query.size > 0 : !id;
  if (isAsked && made.checkValidity()) setTimeout(() => made.requestSubmit()); // wait until the form is on the page
  const list = chooser(links);
  setTimeout(() => (list.scroller.scrollTop = links.get(chosen).offsetTop - list.scroller.clientHeight / 2)); // wait until the list is on the page
  return el("div", { class: "questions" }, list, place);
}

const questionLink = (one, pick) => el("a", { href: `#/table/${one.id}`, onclick: pick }, el("code", null, one.id), one.question);

const questionFacts = (one) =>
  el("p", { class: "hint" }, one.pages ? "Query" : "GetItem", one.index === "main" ? " of the table" : ` of ${one.index.toUpperCase()}`, `, returns ${one.entities.join(", ")}`);

function chooser(links) {
  const search = field("Find a question", "find", { type: "search", autocomplete: "off", placeholder: "order, review, e-mail, A12 …" });
  const groups = Object.entries(Object.groupBy(links.keys(), (one) => one.noun)).map(([noun, ones]) => {
    const lines = ones.map((one) => ({ line: el("li", null, links.get(one)), words: `${one.id} ${noun} ${one.question} ${one.entities.join(" ")} ${one.needs.join(" ")}`.toLowerCase() }));
    return { lines, part: el("section", null, el("h3", null, noun), el("ul", null, lines.map(({ line }) => line))) };
  });
  const none = el("p", { class: "hint", hidden: true }, "No question has these words. Read the table by a key instead.");
  search.control.addEventListener("input", () => {
    const words = search.control.value.toLowerCase().split(/\s+/);
    let found = 0;
    for (const { lines, part } of groups) {
      for (const one of lines) found += Number(!(one.line.hidden = !words.every((word) => one.words.includes(word))));
      part.hidden = lines.every(({ line }) => line.hidden);
    }
    none.hidden = found > 0;
    announce(plural(found, "question"));
  });
  const list = el("nav", { class: "question-list", "aria-label": "Questions", tabindex: "0" }, groups.map(({ part }) => part), none);
  return Object.assign(el("div", { class: "stack" }, search, list), { scroller: list });
}

function questionForm(one, known, said, { answered, signal }) {
  const examples = { ...known.examples, ...one.examples };
  const argument = (name, needed) => argumentField(name, { needed, value: said.get(name), examples: examples[name] ?? [], number: one.numbers.includes(name) });
  const attributes = one.fields.length ? typesOf(known, one).filter(([name]) => one.fields.includes(name)) : typesOf(known, one);
  const parts = [
    one.needs.length > 0 && el("div", { class: "asked-fields" }, one.needs.map((name) => argument(name, true))),
    narrowing(one, argument, said),
    composer(attributes, said, { filters: one.pages, read: (made) => ({ pattern: one.id, ...readExpressions(made) }) }),
  ];
  return form({ class: "stack", "aria-label": one.question }, parts.filter(Boolean), "Run", (made) => {
    const asked = readQuestion(made, one);
    const { arguments: given, ...others } = asked;
    history.replaceState(null, "", addressOf(`/${one.id}`, { ...given, ...others }));
    return showPages(answered, `/local/patterns/${one.id}`, asked, one.pages, signal);
  });
}

/** Returns the field of an argument, with example values that find items. A required argument starts with the first. */
function argumentField(name, { needed, value, examples, number }) {
  const attributes = { required: needed, value: value ?? (needed ? examples[0] : null), inputmode: number && "numeric" };
  return suggesting(name, `arguments.${name}`, examples, attributes, needed ? null : "Optional");
}

/** Returns a text field with suggestions: texts, or pairs of a text and its label. */
function suggesting(label, name, suggestions, attributes, hint) {
  const id = `suggestions-${(lists += 1)}`;
  const made = field(label, name, { list: id, autocomplete: "off", autocapitalize: "none", spellcheck: "false", ...attributes }, { hint });
  const list = el("datalist", { id });
  const suggest = (all) => list.replaceChildren(...all.map((one) => el("option", { value: [one].flat()[0], label: [one].flat()[1] })));
  suggest(suggestions);
  made.append(list);
  return Object.assign(made, { suggest });
}

/** Returns the fields of optional arguments, if a question finds several items: more key fields, a range, a limit. */
function narrowing(one, argument, said) {
  if (!one.pages) return null;
  const range = one.range ? rangeFields(one, said) : [];
  const more = one.may.map((name) => argument(name, false));
  more[0]?.control.addEventListener("input", ({ target }) => range.forEach(({ control }) => (control.disabled = target.value !== "")));
  const known = more.length > 0 && el("details", { open: one.may.some((name) => said.has(name)) }, el("summary", null, "More key attributes"), el("div", { class: "asked-fields" }, more));
  return el("div", { class: "stack" }, el("div", { class: "asked-fields" }, range, limitField(said)), known || "");
}

const limitField = (said) => field("Items per page", "limit", { type: "number", min: "1", max: "100", required: true, value: said.get("limit") ?? "20" });

function rangeFields(one, said) {
  const end = (name, label) => {
    const attributes = one.is_time
      ? { type: "datetime-local", value: localMoment(said.get(name)), disabled: said.has(one.range) }
      : { value: said.get(name), disabled: said.has(one.range), autocomplete: "off" };
    return field(`${label} (${one.range})`, name, attributes);
  };
  return [end("from", "From"), end("to", "Before")];
}

function readQuestion(made, one) {
  const said = textsOf(made);
  const known = [...one.needs, ...one.may].map((name) => [name, said(`arguments.${name}`)]).filter(([, text]) => text);
  const asked = { arguments: Object.fromEntries(known), ...readExpressions(made) };
  if (!one.pages) return asked;
  const moment = one.is_time ? asUtc : (text) => text;
  return { ...asked, from: moment(said("from")), to: moment(said("to")), limit: Number(said("limit")) };
}

function textsOf(made) {
  const data = new FormData(made);
  return (name) => String(data.get(name) ?? "").trim();
}

const readExpressions = (made) => ({ filter: textsOf(made)("filter"), project: textsOf(made)("project") });

// Keys -----------------------------------------------------------------------------------------------------------------
const SORT_KEY_OPERATORS = [["", "any"], ["=", "="], ["begins_with", "begins_with"], ["BETWEEN", "between"], ["<", "<"], ["<=", "<="], [">", ">"], [">=", ">="]];

/** Returns the form of a query by key: a partition key and a condition on the sort key, of the table or an index. */
function keyForm({ known, query, answered, signal }) {
  const index = field("Read", "index", {}, { options: known.indexes.map(({ name }) => [name, name === "table" ? "the table" : `the index ${name}`, name === query.get("index")]) });
  const pk = suggesting("", "pk", [], { required: true, value: query.get("pk") }, "Choose a partition, or write any key");
  const how = field("", "how", {}, { options: SORT_KEY_OPERATORS.map(([value, text]) => [value, text, value === (query.get("how") ?? (query.has("sk") ? "=" : ""))]) });
  const sk = suggesting("Value", "sk", [], { value: query.get("sk") });
  const to = suggesting("To, inclusive", "sk_to", [], { value: query.get("sk_to") });
  const here = () => known.indexes.find(({ name }) => name === index.control.value);
  const sorts = () => sortsOf(here().partitions, pk.control.value);
  const place = el("div");
  const arrange = () => {
    [pk, how].forEach((one, at) => (one.querySelector("label").textContent = `${at ? "Sort key" : "Partition key"} (${here().keys[at]})`));
    pk.suggest(here().partitions.map((one) => [one.example || startOf(one.template), Object.keys(one.sorts).join(", ")]));
    [sk, to].forEach((one) => one.suggest(Object.entries(sorts()).map(([type, template]) => [startOf(template), type])));
    toggle(sk, how.control.value !== "");
    toggle(to, how.control.value === "BETWEEN");
  };
  const compose = (said) => {
    const entities = Object.keys(sorts());
    place.replaceChildren(composer(typesOf(known, { entities, index: here().name.toLowerCase() }), said, { filters: true, read: readKey }));
  };
  for (const one of [index, how]) one.control.addEventListener("change", arrange);
  pk.control.addEventListener("input", arrange);
  for (const one of [index, pk]) one.control.addEventListener("change", () => compose(new URLSearchParams()));
  for (const one of [pk, sk, to]) one.classList.add("long-field");
  const made = form({ class: "stack", "aria-label": "Query of a key" }, [el("div", { class: "asked-fields" }, index, pk, how, sk, to, limitField(query)), place], "Run", (sent) => {
    const asked = readKey(sent);
    history.replaceState(null, "", addressOf("", { ...asked, index: asked.index === "table" ? "" : asked.index }));
    return showPages(answered, "/local/keys", asked, true, signal);
  });
  arrange();
  compose(query);
  if (query.get("pk") && made.checkValidity()) setTimeout(() => made.requestSubmit());
  return made;
}

/** Shows or hides a field. Disables a hidden field, so that the form does not send it. */
function toggle(made, isShown) {
  toggleEnd(made, isShown);
  made.control.required = isShown;
}

/** Returns the fixed text of a key template before its first field. */
const startOf = (template) => template.split("{")[0];

/** Returns the sort key templates of a partition, by item type. If `pk` is incomplete, of all partitions that match. */
function sortsOf(partitions, pk) {
  const parts = (text) => text.split("#").length;
  const near = partitions.filter(({ template }) => pk && pk.startsWith(startOf(template)));
  const exact = near.filter(({ template }) => parts(template) === parts(pk));
  return Object.assign({}, ...(exact.length ? exact : near).map(({ sorts }) => sorts));
}

function readKey(made) {
  const said = textsOf(made);
  const asked = Object.fromEntries(["index", "pk", "how", "sk", "sk_to"].map((name) => [name, said(name)]));
  return { ...asked, ...readExpressions(made), limit: Number(said("limit")) };
}

// Expressions ----------------------------------------------------------------------------------------------------------
/** Returns the attributes that a read of these item types returns: [name, DynamoDB type]. */
function typesOf(known, { entities, index }) {
  const there = known.indexes.find(({ name }) => name.toLowerCase() === index)?.attributes;
  const all = Object.assign({}, ...entities.map((name) => known.types[name]));
  return Object.entries(all).filter(([name]) => !there || there.includes(name)).sort();
}

/** The condition that each operator builds from an attribute and its values. */
const OPERATORS = {
  "=": compared("="), "<>": compared("<>"), "<": compared("<"), "<=": compared("<="), ">": compared(">"), ">=": compared(">="),
  "between": (name, value, to) => `${name} BETWEEN ${value} AND ${to}`,
  "in": (name, ...values) => `${name} IN (${values.join(", ")})`,
  "begins_with": (name, value) => `begins_with(${name}, ${value})`,
  "contains": (name, value) => `contains(${name}, ${value})`,
  "size >": (name, value) => `size(${name}) > ${value}`,
  "exists": (name) => `attribute_exists(${name})`,
  "does not exist": (name) => `attribute_not_exists(${name})`,
};
const WITHOUT_VALUE = ["exists", "does not exist"];

function compared(operator) {
  return (name, value) => `${name} ${operator} ${value}`;
}

/**
 * Returns the fields for DynamoDB's filter and projection, which a user composes from fields or types as expressions.
 * `read`: returns the query of a form, for the preview.
 */
function composer(attributes, said, { filters, read }) {
  const text = (label, name, hint) => field(label, name, { value: said.get(name), autocomplete: "off", autocapitalize: "none", spellcheck: "false" }, { hint });
  const filter = filters && text("Filter expression", "filter", "Such as status = SHIPPED AND total > 1000");
  const projection = text("Projection expression", "project", "Such as status,address.city");
  const preview = el("div", { class: "preview", role: "status", "aria-label": "Expressions" });
  const parts = [filters && conditions(attributes, filter.control), filter, boxes(attributes, projection.control), projection];
  const made = el("details", { open: said.has("filter") || said.has("project") },
    el("summary", null, filters ? "Conditions and attributes" : "Attributes"),
    el("div", { class: "stack chosen" }, parts.filter(Boolean),
      el("p", { class: "hint" }, "DynamoDB applies both after it has read the items. They save bytes, and no units."), preview));
  let waiting;
  const compose = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => made.isConnected && showPreview(preview, read(made.closest("form"))), PREVIEW_AFTER_MS);
  };
  made.addEventListener("input", compose);
  if (made.open) compose();
  return made;
}

/** Returns the fields of conditions (attribute, operator and value), which write the filter expression. */
function conditions(attributes, filter) {
  const list = el("div", { class: "stack" });
  const joined = field("Combine", "", {}, { options: [[" AND ", "all must be true"], [" OR ", "one must be true"]] });
  const write = () => {
    const made = [...list.children].map((one) => one.expression()).filter(Boolean);
    joined.hidden = list.children.length < 2;
    filter.value = made.join(joined.control.value);
    filter.dispatchEvent(new Event("input", { bubbles: true }));
  };
  const add = () => {
    list.append(condition(attributes, write));
    joined.hidden = list.children.length < 2;
    list.lastChild.querySelector("input").focus();
  };
  joined.hidden = true;
  joined.control.addEventListener("input", write);
  return el("fieldset", null, el("legend", null, "Return only items where"), list, joined, el("div", { class: "row" }, button("Add a condition", add, { kind: "small" })));
}

function condition(attributes, write) {
  const which = suggesting("Attribute", "", attributes, {});
  const how = field("Operator", "", {}, { options: Object.keys(OPERATORS).map((name) => [name, name]) });
  const value = field("Value", "", { autocomplete: "off" });
  const to = field("To, inclusive", "", { autocomplete: "off", disabled: true });
  to.hidden = true;
  const typeOf = (name) => attributes.find(([one]) => one === name)?.[1];
  const remove = button("Remove", () => (made.remove(), write()), { kind: "small quiet", "aria-label": "Remove the condition" });
  const made = el("div", { class: "inline" }, which, how, value, to, remove);
  made.addEventListener("input", () => {
    toggleEnd(to, how.control.value === "between");
    toggleEnd(value, !WITHOUT_VALUE.includes(how.control.value));
    write();
  });
  made.expression = () => {
    const name = which.control.value.trim();
    const type = how.control.value === "size >" ? "N" : typeOf(name);
    const given = how.control.value === "in" ? value.control.value.split(",") : [value, to].filter((one) => !one.hidden).map((one) => one.control.value);
    const values = given.map((one) => one.trim()).filter(Boolean);
    if (!name || values.length < (how.control.value === "in" ? 1 : given.length)) return "";
    return OPERATORS[how.control.value](name, ...values.map((one) => literal(one, type)));
  };
  return made;
}

function toggleEnd(made, isShown) {
  made.hidden = !isShown;
  made.control.disabled = !isShown;
}

/** Returns a value for the filter expression, in quotes if the attribute is a text or if the value is not one word. */
function literal(value, type) {
  if (type === "N" || type === "BOOL" || /^['"]/.test(value)) return value;
  if (type !== "S" && /^[\w.-]+$/.test(value)) return value;
  return value.includes("'") ? `"${value}"` : `'${value}'`;
}

/** Returns a check box for each attribute. The boxes write the projection expression, and show its attributes. */
function boxes(attributes, projection) {
  const chosen = () => projection.value.split(",").map((name) => name.trim()).filter(Boolean);
  const made = attributes.map(([name]) => checkbox(name, "", { value: name }));
  const mark = () => made.forEach((one) => (one.firstChild.checked = chosen().includes(one.firstChild.value)));
  const list = el("div", { class: "boxes" }, made);
  list.addEventListener("change", ({ target }) => {
    const others = chosen().filter((name) => name !== target.value);
    projection.value = (target.checked ? [...others, target.value] : others).join(",");
    projection.dispatchEvent(new Event("input", { bubbles: true }));
  });
  projection.addEventListener("input", mark);
  mark();
  return made.length ? el("fieldset", null, el("legend", null, "Return only these attributes"), list) : null;
}

/** Shows the expressions as DynamoDB gets them, before the query runs. */
async function showPreview(place, asked) {
  if (!asked.pk && !(asked.pattern && (asked.filter || asked.project))) return place.replaceChildren();
  const { problem, names, values, ...parts } = await post("/local/expressions", asked).catch((error) => ({ problem: { field: "expressions", why: error.message } }));
  if (problem) return place.replaceChildren(el("p", { class: "hint" }, `${problem.field}: ${problem.why}`));
  const lines = [...Object.entries(parts).filter(([, text]) => text), ...Object.entries(names), ...Object.entries(values).map(([name, value]) => [name, JSON.stringify(value)])];
  place.replaceChildren(el("h3", null, "Sent to DynamoDB"), terms("sent", lines));
}

// The answer -----------------------------------------------------------------------------------------------------------
/** Shows the result page by page, and keeps earlier cursors for Back. The form shows the errors of an invalid query. */
async function showPages(place, path, asked, hasPages, signal) {
  const cursors = [null];
  await turn();

  async function turn() {
    const cursor = cursors.at(-1);
    const found = await post(path, { ...asked, ...(cursor && { cursor }) }, { signal });
    place.replaceChildren(...collectionParts(found, asked, hasPages && (found.cursor || cursors.length > 1) && pageButtons(cursors, found.cursor, read)));
    place.hidden = false;
    announce(`${plural(found.shown, "item")} shown`);
  }

  /** Loads another page, and moves the focus to its heading, because the focused button disappears with the old page. */
  async function read() {
    await turn();
    place.querySelector("h2").focus();
  }
}
