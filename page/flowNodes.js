// The states of the nodes in the drawing of the flow, their entries in the journal, and the panel of a node.

import { get } from "./api.js";
import { entryItem } from "./entries.js";
import { duration, fineTime, number, plural, time } from "./format.js";
import { chip, el, facts, fill, orderLink } from "./ui.js";

const RECENT_MS = 10_000;
const SHOW_RECOVERY_MS = 90_000;
const KEPT_ENTRIES = 400;
const SETTLED_MS = 3000;
const FORGOTTEN_MS = 300_000; // forget a failure after this time: a message without an effect has no entry that ends its failure
const PROCESS_NODES = { dynamodb: "table", aws: "api" };
const BREAKING = new Set(["fail", "twice", "kill"]);
const ENTRIES_SHOWN = 8;

/** Returns the id of the node to which an entry of the journal belongs, or null. */
export function nodeOf({ kind, reader, reaction, node, process }) {
  if (reader ?? reaction ?? node) return reader ?? reaction ?? node;
  if (process) return PROCESS_NODES[process];
  return { request: "api", record: "table", published: "event_publisher", copied: "copies_reader", time: "schedules", warehouse: "warehouse" }[kind] ?? null;
}

/**
 * Collects, from the entries of the journal, each node's newest entries, current failures and last recovery. A
 * recovery lasts from the first failure of a record or message until its success.
 */
export class Activity {
  #entries = [];
  #failing = new Map();
  #stopped = new Map();
  #recovered = new Map();
  #parked = new Map();
  #idleSince = new Map();
  #repeated = new Map();

  add(entries) {
    for (const entry of entries) this.#note(entry);
    this.#entries = [...this.#entries, ...entries].slice(-KEPT_ENTRIES);
  }

  /** Returns the entries of a node. `sources`: the reactions whose effects also count as its entries. */
  entriesOf(id, sources) {
    const isEffect = ({ kind, reaction }) => kind === "effect" && sources.has(reaction);
    return this.#entries.filter((entry) => nodeOf(entry) === id || isEffect(entry) || (id === "bus" && entry.kind === "published"));
  }

  recent(kind, now = Date.now()) {
    return this.#entries.filter((entry) => entry.kind === kind && now - Date.parse(entry.at) < RECENT_MS).length;
  }

  /** Returns the highest number of attempts among the node's current failures, or 0 if there is no failure. */
  failingAttempt(id) {
    const open = [...(this.#failing.get(id)?.values() ?? [])].filter((one) => Date.now() - one.last < FORGOTTEN_MS);
    return Math.max(0, ...open.map((one) => one.attempt));
  }

  /**
   * Ends the failures of a queue that is idle for some seconds. A message without an effect has no entry of its success,
   * and on a slow machine log lines are late. `isIdle`: whether the queue and its dead-letter queue are empty.
   */
  settle(id, isIdle, now = Date.now()) {
    if (!isIdle) return void this.#idleSince.delete(id);
    const since = this.#idleSince.get(id) ?? now;
    this.#idleSince.set(id, since);
    if (now - since < SETTLED_MS) return;
    const isOlder = (at) => now - at >= SETTLED_MS; // an entry can be newer than the look at the queue
    const repeated = this.#repeated.get(id);
    if (repeated && isOlder(repeated.at)) {
      this.#repeated.delete(id);
      this.#recover(id, now, `recovered: both deliveries processed, after about ${duration(Math.max(0, since - repeated.at))}`, repeated.order_id);
    }
    for (const [key, failure] of this.#failing.get(id) ?? []) {
      if (!isOlder(failure.last)) continue;
      this.#failing.get(id).delete(key);
      if (now - failure.last < FORGOTTEN_MS) this.#recover(id, now, `recovered: attempt ${failure.attempt + 1}, after about ${duration(Math.max(0, since - failure.since))}`, key);
    }
  }

  /** Returns the last recovery of a node: {text, at, order_id}, or undefined. */
  recovery(id) {
    return this.#recovered.get(id);
  }

  #note(entry) {
    const [id, at, key] = [nodeOf(entry), Date.parse(entry.at), entry.order_id ?? ""];
    const failed = entry.kind === "failed" || (entry.kind === "delivery" && entry.outcome !== "done") || (entry.kind === "process" && entry.running === false);
    const succeeded = entry.kind === "effect" || (entry.kind === "delivery" && entry.outcome === "done") || (entry.kind === "process" && entry.running === true);
    if (entry.deliveries) this.#repeat(id, at, entry);
    if (failed && id) this.#fail(id, key, at, entry);
    else if (succeeded) this.#succeed(id, key, at, entry);
    else if (entry.kind === "parked") this.#park(id, key, at, entry);
    else if (entry.kind === "redriven") this.#redrive(at, entry);
    else if (entry.kind === "chaos" && entry.switch === "reader") this.#stopOrStart(id, at, entry.running);
    else if (entry.kind === "chaos" && BREAKING.has(entry.switch)) this.#recovered.delete(id);
  }

  #fail(id, key, at, { attempt }) {
    const open = this.#failing.get(id) ?? new Map();
    const before = open.get(key);
    open.set(key, { since: before?.since ?? at, last: at, attempt: Math.max(attempt ?? 1, (before?.attempt ?? 0) + (attempt ? 0 : 1)) });
    this.#failing.set(id, open);
    this.#recovered.delete(id);
  }

