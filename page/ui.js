// Functions that build the elements of all views. Data becomes only text nodes and attributes, never markup.

import { explain } from "./problems.js";
import { moment, shortId, stateName, stateTone } from "./format.js";
import { textOf } from "./labels.js";

const LETTER = "[\\u0590-\\u08ff\\ufb1d-\\ufdff\\ufe70-\\ufefc\\u{10800}-\\u{10fff}\\u{1e800}-\\u{1efff}]";
/** Matches the part of a text from its first to its last right-to-left letter or number. */
const RIGHT_TO_LEFT = new RegExp(`(${LETTER}(?:.*${LETTER})?)`, "su");

/** Isolates the right-to-left part of a text, so that the words and numbers beside it keep their order. */
const isolated = (text) =>
  text.split(RIGHT_TO_LEFT).map((part, at) => (at % 2 ? Object.assign(document.createElement("bdi"), { textContent: part }) : part));

/** Creates an element. Attributes `on…` are listeners. Ignores null and false. Children are nodes or text. */
export function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  const there = children.flat(Infinity).filter((child) => child != null && child !== false);
  node.append(...there.flatMap((child) => (typeof child === "string" ? isolated(child) : child)));
  return node;
}

const SVG = "http://www.w3.org/2000/svg";

/** Creates an SVG element. */
export function shape(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export const chip = (text, tone) => el("span", { class: `chip ${tone}` }, text);
export const stateChip = (state) => chip(stateName(state), stateTone(state));
export const timeOf = (at, shown = moment) => el("time", { datetime: at, title: at }, shown(at));
/** Returns a link to an order. A guest, {token}, opens it with the token. */
export const orderLink = (id, text = shortId(id), me = null) =>
  el("a", { href: me?.token ? `#/guest/${encodeURIComponent(id)}?token=${me.token}` : `#/orders/${encodeURIComponent(id)}`, class: text === shortId(id) && "id short", title: id }, text);

/** Returns a list of names and values. Leaves out a pair without a value. */
export function facts(...pairs) {
  const there = pairs.filter(([, value]) => value != null && value !== "" && value !== false);
  return terms("facts", there);
}

/** Returns a button that ignores clicks while its action runs. It shows this state, and keeps the focus. */
export function button(text, run, { kind = "", ...attributes } = {}) {
  const made = el("button", { type: "button", class: `button ${kind}`, ...attributes }, text);
  made.addEventListener("click", () => busy(made, () => run(made)));
  return made;
}

/** Returns a row with a button that adds the next page, if there is one. `add(cursor)` adds it, and returns the cursor after it. */
export function moreButton(first, add, text = "Show more") {
  const place = el("div", { class: "row" });
  const offer = (cursor) => place.replaceChildren(...(cursor ? [button(text, async () => offer(await add(cursor)))] : []));
  offer(first);
  return place;
}

/** Returns buttons to the pages before and after this one. `cursors`: of all pages until this one. `turn`: shows the last of them. */
export function pageButtons(cursors, next, turn) {
  const back = button("Previous page", () => (cursors.pop(), turn()), { disabled: cursors.length === 1 });
  const on = button("Next page", () => (cursors.push(next), turn()), { disabled: !next });
  return el("nav", { class: "row pages", "aria-label": "Pages" }, back, el("span", null, `Page ${cursors.length}`), on);
}

export async function busy(control, run) {
  if (control.getAttribute("aria-disabled") === "true") return;
  control.setAttribute("aria-disabled", "true");
  try {
    await run();
  } catch (error) {
    if (error.name !== "AbortError") toast(explain(error), "bad");
  } finally {
    control.removeAttribute("aria-disabled");
  }
}

/** Returns a table with its caption, in a region that scrolls if the table is too wide, also with the keyboard. */
export function table(caption, heads, rows, { hideCaption = false } = {}) {
  const head = heads.map((one) => el("th", { scope: "col", class: one.number && "number" }, one.text ?? one));
  const body = el("tbody", null, rows);
  const made = el("table", null, el("caption", { class: hideCaption && "unseen" }, caption), el("thead", null, el("tr", null, head)), body);
  return Object.assign(el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, made), { body });
}

/** Returns a row. The first cell is its header. A cell is a node or text, or {number: text}. */
export function row(first, ...cells) {
  const shown = cells.map((cell) => (cell?.number === undefined ? el("td", null, cell) : el("td", { class: "number" }, cell.number)));
  return el("tr", null, el("th", { scope: "row" }, first), shown);
}

/** Scrolls a row of links so that the current link is visible, also in a narrow window. */
export function scrollToCurrent(links) {
  const current = links.querySelector("[aria-current]");
  if (current) links.scrollLeft = current.offsetLeft - links.offsetLeft - (links.clientWidth - current.offsetWidth) / 2;
}

