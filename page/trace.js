// Shows the business steps of an order, live. Below them is its trace, as far as the journal still has it: each chapter
// (a cause and its effects) is a waterfall of measured steps (spans).

import { get } from "./api.js";
import { duration, fineTime, plural, units } from "./format.js";
import { stepList, stepsOf } from "./history.js";
import { follow } from "./live.js";
import { KINDS, spanPanel } from "./span.js";
import { axisElement, axisOf } from "./traceAxis.js";
import { failuresOf, storyOf } from "./traceStory.js";
import { announce, chip, el, empty, failure, row, table, timeOf } from "./ui.js";

const SETTLED_MS = 400;
const AT_LATEST_MS = 1500;
const SAID_EVERY_MS = 2500;
const VIEWS = ["Timeline", "List", "JSON"];
const LEGEND = [["working", "working"], ["waiting", "waiting"], ["failed", "failed attempt"]];
const NO_SPANS = "The journal of this machine has no spans of these steps. It keeps only the newest entries.";
/** If a bar ends after this percentage of the width, its text is before the bar. */
const LATE = 80;
/** A segment that is wider than this percentage has room for a text. */
const ROOMY = 15;

/**
 * Returns {element, state, aside, update}. The trace updates itself, and reloads the order when the order changed.
 * `update(whole)` shows the business steps of the order.
 */
export function trace({ id, query, signal, look }) {
  const path = `/local/orders/${encodeURIComponent(id)}`;
  const state = el("p", { class: "live", role: "status" }, "Connecting …");
  const sums = el("p", { class: "hint trace-sums" });
  const body = el("div", { class: "timeline" });
  const aside = el("div", { class: "span-place" });
  const shown = new Trace({ id, path, query, signal, body, aside, sums });
  read(shown, { id, path, signal, state, onNews: settled(look, signal) });
  const legend = el("p", { class: "hint legend", "aria-hidden": "true" }, LEGEND.map(([state, text]) => el("span", null, el("i", { class: `segment ${state}` }), text)));
  return { element: el("div", { class: "stack" }, el("div", { class: "row trace-head" }, sums, shown.views), body, legend), state, aside, update: (whole) => shown.showSteps(stepsOf(whole)) };
}

/** Loads the trace, and loads it again when it grows. */
async function read(shown, { id, path, signal, state, onNews }) {
  let last;
  const load = async () => {
    const found = await get(`${path}/trace`, { signal });
    last = found.last;
    shown.update(found.chapters);
  };
  try {
    await load();
  } catch (error) {
    if (signal.aborted) return;
    state.replaceWith(failure(error, () => location.reload()));
    shown.update([]); // the steps come from the table
    return;
  }
  const reload = oneAtATime(() => load().catch(() => {})); // ignore the error: the next entry causes the next try
  shown.reload = reload;
  const say = announcer();
  follow({
    after: last, order: id, signal,
    onState: (open) => state.replaceChildren(open ? chip("Live", "good") : chip("Reconnecting …", "waiting")),
    on: (entries) => {
      reload();
      say(entries);
      if (!entries.every(isLook)) onNews();
    },
  });
}

/** Returns whether an entry is a failed read. Do not reload the order after it: another failed read would follow. */
const isLook = ({ kind, route = "" }) => kind === "request" && route.startsWith("GET ");

/** Returns a function that calls `run`, but never twice at once. Calls during a run cause one more run after it. */
export function oneAtATime(run) {
  let running = null;
  let wanted = false;
  return () => {
    wanted = true;
    running ??= (async () => {
      try {
        while (wanted) {
          wanted = false;
          await run();
        }
      } finally {
        running = null;
      }
    })();
    return running;
  };
}

/** Returns a function that announces new entries to screen readers, several at once, so that it does not speak often. */
function announcer() {
  let unsaid = [];
  return (entries) => {
    if (!unsaid.length) {
      setTimeout(() => {
        announce(`${plural(unsaid.length, "new entry", "new entries")}. Last: ${unsaid.at(-1).text}`);
        unsaid = [];
      }, SAID_EVERY_MS);
    }
    unsaid.push(...entries);
  };
}

/** Returns a function that calls `run` after a short pause without calls, or after a while if calls do not stop. */
function settled(run, signal) {
  let timer, since;
  return () => {
    since ??= Date.now();
    clearTimeout(timer);
    timer = setTimeout(() => {
      since = undefined;
      if (!signal.aborted) run();
    }, Math.max(0, Math.min(SETTLED_MS, since + AT_LATEST_MS - Date.now())));
  };
}

