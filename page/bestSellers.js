// The best sellers of a month, and the monthly sales of one product.

import { get } from "./api.js";
import { barList } from "./chart.js";
import { filled, number, plural } from "./format.js";
import { staffMember } from "./people.js";
import { announce, el, empty, loadingDialog, moreButton, row, table } from "./ui.js";

const PAGE = 10;
const MONTHS = 12;
const names = new Map();

/** Shows the best sellers of a month, best first, with a button for more. */
export async function bestSellers({ month, signal }) {
  const found = await page(month, null, signal);
  if (!found.items.length) return empty(`Nothing was sold in ${monthName(month)}`, "This list counts paid pieces minus returned pieces, shortly after each change.");
  const shown = [...found.items];
  const list = el("div", { class: "stack" }, drawn(shown, month, signal));
  return [list, moreButton(found.cursor, async (cursor) => {
    const following = await page(month, cursor, signal);
    shown.push(...following.items);
    list.replaceChildren(...drawn(shown, month, signal));
    announce(`${plural(following.items.length, "more product")} shown`);
    return following.cursor;
  })];
}

async function page(season, cursor, signal) {
  const found = await get(`/api/insight/best-sellers?${filled({ season, limit: PAGE, cursor })}`, { as: staffMember(), signal });
  await Promise.all(found.items.map(({ product_id: id }) => learnName(id, signal)));
  return found;
}

/** Loads the name of a product, because the list has only product ids. A product that is not for sale keeps its id. */
async function learnName(id, signal) {
  if (names.has(id)) return;
  const found = await get(`/api/products/${encodeURIComponent(id)}`, { signal }).catch(() => null);
  signal.throwIfAborted();
  names.set(id, found?.name ?? id);
}

function drawn(items, month, signal) {
  const label = ({ product_id: id }) => el("button", { type: "button", class: "link", "aria-label": `${names.get(id)}, month by month`, onclick: () => openMonths(id, signal) }, names.get(id));
  const rows = items.map(({ product_id: id, pieces: sold }) => row(names.get(id), el("code", { class: "id" }, id), { number: number(sold) }));
  return [
    barList(items.map((one) => ({ label: label(one), value: one.pieces })), pieces, { "aria-label": `Best sellers of ${monthName(month)}` }),
    el("details", null, el("summary", null, "Show as a table"), table(`Best sellers of ${monthName(month)}`, ["Product", "Product id", { text: "Pieces", number: true }], rows)),
  ];
}

const pieces = (value) => plural(value, "piece");

/** Returns a month, such as 2026-11, in words. Months are in UTC. */
function monthName(month) {
  const first = new Date(`${month}-01T00:00:00Z`);
  return Number.isNaN(first.valueOf()) ? month : first.toLocaleDateString("en-GB", { month: "long", year: "numeric", timeZone: "UTC" });
}

// One product ----------------------------------------------------------------------------------------------------------
function openMonths(id, signal) {
  loadingDialog(`${names.get(id)}, month by month`, "months", () => months(id, signal));
}

async function months(id, signal) {
  const { items } = await get(`/api/insight/products/${encodeURIComponent(id)}?limit=${MONTHS}`, { as: staffMember(), signal });
  if (!items.length) return empty("Never sold", "The product appears here after its first payment.");
  const lines = items.map(({ season, pieces: sold }) => ({ label: monthName(season), value: sold }));
  const rows = lines.map(({ label, value }) => row(label, { number: number(value) }));
  return [
    barList(lines, pieces, { "aria-label": "Pieces sold, newest month first" }),
    el("details", null, el("summary", null, "Show as a table"), table("Pieces sold, newest month first", ["Month", { text: "Pieces", number: true }], rows)),
  ];
}
