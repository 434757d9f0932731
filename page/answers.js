// Shows the result of a query: its cost, the items in key order, and the sent requests.

import { bytes, number, plural } from "./format.js";
import { attributeText, code, keyLink, openItem, priceText, timeLeft, typeOf, unitsText } from "./items.js";
import { button, chip, el, empty, terms } from "./ui.js";

const MOST_ATTRIBUTES = 7;
const TINTS = 8;
const KEYS = /^(PK|SK|GSI\dPK|GSI\dSK|type|schema|ttl)$/;

/** The indexes whose keys the user wants to see. The choice also applies to the next results. */
const shownIndexes = new Set();

/** Returns the parts of a result. `pk`, `project`: of the query. `pages`: the buttons for other pages, if any. */
export function collectionParts(found, { pk, project }, pages) {
  const place = el("div", { class: "stack" });
  const draw = () => place.replaceChildren(...(found.items.length ? [switches(found, draw), collection(found, project ? "size returned" : "size")] : [nothing(found)]));
  draw();
  return [
    el("h2", { tabindex: "-1" }, pk ? [found.index === "table" ? "Item collection " : `Item collection in ${found.index} `, el("code", null, pk)] : `${found.id}: ${found.question}`),
    costs(found), ...reasons(found), place, pages || "", requests(found), code(found),
  ].filter(Boolean);
}

function costs(found) {
  const [first] = found.requests;
  const size = found.items.reduce((sum, { size: one }) => sum + one, 0);
  const texts = [plural(found.shown, "item"), bytes(size), first ? `${plural(found.requests.length, first.operation, first.operation === "Query" ? "Queries" : "GetItems")}` : "no request", unitsText(found.units)];
  return el("p", { class: "row tight costs" },
    texts.map((text, at) => chip(text, at === 0 ? "good" : "plain")),
    el("span", { class: "hint" }, priceText(found.price)));
}

/** Explains why fewer items are shown than were read. */
function reasons({ read, passed_over: passedOver, filtered, cursor }) {
  const passed = passedOver - filtered;
  const texts = [
    filtered > 0 && `The filter read ${plural(filtered, "item")} that it did not return. They cost units like the others.`,
    passed > 0 && `${plural(passed, "item")} of ${number(read)} read but not shown: after the end of the page, expired, or not part of the result.`,
    cursor != null && "There are more items on the next page.",
  ];
  return texts.filter(Boolean).map((text) => el("p", { class: "hint" }, text));
}

function nothing({ read }) {
  return read
    ? empty("No item is shown", "The items that were read are not part of the result, or the conditions exclude them.")
    : empty("Nothing was found", "No such item exists. A request consumes units even if it finds nothing.");
}

// The item collection --------------------------------------------------------------------------------------------------
const indexesOf = (items) => [...new Set(items.flatMap(({ image }) => Object.keys(image)).filter((name) => /^GSI\dPK$/.test(name)).map((name) => name.slice(0, 4)))].sort();

/** Returns a switch for each index that contains items of the result. The page always shows the index of the query. */
function switches({ items, index }, draw) {
  const others = indexesOf(items).filter((name) => name !== index);
  if (!others.length) return "";
  const count = (name) => items.filter(({ image }) => image[`${name}PK`]).length;
  const made = others.map((name) => {
    const flip = () => {
      if (!shownIndexes.delete(name)) shownIndexes.add(name);
      draw();
      document.querySelector(`[data-index="${name}"]`).focus();
    };
    return button(`${name} · ${plural(count(name), "item")}`, flip, { kind: "small", "aria-pressed": String(shownIndexes.has(name)), "data-index": name });
  });
  return el("div", { class: "row tight", role: "group", "aria-label": "Keys of the indexes" }, el("span", { class: "hint" }, "Show the keys in"), made);
}

