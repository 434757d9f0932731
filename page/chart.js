// Charts, drawn here so that no library is loaded: bars over time as SVG, and bars of a list. Their values are also in
// their accessible names, and in tables beside them.

import { el } from "./ui.js";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 180;
const TOP = 10;
const BOTTOM = 26;
const LETTER = 6.6; // of an axis, in pixels, as wide as they come
const TICKS = 4;

function shape(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/**
 * Bars over time. `bars`: [{at, value, told}] with `at` as the label of the axis; `write`: formats a value for the
 * axis; `name`: the accessible name. The chart is as wide as its place, so its letters have the normal size.
 */
export function timeChart({ title, sum, name, bars, write }) {
  const host = el("div", { class: "chart-room" });
  const draw = (width) => width > 0 && host.replaceChildren(drawn(width, { name, bars, write }));
  new ResizeObserver(([{ contentRect }]) => draw(contentRect.width)).observe(host);
  return el("figure", { class: "chart" }, el("figcaption", null, el("span", null, title), el("strong", null, sum)), host);
}

function drawn(width, { name, bars, write }) {
  const ticks = ticksOf(bars.map((bar) => bar.value));
  const left = Math.max(...ticks.map((tick) => write(tick).length)) * LETTER + 10;
  const y = scale(ticks, HEIGHT - BOTTOM, TOP);
  const step = (width - left) / bars.length;
  const made = shape("svg", { role: "img", "aria-label": name, viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT });
  for (const tick of ticks) made.append(line(tick, { left, width, y, write }));
  bars.forEach((bar, at) => bar.value && made.append(column(bar, left + at * step, step, y)));
  made.append(...times(bars, { left, step, width }));
  return made;
}

/** Round numbers from the minimum, or 0, to the maximum. */
export function ticksOf(values) {
  const low = Math.min(0, ...values);
  const high = Math.max(0, ...values);
  const rough = Math.max(1, (high - low) / TICKS);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => Math.max(1, times * power)).find((one) => one >= rough);
  const ticks = [];
  for (let tick = Math.floor(low / step) * step; tick < high + step; tick += step) ticks.push(tick);
  return ticks.length > 1 ? ticks : [0, 1];
}

function scale(ticks, bottom, top) {
  const [low, high] = [ticks[0], ticks.at(-1)];
  return (value) => bottom - ((value - low) / (high - low)) * (bottom - top);
}

function line(tick, { left, width, y, write }) {
  const level = Math.round(y(tick)) + 0.5;
  return shape("g", {},
    shape("line", { class: tick === 0 ? "base" : "grid", x1: left, x2: width, y1: level, y2: level }),
    shape("text", { class: "axis", x: left - 6, y: level + 4, "text-anchor": "end" }, write(tick)));
}

function column({ value, told }, x, step, y) {
  const [from, to] = [y(Math.max(0, value)), y(Math.min(0, value))];
  const width = Math.max(1, step - Math.min(2, step / 4));
  return shape("rect", { class: value < 0 ? "bar below" : "bar", x, y: from, width, height: Math.max(1, to - from) }, shape("title", {}, told));
}

/** As many times below the bars as fit. */
function times(bars, { left, step, width }) {
  const room = Math.max(...bars.map((bar) => bar.at.length)) * LETTER + 18;
  const every = Math.max(1, Math.ceil(room / step));
  return bars.flatMap((bar, at) => {
    const x = left + (at + 0.5) * step;
    if (at % every || x + room / 2 - 9 > width) return [];
    return [shape("line", { class: "base", x1: x, x2: x, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM + 5 }), shape("text", { class: "axis", x, y: HEIGHT - 6, "text-anchor": "middle" }, bar.at)];
  });
}

/** A list with a bar for each: [{label, value}]; the maximum has the longest bar. */
export function barList(lines, write, attributes = {}) {
  const most = Math.max(1, ...lines.map((one) => one.value));
  return el("ol", { class: "bars", ...attributes }, lines.map(({ label, value }) => {
    const bar = el("span", null);
    bar.style.setProperty("inline-size", `${(Math.max(0, value) / most) * 100}%`);
    return el("li", null, el("span", null, label), el("strong", null, write(value)), el("div", { class: "bar-line", "aria-hidden": "true" }, bar));
  }));
}
