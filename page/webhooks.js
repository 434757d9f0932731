// The webhooks of the shop, for staff: the list, a webhook with its deliveries, and the dialogs that change it.

import { call, get, once, post } from "./api.js";
import { asUtc, field, form } from "./forms.js";
import { duration, moment, number } from "./format.js";
import { textOf } from "./labels.js";
import { paged } from "./lists.js";
import { Rejection } from "./problems.js";
import { settings } from "./settings.js";
import { button, chip, copyable, dialog, el, empty, facts, orderLink, renew, row, stateChip, table, timeOf, toast } from "./ui.js";

const addressOf = (id) => `#/records?${new URLSearchParams({ list: "webhooks", ...(id && { webhook: id }) })}`;

/** Returns what the card of the list contains: all webhooks, or the one in the address. */
export async function show(view) {
  const id = view.query.get("webhook");
  if (id) return el("div", { class: "stack" }, el("p", null, el("a", { href: addressOf() }, textOf("webhooks.all"))), await details(id, view));
  const { items } = await get("/api/webhooks", { as: view.me, signal: view.signal });
  const heads = [textOf("webhooks.url"), textOf("webhooks.events"), textOf("webhooks.state"), textOf("webhooks.created")];
  const line = (one) => row(el("a", { href: addressOf(one.webhook_id) }, one.url), eventsOf(one), stateOf(one), timeOf(one.created_at));
  return el("div", { class: "stack" },
    el("div", { class: "row" }, button(textOf("webhooks.add"), () => add(view))),
    items.length ? table(textOf("webhooks.all"), heads, items.map(line), { hideCaption: true }) : empty(textOf("webhooks.none"), textOf("webhooks.none.why")));
}

const eventsOf = ({ events }) => events.join(", ") || textOf("webhooks.events.all");

function stateOf({ status, paused_by: by, retry_at: at }) {
  if (by === "failures") return chip(textOf("webhooks.paused_by_failures"), "bad");
  if (status === "PAUSED") return chip(textOf("webhooks.paused"), "waiting");
  return at && Date.parse(at) > Date.now() ? chip(textOf("webhooks.waits", { at: moment(at) }), "waiting") : chip(textOf("webhooks.active"), "good");
}