  #succeed(id, key, at, { attempt, lag_ms: lag, kind, order_id }) {
    const open = this.#failing.get(id);
    const failure = open?.get(key);
    if (failure) {
      open.delete(key);
      const count = kind === "process" ? "" : ` attempt ${Math.max(attempt ?? 1, failure.attempt + 1)},`;
      this.#recover(id, at, `recovered:${count} after ${duration(at - failure.since)}`, order_id);
    } else if (this.#stopped.get(id) === "started") {
      this.#stopped.delete(id);
      this.#recover(id, at, `recovered: attempt ${attempt ?? 1}, after ${duration(lag ?? 0)}`, order_id);
    }
  }

  /** Notes a repeated delivery. A batch's entry comes after both deliveries, a message's before: `settle` waits. */
  #repeat(id, at, { kind, ms, order_id }) {
    if (kind === "delivery") this.#recover(id, at, `recovered: both deliveries processed, after ${duration(ms)}`, order_id);
    else this.#repeated.set(id, { at, order_id });
  }

  #park(id, key, at, { object, order_id }) {
    const failure = this.#failing.get(id)?.get(key);
    this.#failing.get(id)?.delete(key);
    this.#parked.set(object, { id, order_id, since: failure?.since ?? at });
  }

  #redrive(at, { object }) {
    const parked = this.#parked.get(object);
    if (parked) this.#recover(parked.id, at, `recovered: redriven, after ${duration(at - parked.since)}`, parked.order_id);
  }

  #stopOrStart(id, at, running) {
    if (running && this.#stopped.has(id)) this.#stopped.set(id, "started");
    else if (!running) {
      this.#stopped.set(id, "stopped");
      this.#recovered.delete(id);
    }
  }

  #recover(id, at, text, order_id) {
    this.#recovered.set(id, { text, at, order_id });
  }
}

// States -----------------------------------------------------------------------------------------------------------------
/** Returns the state of each node: {tone, text, badges}. `now`: the answer of /local/stream. */
export function statesOf(nodes, now, activity) {
  const readers = new Map(now.readers.map((one) => [one.name, one]));
  const queues = new Map(now.queues.map((one) => [one.name, one]));
  return new Map(nodes.map((node) => {
    const [reader, queue] = [readers.get(node.id), queues.get(node.id)];
    const state = node.kind === "reader" ? readerState(node, reader, now, activity)
      : queue ? queueState(node, queue, now, activity)
      : otherState(node, now, activity);
    return [node.id, { ...recoveredState(state, activity.recovery(node.id)), badges: badgesOf(node, queue, now) }];
  }));
}

function recoveredState(state, recovery) {
  const calm = !["bad", "waiting"].includes(state.tone);
  return recovery && calm && Date.now() - recovery.at < SHOW_RECOVERY_MS ? { tone: "good", text: recovery.text } : state;
}

function badgesOf(node, queue, { failures }) {
  const stored = failures?.[node.id] ?? 0;
  const dead = (queue?.dead ?? 0) + (node.kind === "schedules" ? stored : 0);
  const parked = node.kind === "schedules" ? 0 : stored;
  return [parked && `${number(parked)} parked`, dead && plural(dead, "dead letter")].filter(Boolean);
}

function readerState(node, reader, { behind }, activity) {
  if (!reader) return { tone: "waiting", text: "restarting" };
  const waits = reader.waiting + reader.in_flight + reader.retrying;
  if (!reader.running) return { tone: "bad", text: `stopped, ${number(waits)} waiting` };
  if (reader.retrying) return { tone: "bad", text: `failing: attempt ${activity.failingAttempt(node.id) || 1}, ${number(waits)} waiting` };
  if (reader.fail_next) return { tone: "waiting", text: `the next ${plural(reader.fail_next, "delivery", "deliveries")} will fail` };
  if (reader.repeat_next) return { tone: "waiting", text: "gets the next batch twice" };
  if (isBehind(node.id, behind)) return { tone: "waiting", text: `${duration(reader.lag_ms)} behind, ${number(waits)} waiting` };
  return waits ? { tone: "moving", text: `${number(waits)} in progress` } : { tone: "", text: "0 behind" };
}

