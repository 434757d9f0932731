// Pays an order: on the laptop with a test card that succeeds or fails, on AWS with the shop's own provider.

import { get, once, ownPath, post } from "./api.js";
import { capital, money, percent } from "./format.js";
import { el, facts, fill, orderLink } from "./ui.js";
import { form } from "./forms.js";
import { Rejection } from "./problems.js";
import { isHere } from "./settings.js";
import { labels, textOf } from "./labels.js";

const WAYS = [
  { laptop: true, ask: cards },
  { laptop: false, ask: provider },
];

/** Shows the due amount and the payment form, and after the payment a link to the timeline. `me`: who pays. */
export function payPanel({ order, me, signal, paid = () => {} }) {
  const panel = el("div", { class: "pay stack" });
  const [way] = WAYS.filter(isHere);
  const link = el("p", null, orderLink(order.order_id, labels.order, me));
  fill(panel, textOf("pay.methods"), async () => [amounts(order, me), await way.ask({ order, me, signal, paid }), link]);
  return panel;
}

async function cards({ order, me, signal, paid }) {
  const { payment_methods: methods } = await get("/local/shop", { signal });
  return form({ class: "stack" }, choice(methods), textOf("pay.submit", { amount: money(order.due, order.currency) }), async (made) => {
    const { payment_id, client_secret } = await post(ownPath(me, `/orders/${order.order_id}/payment-intents`), {}, { as: me, signal });
    const payment = { payment_id, client_secret, payment_method: new FormData(made).get("method") };
    const answer = await once(`payment of ${order.order_id}`, payment, (key) => post("/local/payments", payment, { key, signal }));
    if (answer.status !== "succeeded") {
      const reason = answer.reason?.replaceAll("_", " ");
      throw new Rejection(reason ? textOf("pay.failed_because", { reason }) : textOf("pay.failed"));
    }
    made.replaceWith(el("p", { class: "notice good", role: "status" }, textOf("pay.done")));
    paid();
  });
}

/** Returns the place where a shop adds the form of its payment provider. */
function provider({ order }) {
  return el("p", { class: "notice" }, "Your payment form goes here (docs/stripe.md). It confirms the payment that the API starts for the order ", el("code", { class: "id" }, order.order_id), ".");
}

function amounts({ order_id: id, total, shipping, shipping_method: method, discount, taxes, due, currency }, me) {
  const shown = (amount) => money(amount, currency);
  return facts(
    [textOf("order"), orderLink(id, undefined, me)],
    [textOf("shipping"), shipping == null ? null : [method?.name, shown(shipping)].filter(Boolean).join(", ")],
    [textOf("discount.code", { code: discount?.code }), discount && `− ${shown(discount.amount)}`],
    ...(taxes ?? []).filter((tax) => tax.rate).map((tax) => [textOf("included_tax", { percent: percent(tax.rate) }), shown(tax.tax)]),
    [textOf("order.total"), shown(total)],
    [textOf("pay.to_pay"), el("strong", null, shown(due))],
  );
}

function choice(methods) {
  const one = ({ id, name }, at) => el("label", { class: "check" }, el("input", { type: "radio", name: "method", value: id, checked: at === 0 }), capital(name));
  return el("fieldset", null, el("legend", null, textOf("pay.with")), methods.map(one));
}
