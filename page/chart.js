// Draws charts without a library: bars over time as SVG, and lists with bars. Screen readers get the values from
// accessible names and from tables beside the charts.

import { roundStep } from "./format.js";
import { el, shape } from "./ui.js";

const HEIGHT = 180;
const TOP = 10;
const BOTTOM = 26;
const LETTER = 6.6; // the maximum width of a letter at an axis, in pixels
const TICKS = 4;

/**
 * Draws bars over time. `bars`: [{at, value, description}], with `at` as the label at the axis. `write`: formats a value
 * for the axis. `name`: the accessible name. The chart is as wide as its container, so its letters have the normal size.
 * It shows the value of the bar under the pointer. If the chart has the focus, arrow keys go from bar to bar.
 */
export function timeChart({ title, sum, name, bars, write }) {
  const host = el("div", { class: "chart-room" });
  const draw = (width) => {
    if (width <= 0 || (width === widths.get(title) && host.firstChild)) return;
    widths.set(title, width);
    const { picture, columns, left, step } = drawn(width, { name, bars, write });
    const reader = valueReader({ title, bars, columns, left, step, width });
    const isFocused = host.contains(document.activeElement);
    host.replaceChildren(picture, ...reader);
    if (isFocused) host.querySelector("[tabindex]").focus({ preventScroll: true });
  };
  if (widths.has(title)) draw(widths.get(title)); // at once, so that a chart that replaces another keeps the focus
  new ResizeObserver(([{ contentRect }]) => draw(contentRect.width)).observe(host);
  return el("figure", { class: "chart" }, el("figcaption", null, el("span", null, title), el("strong", null, sum)), host);
}

const positions = new Map();
const widths = new Map();

/** Returns the layer over a chart that shows one value. It is a slider, for use with keys and screen readers. */
function valueReader({ title, bars, columns, left, step, width }) {
  const value = el("p", { class: "chart-value", "aria-hidden": "true", hidden: true });
  const slider = el("div", { class: "chart-slider", role: "slider", tabindex: "0", "aria-label": `${title}: one value at a time`, "aria-valuemin": 0, "aria-valuemax": bars.length - 1 });
  const last = Math.max(0, bars.findLastIndex((bar) => bar.value));
  let at = Math.min(positions.get(title) ?? last, bars.length - 1);
  const describe = () => {
    slider.setAttribute("aria-valuenow", at);
    slider.setAttribute("aria-valuetext", bars[at].description);
  };
  const choose = (wanted) => {
    columns.get(at)?.classList.remove("chosen");
    at = Math.min(bars.length - 1, Math.max(0, wanted));
    positions.set(title, at);
    columns.get(at)?.classList.add("chosen");
    value.textContent = bars[at].description;
    value.hidden = false;
    const middle = left + (at + 0.5) * step;
    value.style.insetInlineStart = `${Math.min(Math.max(0, middle - value.offsetWidth / 2), Math.max(0, width - value.offsetWidth))}px`;
    describe();
  };
  const hide = () => {
    columns.get(at)?.classList.remove("chosen");
    value.hidden = true;
  };
  const under = (event) => choose(Math.floor((event.clientX - slider.getBoundingClientRect().left - left) / step));
  const keys = { ArrowLeft: () => at - 1, ArrowDown: () => at - 1, ArrowRight: () => at + 1, ArrowUp: () => at + 1, Home: () => 0, End: () => bars.length - 1 };
  slider.addEventListener("pointermove", under);
  slider.addEventListener("pointerdown", under);
  slider.addEventListener("pointerleave", () => document.activeElement === slider || hide());
  slider.addEventListener("focus", () => choose(at));
  slider.addEventListener("blur", hide);
  slider.addEventListener("keydown", (event) => {
    if (!Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    choose(keys[event.key]());
  });
  describe();
  return [value, slider];
}

function drawn(width, { name, bars, write }) {
  const ticks = ticksOf(bars.map((bar) => bar.value));
  const left = Math.max(...ticks.map((tick) => write(tick).length)) * LETTER + 10;
  const y = scale(ticks, HEIGHT - BOTTOM, TOP);
  const step = (width - left) / bars.length;
  const made = shape("svg", { role: "img", "aria-label": name, viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT });
  for (const tick of ticks) made.append(line(tick, { left, width, y, write }));
  const columns = new Map(bars.flatMap((bar, at) => (bar.value ? [[at, column(bar, left + at * step, step, y)]] : [])));
  made.append(...columns.values(), ...times(bars, { left, step, width }));
  return { picture: made, columns, left, step };
}

/** Returns round numbers for an axis, from the minimum (at most 0) to the maximum. */
export function ticksOf(values) {
  const low = Math.min(0, ...values);
  const high = Math.max(0, ...values);
  const rough = Math.max(1, (high - low) / TICKS);
  const step = roundStep(rough);
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

function column({ value }, x, step, y) {
  const [from, to] = [y(Math.max(0, value)), y(Math.min(0, value))];
  const width = Math.max(1, step - Math.min(2, step / 4));
  return shape("rect", { class: value < 0 ? "bar below" : "bar", x, y: from, width, height: Math.max(1, to - from) });
}

/** Returns the times below the bars, as many as fit. */
function times(bars, { left, step, width }) {
  const room = Math.max(...bars.map((bar) => bar.at.length)) * LETTER + 18;
  const every = Math.max(1, Math.ceil(room / step));
  return bars.flatMap((bar, at) => {
    const x = left + (at + 0.5) * step;
    if (at % every || x + room / 2 - 9 > width) return [];
    return [shape("line", { class: "base", x1: x, x2: x, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM + 5 }), shape("text", { class: "axis", x, y: HEIGHT - 6, "text-anchor": "middle" }, bar.at)];
  });
}

/** Returns a list with a bar for each of `lines`: [{label, value}]. The maximum has the longest bar. */
export function barList(lines, write, attributes = {}) {
  const most = Math.max(1, ...lines.map((one) => one.value));
  return el("ol", { class: "bars", ...attributes }, lines.map(({ label, value }) => {
    const bar = el("span", null);
    bar.style.setProperty("inline-size", `${(Math.max(0, value) / most) * 100}%`);
    return el("li", null, el("span", null, label), el("strong", null, write(value)), el("div", { class: "bar-line", "aria-hidden": "true" }, bar));
  }));
}
