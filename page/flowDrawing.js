// The drawing of the flow: nodes as buttons, edges as an SVG behind them, and the records that move along the edges.

import { el, shape } from "./ui.js";

const NARROW = 600;
const WIDE = 980;
const ROW = { height: 46, gap: 8 };
const MOVE_MS = 700;
const LIT_MS = 900;
const MOST_DOTS = 80;
const COLUMNS = { first: [116, 98], table: [128, 98], reader: [168, 128], bus: [96, 76], reaction: [160, 154], effect: [146, 84] };

/**
 * Returns the element and four functions. `draw()` draws nodes and edges at the current width. Call it once the element is
 * on the page, so that the drawing has its height before the browser shows it. A new width draws it again.
 * `update(states)` shows the state of each node: its tone, text and badges. `move(from, to)` shows a record that moves
 * along an edge after `delay` ms. `mark(id)` marks the open panel's node.
 */
export function drawing({ nodes, edges }, { onOpen, signal }) {
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const svg = shape("svg", { class: "flow-edges", "aria-hidden": "true" });
  const labelled = new Map(nodes.map((node) => [node.id, node.label]));
  const made = new Map(nodes.map((node) => [node.id, nodeButton(node, leadsTo(node.id), onOpen)]));
  const list = el("ol", { class: "flow-nodes" }, [...made.values()].map((one) => el("li", null, one.button)));
  const element = el("div", { class: "flow-drawing" }, svg, list);
  const paths = new Map();
  const dots = new Set();

  const observer = new ResizeObserver(() => requestAnimationFrame(draw));
  observer.observe(element);
  signal.addEventListener("abort", () => observer.disconnect(), { once: true });
  return { element, draw, update, move, mark };

  function leadsTo(id) {
    const labels = edges.filter((edge) => edge.from === id).map((edge) => labelled.get(edge.to));
    return labels.length ? `Leads to: ${[...new Set(labels)].join(", ")}.` : "";
  }

  function draw() {
    const width = element.clientWidth;
    if (!width) return;
    const { height, boxes, references, lines } = width < NARROW ? inColumn(nodes, edges, width) : inRows(nodes, edges, width);
    element.style.height = `${height}px`;
    element.classList.toggle("is-compact", width < WIDE);
    element.classList.toggle("is-narrow", width < NARROW);
    for (const [id, { button }] of made) {
      const { x, y, w, h } = boxes.get(id);
      Object.assign(button.style, { left: `${x}px`, top: `${y}px`, width: `${w}px`, height: `${h}px` });
    }
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren(arrowHead());
    paths.clear();
    for (const { from, to, d, label, at, derived } of lines) {
      const path = shape("path", { d, class: `flow-edge ${derived ? "is-derived" : ""}`, "marker-end": "url(#flow-arrow)" });
      paths.set(`${from} ${to}`, path);
      svg.append(path, ...(label ? [shape("text", { x: at[0], y: at[1], class: "flow-edge-label", "text-anchor": at[2] ?? "middle" }, label)] : []));
    }
    for (const { x, y, text } of references) svg.append(shape("text", { x, y, class: "flow-reference" }, text));
  }

  function update(states) {
    for (const [id, { show }] of made) show(states.get(id));
  }

  function mark(id) {
    for (const [one, { button }] of made) button.setAttribute("aria-expanded", String(one === id));
  }

  function move(from, to, { tone = "", delay = 0 } = {}) {
    if (document.hidden) return;
    if (delay) return void setTimeout(() => move(from, to, { tone }), delay);
    const path = paths.get(`${from} ${to}`);
    if (!path) return;
    if (still.matches || dots.size >= MOST_DOTS) {
      light(path);
      light(made.get(to)?.button);
      return;
    }
    const dot = { path, to, began: performance.now(), length: path.getTotalLength(), circle: shape("circle", { r: 4.5, class: `flow-dot ${tone}` }) };
    dots.add(dot);
    svg.append(dot.circle);
    if (dots.size === 1) requestAnimationFrame(step);
  }

  function step(now) {
    for (const dot of dots) {
      const part = Math.max(0, (now - dot.began) / MOVE_MS);
      if (part >= 1 || !dot.path.isConnected || signal.aborted) {
        dots.delete(dot);
        dot.circle.remove();
        light(made.get(dot.to)?.button);
        continue;
      }
      const { x, y } = dot.path.getPointAtLength(dot.length * part);
      dot.circle.setAttribute("cx", x);
      dot.circle.setAttribute("cy", y);
    }
    if (dots.size) requestAnimationFrame(step);
  }
}

