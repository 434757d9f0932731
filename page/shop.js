// The shop: the products for sale by category, the basket beside them, and the user's orders below.

import { get } from "./api.js";
import { Basket, basketBar, basketPanel } from "./basket.js";
import { field, form } from "./forms.js";
import { filled, money, number, plural } from "./format.js";
import { ORDER_HEADS, orderRow, paged } from "./lists.js";
import { fullName, groupOf, isStaff, person } from "./people.js";
import { seedOffer } from "./seedShop.js";
import { isHere } from "./settings.js";
import { announce, button, chip, el, empty, failure, fill, loading, moreButton } from "./ui.js";
import { labels } from "./labels.js";

const SOON_MS = 1500;
const ROOT = "/";
const PAGE = 12;
/** With many small categories, a page ends after so many products, because each category takes a request. */
const ENOUGH = 6;
const MOST_SEARCHED = 40;
const MOST_FOUND = 48;

export function show(place, { query, signal }) {
  const me = person();
  const heading = el("h1", null, "Shop");
  const basket = new Basket();
  const products = el("section", { "aria-labelledby": "products" }, loading("Loading products …"));
  const mine = el("section", { class: "card", "aria-label": "My orders" });
  const aside = el("aside", { "aria-label": "Basket" });
  const orders = () => me && showOrders(mine, me, signal);
  const shelves = new Shelves({ place: products, basket, me, signal });

  const columns = el("div", { class: "shop-columns" }, products);
  place.append(el("div", { class: "view-head" }, heading, el("p", { class: "lead" }, me ? labels.lead(fullName(me)) : labels.strangers)), columns);
  const opened = shelves.open({ category: query.get("category") ?? "", words: query.get("search") ?? "" });
  // What is below the products in a narrow window appears after them, so that they do not move it.
  const appendBelow = (...parts) => opened.then(() => (columns.append(aside), columns.after(...parts)));
  if (groupOf(me) === "warehouse") {
    appendBelow();
    return heading;
  }
  const placed = () => {
    shelves.reload();
    setTimeout(() => !signal.aborted && orders(), SOON_MS); // the list of orders is a copy that the shop writes a moment later
  };
  const panel = (former = null) => basketPanel({ basket, me, signal, placed, former, reload: () => shelves.reload() });
  if (query.get("again") && isStaff(me)) fill(aside, "the order", async () => panel(await refilled(query.get("again"), basket, { as: me, signal })));
  else aside.append(panel());
  place.append(basketBar({ basket, place: aside, signal }));
  appendBelow(...(me && !isStaff(me) ? [mine] : []));
  if (!isStaff(me)) orders();
  return heading;
}

/** Fills the basket with the lines of an order. Returns the order with the e-mail address of its customer. */
async function refilled(id, basket, asked) {
  const order = await get(`/api/orders/${encodeURIComponent(id)}`, asked);
  const customer = await get(`/api/customers/${encodeURIComponent(order.customer_id)}`, asked);
  basket.fill(order.lines);
  await knowTheRest(basket, new Set(), asked.signal);
  return { ...order, email: customer.email };
}

// Products -------------------------------------------------------------------------------------------------------------
/** Shows the tree of categories, and below it the products of a category or the results of a search. */
class Shelves {
  #place; #basket; #me; #signal; #tree; #asked;

  constructor({ place, basket, me, signal }) {
    this.#place = place;
    this.#basket = basket;
    this.#me = me;
    this.#signal = signal;
  }

