// Lists stored failures: unprocessable (parked) records, failed batches and dead letters. A user can redrive them.

import { get, post } from "./api.js";
import { bytes, filled, number, plural } from "./format.js";
import { asUtc, field, form } from "./forms.js";
import { announce, button, chip, dialog, el, empty, failure, fill, json, moreButton, timeOf, toast } from "./ui.js";

const AT_NODE = 100;

/** Returns the section, and `refresh`, which reloads the newest page. `changed`: called after a redrive. */
export function failuresSection({ signal, changed }) {
  const place = el("div");
  const refresh = () => showNewest(place, signal, () => (refresh(), changed()));
  const head = el("div", { class: "card-head" }, el("h2", null, "Failures"), el("div", { class: "row tight" },
    button("Redrive several", () => redriveSeveral(() => (refresh(), changed())), { kind: "small" }), button("Refresh", refresh, { kind: "small quiet" })));
  refresh();
  return { element: el("section", { class: "card", "aria-label": "Failures" }, head, place), refresh };
}

/** Returns the failures of one node of the drawing, each with a button that redrives it, and `refresh`. */
export function failuresAt(node, { signal, changed }) {
  const element = el("section", { class: "flow-stored", "aria-label": `Failures at ${node.label}` });
  let shown = "";
  let newest = null;
  const refresh = async () => {
    try {
      await load();
    } catch (error) {
      if (error.name !== "AbortError") element.replaceChildren(failure(error, refresh));
    }
  };
  const load = async () => {
    const mine = (newest = {});
    const { items } = await page(null, signal, AT_NODE);
    if (mine !== newest) return; // a later request shows what is stored now
    const here = items.filter((one) => one.reader === node.id && !one.redriven);
    const keys = here.map((one) => one.key).join();
    if (keys === shown) return;
    shown = keys;
    element.replaceChildren(...(here.length ? [el("h3", null, "Stored here"), el("ul", { class: "plain-list" }, here.map(stored))] : []));
  };
  const again = () => (refresh(), changed());
  const stored = (one) => el("li", { class: "flow-failure" },
    el("span", null, chip(one.kind, "bad"), " ", timeOf(one.at)), el("span", { class: "reason" }, one.reason),
    el("span", { class: "row tight" },
      redriveButton(one, again, { "aria-label": `${redriveText(one)} the failure of ${one.at}` }),
      button("Open", () => openFailure(one, again), { kind: "small quiet", "aria-label": `Open the failure of ${one.at}` })));
  return { element, refresh };
}

/** Returns the button that redrives a failure. `done` is called after the redrive. */
export const redriveButton = (one, done, attributes) => button(redriveText(one), () => mendAndRedrive(one, done), { kind: "small", ...attributes });

const redriveText = (one) => (isPoisoned(one) ? "Mend and redrive" : "Redrive");
const isPoisoned = ({ kind, reason }) => kind === "parked" && reason.startsWith("UnknownSchema");

/** Redrives a failure. If a chaos switch made its record unreadable, writes the record in a readable schema first. */
async function mendAndRedrive(one, done) {
  if (isPoisoned(one)) {
    await post("/local/chaos", { switch: "mend", key: one.key }, { tries: 1 }).catch((error) => {
      if (error.status !== 400) throw error; // 400: the record is readable already, so only redrive it
    });
  }
  await redrive(one.key, done);
}

async function redrive(key, done) {
  const { redriven, why } = await post(`/local/failures/${encodeURIComponent(key)}/redrive`);
  if (redriven) done(); // before the toast, because a dialog that closes removes its toasts
  toast(redriven ? "Redriven: the failed work is done, and no effect is repeated." : `Not redriven: ${why}`, redriven ? "good" : "bad");
}