function queueState(node, queue, { behind }, activity) {
  const waits = queue.waiting + queue.in_flight + queue.delayed;
  activity.settle(node.id, !waits && !queue.dead);
  const attempt = activity.failingAttempt(node.id);
  const again = queue.returning ? `${number(queue.returning)} again at ${time(queue.returns_at * 1000)}` : "";
  if (waits && attempt) return { tone: "bad", text: `failing: attempt ${attempt}, ${again || `${number(waits)} waiting`}` };
  if (again) return { tone: "waiting", text: again };
  if (queue.delayed) return { tone: "waiting", text: `${number(queue.delayed)} deferred` };
  if (queue.fail_next) return { tone: "waiting", text: `the next ${plural(queue.fail_next, "delivery", "deliveries")} will fail` };
  if (queue.repeat_next) return { tone: "waiting", text: "gets the next message twice" };
  if (isBehind(node.id, behind)) return { tone: "waiting", text: `behind, ${number(waits)} waiting` };
  return { tone: waits && node.kind !== "external" ? "moving" : "", text: `${number(waits)} waiting` };
}

function otherState(node, { processes, faults }, activity) {
  const down = processes.some((one) => !one.running && PROCESS_NODES[one.name] === node.id);
  if (down) return { tone: "bad", text: "down, restarting" };
  const calm = (text) => ({ tone: "", text });
  if (node.kind === "api") return calm(`${plural(activity.recent("request"), "write")} in 10\u00a0s`);
  if (node.kind === "table") return calm(`${plural(activity.recent("record"), "record")} in 10\u00a0s`);
  if (node.kind === "bus") return calm(node.settings.map(([name, text]) => `${text} ${name.toLowerCase()}`).join(", "));
  if (node.kind === "schedules") return calm(plural(node.settings.length, "job"));
  if (node.id === "mail") return faults?.mail ? { tone: "waiting", text: faultText(faults.mail) } : calm("accepts mails");
  if (node.id === "provider") {
    const text = [faults?.provider && `slow: ${faults.provider} s`, faults?.delivery && `events ${deliveryText(faults)}`].filter(Boolean).join(", ");
    return text ? { tone: "waiting", text } : calm("answers");
  }
  if (node.kind === "reaction" || node.kind === "external") return { tone: "bad", text: "queue does not answer" };
  return calm("objects");
}

const faultText = (kind) => (kind === "rate" ? "1 mail a second" : kind === "suppressed" ? "sends no mails" : `refuses: ${kind}`);
const deliveryText = ({ delivery }) => delivery.replaceAll("_", " ");
const isBehind = (id, behind) => behind.some((text) => text.startsWith(`${id} is `));

/** Returns the state of the whole flow in one sentence. "All caught up" means also that there are no stored failures. */
export function inShort({ readers, queues, processes, behind, failures, faults, full_disk }, activity) {
  if (full_disk) return { text: full_disk, tone: "bad" };
  const down = processes.filter((one) => !one.running).map((one) => one.name);
  if (down.length) return { text: `Down: ${down.join(", ")}. The restart is automatic.`, tone: "bad" };
  if (!readers.length || !queues.length || !failures) return { text: "The readers are restarting", tone: "waiting" };
  const stopped = readers.filter((one) => !one.running).map((one) => one.name);
  if (stopped.length) return { text: `Stopped: ${stopped.join(", ")}. Records are waiting.`, tone: "bad" };
  const sum = (all, ...names) => all.reduce((total, one) => total + names.reduce((count, name) => count + (one[name] ?? 0), 0), 0);
  const dead = queues.filter((one) => one.dead).map((one) => `${one.name} (${one.dead})`);
  const parked = Object.entries(failures).map(([name, count]) => `${name} (${count})`);
  if (dead.length || parked.length) return { text: `Failed and stored: ${[...parked, ...dead].join(", ")}. Open the node to redrive.`, tone: "bad" };
  const failing = [...readers, ...queues].filter((one) => (one.waiting || one.in_flight || one.retrying || one.delayed) && activity.failingAttempt(one.name)).map((one) => one.name);
  if (failing.length) return { text: `Failing: ${failing.join(", ")}. It will be retried.`, tone: "bad" };
  const injected = injectedFaults({ readers, queues, faults });
  if (injected.length) return { text: `Fault switched on: ${injected.join("; ")}`, tone: "waiting" };
  if (sum(readers, "retrying") + sum(queues, "delayed", "returning")) return { text: "Some deliveries failed and will be retried", tone: "waiting" };
  if (behind.length) return { text: `This machine is behind with the orders: ${behind.join("; ")}`, tone: "waiting" };
  const ours = queues.filter((one) => one.kind !== "foreign");
  if (sum(readers, "waiting", "in_flight") + sum(ours, "waiting", "in_flight")) return { text: "Working", tone: "moving" };
  return { text: "All caught up", tone: "good" };
}

