// Parked records and failed batches: records that can never be processed, or that were given up.

import { get, post } from "./api.js";
import { bytes, plural } from "./format.js";
import { json } from "./panels.js";
import { announce, button, chip, dialog, el, empty, fill, row, table, timeOf, toast } from "./ui.js";

/** The section, and `refresh`, which reloads the newest page. */
export function failuresSection({ signal }) {
  const place = el("div");
  const refresh = () => showNewest(place, signal, refresh);
  const head = el("div", { class: "card-head" }, el("h2", null, "Failures"), button("Refresh", refresh, { kind: "small quiet" }));
  refresh();
  return { element: el("section", { class: "card", "aria-label": "Failures" }, head, place), refresh };
}

function showNewest(place, signal, refresh) {
  const failureRow = (one) => rowOf(one, refresh);
  return fill(place, "failures", async () => {
    const first = await page(null, signal);
    if (!first.items.length) return empty("No failures", "Records that the code cannot read appear here, with their payload and the reason.");
    const list = table("Failures, newest first", ["When", "Reader", "Kind", "Reason", "Open"], first.items.map(failureRow), { hideCaption: true });
    const more = el("div", { class: "row" });
    const offer = (cursor) => more.replaceChildren(...(cursor ? [button("Show older failures", () => older(cursor))] : []));
    const older = async (cursor) => {
      const found = await page(cursor, signal);
      list.body.append(...found.items.map(failureRow));
      announce(`${plural(found.items.length, "older failure")} shown`);
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

function rowOf(one, refresh) {
  const look = button("Open", () => openFailure(one, refresh), { kind: "small", "aria-label": `Open the failure of ${one.reader}` });
  const kind = one.redriven ? chip(`${one.kind}, redriven`, "good") : chip(one.kind, one.kind === "parked" ? "waiting" : "bad");
  return row(timeOf(one.at), one.reader, kind, el("span", { class: "reason" }, one.reason), look);
}

function openFailure({ key, reader, reason, bytes: size }, refresh) {
  const path = `/local/failures/${encodeURIComponent(key)}`;
  dialog(`Failure of ${reader}`, (shown) => {
    const document = el("div", { class: "stack" });
    fill(document, "the failure", async () => json(await get(path)));
    const again = button("Redrive", async () => {
      const { redriven, why } = await post(`${path}/redrive`);
      if (!redriven) return toast(`Not redriven: ${why}`, "bad");
      shown.close();
      toast("Redriven: the failed work is done, and no effect is repeated.");
      await refresh();
    });
    const about = el("p", { class: "hint" }, el("code", { class: "id" }, key), size ? `, ${bytes(size)}` : "");
    return [el("p", { class: "notice bad" }, `Reason: ${reason}`), about, el("div", { class: "row" }, again), document];
  }, { wide: true });
}
