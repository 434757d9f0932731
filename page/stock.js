// The dialog in which staff change a product: its stock, its price, and how many items share its stock.

import { call, get, once, post } from "./api.js";
import { checkbox, decimalField, field, form, wholeOf } from "./forms.js";
import { capital, money, number, scaleOf } from "./format.js";
import { staffNote } from "./people.js";
import { el, facts, finish as finishDialog, loadingDialog, part } from "./ui.js";

const REASONS = ["DAMAGED", "EXPIRED", "LOST", "MISCOUNTED", "STOLEN"];
const MOST = { min: "1", max: "1000000", step: "1", required: true };

/** Opens the dialog. `done`: called after a command succeeded. */
export function openStock({ product, me, done }) {
  const path = `/api/products/${encodeURIComponent(product.product_id)}`;
  loadingDialog(product.name, "the stock", async (box) => {
    const finish = (text) => finishDialog(box, text, done);
    const [now, stock] = await Promise.all([get(path), get(`${path}/stock`)]);
    return [
      staffNote(me), el("a", { href: `#/records?list=audit&about=PRODUCT:${encodeURIComponent(now.product_id)}` }, "Who changed it"),
      facts(["Product id", el("code", { class: "id" }, now.product_id)], ["Category", now.category], ["Available", number(stock.available)], ["Stock parts", number(now.parts)]),
      receive({ path, me, finish }), writeOff({ path, me, finish }), change({ path, me, now, finish }),
    ];
  });
}

function receive({ path, me, finish }) {
  const quantity = field("Received pieces", "quantity", { type: "number", value: "10", ...MOST });
  return part("Receive goods", form({ class: "inline" }, quantity, "Add to stock", async () => {
    const body = { quantity: Number(quantity.control.value) };
    await once(`receipt ${path}`, body, (key) => post(`${path}/receipts`, body, { as: me, key }));
    await finish("The goods are in stock.");
  }));
}

function writeOff({ path, me, finish }) {
  const quantity = field("Missing pieces", "quantity", { type: "number", value: "1", ...MOST });
  const reason = field("Reason", "reason", {}, { options: REASONS.map((one) => [one, capital(one.toLowerCase())]) });
  return part("Correct the stock downward", form({ class: "inline" }, [quantity, reason], "Remove from stock", async () => {
    const body = { quantity: Number(quantity.control.value), reason: reason.control.value };
    await once(`write-off ${path}`, body, (key) => post(`${path}/write-offs`, body, { as: me, key }));
    await finish("The pieces are removed from stock.");
  }, { kind: "" }));
}

function change({ path, me, now, finish }) {
  const price = decimalField(`Price in ${now.currency}, now ${money(now.price, now.currency)}`, "price", now.price, scaleOf(now.currency), { min: "0" });
  const reason = field("Why the price changes", "reason", { maxlength: "200" }, { hint: "Needed for another price. Write no personal data." });
  const parts = field("Stock parts", "parts", { type: "number", value: now.parts, min: "1", max: "90", step: "1", required: true }, { hint: "More items share the stock, so more customers can buy at the same time." });
  const ended = checkbox("The sale has ended: no category shows the product, and no new order may contain it", "discontinued", { checked: now.discontinued });
  return part("Change the product", form({ class: "stack" }, [price, reason, parts, ended], "Save", async (made) => {
    const wanted = Object.entries({ price: wholeOf(price.control), parts: Number(parts.control.value), discontinued: made.elements.discontinued.checked });
    const body = Object.fromEntries(wanted.filter(([name, value]) => value !== now[name]));
    if ("price" in body) body.reason = reason.control.value;
    if (Object.keys(body).length) await call("PATCH", path, { body, as: me });
    await finish("The product is saved.");
  }, { kind: "" }));
}