function light(element) {
  if (!element) return;
  element.classList.add("is-lit");
  clearTimeout(element.lit);
  element.lit = setTimeout(() => element.classList.remove("is-lit"), LIT_MS);
}

function nodeButton(node, leads, onOpen) {
  const note = el("span", { class: "flow-note" });
  const badges = el("span", { class: "flow-badges" });
  const button = el("button", {
    type: "button", class: `flow-node is-${node.kind}`, "aria-expanded": "false", "data-node": node.id, onclick: () => onOpen(node.id),
  }, el("span", { class: "flow-label" }, node.label), note, badges, el("span", { class: "unseen" }, ` ${leads}`));
  let shown = "";
  const show = (state) => {
    if (!state || shown === JSON.stringify(state)) return;
    shown = JSON.stringify(state);
    button.dataset.tone = state.tone ?? "";
    note.textContent = ` ${state.text}`;
    badges.replaceChildren(...state.badges.map((text) => el("span", { class: "flow-badge" }, text)));
  };
  return { button, show };
}

// The layout: from left to right -----------------------------------------------------------------------------------------
function inRows(nodes, edges, width) {
  const at = width < WIDE ? 1 : 0;
  const wide = at === 0;
  const size = Object.fromEntries(Object.entries(COLUMNS).map(([name, widths]) => [name, widths[at]]));
  const columns = [...(wide ? ["first"] : []), "table", "reader", "bus", "reaction", "effect"];
  const gap = (width - columns.reduce((sum, name) => sum + size[name], 0)) / (columns.length - 1);
  const left = {};
  columns.reduce((x, name) => ((left[name] = x), x + size[name] + gap), 0);
  const reactions = nodes.filter(isReaction);
  const height = reactions.length * (ROW.height + ROW.gap) - ROW.gap + 2;
  const boxes = new Map();
  const put = (id, column, centre, h = ROW.height) => boxes.set(id, { x: left[column], y: centre - h / 2, w: size[column], h });

  reactions.forEach((node, row) => put(node.id, "reaction", row * (ROW.height + ROW.gap) + ROW.height / 2 + 1));
  const middle = height * 0.52;
  put("table", "table", middle, 64);
  if (wide) put("api", "first", middle, 54);
  else put("api", "table", 27, 50);
  put("schedules", "table", height - 26, 50);
  const readers = nodes.filter((node) => node.kind === "reader");
  readers.forEach((node, number) => put(node.id, "reader", height * (readers.length < 2 ? 0.5 : 0.2 + (0.52 * number) / (readers.length - 1)), 54));
  const publisher = edges.find((edge) => edge.to === "bus")?.from ?? readers[0].id;
  put("bus", "bus", centreY(boxes.get(publisher)), 54);
  const references = placeEffects(nodes, edges, boxes, { x: left.effect, w: size.effect });
  return { height, boxes, references, lines: linesOf(edges, boxes, references, lineInRows({ wide, gap })) };
}

/** Returns the lines of all edges: to references, and `draw(edge, from, to)`. */
function linesOf(edges, boxes, references, draw) {
  return edges.map((edge) => {
    const [from, to] = [boxes.get(edge.from), boxes.get(edge.to)];
    const reference = references.find((one) => one.from === edge.from && one.to === edge.to);
    if (reference) return { ...edge, label: null, d: `M${right(from)} ${centreY(from)} H${reference.x - 7}` };
    return to && edge.from !== "provider" && draw(edge, from, to); // do not draw the webhooks: this edge would cross others, and the panel names them
  }).filter(Boolean);
}

