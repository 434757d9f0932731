// Shows one whole item of the table: its attributes with their types, its keys, its sources and its copies.

import { get } from "./api.js";
import { bytes, duration, units } from "./format.js";
import { button, chip, copy, el, facts, loadingDialog, row, table } from "./ui.js";

export const typeOf = (image) => image.type?.S ?? "item";

/** Returns a link to the items of a partition in the table or in an index. */
export function keyLink(index, pk, { sk, how } = {}, text = pk) {
  const asked = { ...(index !== "table" && { index }), pk, ...(how && { how, sk }) };
  return el("a", { href: `#/table?${new URLSearchParams(asked)}`, class: "key" }, text);
}

/** Returns an attribute's value in one line. For a map or a list, returns its length. */
export function attributeText(value) {
  const [[type, content]] = Object.entries(value);
  if (type === "M") return `{${Object.keys(content).length}}`;
  if (type === "L" || type.endsWith("S") && type !== "S") return `[${content.length}]`;
  if (type === "B") return bytes(Math.floor(content.length * 0.75));
  if (type === "NULL") return "null";
  const text = String(content);
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}

export function openItem(pk, sk) {
  const made = loadingDialog(sk, "the item", async () => itemParts(await get(`/local/item?${new URLSearchParams({ pk, sk })}`)), { wide: true });
  made.addEventListener("click", ({ target }) => target.closest("a") && made.close());
}

function itemParts(found) {
  const { image, size, units, price, kind, sources, copies } = found;
  const indexes = ["table", ...["GSI1", "GSI2", "GSI3"].filter((name) => image[`${name}PK`])];
  const keys = indexes.map((name) => {
    const prefix = name === "table" ? "" : name;
    return row(name, keyLink(name, image[`${prefix}PK`].S), image[`${prefix}SK`].S);
  });
  return [
    el("p", { class: "row tight" }, chip(typeOf(image), "good"), kind && chip(kind, "plain"), chip(bytes(size), "plain"), chip(`GetItem: ${unitsText(units)}`, "plain"), el("span", { class: "hint" }, priceText(price))),
    image.ttl?.N && facts(["ttl", timeLeft(Number(image.ttl.N))]),
    table("Keys", ["Read", "Partition key", "Sort key"], keys),
    relations("Derived from", sources, "Nothing: a command or a reaction writes this item."),
    relations("Derived from this item", copies, "Nothing."),
    table("Attributes", ["Name", "Type", "Value"], Object.entries(image).map(([name, value]) => row(name, Object.keys(value)[0], valueNode(value)))),
    code(found),
  ].filter(Boolean);
}

function relations(title, all, none) {
  const line = ({ kind, type, pk, sk, how }) =>
    el("li", null, `${kind} `, el("strong", null, type), " ", pk ? keyLink("table", pk, { sk, how }, `${pk} / ${sk}${how === "begins_with" ? "…" : ""}`) : el("span", { class: "hint" }, "(the item does not contain the key)"));
  return el("section", { class: "relations" }, el("h3", null, title), all.length ? el("ul", { class: "plain-list" }, all.map(line)) : el("p", { class: "hint" }, none));
}

function valueNode(value) {
  const [[type, content]] = Object.entries(value);
  return type === "M" || type === "L" ? el("pre", { tabindex: "0" }, JSON.stringify(plain(value), null, 2)) : String(content);
}

/** Returns a value of DynamoDB JSON without its types. */
function plain(value) {
  const [[type, content]] = Object.entries(value);
  if (type === "M") return Object.fromEntries(Object.entries(content).map(([name, one]) => [name, plain(one)]));
  if (type === "L") return content.map(plain);
  return type === "N" ? Number(content) : content;
}

// Parts that the results of a query also show -------------------------------------------------------------------------------
export const unitsText = (count) => `${units(count)} read unit${count === 1 ? "" : "s"}`;

/** Returns the price of a million reads, because the amount for one read is too small to understand. */
export function priceText({ million, currency, region, as_of: day }) {
  const amount = new Intl.NumberFormat("en-GB", { style: "currency", currency, currencyDisplay: "narrowSymbol", maximumSignificantDigits: 3, minimumFractionDigits: 2 });
  return `${amount.format(million)} for a million such reads (on-demand, ${region}, prices of ${day})`;
}

/** Shows how long it takes until DynamoDB may delete the item. On hover or focus, shows the exact time. */
export function timeLeft(ttl) {
  const at = new Date(ttl * 1000);
  const left = at - Date.now();
  const moment = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" }).format(at);
  const text = left > 0 ? `in ${duration(left)}` : `expired ${duration(-left)} ago`;
  return el("time", { class: "ttl", datetime: at.toISOString(), tabindex: "0", title: moment, "aria-label": `${text}, ${moment}`, role: "text" }, text, el("span", { class: "moment", "aria-hidden": "true" }, moment));
}

/** Shows the first request as code, which the user can copy. */
export function code({ boto3, cli }) {
  if (!boto3) return "";
  const part = (title, text) => [
    el("div", { class: "row" }, el("h3", null, title), button("Copy", () => copy(text, `Copied as ${title}`), { kind: "small", "aria-label": `Copy as ${title}` })),
    el("pre", { tabindex: "0" }, text),
  ];
  return el("details", { class: "requests" }, el("summary", null, "The request as code"), el("div", { class: "stack chosen" }, part("boto3", boto3), part("AWS CLI", cli)));
}