/** Returns a table with the items in the order of the result. All rows of a partition share one cell. */
function collection({ items, keys: [pk, sk], index, requests: [first] }, size) {
  const shown = indexesOf(items).filter((name) => name !== index && shownIndexes.has(name));
  const isReversed = first?.sent.ScanIndexForward === "false";
  const has = (name) => items.some(({ image }) => image[name]);
  const heads = [
    index !== "table" && "PK / SK", "type", ...shown, "attributes", has("ttl") && "ttl", { text: size, number: true },
  ].filter(Boolean);
  const columns = heads.length + 1;
  const bodies = partitions(items, pk).map(([key, rows]) => {
    const link = keyLink(index, key);
    const cell = (attributes) => el("th", { scope: "rowgroup", ...attributes }, el("span", { class: "pk-text" }, link.cloneNode(true)));
    return el("tbody", null,
      el("tr", { class: "pk-row" }, cell({ colspan: columns })),
      rows.map((item, at) => itemRow(item, { sk, index, shown, hasTtl: has("ttl") }, at === 0 && cell({ class: "pk", rowspan: rows.length }))));
  });
  const caption = `${plural(items.length, "item")} in ${plural(bodies.length, "partition")}`;
  const head = el("tr", null,
    el("th", { scope: "col", class: "pk" }, pk),
    el("th", { scope: "col", class: "sk" }, sk, el("span", { class: "order" }, isReversed ? " ↑ last key first" : " ↓ in key order")),
    heads.map((one) => el("th", { scope: "col", class: one.number && "number" }, one.text ?? one)));
  return el("div", { class: "collection", tabindex: "0", role: "region", "aria-label": caption },
    el("table", null, el("caption", { class: "unseen" }, caption), el("thead", null, head), bodies));
}

/** Groups consecutive items of the same partition: [partition key, items]. */
function partitions(items, pk) {
  const found = [];
  for (const one of items) {
    const key = one.image[pk]?.S ?? "";
    if (found.at(-1)?.[0] !== key) found.push([key, []]);
    found.at(-1)[1].push(one);
  }
  return found;
}

function itemRow({ image, size, source }, { sk, index, shown, hasTtl }, pkCell) {
  const type = typeOf(image);
  return el("tr", { class: `item tint-${tintOf(type)}` },
    pkCell || "",
    el("th", { scope: "row", class: "sk" }, opener(image, image[sk]?.S ?? "")),
    index !== "table" && el("td", { class: "key" }, keyLink("table", image.PK?.S), el("br"), image.SK?.S),
    el("td", null, el("span", { class: "type" }, type), source && el("span", { class: "source" }, source)),
    shown.map((name) => el("td", { class: "key" }, image[`${name}PK`] && [keyLink(name, image[`${name}PK`].S), el("br"), image[`${name}SK`].S])),
    el("td", { class: "attributes" }, attributes(image)),
    hasTtl && el("td", null, image.ttl?.N && timeLeft(Number(image.ttl.N))),
    el("td", { class: "number" }, bytes(size)));
}

const opener = (image, text) => el("button", { type: "button", class: "link", "aria-label": `Open the item ${text}`, onclick: () => openItem(image.PK.S, image.SK.S) }, text);

const tints = new Map();

/** Returns the tint of an item type, the same in all results. Types get different tints while there are enough. */
function tintOf(type) {
  if (!tints.has(type)) tints.set(type, tints.size % TINTS);
  return tints.get(type);
}

/** Returns the most important attributes of an item. The user sees all attributes when they open the item. */
function attributes(image) {
  const inKeys = new Set(Object.entries(image).filter(([name]) => KEYS.test(name)).flatMap(([, value]) => String(value.S).split("#")));
  const rank = ([name, value]) => (name === "status" ? 0 : value.M || value.L ? 2 : value.S && (value.S.length > 30 || /^\d{4}-\d\d-\d\dT/.test(value.S)) ? 3 : inKeys.has(value.S) ? 4 : 1);
  const all = Object.entries(image).filter(([name]) => !KEYS.test(name)).sort((one, other) => rank(one) - rank(other));
  const shown = all.slice(0, MOST_ATTRIBUTES).map(([name, value]) => el("span", { class: "attribute" }, el("span", { class: "name" }, name), " ", attributeText(value)));
  const left = all.length - shown.length;
  return [shown, left > 0 && el("span", { class: "attribute name" }, `and ${number(left)} more`)];
}

// The requests ---------------------------------------------------------------------------------------------------------
function requests({ requests: all }) {
  const title = !all.length ? "No request was sent: no item can match" : all.length === 1 ? "The request, with its expressions" : `The ${all.length} requests, with their expressions`;
  return el("details", { class: "requests" }, el("summary", null, title), el("ol", null, all.map(request)));
}

/** Shows the first request completely, and only the differences of the others. */
function request({ operation, sent }, at) {
  const title = at === 0 ? `1. ${operation}` : `${at + 1}. ${operation}, like request 1 except for`;
  const lines = Object.entries(sent).map(([name, text]) => [name, text ?? "(not sent)"]);
  return el("li", null, el("h3", null, title), lines.length > 0 && terms("sent", lines));
}