/** Returns the faults that a user switched on and that still work, each as a phrase. They explain a consumer that is behind. */
function injectedFaults({ readers, queues, faults }) {
  const consumers = [...readers, ...queues].flatMap(({ name, fail_next: fails, repeat_next: repeats }) => [
    fails && `the next ${plural(fails, "delivery", "deliveries")} of ${name} will fail`,
    repeats && `${name} gets the next batch or message twice`,
  ]);
  const mail = faults?.mail && `the mail service ${faultText(faults.mail).replace(/^1 mail/, "sends 1 mail")}`;
  const slow = faults?.provider && `the payment provider waits ${faults.provider} s`;
  const delivery = faults?.delivery && `the payment provider sends its events ${deliveryText(faults)}`;
  return [...consumers, mail, slow, delivery].filter(Boolean);
}

// The panel --------------------------------------------------------------------------------------------------------------
/** Returns a node's panel: purpose, settings, last entries and calls. `breaks`: switches. `failures`: its failures. */
export function nodePanel(node, { activity, sources, signal, breaks, failures, onClose }) {
  const heading = el("h2", { id: "flow-panel-title", tabindex: "-1" }, node.label);
  const close = el("button", { type: "button", class: "close", "aria-label": `Close ${node.label}`, onclick: onClose }, "✕");
  const state = el("p", { class: "flow-state" });
  const recovered = el("p", { class: "flow-recovered", role: "status" });
  const list = el("ol", { class: "entries" });
  const calls = el("div", { class: "stack" });
  const loadCalls = () => fill(calls, "the last calls", async () => callList(await get(`/local/flow/${encodeURIComponent(node.id)}/calls`, { signal })));
  const callDetails = hasCalls(node) && el("details", { ontoggle: (event) => event.target.open && loadCalls() }, el("summary", null, "Last calls and their log lines"), calls);
  const element = el("section", { class: "card flow-panel stack", id: "flow-panel", "aria-labelledby": "flow-panel-title" },
    el("div", { class: "card-head" }, heading, close),
    el("p", null, node.about), el("div", { class: "row tight" }, state, recovered),
    failures, breaks, aboutNode(node),
    el("details", { open: true }, el("summary", null, "Last activity"), list), callDetails);

  let shown = "";
  const update = (now) => {
    const recovery = activity.recovery(node.id);
    state.replaceChildren(now.text === recovery?.text ? "" : chip(now.text, now.tone || "over"), ...now.badges.map((text) => chip(text, "bad")));
    if ((recovery?.text ?? "") !== recovered.dataset.text) {
      recovered.dataset.text = recovery?.text ?? "";
      recovered.replaceChildren(...(recovery ? [chip(recovery.text, "good")] : []), ...(recovery?.order_id ? [" ", orderLink(recovery.order_id, "See its trace")] : []));
    }
    const entries = activity.entriesOf(node.id, sources).slice(-ENTRIES_SHOWN).reverse();
    const key = entries.map((entry) => entry.id).join();
    if (key === shown && list.childNodes.length) return;
    shown = key;
    list.replaceChildren(...(entries.length ? entries.map(entryItem) : [el("li", { class: "hint" }, "Nothing happened here lately.")]));
  };
  return { element, heading, update };
}

const hasCalls = (node) => node.function || node.functions;

function aboutNode(node) {
  const listed = (all) => all?.length > 0 && el("ul", { class: "flow-list" }, all.map((text) => el("li", null, text)));
  const settings = node.settings.map(([name, text]) => [name, text]);
  return el("details", null, el("summary", null, "What it is, reads and writes"),
    facts(
      ["Module", node.module && el("code", null, node.module)],
      ["Reads", listed(node.reads)],
      ["Writes", listed(node.writes)],
      ["Derives", listed(node.derives)],
      ["Listens for", listed(node.events)],
      ["A second delivery changes nothing, because of", node.idempotent_by],
      ...settings));
}

function callList({ calls }) {
  if (!calls.length) return el("p", { class: "hint" }, "No call is in the log yet.");
  return calls.map((call) => el("div", { class: "flow-call" },
    el("h3", null, call.function, " ", el("span", { class: "hint" }, call.at && fineTime(call.at))),
    el("ol", null, call.lines.map((line) => el("li", { class: line.level === "ERROR" && "is-bad" },
      el("code", null, `${line.level} ${line.message}`), " ", el("code", { class: "hint" }, JSON.stringify(line.fields)))))));
}
