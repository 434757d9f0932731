// The webhooks of the shop, for staff: the list, a webhook with its deliveries, and the dialogs that change it.

import { call, get, once, post } from "./api.js";
import { asUtc, field, form } from "./forms.js";
import { duration, filled, moment, number } from "./format.js";
import { paged } from "./lists.js";
import { Rejection } from "./problems.js";
import { settings } from "./settings.js";
import { button, chip, copyable, dialog, el, empty, facts, orderLink, renew, row, stateChip, table, timeOf, toast } from "./ui.js";

const addressOf = (id) => `#/records?${filled({ list: "webhooks", webhook: id })}`;

/** Returns what the card of the list contains: all webhooks, or the one in the address. */
export async function show(view) {
  const id = view.query.get("webhook");
  if (id) return el("div", { class: "stack" }, el("p", null, el("a", { href: addressOf() }, "All webhooks")), await details(id, view));
  const { items } = await get("/api/webhooks", { as: view.me, signal: view.signal });
  const heads = ["Address", "Events", "State", "Created"];
  const line = (one) => row(el("a", { href: addressOf(one.webhook_id) }, one.url), eventsOf(one), stateOf(one), timeOf(one.created_at));
  return el("div", { class: "stack" },
    el("div", { class: "row" }, button("Add a webhook", () => add(view))),
    items.length ? table("All webhooks", heads, items.map(line), { hideCaption: true }) : empty("No webhooks", "Add an address to send it the events of the shop."));
}

const eventsOf = ({ events }) => events.join(", ") || "All events";

function stateOf({ status, paused_by: by, retry_at: at }) {
  if (by === "failures") return chip("Paused after failures", "bad");
  if (status === "PAUSED") return chip("Paused by staff", "waiting");
  return at && Date.parse(at) > Date.now() ? chip(`Waits until ${moment(at)}`, "waiting") : chip("Active", "good");
}

// A webhook ------------------------------------------------------------------------------------------------------------
async function details(id, view) {
  const path = `/api/webhooks/${encodeURIComponent(id)}`;
  const { me, signal } = view;
  const webhook = await get(path, { as: me, signal });
  const again = () => renew(view.card, () => show(view));
  const change = (body) => call("PATCH", path, { body, as: me });
  const changed = () => {
    toast("The webhook is changed. It counts for all events after 15 seconds.");
    return again();
  };
  const [status, command] = webhook.status === "PAUSED" ? ["ACTIVE", "Resume"] : ["PAUSED", "Pause"];
  const deliveries = await paged({
    path: `webhooks/${encodeURIComponent(id)}/deliveries`, me, signal, caption: "Deliveries, newest first", line: deliveryRow,
    heads: ["Time", "Event", "Object", { text: "Attempt", number: true }, "Answer", { text: "Duration", number: true }],
    none: empty("No deliveries", "Each attempt to send an event appears here for 14 days."),
  });
  return [
    el("h2", null, webhook.url),
    webhook.paused_by === "failures" && el("p", { class: "notice bad" }, "An event could not be sent for three days. Repair the receiver, then resume the webhook. Events wait for 14 days."),
    facts(
      ["State", stateOf(webhook)], ["Send again", webhook.is_replaying && "In progress"],
      ["Events", eventsOf(webhook)], ["Attributes", whereText(webhook.where)],
      ["Failures in a row", webhook.failures > 0 && number(webhook.failures)], ["Events from", timeOf(webhook.active_from)]),
    el("div", { class: "row tight" },
      button(command, () => change({ status }).then(changed), { kind: "small" }),
      button("Change", () => edit(webhook, change, changed), { kind: "small" }),
      button("Send again", () => replay(path, me, again), { kind: "small" }),
      button("New secret", () => rotate(path, view, again), { kind: "small" }),
      button("Delete", () => remove(path, webhook, me), { kind: "small" })),
    el("div", { class: "card-head" }, el("h3", null, "Deliveries"), button("Refresh", again, { kind: "small quiet" })),
    ...deliveries];
}

function deliveryRow({ at, event_id: id, event_name: event, object_id: object, attempt, status, error, ms }) {
  const order = /^ORDER:([^/]+)\//.exec(object)?.[1];
  const answer = status ? chip(String(status), status >= 200 && status < 300 ? "good" : "bad") : [stateChip("FAILED"), " ", error];
  return row(timeOf(at), el("span", { title: id }, event), order ? orderLink(order, object) : object, { number: number(attempt) }, answer, { number: duration(ms) });
}

