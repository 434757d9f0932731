// The timeline of an order: a chapter for each request, with the chain of its effects.

import { beganAt, chaptersOf } from "./causes.js";
import { entryItem, isBad, unitsText } from "./entries.js";
import { duration, fineTime, plural } from "./format.js";
import { icon } from "./icons.js";
import { el, timeOf } from "./ui.js";

/**
 * Adds new entries. The functions' logs are read a moment later than the stream, so a new entry may belong before older
 * ones: the timeline is sorted again each time, and only new or moved entries are redrawn.
 */
export class Timeline {
  element = el("div", { class: "timeline" });
  last = 0;
  #entries = [];
  #items = new Map();
  #folds = new Map();
  #sections = new Map();

  add(entries) {
    for (const entry of entries) {
      if (entry.id <= this.last) continue;
      this.last = entry.id;
      this.#entries.push(entry);
      this.#items.set(entry.id, entryItem(entry));
    }
    this.#entries.sort((one, other) => beganAt(one) - beganAt(other) || one.id - other.id);
    const chapters = chaptersOf(this.#entries);
    arrange(this.element, chapters.map((chapter) => this.#section(chapter)));
  }

  /** One entry, or one line for several entries; open details stay open when more entries arrive. */
  #item(group) {
    const [first] = group;
    if (group.length === 1) return this.#items.get(first.id);
    if (!this.#folds.has(first.id)) this.#folds.set(first.id, foldedItem(first));
    const fold = this.#folds.get(first.id);
    const types = [...new Set(group.map((entry) => entry.type))].sort().join(", ");
    fold.summary.textContent = `${plural(group.length, "record")} of copies and markers: ${types}`;
    arrange(fold.list, group.map((entry) => this.#items.get(entry.id)));
    return fold.element;
  }

  /** The section of a chapter, identified by its first entry, with its current entries. */
  #section({ title, opens, entries }) {
    if (!this.#sections.has(opens.id)) this.#sections.set(opens.id, section(title, opens));
    const shown = this.#sections.get(opens.id);
    shown.title.textContent = title;
    const ids = entries.map((entry) => entry.id).join();
    if (shown.ids !== ids) {
      arrange(shown.list, folded(entries).map((group) => this.#item(group)));
      shown.chain.replaceChildren(...chain(entries));
      shown.ids = ids;
    }
    return shown.element;
  }
}

/** Groups consecutive records that are only copies and markers behind one line: [[entry, …], …]. */
function folded(entries) {
  const groups = [];
  for (const entry of entries) {
    const before = groups.at(-1);
    if (before && isByproduct(entry) && isByproduct(before[0])) before.push(entry);
    else groups.push([entry]);
  }
  return groups;
}

const isByproduct = ({ kind, type, text }) => kind === "record" && (type === "Notification" || text.endsWith("(copy)"));

function foldedItem(first) {
  const summary = el("summary");
  const list = el("ol", { class: "entries folded" });
  const body = el("details", null, summary, list);
  const element = el("li", { class: "entry kind-record depth-1" }, el("span", { class: "dot" }, icon("copied")), el("div", { class: "entry-body" }, body));
  return { element, summary, list, first };
}

function section(title, opens) {
  const titled = `chapter-${opens.id}`;
  const named = el("h3", { id: titled }, title);
  const list = el("ol", { class: "entries" });
  const inShort = el("ol", { class: "chain", "aria-label": "Summary" });
  const head = el("header", { class: "chapter-head" }, named, timeOf(opens.at, fineTime));
  return { title: named, list, chain: inShort, element: el("section", { class: "card chapter", "aria-labelledby": titled }, head, inShort, list) };
}

/** Makes these the children, and moves only those in a wrong place: focus and open details stay. */
function arrange(parent, wanted) {
  wanted.forEach((node, at) => {
    if (parent.children[at] !== node) parent.insertBefore(node, parent.children[at] ?? null);
  });
  while (parent.children.length > wanted.length) parent.lastChild.remove();
}

/** Request → records → readers → events → reactions, each with its result so far. */
function chain(entries) {
  const of = (...kinds) => entries.filter((entry) => kinds.includes(entry.kind));
  const [request] = of("request");
  const records = of("record").length;
  const readers = new Set(of("delivery").map((entry) => entry.reader));
  const events = [...new Set(of("published").map((entry) => entry.event))];
  const effects = of("effect", "copied").length;
  const troubles = entries.filter(isBad).length;
  const steps = [
    ["Request", request && [request.ms != null && duration(request.ms), request.units && unitsText(request.units)].filter(Boolean).join(", ")],
    ["Stream", records && plural(records, "record")],
    ["Readers", readers.size && [...readers].sort().join(", ")],
    ["Events", events.length && events.join(", ")],
    ["Reactions", effects && `${effects} done`],
    ["Failures", troubles && plural(troubles, "failure")],
  ];
  return steps
    .filter(([name, value]) => value || name !== "Failures")
    .map(([name, value]) => el("li", { class: `${value ? "reached" : ""} ${name === "Failures" ? "is-bad" : ""}` }, el("span", { class: "chain-name" }, name), el("span", { class: "chain-value" }, value || "–")));
}