const lineInRows = ({ wide, gap }) => (edge, from, to) => {
  const [y0, y1] = [centreY(from), centreY(to)];
  if (edge.derived) {
    const x = to.x + to.w * 0.72;
    return { ...edge, d: `M${from.x} ${y0 - 12} C${x} ${y0 - 12} ${x} ${y0 - 12} ${x} ${to.y - 1}`, label: wide && edge.label, at: [x - 6, y0 + 4, "end"] };
  }
  if (Math.abs(from.x - to.x) < 1) {
    const x = from.x + from.w * 0.4;
    const down = from.y < to.y;
    return { ...edge, label: null, d: `M${x} ${down ? from.y + from.h : from.y} V${down ? to.y - 1 : to.y + to.h + 1}` };
  }
  if (edge.to === edge.from) return null;
  const leave = edge.from === "table" ? y0 + (y1 < y0 ? -10 : 10) : y0;
  const enter = from.x < to.x && to.isEffect ? Math.min(Math.max(leave, to.y + 4), to.y + to.h - 4) : y1 + (edge.from === "table" && y1 < y0 ? 8 : 0);
  const [x0, x1] = [right(from), to.x - 1];
  const middle = (x0 + x1) / 2;
  const named = gap > 60 && ["table", "bus"].includes(edge.to);
  return { ...edge, d: `M${x0} ${leave} C${middle} ${leave} ${middle} ${enter} ${x1} ${enter}`, label: named && edge.label, at: [middle - 3, leave - 8] };
};

const isReaction = (node) => node.kind === "reaction" || node.kind === "external";
const centreY = (box) => box.y + box.h / 2;
const right = (box) => box.x + box.w;

/**
 * Places the nodes that the reactions change beside the reactions. Neighbours that change the same node share its box.
 * If the drawing already has the node elsewhere, such as the table, shows only its name as a reference.
 */
function placeEffects(nodes, edges, boxes, { x, w }) {
  const references = [];
  const label = new Map(nodes.map((node) => [node.id, node.label]));
  const outside = new Set(nodes.filter((node) => node.kind === "outside").map((node) => node.id));
  let last = null;
  for (const reaction of nodes.filter(isReaction)) {
    const box = boxes.get(reaction.id);
    for (const { to } of edges.filter((edge) => edge.from === reaction.id)) {
      const known = boxes.get(to);
      if (outside.has(to) && !known) boxes.set(to, { x, y: box.y, w, h: box.h, isEffect: true });
      else if (outside.has(to) && last === to) known.h = box.y + box.h - known.y;
      else references.push({ from: reaction.id, to, x: x + 7, y: centreY(box) + 4, text: `${label.get(to)} ↩` });
      last = to;
    }
  }
  return references;
}

// The layout: from top to bottom -----------------------------------------------------------------------------------------
function inColumn(nodes, edges, width) {
  const boxes = new Map();
  const [high, between, half] = [54, 28, (width - 14) / 2];
  const put = (id, x, y, w, h = high) => boxes.set(id, { x, y, w, h });
  const level = (number) => 1 + number * (high + between);
  put("api", 0, level(0), half);
  put("schedules", half + 14, level(0), half);
  put("table", 0, level(1), width);
  const readers = nodes.filter((node) => node.kind === "reader");
  const share = (width - 14 * (readers.length - 1)) / readers.length;
  readers.forEach((node, number) => put(node.id, number * (share + 14), level(2), share));
  put("bus", 0, level(3), width);
  const [rail, effect] = [10, Math.min(92, width * 0.27)];
  const first = level(4) - 12;
  nodes.filter(isReaction).forEach((node, row) => put(node.id, 28, first + row * (high + ROW.gap), width - 28 - effect - 22));
  const references = placeEffects(nodes, edges, boxes, { x: width - effect, w: effect });
  const height = Math.max(...[...boxes.values()].map((box) => box.y + box.h)) + 2;
  const lines = linesOf(edges, boxes, references, (edge, from, to) => {
    if (edge.from === "bus") return { ...edge, label: null, d: `M${rail} ${from.y + from.h} V${centreY(to)} H${to.x - 1}` };
    if (to.isEffect) return { ...edge, label: null, d: `M${right(from)} ${centreY(from)} H${to.x - 1}` };
    const x = Math.max(from.x, to.x) + Math.min(from.w, to.w) / 2 + (edge.derived ? -22 : 0);
    const [y0, y1] = from.y < to.y ? [from.y + from.h, to.y - 1] : [from.y, to.y + to.h + 1];
    const labelAt = edge.derived ? [x + 30, y0 - 10, "start"] : [x + 8, (y0 + y1) / 2 + 4, "start"];
    return { ...edge, d: `M${x} ${y0} V${y1}`, label: edge.from === "table" ? null : edge.label, at: labelAt };
  });
  return { height, boxes, references, lines };
}

function arrowHead() {
  return shape("marker", { id: "flow-arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerUnits: "userSpaceOnUse", markerWidth: 10, markerHeight: 10, orient: "auto" },
    shape("path", { d: "M0 0 8 4 0 8z", class: "flow-arrow" }));
}