// Commands -------------------------------------------------------------------------------------------------------------
/** Opens a dialog with a form, and closes it after the command. `done`: called with the answer of `send`. */
const open = (title, fields, submit, send, done) => dialog(title, (box) => form({ class: "stack" }, fields, submit, async () => {
  const answer = await send();
  box.close();
  await done(answer);
}));

const eventsField = (chosen = []) =>
  field("Events", "events", { multiple: true, size: 8 }, { hint: "Choose none for all events. Ctrl or Cmd chooses several.", options: settings.webhook_events.map((name) => [name, name, chosen.includes(name)]) });

const chosenIn = ({ control }) => [...control.selectedOptions].map(({ value }) => value);

/** Returns the fields of a webhook with its known values, and a function that reads them. */
function webhookFields({ url = "", events = [], where = {} } = {}) {
  const address = field("Address", "url", { type: "url", required: true, value: url, maxlength: 500, autocomplete: "off" }, { hint: "It begins with https:// and has a public host." });
  const event = eventsField(events);
  const filter = field("Attributes", "where", { value: whereText(where), autocomplete: "off", spellcheck: "false" }, { hint: "Optional: only events with these values, such as currency=EUR, method=CARD." });
  const read = () => ({ url: address.control.value, events: chosenIn(event), where: filter.control.value === whereText(where) ? where : attributesIn(filter.control.value) });
  return { fields: [address, event, filter], read };
}

const whereText = (where) => Object.entries(where).map((pair) => pair.join("=")).join(", ");

function attributesIn(text) {
  const pairs = text.split(",").map((one) => one.trim()).filter(Boolean).map((one) => [one, one.indexOf("=")]);
  const wrong = pairs.find(([, at]) => at < 1);
  if (wrong) throw new Rejection(`“${wrong[0]}” has no value. Write a name and a value, such as currency=EUR.`);
  return Object.fromEntries(pairs.map(([one, at]) => [one.slice(0, at).trim(), one.slice(at + 1).trim()]));
}

function add(view) {
  const { fields, read } = webhookFields();
  const send = () => once("webhook", read(), (key) => post("/api/webhooks", read(), { as: view.me, key }));
  open("Add a webhook", fields, "Add a webhook", send, (made) => showSecret(made.secret, view, () => (location.hash = addressOf(made.webhook_id))));
}

function edit(webhook, change, done) {
  const { fields, read } = webhookFields(webhook);
  open("Change", fields, "Save", () => change(differences(webhook, read())), done);
}

/** Returns only the values that differ, because an address that is sent also ends the wait of the webhook. */
const differences = (before, after) => Object.fromEntries(Object.entries(after).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name])));

function replay(path, me, done) {
  const from = field("Events from", "from", { type: "datetime-local", required: true }, { hint: "Events are kept for 14 days. They are sent with the same ids." });
  const events = eventsField();
  const object = field("Object (optional)", "object_id", { autocomplete: "off", spellcheck: "false" }, { hint: "Only events of this object, as the list of deliveries shows it." });
  const body = () => ({ from: asUtc(from.control.value), events: chosenIn(events), object_id: object.control.value.trim() || null });
  open("Send again", [from, events, object], "Send the events again", () => post(`${path}/replay`, body(), { as: me, tries: 1 }), done);
}

function rotate(path, view, done) {
  const send = () => once(path, {}, (key) => post(`${path}/secret`, {}, { as: view.me, key }));
  open("New secret", el("p", null, "For 24 hours, events are signed with the old and the new secret."), "New secret", send, ({ secret }) => showSecret(secret, view, done));
}

/** Shows a secret in a dialog. `done`: called when the user closes it, but not when another view closes it. */
function showSecret(secret, { signal }, done) {
  const box = dialog("The secret of the webhook", () => [el("p", null, "Copy it now. It is not shown again. The receiver checks signatures with it."), copyable(secret, "the secret")]);
  box.addEventListener("close", () => signal.aborted || done());
}

function remove(path, { url }, me) {
  open(`Delete ${url}?`, el("p", null, "No event is sent to this address any more, not even the events that wait. This cannot be undone."), "Delete", () => call("DELETE", path, { as: me }), () => (location.hash = addressOf()));
}
