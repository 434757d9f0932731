// The flow: a live drawing of the system on which records move, with switches that break each part of the system.

import { call, get, repeat } from "./api.js";
import { sampleOrder, switchForm } from "./chaos.js";
import { entryItem } from "./entries.js";
import { drawing } from "./flowDrawing.js";
import { Activity, inShort, nodePanel, statesOf } from "./flowNodes.js";
import { plural, shortId } from "./format.js";
import { follow } from "./live.js";
import { button, chip, el, empty, fill, loading, orderLink } from "./ui.js";

const EVERY_MS = 1000;
const TAIL = 50;
const REMEMBERED = 200;
const STEP_MS = 700;
const COUNTED = { record: "stream record", published: "event", effect: "effect" };

export function show(place, { signal }) {
  const heading = el("h1", null, "One table, and everything that follows from its stream");
  const lead = el("p", { class: "lead" }, "An API call makes one write. Two readers follow the stream: one keeps copies, the other publishes events. Each reaction has its own queue.");
  const sum = el("div", { class: "sum-line", role: "status" }, loading("Loading the flow …"));
  const placedText = el("span", { role: "status" });
  const counted = el("span");
  const watched = el("p", { class: "flow-watched" }, placedText, counted);
  const start = button("Place a sample order and watch", () => watch(), { kind: "primary" });
  const stage = el("div", { class: "flow-stage" });
  const activity = new Activity();
  const failures = storedFailures({ signal, changed: () => view?.refresh() });
  const log = activityCard();
  let view = null;
  let order = null;
  let shownCounts = "{}";

  place.append(
    el("div", { class: "flow-head" }, heading, lead, start),
    el("div", { class: "row flow-status" }, sum, watched),
    stage);
  const clock = el("section", { class: "card", "aria-label": "The clock" }, switchForm({ switch: "advance" }, { signal }));
  const below = el("div", { class: "flow-below" }, el("div", { class: "stack" }, clock, failures.element), log.element);

  fill(stage, "the flow", async () => {
    const flow = await get("/local/flow", { signal });
    view = flowView(flow, { activity, below, signal, changed: failures.refresh });
    follow({ after: Math.max(0, flow.last_entry - REMEMBERED), signal, onState: log.onState, on: (entries) => onEntries(entries, flow.last_entry) });
    const look = async () => {
      const now = await call("GET", "/local/stream", { signal, tries: 1 });
      view.update(now);
      const said = inShort(now, activity);
      const counts = now.failures ? JSON.stringify(now.failures) : shownCounts; // null while the local AWS is down
      if (counts !== shownCounts) failures.refresh();
      shownCounts = counts;
      if (sum.textContent !== said.text) sum.replaceChildren(chip(said.text, said.tone)); // a screen reader reads each new text
    };
    look().catch(() => {}); // the page's header shows the error, and the next call may succeed
    repeat(look, EVERY_MS, signal);
    return view.element;
  }).then(() => view?.draw());
  return heading;

  function onEntries(entries, before) {
    activity.add(entries);
    log.add(entries);
    const live = entries.filter((entry) => entry.id > before);
    view.move(live);
    count(live);
  }

  /** Places an order, and shows below the heading how many events, mails and other effects follow from it. */
  async function watch() {
    order = null;
    const placed = await sampleOrder({ signal });
    order = { id: placed.order_id, counts: {} };
    placedText.replaceChildren(`Order ${shortId(order.id)} is placed and paid. `, orderLink(order.id, "See its trace"));
    count([]);
  }

  function count(entries) {
    if (!order) return;
    for (const { order_id: id, kind } of entries) if (id === order.id) order.counts[kind] = (order.counts[kind] ?? 0) + 1;
    const counts = Object.entries(COUNTED).filter(([kind]) => order.counts[kind]).map(([kind, name]) => plural(order.counts[kind], name));
    counted.textContent = counts.length ? ` ${counts.join(", ")} so far from this order` : "";
  }
}