/** Lets the user choose failures by time, reader and reason, counts them, and redrives them after a confirmation. */
async function redriveSeveral(done) {
  const { readers, reactions } = await get("/local/shop");
  const all = [...readers, ...reactions].sort();
  dialog("Redrive several failures", (shown) => {
    const counted = el("div", { class: "stack", "aria-live": "polite" });
    const run = (body) => post("/local/failures/redrive", body, { tries: 1 });
    const redriveAll = async (filters) => {
      const { done: keys, left } = await run({ ...filters, dry: false });
      shown.close();
      done();
      const rest = Object.values(left);
      toast(`Redriven: ${number(keys.length)}.${rest.length ? ` Not redriven: ${number(rest.length)}, for example because ${rest[0]}.` : ""}`, rest.length ? "bad" : "good");
    };
    const count = async ({ elements: { since, reader, reason } }) => {
      const filters = { since: asUtc(since.value), reader: reader.value, reason: reason.value.trim() };
      const { done: keys, left, in_flight: inFlight } = await run({ ...filters, dry: true });
      const text = `${plural(keys.length, "failure")} can be redriven.`;
      const rest = Object.values(left);
      counted.replaceChildren(
        el("p", null, text),
        rest.length ? el("p", { class: "hint" }, `${plural(rest.length, "failure")} cannot be redriven, for example because ${rest[0]}.`) : "",
        inFlight ? el("p", { class: "hint" }, `Hidden for some minutes, because another process received them: ${plural(inFlight, "dead letter")}.`) : "",
        keys.length ? el("div", { class: "row" }, button(`Redrive ${number(keys.length)}`, () => redriveAll(filters), { kind: "primary" })) : "");
    };
    const fields = [
      field("Stored since", "since", { type: "datetime-local" }, { hint: "Empty: all times. A dead letter counts from when its message was sent." }),
      field("Reader or reaction", "reader", {}, { options: [["", "All"], ...all.map((one) => [one, one])] }),
      field("Reason contains", "reason", { placeholder: "UnknownSchema" }),
    ];
    const made = form({ class: "stack" }, fields, "Count", count, { kind: "" });
    made.addEventListener("input", () => counted.replaceChildren()); // the count is of other failures
    return [made, counted];
  });
}

function showNewest(place, signal, refresh) {
  const failureRow = (one) => rowOf(one, refresh);
  return fill(place, "failures", async () => {
    const first = await page(null, signal);
    if (!first.items.length) return empty("No failures", "Records that the code cannot read appear here, with their payload and the reason.");
    const list = el("ul", { class: "plain-list", "aria-label": "Failures, newest first" }, first.items.map(failureRow));
    return [list, moreButton(first.cursor, async (cursor) => {
      const found = await page(cursor, signal);
      list.append(...found.items.map(failureRow));
      announce(`${plural(found.items.length, "older failure")} shown`);
      return found.cursor;
    }, "Show older failures")];
  });
}

const page = (cursor, signal, limit = 20) => get(`/local/failures?${filled({ limit, cursor })}`, { signal });

function rowOf(one, refresh) {
  const look = button("Open", () => openFailure(one, refresh), { kind: "small", "aria-label": `Open the failure of ${one.reader}` });
  const kind = one.redriven ? chip(`${one.kind}, redriven`, "good") : chip(one.kind, one.kind === "parked" ? "waiting" : "bad");
  return el("li", { class: "flow-failure" },
    el("span", { class: "row tight" }, timeOf(one.at), el("strong", null, one.reader), kind), el("span", { class: "reason" }, one.reason), el("span", { class: "row tight" }, look));
}

function openFailure({ key, reader, reason, bytes: size }, refresh) {
  const path = `/local/failures/${encodeURIComponent(key)}`;
  dialog(`Failure of ${reader}`, (shown) => {
    const document = el("div", { class: "stack" });
    fill(document, "the failure", async () => json(await get(path)));
    const again = button("Redrive", () => redrive(key, () => (shown.close(), refresh())));
    const about = el("p", { class: "hint" }, el("code", { class: "id" }, key), size ? `, ${bytes(size)}` : "");
    return [el("p", { class: "notice bad" }, `Reason: ${reason}`), about, el("div", { class: "row" }, again), document];
  }, { wide: true });
}
