// The shop: the products for sale, the basket beside them, and the user's orders below.

import { get } from "./api.js";
import { Basket, basketPanel } from "./basket.js";
import { money, number, plural } from "./format.js";
import { fullName, isStaff, person } from "./people.js";
import { isHere } from "./settings.js";
import { seedProducts } from "./seedProducts.js";
import { announce, button, chip, el, empty, failure, fill, loading, row, stateChip, storyLink, table, timeOf } from "./ui.js";
import { labels } from "./labels.js";

const SOON_MS = 1500;

export function show(place, { signal }) {
  const me = person();
  const heading = el("h1", null, "Shop");
  const basket = new Basket();
  const products = el("section", { "aria-labelledby": "products" }, loading("Loading products …"));
  const mine = el("section", { class: "card", "aria-label": "My orders" });
  const aside = el("aside", { "aria-label": "Basket" });
  const orders = () => me && showOrders(mine, me, signal);
  const reload = () => showProducts(products, basket, signal);

  place.append(
    el("div", { class: "view-head" }, heading, el("p", { class: "lead" }, me ? labels.lead(fullName(me)) : labels.strangers)),
    el("div", { class: "shop-columns" }, products, aside),
    mine,
  );
  reload();
  if (isStaff(me)) {
    aside.append(el("div", { class: "card" }, empty("Staff cannot order", labels.staffShops)));
    mine.remove();
    return heading;
  }
  const placed = () => {
    reload();
    setTimeout(() => !signal.aborted && orders(), SOON_MS); // the list of my orders is a copy, made a moment later
  };
  aside.append(basketPanel({ basket, me, signal, placed, reload }));
  if (!me) mine.remove();
  orders();
  return heading;
}

// Products -------------------------------------------------------------------------------------------------------------
async function showProducts(place, basket, signal) {
  const list = el("ul", { class: "products" });
  const more = el("div", { class: "row" });
  const page = async (cursor) => {
    const query = new URLSearchParams({ category: "/", limit: "12", ...(cursor && { cursor }) });
    const found = await get(`/api/products?${query}`, { signal });
    basket.know(found.items);
    if (!cursor) await knowTheRest(basket, new Set(found.items.map((product) => product.product_id)), signal);
    list.append(...found.items.map((product) => card(product, basket)));
    more.replaceChildren(...(found.cursor ? [button("Show more", () => page(found.cursor))] : []));
    if (cursor) announce(`${plural(found.items.length, "more product")} shown`);
  };
  const again = () => showProducts(place, basket, signal);
  const title = el("h2", { id: "products" }, "For sale");
  try {
    await page();
    place.replaceChildren(title, list.children.length ? list : nothingForSale(again), more);
  } catch (error) {
    if (!signal.aborted) place.replaceChildren(title, failure(error, again));
  }
}

/** Products in the basket may be on a later page: the basket requests them separately, with their current prices. */
async function knowTheRest(basket, shown, signal) {
  await Promise.all(basket.ids.filter((id) => !shown.has(id)).map(async (id) => {
    const path = `/api/products/${encodeURIComponent(id)}`;
    try {
      const [product, stock] = await Promise.all([get(path, { signal }), get(`${path}/stock`, { signal })]);
      basket.know([{ ...product, ...stock }]);
    } catch (error) {
      if (error.status !== 404) throw error;
      basket.set(id, 0);
    }
  }));
}

function nothingForSale(again) {
  const stock = async () => {
    await seedProducts();
    await again();
  };
  const offers = [{ text: "Add sample products", open: stock, laptop: true }].filter(isHere);
  return empty("No products yet", labels.shelves, offers.map(({ text, open }) => button(text, open, { kind: "primary" })));
}

function card(product, basket) {
  const { product_id: id, name, price, currency, available, backorder } = product;
  const gone = available <= 0 && !backorder;
  const add = button("Add to basket", () => {
    basket.add(id);
    announce(`${name} is in the basket`);
  }, { "aria-label": `Add to basket: ${name}`, disabled: gone });
  return el("li", { class: "card product" },
    el("div", { class: `picture tint-${tint(id)}`, "aria-hidden": "true" }, name.charAt(0)),
    el("h3", null, name),
    el("p", { class: "product-line" }, el("span", { class: "price" }, money(price, currency)), stock(available, backorder)),
    add);
}

function stock(available, backorder) {
  if (available > 5) return chip(`${number(available)} in stock`, "good");
  if (available > 0) return chip(`Only ${available} left`, "waiting");
  return backorder ? chip("On backorder", "moving") : chip("Sold out", "over");
}

/** One of six tints, always the same for the same product. */
const tint = (id) => [...id].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 997, 7) % 6;

// My orders ------------------------------------------------------------------------------------------------------------
function showOrders(place, me, signal) {
  return fill(place, "your orders", async () => {
    const title = el("h2", null, "My orders");
    const first = await page();
    if (!first.items.length) return [title, empty("No orders yet", "Your orders appear here shortly after you place them.")];
    const list = table("My orders, newest first", ["Order", "Status", "Placed", { text: "Pieces", number: true }, { text: "Total", number: true }], first.items.map(line), { hideCaption: true });
    const more = el("div", { class: "row" });
    const offer = (cursor) => more.replaceChildren(...(cursor ? [button("Show older orders", () => next(cursor))] : []));
    const next = async (cursor) => {
      const found = await page(cursor);
      list.body.append(...found.items.map(line));
      offer(found.cursor);
    };
    offer(first.cursor);
    return [title, list, more];
  });

  function page(cursor) {
    const query = new URLSearchParams({ limit: "10", ...(cursor && { cursor }) });
    return get(`/api/customers/me/orders?${query}`, { as: me, signal });
  }
}

function line(order) {
  const status = order.archived ? chip("Archived", "over") : stateChip(order.status);
  return row(storyLink(order.order_id), status, timeOf(order.placed_at), { number: order.items == null ? "–" : number(order.items) }, { number: money(order.total, order.currency) });
}