// The drawing and the panel of a node ------------------------------------------------------------------------------------
function flowView(flow, { activity, below, signal, changed }) {
  const byId = new Map(flow.nodes.map((node) => [node.id, node]));
  const picture = drawing(flow, { onOpen: toggle, signal });
  const legend = el("p", { class: "flow-legend hint" }, "A dot is a record on its way. A dashed line writes copies. A dashed box is outside the shop. Choose a part to see what it does, and to break it. The Board finds every order.");
  const card = el("section", { class: "card flow-card", "aria-label": "The flow" }, picture.element, legend);
  const element = el("div", { class: "flow-panes" }, card, below);
  let open = null;
  let last = null;
  return { element, draw: picture.draw, update, move, refresh: () => open?.failures.refresh() };

  function update(now) {
    last = { now, states: statesOf(flow.nodes, now, activity) };
    picture.update(last.states);
    open?.update();
  }

  function toggle(id) {
    const again = open?.id === id;
    close();
    if (again) return;
    const node = byId.get(id);
    const stored = failuresOf(node, { signal, changed });
    const breaks = el("div", { class: "flow-breaks" });
    const sources = new Set(flow.edges.filter((edge) => edge.to === id && node.kind === "outside").map((edge) => edge.from));
    const panel = nodePanel(node, { activity, sources, signal, breaks, failures: stored.element, onClose: () => (close(), focusNode(id)) });
    open = { id, element: panel.element, failures: stored, update: () => updatePanel(node, { panel, breaks, stored }) };
    below.before(panel.element);
    element.classList.add("has-panel");
    picture.mark(id);
    open.update();
    panel.heading.focus();
  }

  function close() {
    open?.element.remove();
    open = null;
    element.classList.remove("has-panel");
    picture.mark(null);
  }

  function focusNode(id) {
    card.querySelector(`[data-node="${CSS.escape(id)}"]`).focus();
  }

  function updatePanel(node, { panel, breaks, stored }) {
    if (!last) return;
    const state = last.states.get(node.id);
    panel.update(state);
    const reader = last.now.readers.find((one) => one.name === node.id);
    const isStopped = reader ? !reader.running : false;
    if (breaks.dataset.stopped !== String(isStopped) && !breaks.querySelector("[aria-disabled]")) drawBreaks(node, breaks, isStopped);
    if (breaks.dataset.badges !== state.badges.join()) {
      breaks.dataset.badges = state.badges.join();
      stored.refresh();
    }
  }

  function drawBreaks(node, breaks, isStopped) {
    const first = breaks.dataset.stopped === undefined;
    breaks.dataset.stopped = String(isStopped);
    if (first) {
      const forms = node.switches.map((wanted) => switchForm(wanted, { signal, isStopped, events: node.events }));
      breaks.replaceChildren(el("h3", { class: "flow-title" }, "Ways to break it"), ...(forms.length ? forms : [el("p", { class: "hint" }, "There is no switch for this part.")]));
      return;
    }
    const at = node.switches.findIndex((wanted) => wanted.switch === "reader");
    const old = breaks.querySelectorAll("form")[at];
    const made = switchForm(node.switches[at], { signal, isStopped });
    made.querySelector(".said").replaceChildren(...old.querySelector(".said").childNodes);
    const focused = old.contains(document.activeElement);
    old.replaceWith(made);
    if (focused) made.querySelector("button").focus();
  }

  /** Shows records that move along the edges, for new entries of the journal. */
  function move(entries) {
    for (const entry of entries) {
      const tone = entry.outcome && entry.outcome !== "done" ? "is-bad" : "";
      if (entry.kind === "request" && entry.status < 400) picture.move("api", "table");
      else if (entry.kind === "delivery") picture.move("table", entry.reader, { tone });
      else if (entry.kind === "copied") picture.move("copies_reader", "table");
      else if (entry.kind === "time") picture.move("schedules", "table");
      else if (entry.kind === "published") moveEvent(entry.event);
      else if (entry.kind === "failed") picture.move("bus", entry.reaction, { tone: "is-bad" });
      else if (entry.kind === "effect") for (const { to } of flow.edges.filter((edge) => edge.from === entry.reaction)) picture.move(entry.reaction, to);
    }
  }

  function moveEvent(name) {
    for (const { from } of flow.edges.filter((edge) => edge.to === "bus")) picture.move(from, "bus");
    for (const node of flow.nodes) if (node.events?.includes(name)) picture.move("bus", node.id, { delay: STEP_MS });
  }
}

// The failures ---------------------------------------------------------------------------------------------------------
/** Returns the list of failures. Its code loads only when there is a failure, because most visits do not need it. */
function storedFailures({ signal, changed }) {
  const none = empty("No failures", "Records that the code cannot read appear here, with their payload and the reason.");
  const element = el("div", null, el("section", { class: "card", "aria-label": "Failures" }, el("h2", null, "Failures"), none));
  let loaded = null;
  const load = () => (loaded ??= import("./failures.js").then(({ failuresSection }) => {
    const made = failuresSection({ signal, changed });
    element.replaceChildren(made.element);
    return made;
  }));
  return { element, refresh: async () => (loaded ? (await loaded).refresh() : load()) };
}

/** Returns the stored failures of one node, and `refresh`. */
function failuresOf(node, about) {
  const element = el("div");
  const made = import("./failures.js").then(({ failuresAt }) => {
    const stored = failuresAt(node, about);
    element.append(stored.element);
    return stored;
  });
  return { element, refresh: async () => (await made).refresh() };
}

// The activity -----------------------------------------------------------------------------------------------------------
function activityCard() {
  const list = el("ol", { class: "entries tail", reversed: true });
  const state = el("span", null, chip("Connecting …", "waiting"));
  const nothing = empty("No activity yet", "Place a sample order above, or break something.");
  const head = el("div", { class: "card-head" }, el("h2", null, "Activity"), state);
  const region = el("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "The newest 50 entries of the journal" }, nothing, list);
  return {
    element: el("section", { class: "card", "aria-label": "Activity" }, head, region),
    onState: (open) => state.replaceChildren(open ? chip("Live", "good") : chip("Reconnecting …", "waiting")),
    add: (entries) => {
      nothing.remove();
      list.prepend(...entries.slice(-TAIL).reverse().map(entryItem));
      while (list.children.length > TAIL) list.lastChild.remove();
    },
  };
}
