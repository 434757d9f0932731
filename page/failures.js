// What can never be handled, or was given up: put aside whole, to be looked at.

import { get } from "./api.js";
import { bytes } from "./format.js";
import { json } from "./panels.js";
import { announce, button, chip, dialog, el, empty, fill, row, table, timeOf } from "./ui.js";

/** The section, and `refresh`, which shows the newest page anew. */
export function failuresSection({ signal }) {
  const place = el("div");
  const refresh = () => showNewest(place, signal);
  const head = el("div", { class: "card-head" }, el("h2", null, "Put aside"), button("Look again", refresh, { kind: "small quiet" }));
  refresh();
  return { element: el("section", { class: "card", "aria-label": "Put aside" }, head, place), refresh };
}

function showNewest(place, signal) {
  return fill(place, "what was put aside", async () => {
    const first = await page(null, signal);
    if (!first.items.length) return empty("Nothing was put aside", "A record that no code can read ends up here, with its payload and the reason.");
    const list = table("Put aside, newest first", ["When", "Reader", "Kind", "Reason", "Open"], first.items.map(failureRow), { hideCaption: true });
    const more = el("div", { class: "row" });
    const offer = (cursor) => more.replaceChildren(...(cursor ? [button("Show older ones", () => older(cursor))] : []));
    const older = async (cursor) => {
      const found = await page(cursor, signal);
      list.body.append(...found.items.map(failureRow));
      announce(`${found.items.length} older ones shown`);
      offer(found.cursor);
    };
    offer(first.cursor);
    return [list, more];
  });
}

function page(cursor, signal) {
  const query = new URLSearchParams({ limit: "20", ...(cursor && { cursor }) });
  return get(`/local/failures?${query}`, { signal });
}

function failureRow(one) {
  const look = button("Open", () => openFailure(one), { kind: "small", "aria-label": `Open what ${one.reader} put aside` });
  return row(timeOf(one.at), one.reader, chip(one.kind, one.kind === "parked" ? "waiting" : "bad"), el("span", { class: "reason" }, one.reason), look);
}

function openFailure({ key, reader, reason, bytes: size }) {
  dialog(`Put aside by ${reader}`, () => {
    const document = el("div", { class: "stack" });
    fill(document, "the record", async () => json(await get(`/local/failures/${encodeURIComponent(key)}`)));
    return [el("p", { class: "notice bad" }, `Reason: ${reason}`), el("p", { class: "hint" }, el("code", { class: "id" }, key), size ? `, ${bytes(size)}` : ""), document];
  }, { wide: true });
}