  reload = () => this.open(this.#asked);

  async open(asked) {
    this.#asked = asked;
    const isCurrent = () => asked === this.#asked && !this.#signal.aborted;
    try {
      this.#tree ??= await categories(this.#signal);
      const [category, ...shown] = await (asked.words ? this.#search(asked) : this.#browse(asked));
      if (isCurrent()) this.#place.replaceChildren(this.#tools(category, asked), ...shown);
    } catch (error) {
      if (isCurrent()) this.#place.replaceChildren(el("h2", { id: "products" }, "For sale"), failure(error, this.reload));
    }
  }

  /** Opens another category or search without a new view, so that basket and payment stay as they are. */
  #go(asked, focused) {
    history.pushState(null, "", addressOf(asked));
    const open = this.open(asked);
    return open.then(() => this.#place.querySelector(focused)?.focus());
  }

  #tools(category, { words }) {
    if (!this.#tree.length) return el("div", { class: "shop-tools" });
    const link = (path, name) => el("a", {
      href: addressOf({ category: path }), "aria-current": category.startsWith(path) && (path !== ROOT || category === ROOT) && "page",
      onclick: (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return; // let the browser open a tab or a window
        event.preventDefault();
        this.#go({ category: path, words: "" }, ".tabs:last-of-type a[aria-current]");
      },
    }, name);
    const level = (parent, label) => {
      const below = this.#tree.filter((one) => one.parent === parent);
      return below.length > 0 && el("nav", { class: "tabs", "aria-label": label }, parent === ROOT && link(ROOT, "All categories"), below.map(({ path, name }) => link(path, name)));
    };
    const open = pathsOf(category);
    const levels = open.map((path) => level(path, path === ROOT ? "Categories" : `In ${this.#nameOf(path)}`));
    const text = field(`Search in ${category === ROOT ? "all products" : this.#nameOf(category)}`, "search", { type: "search", value: words, autocomplete: "off", spellcheck: "false" });
    const search = form({ class: "inline", role: "search" }, text, "Search", () => this.#go({ category, words: text.control.value.trim() }, "input[name=search]"), { kind: "" });
    return el("div", { class: "shop-tools" }, levels, search);
  }

  #nameOf = (path) => this.#tree.find((one) => one.path === path)?.name ?? path;

  async #page(category, cursor, limit = PAGE) {
    const found = await get(`/api/products?${filled({ category, limit, cursor })}`, { signal: this.#signal });
    this.#basket.know(found.items);
    return found;
  }

  /** Loads the first products of a category and of all categories below it, by default of the whole shop. */
  async #browse({ category: wanted }) {
    const category = wanted || ROOT;
    const pages = this.#pagesOf(this.#withinOf(category));
    const first = await pages.next();
    await knowTheRest(this.#basket, new Set(first.items.map((product) => product.product_id)), this.#signal);
    const title = el("h2", { id: "products" }, category === ROOT ? "For sale" : this.#nameOf(category));
    if (!first.items.length) return [category, title, nothingForSale(this.reload)];
    const list = this.#list(first.items);
    return [category, title, list, moreButton(!first.isAll, async () => {
      const found = await pages.next();
      list.append(...found.items.map((product) => this.#card(product)));
      announce(`${plural(found.items.length, "more product")} shown`);
      return !found.isAll;
    })];
  }

  /** Returns the paths of a category and of all categories below it. */
  #withinOf = (category) => [category, ...this.#tree.map((one) => one.path).filter((path) => path !== category && path.startsWith(category))];

  /** Returns `next()`, which reads the categories in turn until it has some products: {items, isAll}. */
  #pagesOf(paths) {
    let [at, cursor] = [0, null];
    const next = async () => {
      const items = [];
      while (at < paths.length && items.length < ENOUGH) {
        const found = await this.#page(paths[at], cursor);
        items.push(...found.items);
        cursor = found.cursor;
        if (!cursor) at += 1;
      }
      return { items, isAll: at >= paths.length };
    };
    return { next };
  }

  /** Searches here, in the products of all wanted categories, because the shop has no index of words. */
  async #search({ category: wanted, words }) {
    const category = wanted || ROOT;
    const paths = this.#withinOf(category);
    const pages = await Promise.all(paths.slice(0, MOST_SEARCHED).map((path) => this.#page(path, null, "100")));
    const read = pages.flatMap((page) => page.items);
    await knowTheRest(this.#basket, new Set(read.map((product) => product.product_id)), this.#signal);
    const parts = words.toLowerCase().split(/\s+/);
    const found = read.filter(({ name, product_id: id }) => parts.every((part) => `${name} ${id}`.toLowerCase().includes(part)));
    const isAll = paths.length <= MOST_SEARCHED && pages.every((page) => !page.cursor);
    const said = `${number(found.length)} of ${plural(read.length, "product")} found for “${words}”`;
    announce(said);
    const title = el("h2", { id: "products" }, said);
    const limits = [
      !isAll && "There are too many products to search all of them. Choose a category and search in it.",
      found.length > MOST_FOUND && `The first ${MOST_FOUND} are shown. Add a word to find fewer.`,
    ].filter(Boolean).map((text) => el("p", { class: "hint" }, text));
    return [category, title, ...limits, found.length ? this.#list(found.slice(0, MOST_FOUND)) : empty("Nothing was found", "Search for a part of the name, in all products or in another category.")];
  }

  #list = (items) => el("ul", { class: "products" }, items.map((product) => this.#card(product)));

  #card(product) {
    const { product_id: id, name, price, currency, available, backorder } = product;
    const gone = available <= 0 && !backorder;
    const add = button("Add to basket", () => {
      this.#basket.add(id);
      announce(`${name} is in the basket. ${plural(this.#basket.sums.pieces, "piece")}, ${this.#basket.sums.price}`);
    }, { "aria-label": `Add to basket: ${name}`, disabled: gone });
    const change = async () => (await import("./stock.js")).openStock({ product, me: this.#me, done: this.reload });
    return el("li", { class: "card product" },
      el("div", { class: `picture tint-${tint(id)}`, "aria-hidden": "true" }, name.charAt(0)),
      el("h3", null, name),
      el("p", { class: "product-line" }, el("span", { class: "price" }, money(price, currency)), stock(available, backorder)),
      el("div", { class: "row tight" }, groupOf(this.#me) !== "warehouse" && add, isStaff(this.#me) && button("Stock and price", change, { kind: "quiet", "aria-label": `Stock and price of ${name}` })));
  }
}

/** Loads all categories. Each comes before its subcategories. */
async function categories(signal) {
  const found = [];
  let cursor = null;
  do {
    const page = await get(`/api/categories/descendants?${filled({ limit: 100, cursor })}`, { signal });
    found.push(...page.items);
    cursor = page.cursor;
  } while (cursor && found.length < 500);
  return found;
}

/** Returns a path and all paths above it: "/", "/kitchen/", "/kitchen/mugs/". */
const pathsOf = (path) => [...path].flatMap((letter, at) => (letter === "/" ? [path.slice(0, at + 1)] : []));

/** Returns the address of a category or a search, so that bookmarks and the Back button work. */
function addressOf({ category, words }) {
  const said = filled({ category, search: words });
  return said.size ? `#/shop?${said}` : "#/shop";
}

/** Loads the products in the basket that the view does not show, with their prices: they may be in other categories. */
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
    await (await import("./seedProducts.js")).seedProducts();
    await again();
  };
  const offers = [{ text: "Add sample products", open: stock, laptop: true }].filter(isHere);
  return empty("No products yet", labels.shelves, seedOffer(), offers.map(({ text, open }) => button(text, open)));
}

function stock(available, backorder) {
  if (available > 5) return chip(`${number(available)} in stock`, "good");
  if (available > 0) return chip(`Only ${available} left`, "waiting");
  return backorder ? chip("On backorder", "moving") : chip("Sold out", "over");
}

/** Returns one of six tints. The same product always gets the same tint. */
const tint = (id) => [...id].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 997, 7) % 6;

// My orders ------------------------------------------------------------------------------------------------------------
function showOrders(place, me, signal) {
  const title = el("div", { class: "card-head" }, el("h2", null, "My orders"), el("a", { href: "#/customers/me" }, "My page"));
  return fill(place, "your orders", async () => [title, ...await paged({
    path: "customers/me/orders", me, signal, limit: 10, caption: "My orders, newest first", heads: ORDER_HEADS, line: orderRow,
    none: empty("No orders yet", "Your orders appear here shortly after you place them."),
  })]);
}