// A webhook ------------------------------------------------------------------------------------------------------------
async function details(id, view) {
  const path = `/api/webhooks/${encodeURIComponent(id)}`;
  const { me, signal } = view;
  const webhook = await get(path, { as: me, signal });
  const again = () => renew(view.card, () => show(view));
  const change = (body) => call("PATCH", path, { body, as: me });
  const changed = () => {
    toast(textOf("webhooks.changed"));
    return again();
  };
  const [status, command] = webhook.status === "PAUSED" ? ["ACTIVE", textOf("webhooks.resume")] : ["PAUSED", textOf("webhooks.pause")];
  const deliveries = await paged({
    path: `webhooks/${encodeURIComponent(id)}/deliveries`, me, signal, caption: textOf("webhooks.deliveries.order"), line: deliveryRow,
    heads: [textOf("webhooks.at"), textOf("webhooks.event"), textOf("webhooks.object"), { text: textOf("webhooks.attempt"), number: true }, textOf("webhooks.answer"), { text: textOf("webhooks.duration"), number: true }],
    none: empty(textOf("webhooks.deliveries.none"), textOf("webhooks.deliveries.none.why")),
  });
  return [
    el("h2", null, webhook.url),
    webhook.paused_by === "failures" && el("p", { class: "notice bad" }, textOf("webhooks.paused_by_failures.why")),
    facts(
      [textOf("webhooks.state"), stateOf(webhook)], [textOf("webhooks.replay"), webhook.is_replaying && textOf("webhooks.replay.runs")],
      [textOf("webhooks.events"), eventsOf(webhook)], [textOf("webhooks.where"), whereText(webhook.where)],
      [textOf("webhooks.failures"), webhook.failures > 0 && number(webhook.failures)], [textOf("webhooks.active_from"), timeOf(webhook.active_from)]),
    el("div", { class: "row tight" },
      button(command, () => change({ status }).then(changed), { kind: "small" }),
      button(textOf("webhooks.change"), () => edit(webhook, change, changed), { kind: "small" }),
      button(textOf("webhooks.replay"), () => replay(path, me, again), { kind: "small" }),
      button(textOf("webhooks.rotate"), () => rotate(path, view, again), { kind: "small" }),
      button(textOf("webhooks.delete"), () => remove(path, webhook, me), { kind: "small" })),
    el("div", { class: "card-head" }, el("h3", null, textOf("webhooks.deliveries")), button(textOf("order.refresh"), again, { kind: "small quiet" })),
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
  field(textOf("webhooks.events"), "events", { multiple: true, size: 8 }, { hint: textOf("webhooks.events.hint"), options: settings.webhook_events.map((name) => [name, name, chosen.includes(name)]) });

const chosenIn = ({ control }) => [...control.selectedOptions].map(({ value }) => value);

/** Returns the fields of a webhook with its known values, and a function that reads them. */
function webhookFields({ url = "", events = [], where = {} } = {}) {
  const address = field(textOf("webhooks.url"), "url", { type: "url", required: true, value: url, maxlength: 500, autocomplete: "off" }, { hint: textOf("webhooks.url.hint") });
  const event = eventsField(events);
  const filter = field(textOf("webhooks.where"), "where", { value: whereText(where), autocomplete: "off", spellcheck: "false" }, { hint: textOf("webhooks.where.hint") });
  const read = () => ({ url: address.control.value, events: chosenIn(event), where: filter.control.value === whereText(where) ? where : attributesIn(filter.control.value) });
  return { fields: [address, event, filter], read };
}

const whereText = (where) => Object.entries(where).map((pair) => pair.join("=")).join(", ");

function attributesIn(text) {
  const pairs = text.split(",").map((one) => one.trim()).filter(Boolean).map((one) => [one, one.indexOf("=")]);
  const wrong = pairs.find(([, at]) => at < 1);
  if (wrong) throw new Rejection(textOf("webhooks.where.wrong", { text: wrong[0] }));
  return Object.fromEntries(pairs.map(([one, at]) => [one.slice(0, at).trim(), one.slice(at + 1).trim()]));
}

function add(view) {
  const { fields, read } = webhookFields();
  const send = () => once("webhook", read(), (key) => post("/api/webhooks", read(), { as: view.me, key }));
  open(textOf("webhooks.add"), fields, textOf("webhooks.add"), send, (made) => showSecret(made.secret, view, () => (location.hash = addressOf(made.webhook_id))));
}

function edit(webhook, change, done) {
  const { fields, read } = webhookFields(webhook);
  open(textOf("webhooks.change"), fields, textOf("webhooks.save"), () => change(differences(webhook, read())), done);
}

/** Returns only the values that differ, because an address that is sent also ends the wait of the webhook. */
const differences = (before, after) => Object.fromEntries(Object.entries(after).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name])));

function replay(path, me, done) {
  const from = field(textOf("webhooks.replay.from"), "from", { type: "datetime-local", required: true }, { hint: textOf("webhooks.replay.hint") });
  const events = eventsField();
  const object = field(textOf("webhooks.replay.object"), "object_id", { autocomplete: "off", spellcheck: "false" }, { hint: textOf("webhooks.replay.object.hint") });
  const body = () => ({ from: asUtc(from.control.value), events: chosenIn(events), object_id: object.control.value.trim() || null });
  open(textOf("webhooks.replay"), [from, events, object], textOf("webhooks.replay.submit"), () => post(`${path}/replay`, body(), { as: me, tries: 1 }), done);
}

function rotate(path, view, done) {
  const send = () => once(path, {}, (key) => post(`${path}/secret`, {}, { as: view.me, key }));
  open(textOf("webhooks.rotate"), el("p", null, textOf("webhooks.rotate.effect")), textOf("webhooks.rotate"), send, ({ secret }) => showSecret(secret, view, done));
}

/** Shows a secret in a dialog. `done`: called when the user closes it, but not when another view closes it. */
function showSecret(secret, { signal }, done) {
  const box = dialog(textOf("webhooks.secret"), () => [el("p", null, textOf("webhooks.secret.once")), copyable(secret, textOf("webhooks.secret.name"))]);
  box.addEventListener("close", () => signal.aborted || done());
}

function remove(path, { url }, me) {
  open(textOf("webhooks.delete.title", { url }), el("p", null, textOf("webhooks.delete.effect")), textOf("webhooks.delete"), () => call("DELETE", path, { as: me }), () => (location.hash = addressOf()));
}