class Trace {
  #chapters = null; // until the trace is loaded
  #steps = [];
  #sections = new Map();
  #folds = new Set(); // the groups of copies or markers that the user opened
  #current = ""; // the row in the tab order
  #view;
  #onlyFailures;

  constructor({ id, path, query, signal, body, aside, sums }) {
    Object.assign(this, { id, path, signal, body, aside, sums });
    this.selected = query.get("span");
    this.#view = VIEWS.find((one) => one.toLowerCase() === query.get("view")) ?? VIEWS[0];
    this.#onlyFailures = query.get("only") === "failures";
    this.views = el("div", { class: "row tight", role: "group", "aria-label": "Ways to view" });
    this.narrow = matchMedia("(max-width: 60rem)");
    this.narrow.addEventListener("change", () => this.#placePanel(), { signal });
    this.#offerViews();
    body.addEventListener("keydown", (event) => this.#move(event));
  }

  update(chapters) {
    const first = !this.#chapters?.length;
    this.#chapters = chapters;
    this.sums.replaceChildren(...(chapters.length ? sumsOf(chapters) : []));
    this.#offerViews();
    this.#draw();
    if (first && this.selected) this.#reveal();
  }

  showSteps(steps) {
    const known = JSON.stringify(this.#steps);
    this.#steps = steps;
    if (this.#chapters && JSON.stringify(steps) !== known) this.#draw();
  }

  get #spans() {
    return this.#chapters.flatMap((chapter) => chapter.spans);
  }

  spanOf(id) {
    return this.#spans.find((span) => span.id === id);
  }

  /** The chapters to show: all, or only those with failures. */
  get #shown() {
    return this.#onlyFailures ? failuresOf(this.#chapters) : this.#chapters;
  }

  /** Selects a span and shows its panel; null closes the panel. */
  select(id, { focus = false } = {}) {
    const before = this.selected;
    this.selected = id;
    this.#address();
    this.#draw();
    if (id && focus) this.#reveal();
    if (!id) this.#row(before)?.focus({ preventScroll: true });
  }

  #address() {
    const query = new URLSearchParams();
    if (this.selected) query.set("span", this.selected);
    if (this.#view !== VIEWS[0]) query.set("view", this.#view.toLowerCase());
    if (this.#onlyFailures) query.set("only", "failures");
    const text = query.toString();
    history.replaceState(null, "", `#/orders/${encodeURIComponent(this.id)}${text && `?${text}`}`);
  }

  /** Offers the ways to view the trace, and the filter if something failed. */
  #offerViews() {
    const focused = [...this.views.children].indexOf(document.activeElement);
    const press = (change) => () => {
      change();
      this.#address();
      this.#offerViews();
      this.#draw();
    };
    const choice = (text, isOn, change) => el("button", { type: "button", class: "button small", "aria-pressed": String(isOn), onclick: press(change) }, text);
    const failed = this.#onlyFailures || this.#chapters?.some(({ failures }) => failures > 0);
    this.views.replaceChildren(
      ...VIEWS.map((view) => choice(view, view === this.#view, () => (this.#view = view))),
      ...(failed ? [choice("Only failures", this.#onlyFailures, () => (this.#onlyFailures = !this.#onlyFailures))] : []));
    this.views.children[focused]?.focus();
  }

  #draw() {
    if (!this.#chapters.length && !this.#steps.length) {
      this.body.replaceChildren(empty("No activity yet", "New activity of this order appears here automatically."));
    } else if (this.#onlyFailures && !this.#shown.length) {
      this.body.replaceChildren(empty("No failures", "No step of this order failed."));
    } else if (this.#view === "JSON") {
      this.body.replaceChildren(el("pre", { class: "card", tabindex: "0", "aria-label": "The trace as JSON" }, JSON.stringify(this.#shown, null, 2)));
    } else if (this.#view === "List") {
      this.body.replaceChildren(this.#list());
    } else {
      this.#drawChapters();
    }
    this.#showPanel();
  }

  #drawChapters() {
    const focused = this.body.contains(document.activeElement) ? document.activeElement.dataset.span : undefined;
    const chapters = this.#shown;
    const open = new Set(chapters.filter((chapter, at) => this.#isOpen(chapter, at === chapters.length - 1)).map(({ id }) => id));
    const axis = chapters.length ? axisOf(chapters, open) : null;
    const groups = storyOf(chapters, this.#onlyFailures ? [] : this.#steps);
    arrange(this.body, [
      ...(axis ? [axisElement(axis, chapters)] : []),
      ...groups.map(({ chapter, steps }) => (chapter ? this.#section(chapter, steps, open.has(chapter.id), axis) : stepsAlone(steps))),
    ]);
    if (focused && document.activeElement?.dataset.span !== focused) this.#row(focused)?.focus({ preventScroll: true });
  }

  /** A chapter is open if it is the newest one, fails, has the selected span, or the user opened it. */
  #isOpen({ id, spans, failing }, newest) {
    const known = this.#sections.get(id) ?? {};
    const has = spans.some((span) => span.id === this.selected);
    return known.wanted ?? (newest || failing.length > 0 || this.#onlyFailures || has || Boolean(known.element?.contains(document.activeElement)));
  }

  #section(chapter, steps, open, axis) {
    const known = this.#sections.get(chapter.id) ?? {};
    const has = chapter.spans.some((span) => span.id === this.selected);
    const folds = chapter.spans.filter((span) => this.#folds.has(span.id)).length;
    const text = JSON.stringify([chapter, steps, open && axis.pieces, folds, has && this.selected]);
    if (known.text !== text) {
      const head = this.#head(chapter, open);
      const element = known.element ?? el("section", { class: "card chapter" });
      element.setAttribute("aria-label", chapter.title);
      element.classList.toggle("is-open", open);
      element.replaceChildren(head, steps.length ? stepList(steps, fineTime) : "", ...(open ? [this.#waterfall(chapter, axis)] : []));
      this.#sections.set(chapter.id, { ...known, element, text });
    }
    return this.#sections.get(chapter.id).element;
  }

  #head(chapter, open) {
    const { id, title, spans, ms, units: used, failures, failing, recovered, began_at: at } = chapter;
    const toggle = () => {
      this.#sections.get(id).wanted = !open;
      this.#draw();
      this.#sections.get(id).element.querySelector(".chapter-toggle").focus({ preventScroll: true });
    };
    return el("h3", { class: "chapter-head" },
      el("button", { type: "button", class: "chapter-toggle", "aria-expanded": String(open), "data-span": `chapter ${id}`, onclick: toggle },
        el("span", { class: "chapter-title" }, title),
        failing.length ? chip(`failing: ${failing.join(", ")}`, "bad")
          : recovered ? chip(`recovered: attempt ${recovered.attempt}, after ${duration(recovered.after_ms)}`, "good")
            : failures > 0 && chip(plural(failures, "failure"), "waiting"),
        el("span", { class: "chapter-sums" },
          el("span", null, duration(ms)), el("span", null, plural(spans.length, "span")), el("span", null, unitsOf(used)),
          timeOf(new Date(at).toISOString(), fineTime))));
  }

  #waterfall({ spans }, axis) {
    const rows = rowsOf(spans).flatMap((one) => (one.folded ? this.#fold(one, axis) : [this.#item(one, axis)]));
    return el("div", { class: "waterfall" }, el("ol", { class: "spans" }, rows));
  }

  /** Returns one row for several copies or markers. The user can open it. */
  #fold({ folded, depth, name }, axis) {
    const [first] = folded;
    const open = this.#folds.has(first.id) || folded.some((span) => span.id === this.selected);
    const toggle = () => {
      if (open) this.#folds.delete(first.id);
      else this.#folds.add(first.id);
      if (open && folded.some((span) => span.id === this.selected)) this.selected = null;
      this.#address();
      this.#draw();
    };
    const began = Math.min(...folded.map((span) => span.began_at));
    const ended = Math.max(...folded.map((span) => span.began_at + span.ms));
    const span = { id: `fold ${first.id}`, kind: "fold", name, began_at: began, ms: ended - began, attempts: 1, failures: 0, segments: [{ state: "working", began_at: began, ms: ended - began }] };
    const line = this.#item({ span, depth }, axis, { "aria-expanded": String(open), onclick: toggle });
    return open ? [line, ...folded.map((one) => this.#item({ span: one, depth: depth + 1 }, axis))] : [line];
  }

  #item({ span, depth }, axis, more = {}) {
    const isSelected = span.id === this.selected;
    const item = el("li", { class: `span kind-${span.kind} ${isSelected ? "is-selected" : ""}` },
      el("button", {
        type: "button", class: "span-row", "data-span": span.id, tabindex: span.id === this.#current ? "0" : "-1",
        "aria-pressed": more["aria-expanded"] ? null : String(isSelected), onclick: () => this.select(isSelected ? null : span.id), ...more,
      },
      el("span", { class: "span-name" }, el("i", { class: "span-dot" }), KINDS[span.kind] && el("span", { class: "unseen" }, `${KINDS[span.kind]}: `),
        el("span", { class: "span-text", title: span.name }, span.name, span.detail && el("span", { class: "span-detail" }, ` ${span.detail}`))),
      el("span", { class: "unseen" }, ` ${inWords(span)} `), bar(span, axis),
      el("span", { class: "span-units" }, span.units ? unitsOf(span.units) : "")));
    item.querySelector(".span-name").style.paddingInlineStart = `${Math.min(depth, 9) * 0.75}rem`;
    return item;
  }

  #list() {
    const spans = this.#shown.flatMap((chapter) => chapter.spans.map((span) => ({ span, chapter }))).sort((one, other) => one.span.began_at - other.span.began_at);
    const link = (span) => el("button", { type: "button", class: "link", "data-span": span.id, onclick: () => this.select(span.id) }, [span.name, span.detail].filter(Boolean).join(": "));
    const rows = spans.map(({ span, chapter }) => row(timeOf(new Date(span.began_at).toISOString(), fineTime), chapter.title, KINDS[span.kind] ?? span.kind, link(span), { number: duration(span.ms) }, { number: span.units ? unitsOf(span.units) : "–" }, outcome(span)));
    return el("div", { class: "card" }, table("Spans by time", ["Start", "Chapter", "Kind", "Span", { text: "Length", number: true }, { text: "Units", number: true }, "Outcome"], rows, { hideCaption: true }));
  }

  // The panel -----------------------------------------------------------------------------------------------------------
  #showPanel() {
    if (!this.#chapters) return;
    const span = this.selected && this.spanOf(this.selected);
    const shown = span ? `${span.id} ${span.attempts} ${span.ms}` : "";
    if (this.panelOf !== shown) {
      this.panelOf = shown;
      this.panel?.remove();
      const parent = span?.parent && this.spanOf(span.parent);
      const effects = span ? this.#spans.filter((one) => one.parent === span.id) : [];
      this.panel = span ? spanPanel(span, { path: this.path, signal: this.signal, parent, effects, changed: () => this.reload?.(), go: (id) => this.select(id, { focus: true }), close: () => this.select(null) }) : null;
      if (span) announce(`Details of ${span.name} are shown.`);
    }
    this.#placePanel();
    this.#keepCurrent();
  }

  /** Places the panel beside the chapters, or on a narrow page below the selected row. */
  #placePanel() {
    this.aside.hidden = !this.panel;
    if (!this.panel) return this.aside.replaceChildren();
    const place = (this.narrow.matches && this.#row(this.selected)?.closest("li")) || this.aside;
    if (place !== this.aside) this.aside.hidden = true;
    if (this.panel.parentNode === place) return;
    place.append(this.panel);
    if (place === this.aside && this.narrow.matches) this.panel.scrollIntoView({ block: "nearest" });
  }

  #row(id) {
    return [...this.body.querySelectorAll("[data-span]")].find((one) => one.dataset.span === id);
  }

  #reveal() {
    const found = this.#row(this.selected);
    found?.focus({ preventScroll: true });
    found?.scrollIntoView({ block: "center" });
  }

  // The keyboard --------------------------------------------------------------------------------------------------------
  /** Puts only one row into the tab order. The arrow keys move between the rows of all chapters. */
  #keepCurrent() {
    const rows = [...this.body.querySelectorAll(".span-row")];
    const current = rows.find((one) => one.dataset.span === (this.selected ?? this.#current)) ?? rows.find((one) => one.dataset.span === this.#current) ?? rows[0];
    this.#current = current?.dataset.span ?? "";
    for (const one of rows) one.tabIndex = one === current ? 0 : -1;
  }

  #move(event) {
    const rows = [...this.body.querySelectorAll(".span-row, .chapter-toggle")];
    const at = rows.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (event.key === "Escape" && this.selected) return this.select(null);
    if (at < 0 || to === undefined || !rows[to]) return;
    event.preventDefault();
    if (rows[to].classList.contains("span-row")) this.#current = rows[to].dataset.span;
    rows[to].focus();
    for (const one of rows) if (one.classList.contains("span-row")) one.tabIndex = one.dataset.span === this.#current ? 0 : -1;
  }
}

/** Returns a card with steps that have no spans. */
const stepsAlone = (steps) => el("section", { class: "card", "aria-label": "Steps without spans" }, stepList(steps), el("p", { class: "hint" }, NO_SPANS));

/** Makes the nodes `wanted` the only children. Moves only nodes in a wrong place, so focus and open panels stay. */
function arrange(parent, wanted) {
  wanted.forEach((node, at) => {
    if (parent.children[at] !== node) parent.insertBefore(node, parent.children[at] ?? null);
  });
  while (parent.children.length > wanted.length) parent.lastChild.remove();
}

/** Returns a chapter's rows: {span, depth}, or {folded, depth, name} for several copies or markers of one cause. */
function rowsOf(spans) {
  const depths = new Map();
  const groups = new Map(); // by the ids of their spans
  const rows = [];
  for (const span of spans) {
    const depth = depths.has(span.parent) ? depths.get(span.parent) + 1 : 0;
    depths.set(span.id, depth);
    const before = rows.at(-1);
    const joins = before?.folded && before.folded[0].parent === span.parent && before.folded[0].fold === span.fold;
    const group = groups.get(span.parent) ?? (span.fold && (joins ? before : { folded: [], depth }));
    if (!group) rows.push({ span, depth });
    else {
      if (!group.folded.length) rows.push(group);
      group.folded.push(span);
      groups.set(span.id, group);
    }
  }
  for (const one of rows.filter(({ folded }) => folded)) {
    const records = one.folded.filter(({ fold }) => fold);
    const types = [...new Set(records.map((span) => span.name.split(" ")[1]))].join(", ");
    one.name = `${plural(records.length, records[0].fold, records[0].fold === "copy" ? "copies" : "markers")}: ${types}`;
  }
  return rows;
}

// Times and sums ---------------------------------------------------------------------------------------------------------
/** Returns the bar of a span: its segments on the axis, and its length as text. */
function bar(span, { place }) {
  const parts = span.segments.map((segment) => {
    const part = el("i", { class: `segment ${segment.state}` });
    const start = place(segment.began_at);
    part.style.insetInlineStart = `${Math.min(99.5, start)}%`;
    part.style.width = `${place(segment.began_at + segment.ms) - start}%`;
    return part;
  });
  const start = place(span.began_at);
  const end = place(span.began_at + span.ms);
  const text = el("span", { class: "bar-text" }, lengthText(span));
  if (end < LATE) text.style.insetInlineStart = `max(${end}%, calc(${start}% + 4px))`;
  else if (start > 100 - LATE) text.style.insetInlineEnd = `${100 - start}%`;
  else inside(text, span, ({ began_at: at }) => place(at), ({ began_at: at, ms }) => place(at + ms) - place(at));
  return el("span", { class: "bar", "aria-hidden": "true" }, parts, text);
}

/** Places a text on a segment, because there is no room beside the bar. Prefers a long segment of work to a wait. */
function inside(text, span, startOf, widthOf) {
  const roomy = span.segments.filter((segment) => segment.state !== "waiting" && widthOf(segment) > ROOMY);
  const on = (roomy.length ? roomy : span.segments).reduce((one, other) => (other.ms > one.ms ? other : one));
  text.classList.add("inside", on.state);
  text.style.insetInlineStart = `calc(${startOf(on)}% + 0.5rem)`;
}

function lengthText(span) {
  if (span.attempts > 1 || span.failures) return `attempt ${span.attempts} ${span.segments.at(-1).state === "failed" ? "✕" : "✓"}`;
  const worked = span.segments.filter(({ state }) => state !== "waiting").reduce((sum, { ms }) => sum + ms, 0);
  return worked > 0 ? duration(worked) : "";
}

function inWords(span) {
  const waited = span.segments.filter(({ state }) => state === "waiting").reduce((sum, { ms }) => sum + ms, 0);
  const worked = span.segments.filter(({ state }) => state !== "waiting").reduce((sum, { ms }) => sum + ms, 0);
  const result = outcome(span);
  return [waited > 0 && `waited ${duration(waited)}`, worked > 0 && `took ${duration(worked)}`, result !== "done" && result].filter(Boolean).join(", ");
}

function outcome({ attempts, failures, segments, problem }) {
  if (segments.at(-1).state === "failed") return problem ? `failed: ${problem}` : "failed";
  return failures ? `done at attempt ${attempts}` : "done";
}

/** Returns capacity units as text, such as "1.5 R 5 W". */
export function unitsOf({ read = 0, write = 0 }) {
  const parts = [read && `${units(read)} R`, write && `${units(write)} W`].filter(Boolean);
  return parts.join(" ") || "no units";
}

function sumsOf(chapters) {
  const sum = (value) => chapters.reduce((total, chapter) => total + value(chapter), 0);
  const used = { read: sum((one) => one.units.read), write: sum((one) => one.units.write) };
  const failures = sum((one) => one.failures);
  const failing = chapters.some((one) => one.failing.length);
  return [
    `${plural(chapters.length, "chapter")} · ${plural(sum((one) => one.spans.length), "span")} · ${duration(sum((one) => one.ms))} · ${units(used.read)} read, ${units(used.write)} write units`,
    failures ? chip(`${plural(failures, "failure")}${failing ? "" : ", all recovered"}`, failing ? "bad" : "good") : "",
  ];
}
