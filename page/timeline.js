// The timeline of an order: a chapter for each request, with the chain of what followed from it.

import { Chapters } from "./causes.js";
import { entryItem, isBad, unitsText } from "./entries.js";
import { duration, fineTime, plural } from "./format.js";
import { el, timeOf } from "./ui.js";

/** Grows by entries, oldest first; what is shown stays as it is, so that nobody loses their place. */
export class Timeline {
  element = el("div", { class: "timeline" });
  #chapters = new Chapters();
  #shown = new Map();
  last = 0;

  add(entries) {
    const touched = new Set();
    for (const entry of entries) {
      if (entry.id <= this.last) continue;
      this.last = entry.id;
      const shown = this.#shownOf(this.#chapters.of(entry));
      shown.entries.push(entry);
      shown.list.append(entryItem(entry));
      touched.add(shown);
    }
    for (const shown of touched) shown.chain.replaceChildren(...chain(shown.entries));
  }

  #shownOf(chapter) {
    const known = this.#shown.get(chapter.number);
    if (known) return known;
    const titled = `chapter-${chapter.number}`;
    const shown = { entries: [], list: el("ol", { class: "entries" }), chain: el("ol", { class: "chain", "aria-label": "In short" }) };
    const head = el("header", { class: "chapter-head" }, el("h3", { id: titled }, chapter.title), timeOf(chapter.opens.at, fineTime));
    this.element.append(el("section", { class: "card chapter", "aria-labelledby": titled }, head, shown.chain, shown.list));
    this.#shown.set(chapter.number, shown);
    return shown;
  }
}

/** Request → records → readers → events → reactions, each with what it came to so far. */
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
    ["Troubles", troubles && plural(troubles, "failure")],
  ];
  return steps
    .filter(([name, value]) => value || name !== "Troubles")
    .map(([name, value]) => el("li", { class: `${value ? "reached" : ""} ${name === "Troubles" ? "is-bad" : ""}` }, el("span", { class: "chain-name" }, name), el("span", { class: "chain-value" }, value || "–")));
}
