// The panel with the basket, the delivery address and the button that places the order. It then shows the payment.

import { get, once, post } from "./api.js";
import { addressFields, field, form } from "./forms.js";
import { money, plural } from "./format.js";
import { fullName, isStaff, register, signIn, staffNote } from "./people.js";
import { Rejection } from "./problems.js";
import { announce, button, el, empty, toast } from "./ui.js";
import { labels } from "./labels.js";

const KEPT = "orderstream.basket";

/** The quantities by product. The browser stores them for this tab. Emits "change". */
export class Basket extends EventTarget {
  #quantities = new Map(JSON.parse(sessionStorage.getItem(KEPT) ?? "[]"));
  #products = new Map();

  know(products) {
    for (const product of products) this.#products.set(product.product_id, product);
    this.#changed();
  }

  add(id) {
    this.set(id, (this.#quantities.get(id) ?? 0) + 1);
  }

  set(id, quantity) {
    if (quantity > 0) this.#quantities.set(id, quantity);
    else this.#quantities.delete(id);
    this.#changed();
  }

  clear() {
    this.fill([]);
  }

  /** Replaces the contents by the lines of an order. */
  fill(lines) {
    this.#quantities = new Map(lines.map(({ product_id: id, quantity }) => [id, quantity]));
    this.#changed();
  }

  get ids() {
    return [...this.#quantities.keys()];
  }

  /** The products in the basket that are for sale as far as the page knows, with their quantities. */
  get lines() {
    return [...this.#quantities].filter(([id]) => this.#products.has(id)).map(([id, quantity]) => ({ ...this.#products.get(id), quantity }));
  }

  /** The number of pieces, and the price of the goods as text, with one amount for each currency. */
  get sums() {
    const totals = new Map();
    for (const { currency, price, quantity } of this.lines) totals.set(currency, (totals.get(currency) ?? 0) + price * quantity);
    const pieces = this.lines.reduce((sum, { quantity }) => sum + quantity, 0);
    return { pieces, price: [...totals].map(([currency, total]) => money(total, currency)).join(" + ") };
  }

  nameOf = (id) => this.#products.get(id)?.name ?? id;

  #changed() {
    sessionStorage.setItem(KEPT, JSON.stringify([...this.#quantities]));
    this.dispatchEvent(new Event("change"));
  }
}

/**
 * Returns the panel: basket and address, then payment. Staff order for a customer. `placed`: called with the order.
 * `reload`: reloads prices. `former`: the order that staff place again, or null.
 */
export function basketPanel({ basket, me, signal, placed, reload, former }) {
  const panel = el("div", { class: "card basket" });
  const fillIn = () => panel.replaceChildren(...checkout());
  fillIn();
  return panel;

  function checkout() {
    const lines = el("ul", { class: "basket-lines" });
    const sum = el("p", { class: "sum" });
    const delivery = el("div", { class: "stack" }, !me && signIn && el("div", { class: "row" }, button("Sign in to order", signIn, { kind: "primary" })), orderForm());
    const draw = () => drawLines(basket, lines, sum, delivery);
    basket.addEventListener("change", draw, { signal });
    draw();
    return [el("h2", { tabindex: "-1" }, "Your basket"), isStaff(me) && staffNote(me), lines, sum, delivery].filter(Boolean);
  }

  function orderForm() {
    const isOfStaff = isStaff(me);
    const { fields, address } = addressFields(former?.address ?? (isOfStaff ? {} : { ...labels.address, name: me ? fullName(me) : "" }), "address.");
    const email = isOfStaff
      ? field("Customer's e-mail address", "email", { type: "email", required: true, autocomplete: "off", value: former?.email ?? "" }, { hint: "The order belongs to this customer." })
      : !me && field("E-mail address", "email", { type: "email", required: true, autocomplete: "email" }, { hint: "You get a link to your order by mail." });
    const reference = field("Your reference (optional)", "reference", { maxlength: "64", value: former?.reference ?? "" }, { hint: "Such as the number of a purchase order. The invoice shows it." });
    const note = field("Note (optional)", "note", { maxlength: "500", value: former?.note ?? "" }, { hint: "For the shop and the warehouse." });
    const code = field("Discount code (optional)", "discount_code", { autocomplete: "off", maxlength: "40" });
    const wanted = () => ({
      lines: basket.lines.map(({ product_id, quantity, price }) => ({ product_id, quantity, price })),
      address: address(),
      ...(code.control.value.trim() && { discount_code: code.control.value.trim() }),
    });
    const said = () => Object.fromEntries([reference, note].map(({ control }) => [control.name, control.value.trim()]).filter(([, text]) => text));
    const shipping = shippingField((sent) => post("/api/orders/quote", sent, { as: me, signal }), wanted);
    fields.addEventListener("change", shipping.offer);
    basket.addEventListener("change", shipping.offer, { signal });
    const send = async () => {
      const body = { ...wanted(), ...said(), ...(shipping.control.value && { shipping_method: shipping.control.value }) };
      try {
        const { order, payer } = await (isOfStaff ? placeForCustomer(body, email.control.value.trim()) : me ? placeAsCustomer(body) : placeAsGuest({ ...body, name: body.address.name, email: email.control.value }));
        basket.clear();
        if (isOfStaff) showPlaced(order);
        else await showPayment(order, payer);
        placed();
      } catch (error) {
        if (["out-of-stock", "price-changed", "unknown-products"].includes(error.slug)) reload();
        throw error;
      }
    };
    return form({ class: "stack", "aria-label": "Delivery" }, [email, fields, shipping, code, reference, note].filter(Boolean), isOfStaff ? "Place the customer's order" : me ? "Place order" : "Order as a guest", send, { nameOf: basket.nameOf });
  }

  async function placeAsCustomer(body) {
    await register(me, body.address.name, signal); // a user becomes a customer with the first order
    const order = await once(`order of ${me}`, body, (key) => post("/api/orders", body, { as: me, key, signal }));
    return { order, payer: me };
  }

  async function placeForCustomer(body, email) {
    const [customer] = (await get(`/api/customers?${new URLSearchParams({ email })}`, { as: me, signal })).items;
    if (!customer) throw new Rejection("No customer has this e-mail address. The customer first signs in to the shop, or orders as a guest.");
    const sent = { ...body, customer_id: customer.customer_id };
    return { order: await once(`order for ${customer.customer_id}`, sent, (key) => post("/api/orders", sent, { as: me, key, signal })) };
  }

  function showPlaced({ order_id: id }) {
    toast("The order is placed. The customer gets a mail.");
    location.hash = `#/orders/${encodeURIComponent(id)}`;
  }

  async function placeAsGuest(body) {
    const { order, token } = await once("order of a guest", body, (key) => post("/api/guest/orders", body, { key, signal }));
    return { order, payer: { token } };
  }

  async function showPayment(order, payer) {
    const { payPanel } = await import("./pay.js"); // load this part only when it is needed, because few visits need it
    const title = el("h2", { tabindex: "-1" }, "Order placed");
    const another = button("Place another order", () => {
      fillIn();
      panel.querySelector("h2").focus();
    }, { kind: "quiet" });
    panel.replaceChildren(title, payPanel({ order, me: payer, signal }), el("div", { class: "row" }, another));
    title.focus();
    announce("Order placed. Now pay for it.");
  }
}

/** Returns a bar for narrow windows, where the basket is below the products: it shows the sum and leads there. */
export function basketBar({ basket, place, signal }) {
  const text = el("span", null);
  const price = el("strong", null);
  const open = el("button", { type: "button", class: "button primary" }, "Go to basket");
  const bar = el("div", { class: "shop-bar", hidden: true }, el("p", null, text, " ", price), open);
  let isSeen = false;
  const draw = () => {
    const sums = basket.sums;
    bar.hidden = isSeen || sums.pieces === 0;
    text.textContent = `${plural(sums.pieces, "piece")} in the basket,`;
    price.textContent = sums.price;
  };
  open.addEventListener("click", () => {
    place.scrollIntoView();
    place.querySelector("h2").focus({ preventScroll: true });
  });
  const observer = new IntersectionObserver(([{ isIntersecting }]) => {
    isSeen = isIntersecting;
    draw();
  }, { rootMargin: "0px 0px -160px" }); // if only the upper edge of the basket is visible, its sum is not
  observer.observe(place);
  signal.addEventListener("abort", () => observer.disconnect(), { once: true });
  basket.addEventListener("change", draw, { signal });
  draw();
  return bar;
}

function drawLines(basket, lines, sum, delivery) {
  const wanted = basket.lines;
  delivery.hidden = wanted.length === 0;
  if (!wanted.length) {
    lines.replaceChildren();
    sum.replaceChildren(empty("Your basket is empty", "Products that you add appear here."));
    return;
  }
  // Keep the focus while the user types into a line: the lines are rebuilt only if the products of the basket changed.
  const drawn = [...lines.children];
  const same = drawn.length === wanted.length && wanted.every((line, at) => drawn[at].dataset.product === line.product_id);
  if (!same) lines.replaceChildren(...wanted.map((line) => basketLine(basket, line)));
  wanted.forEach((line, at) => lines.children[at].show(line));
  sum.replaceChildren(el("span", null, "Goods ", el("span", { class: "hint" }, "plus shipping")), el("strong", null, basket.sums.price));
}

function basketLine(basket, { product_id: id, name, quantity }) {
  const count = el("input", {
    type: "number", min: "0", max: "10000", step: "1", value: quantity, name: `quantity ${id}`, "aria-label": `Quantity of ${name}`,
    onchange: () => {
      count.value = Math.max(0, Math.trunc(Number(count.value)) || 0);
      basket.set(id, Number(count.value));
    },
  });
  const hint = el("span", { class: "hint short" });
  const cost = el("span", { class: "number" });
  const line = el("li", { "data-product": id },
    el("span", { class: "basket-name" }, name, hint), count, cost,
    button("✕", (made) => {
      made.closest(".basket").querySelector("h2").focus(); // the focused button was removed with its line
      basket.set(id, 0);
      announce(`${name} is removed from the basket`);
    }, { kind: "small quiet", "aria-label": `Remove ${name}` }));
  line.show = ({ price, currency, quantity, available, backorder }) => {
    hint.textContent = quantity <= available || backorder ? "" : available > 0 ? `only ${available} left` : "sold out";
    cost.textContent = money(price * quantity, currency);
    if (document.activeElement !== count) count.value = quantity;
  };
  return line;
}

/** Returns a field to choose a shipping method, which appears if the quote of the order has several. */
function shippingField(quote, wanted) {
  const made = field("Shipping", "shipping_method", {}, { options: [] });
  let last;
  const offer = async () => {
    const sent = wanted();
    const asked = (last = JSON.stringify(sent));
    if (!sent.lines.length || !sent.address.country || !sent.address.street) return;
    // Ignore an error: most often a part of the address is missing. The answer to the order names it.
    const { shipping_methods: methods, shipping_method: first, currency } = await quote(sent).catch(() => ({ shipping_methods: [] }));
    if (asked !== last) return;
    const chosen = methods.some(({ id }) => id === made.control.value) ? made.control.value : first;
    made.control.replaceChildren(...methods.map(({ id, name, price }) => el("option", { value: id, selected: id === chosen }, `${name}, ${money(price, currency)}`)));
    made.hidden = methods.length < 2;
  };
  made.hidden = true;
  return Object.assign(made, { offer });
}