export const loading = (text) => el("p", { class: "loading" }, text);

export function empty(title, text, ...actions) {
  return el("div", { class: "empty" }, el("p", { class: "empty-title" }, title), el("p", null, text), actions);
}

/** Returns an error that replaces a view: the reason, and a button to retry. */
export function failure(error, again, ...more) {
  const retry = again && button(textOf("try_again"), again);
  return el("div", { class: "notice bad", role: "alert" }, el("p", null, explain(error)), el("div", { class: "row" }, retry, more));
}

const newestLoad = new WeakMap();

/**
 * Fills `place` with the result of `load`. Meanwhile shows that it is loading; after an error, the reason.
 * If `place` is filled again before `load` ends, only the newer result is shown, because the older one may be outdated.
 */
export async function fill(place, what, load) {
  const turn = {};
  newestLoad.set(place, turn);
  const show = (...children) => newestLoad.get(place) === turn && place.replaceChildren(...children);
  show(loading(textOf("loading", { what })));
  try {
    show(...[await load()].flat().filter(Boolean));
  } catch (error) {
    if (error.name !== "AbortError") show(failure(error, () => fill(place, what, load)));
  }
}

/** Fills `place` again without a loading message. Open details stay open, and the focus stays. */
export async function renew(place, load) {
  try {
    const made = [await load()].flat().filter(Boolean);
    const all = (what) => [...place.querySelectorAll(what)];
    const opened = all("details").map((one) => one.open);
    const focused = all("button, a, summary, [tabindex]").indexOf(document.activeElement);
    place.replaceChildren(...made);
    all("details").forEach((one, at) => (one.open = opened[at] ?? false));
    all("button, a, summary, [tabindex]")[focused]?.focus({ preventScroll: true });
  } catch (error) {
    if (error.name !== "AbortError") place.replaceChildren(failure(error, () => renew(place, load)));
  }
}

/** Announces a text to screen readers. */
export function announce(text) {
  document.getElementById("announcer").textContent = text;
}

/** Shows the result of a command for some seconds. */
export function toast(text, tone = "good") {
  document.querySelector(".toast")?.remove();
  const shown = el("p", { class: `toast ${tone}`, role: tone === "bad" ? "alert" : "status" }, text);
  const over = document.querySelector("dialog[open]") ?? document.body; // a modal dialog covers everything outside of it
  over.append(shown);
  setTimeout(() => shown.remove(), tone === "bad" ? 9000 : 5000);
}

/** Closes the dialog, shows the result, and reloads the view. */
export async function finish(box, text, done) {
  box.close();
  toast(text);
  await done();
}

export const part = (title, ...children) => el("section", { class: "stack", "aria-label": title }, el("h3", null, title), children);

/** Returns a list of terms with their texts or elements. */
export const terms = (kind, pairs) => el("dl", { class: kind }, pairs.map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, value))));

/** Returns links to the parts of a view: [text, address, whether it is open]. */
export const tabs = (label, links) => el("nav", { class: "tabs", "aria-label": label }, links.map(([text, href, isOpen]) => el("a", { href, "aria-current": isOpen && "page" }, text)));

/** Returns a value as JSON, or that there is none. */
export const json = (value, label = "JSON") => el("pre", { tabindex: "0", "aria-label": label }, value == null ? "nothing" : JSON.stringify(value, null, 2));

let dialogs = 0;

/** Opens a modal dialog, and removes it when the user closes it. The focus then returns to its former place. */
export function dialog(title, build, { wide = false } = {}) {
  const titled = `dialog-${(dialogs += 1)}`;
  const made = el("dialog", { "aria-labelledby": titled, class: wide && "wide" });
  const close = el("button", { type: "button", class: "close", "aria-label": textOf("close"), onclick: () => made.close() }, "✕");
  made.append(el("div", { class: "dialog-head" }, el("h2", { id: titled }, title), close), el("div", { class: "dialog-body" }, build(made)));
  made.addEventListener("close", () => made.remove());
  document.body.append(made);
  made.showModal();
  return made;
}

/** Opens a dialog, and fills it with the result of `load(box)`. */
export const loadingDialog = (title, what, load, wish) => dialog(title, (box) => {
  const place = el("div", { class: "stack" });
  fill(place, what, () => load(box));
  return place;
}, wish);

export async function copy(text, said) {
  await navigator.clipboard.writeText(text);
  toast(said);
}

/** Returns an id with a button that copies it. */
export function copyable(id, what) {
  return el("span", { class: "copyable" }, el("code", { class: "id", title: id }, id), button(textOf("copy"), () => copy(id, textOf("copied", { id })), { kind: "small quiet", "aria-label": textOf("copy_what", { what }) }));
}
