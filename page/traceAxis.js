// The time axis of an order's trace, from the first request to the last effect. All chapters share it. Time in which no
// span works is folded, and closed chapters are narrow, so that open chapters get the width.

import { duration, roundStep } from "./format.js";
import { el } from "./ui.js";

const FOLD_MS = 1000; // a shorter pause inside a chapter shows a delay, so it keeps its width
const FOLD_WIDTH = 2.5;
const CLOSED_WIDTH = 5;
const MOST_NARROW_WIDTH = 50;
const LABEL_WIDTH = 15;

/**
 * Returns the axis: {pieces, begins, place}. `open`: the ids of the open chapters. A piece is a period with the same
 * scale: {from, to, kind, start, width}; `kind` is "open", "closed" or "fold". `place(at)` is the position of a time in
 * percent.
 */
export function axisOf(chapters, open) {
  const periods = chapters.flatMap((chapter) => busyPeriods(chapter).map((one) => ({ ...one, open: open.has(chapter.id) })));
  const pieces = piecesOf(periods);
  const narrow = pieces.reduce((sum, { kind }) => sum + ({ fold: FOLD_WIDTH, closed: CLOSED_WIDTH }[kind] ?? 0), 0);
  const isOpen = pieces.some(({ kind }) => kind === "open");
  const shrink = isOpen ? Math.min(1, MOST_NARROW_WIDTH / narrow) : 100 / narrow;
  // The square root keeps a short open chapter readable beside a long one.
  const weight = ({ from, to }) => Math.sqrt(to - from);
  const weights = pieces.reduce((sum, piece) => sum + (piece.kind === "open" ? weight(piece) : 0), 0);
  let start = 0;
  for (const piece of pieces) {
    const fixed = { fold: FOLD_WIDTH, closed: CLOSED_WIDTH }[piece.kind];
    piece.width = fixed ? fixed * shrink : (weight(piece) / weights) * (100 - narrow * shrink);
    piece.start = start;
    start += piece.width;
  }
  const place = (at) => {
    const piece = pieces.find(({ to }) => at <= to) ?? pieces.at(-1);
    const share = Math.min(1, Math.max(0, (at - piece.from) / (piece.to - piece.from)));
    return piece.start + share * piece.width;
  };
  return { pieces, begins: pieces[0].from, place };
}

/** Returns the periods in which a span of the chapter works. Joins periods with a short pause between them. */
function busyPeriods({ spans }) {
  const worked = spans.flatMap(({ segments }) => segments).filter(({ state }) => state !== "waiting")
    .map(({ began_at: from, ms }) => ({ from, to: from + Math.max(ms, 1) })).sort((one, other) => one.from - other.from);
  const periods = [];
  for (const one of worked) {
    const last = periods.at(-1);
    if (last && one.from - last.to <= FOLD_MS) last.to = Math.max(last.to, one.to);
    else periods.push(one);
  }
  return periods;
}

/** Returns the pieces of the axis. A time is open if an open chapter works then, and is folded if no chapter works. */
function piecesOf(periods) {
  const edges = [...new Set(periods.flatMap(({ from, to }) => [from, to]))].sort((one, other) => one - other);
  const pieces = [];
  edges.slice(1).forEach((to, at) => {
    const from = edges[at];
    const here = periods.filter((one) => one.from < to && one.to > from);
    const kind = here.some((one) => one.open) ? "open" : here.length ? "closed" : "fold";
    if (pieces.at(-1)?.kind === kind) pieces.at(-1).to = to;
    else pieces.push({ from, to, kind });
  });
  return pieces;
}

/** Returns the axis as an element, with the name of each chapter at its place. */
export function axisElement({ pieces, begins, place }, chapters) {
  const byTime = [...chapters].sort((one, other) => one.began_at - other.began_at);
  const names = byTime.map(({ title, began_at: from, ms }, at) =>
    placed(el("i", { class: "axis-chapter", title }, title), place(from), place(Math.min(from + ms, byTime[at + 1]?.began_at ?? Infinity)) - place(from)));
  const folds = pieces.filter(({ kind }) => kind === "fold").map(({ from, to, start, width }) =>
    placed(el("i", { class: "axis-fold", title: `${duration(to - from)} without work` }, "⋯"), start, width));
  return el("div", { class: "axis", "aria-hidden": "true" }, el("span", { class: "axis-name" }, "What happened"),
    el("span", { class: "axis-bar" }, names, ticks(pieces, begins).map(({ text, start }) => placed(el("b", null, text), start)), folds),
    el("span", { class: "axis-units" }, "units"));
}

function placed(node, start, width) {
  node.style.insetInlineStart = `${start}%`;
  if (width !== undefined) node.style.width = `${width}%`;
  return node;
}

/** Returns the labels: at the begin of an open piece the time since the first request, inside it the time since its begin. */
function ticks(pieces, begins) {
  const all = pieces.filter(({ kind }) => kind === "open").flatMap(({ from, to, start, width }) => {
    const first = { text: from === begins ? "0" : `after ${duration(from - begins)}`, start };
    const step = roundStep((to - from) * (LABEL_WIDTH / width));
    const inner = Array.from({ length: Math.floor((to - from) / step) }, (_, at) => (at + 1) * step)
      .map((ms) => ({ text: `${from === begins ? "" : "+"}${duration(ms)}`, start: start + (ms / (to - from)) * width }));
    return [first, ...inner];
  });
  let last = -Infinity;
  return all.filter(({ start, text }) => {
    const fits = start - last >= LABEL_WIDTH * 0.8 && start <= 94;
    if (fits) last = start + (text.startsWith("after") ? LABEL_WIDTH * 0.7 : 0);
    return fits;
  });
}
