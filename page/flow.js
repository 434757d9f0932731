// The stream: the current state of both readers and all queues, permanent failures, the live log, and chaos.

import { call, get } from "./api.js";
import { chaosSection } from "./chaos.js";
import { entryItem } from "./entries.js";
import { failuresSection } from "./failures.js";
import { duration, number } from "./format.js";
import { follow } from "./live.js";
import { chip, el, empty, loading, row, table } from "./ui.js";

const EVERY_MS = 1000;
const TAIL = 50;
const READER_HEADS = ["Reader", "State", "Behind", "Waiting", "In flight", "Retrying", "Delivered", "Failed", "Given up", "Will fail"];
const QUEUE_HEADS = ["Queue", "Kind", "Waiting", "In flight", "Delayed", "Dead letters", "Will fail"];

export function show(place, { signal }) {
  const heading = el("h1", null, "Flow");
  const readers = table("Readers of the table's stream", heads(READER_HEADS, 2), []);
  const queues = table("Queues of the reactions", heads(QUEUE_HEADS, 2), []);
  const processes = el("p", { class: "row tight" });
  const sum = el("div", { class: "sum-line", role: "status" }, loading("Loading the readers …"));
  const chaos = chaosSection({ signal });
  const failures = failuresSection({ signal });

  place.append(
    el("div", { class: "view-head" }, heading, el("p", { class: "lead" }, "Each write creates a stream record. Two readers process it, and queues carry the reactions.")),
    sum,
    el("section", { class: "card", "aria-label": "Readers and queues" }, readers, queues, processes),
    el("div", { class: "stream-columns" }, chaos.element, el("div", { class: "stack" }, failures.element, journal(signal, failures.refresh))));

  poll(signal, (now) => {
    readers.body.replaceChildren(...now.readers.map(readerRow));
    queues.body.replaceChildren(...now.queues.map(queueRow));
    processes.replaceChildren("Processes: ", ...now.processes.map(processChip));
    const said = inShort(now);
    if (sum.textContent !== said.text) sum.replaceChildren(chip(said.text, said.tone)); // said again only when it changes
    chaos.update(now);
  });
  return heading;
}

const heads = (texts, names) => texts.map((text, at) => (at < names ? text : { text, number: true }));

/**
 * Requests the state each second while the tab is visible. After an error, it retries, and the page shows the error.
 */
async function poll(signal, draw) {
  while (!signal.aborted) {
    try {
      if (!document.hidden) draw(await call("GET", "/local/stream", { signal, tries: 1 }));
    } catch (error) {
      if (signal.aborted) return;
    }
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
  }
}

function readerRow(one) {
  const state = one.running ? chip("Running", "good") : chip("Stopped", "bad");
  return row(one.name, state, { number: duration(one.lag_ms ?? 0) }, ...counts(one, ["waiting", "in_flight", "retrying", "delivered", "failed", "given_up", "fail_next"]));
}

function queueRow(one) {
  const kind = one.kind === "foreign" ? "External" : "Reaction";
  return row(one.name, kind, ...counts(one, ["waiting", "in_flight", "delayed", "dead", "fail_next"]));
}

const counts = (one, names) => names.map((name) => ({ number: number(one[name] ?? 0) }));

function processChip({ name, running, restarts }) {
  const again = restarts ? `, restarted ${restarts} ×` : "";
  return chip(`${name}: ${running ? "running" : "down"}${again}`, running ? "good" : "bad");
}

function inShort({ readers, queues, processes, behind }) {
  const down = processes.filter((one) => !one.running).map((one) => one.name);
  if (down.length) return { text: `Down: ${down.join(", ")}. The restart is automatic.`, tone: "bad" };
  if (!readers.length) return { text: "The readers are restarting", tone: "waiting" };
  const stopped = readers.filter((one) => !one.running).map((one) => one.name);
  if (stopped.length) return { text: `Stopped: ${stopped.join(", ")}. Records are waiting.`, tone: "bad" };
  const sum = (all, ...names) => all.reduce((total, one) => total + names.reduce((count, name) => count + (one[name] ?? 0), 0), 0);
  if (sum(readers, "retrying") + sum(queues, "delayed")) return { text: "Some deliveries failed and will be retried", tone: "waiting" };
  if (behind.length) return { text: `This machine is behind with the orders: ${behind.join("; ")}`, tone: "waiting" };
  const ours = queues.filter((one) => one.kind !== "foreign");
  if (sum(readers, "waiting", "in_flight") + sum(ours, "waiting", "in_flight")) return { text: "Working", tone: "moving" };
  return { text: "All caught up", tone: "good" };
}

// The journal ----------------------------------------------------------------------------------------------------------
function journal(signal, onParked) {
  const list = el("ol", { class: "entries tail", reversed: true });
  const state = el("span", null, chip("Connecting …", "waiting"));
  const nothing = empty("No activity yet", "Place an order in the shop, or use a chaos switch.");
  const tail = ({ last_entry: last }) => follow({
    after: last == null ? undefined : Math.max(0, last - TAIL), signal,
    onState: (open) => state.replaceChildren(open ? chip("Live", "good") : chip("Reconnecting …", "waiting")),
    on: (entries) => {
      nothing.remove();
      list.prepend(...entries.slice(-TAIL).reverse().map((entry) => entryItem(entry, { linked: true })));
      while (list.children.length > TAIL) list.lastChild.remove();
      if (entries.some((entry) => entry.kind === "parked")) onParked();
    },
  });
  get("/local/shop", { signal }).then(tail, () => {});
  const head = el("div", { class: "card-head" }, el("h2", null, "Activity"), state);
  const region = el("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "The newest 50 entries of the activity log" }, nothing, list);
  return el("section", { class: "card" }, head, region);
}
