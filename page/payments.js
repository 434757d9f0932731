// Payments for staff: the dialogs that record, reverse, refund and assign money, and the list of unmatched payments.

import { ask } from "./ask.js";
import { amountField, field, localMoment, refundToField } from "./forms.js";
import { money, shortId, stateName } from "./format.js";
import { button, chip, el, orderLink, row, timeOf } from "./ui.js";

const METHODS = ["BANK_TRANSFER", "CASH", "INVOICE"];
const CAUSES = ["DAMAGED", "WRONG_ITEM", "NOT_AS_DESCRIBED", "LATE_DELIVERY", "DUPLICATE_PAYMENT", "OTHER"];
const HEADS = ["Received", "What", "Order in the payment", { text: "Amount", number: true }, "Reason", "Actions"];

const named = (all) => all.map((one) => [one, stateName(one)]);
const pathOf = (id, ...rest) => ["/api/orders", ...[id, ...rest].map(encodeURIComponent)].join("/");
const reasonField = () => field("Reason", "reason", { required: true, maxlength: "200" }, { hint: "The customer can read it. Write no personal data." });
const explanationFields = () => [
  field("Cause", "cause", {}, { options: named(CAUSES) }),
  field("Note (optional)", "note", { maxlength: "200" }, { hint: "The mail to the customer shows the cause and the note." })];

// Payments and refunds of an order -------------------------------------------------------------------------------------
export function recordPayment({ order: { order_id: id, due, currency }, me, done }) {
  const fields = [
    field("Method", "method", {}, { options: named(METHODS) }),
    amountField(due, currency),
    field("Reference", "reference", { required: true, maxlength: "200" }, { hint: "Such as the text of the bank transfer, or the number of a receipt." }),
    field("Received on", "received_on", { type: "date", value: localMoment(new Date()).slice(0, 10), required: true }),
    field("Note (optional)", "note", { maxlength: "200" }),
  ];
  const said = (made) => `The payment is recorded. Still due: ${money(made.due, currency)}.`;
  ask(`Record a payment of order ${shortId(id)}`, fields, "Record the payment", pathOf(id, "offline-payments"), { me, done, body: { currency }, said });
}

export function reversePayment({ order: { order_id: id }, me, done }, { payment_id: payment, amount, currency }) {
  const said = () => "The payment is reversed. Its amount is due again.";
  ask(`Reverse the payment of ${money(amount, currency)}`, [reasonField()], "Reverse the payment", pathOf(id, "payments", payment, "reverse"), { me, done, said });
}

export function refundOrder({ order: { order_id: id, paid, refunded, owed, currency }, me, done }) {
  const fields = [amountField(paid - refunded - owed, currency), refundToField(), explanationFields()];
  const said = (made) => `The refund of ${money(made.amount, currency)} is requested.`;
  ask(`Refund order ${shortId(id)}`, fields, "Refund the amount", pathOf(id, "refunds"), { me, done, said });
}

export function retryRefund({ order: { order_id: id }, me, done }, { refund_id: refund, amount, currency }) {
  ask(`Retry the refund of ${money(amount, currency)}`, [refundToField()], "Retry the refund", pathOf(id, "refunds", refund, "retry"), { me, done, said: () => "The refund is sent again." });
}

export function settleRefund({ order: { order_id: id }, me, done }, { refund_id: refund, amount, currency }) {
  const said = () => "The refund is settled. The shop moves no money.";
  ask(`Settle the refund of ${money(amount, currency)}`, [el("p", null, "Record how the money was paid back outside the shop."), reasonField()], "Settle the refund", pathOf(id, "refunds", refund, "settle"), { me, done, said });
}

// Unmatched payments ---------------------------------------------------------------------------------------------------
/** The list of payments that match no order, as `paged` needs it. */
export const unmatchedPayments = {
  path: "payments/unmatched", caption: "Unmatched payments, oldest first", heads: HEADS, line: unmatchedRow,
  none: ["No unmatched payments", "Money that matches no order appears here."],
};

/** Returns the row of a payment. After a command, the row shows the result, because the list still has a payment that is being sent back. */
function unmatchedRow({ kind, order_id: id, payment_id: payment, status, amount, currency, reason, created_at: at }, me) {
  const shown = money(amount, currency);
  const [what, back] = kind === "PAYMENT" ? ["Payment", "Send back"] : [`${stateName(kind)}: ${stateName(status).toLowerCase()}`, "Dismiss"];
  const path = (command) => pathOf(id, "payments", payment, command);
  const resolved = (text) => () => {
    actions.replaceChildren(chip(text, "good"));
    made.querySelector("a").focus();
  };
  const assign = () => ask(`Assign the payment of ${shown}`,
    [field("Order", "to_order_id", { required: true, autocomplete: "off", spellcheck: "false" }, { hint: "The whole number of an order that is not fully paid." }), reasonField()],
    "Assign to the order", path("assign"), { me, done: resolved("Assigned"), said: (made) => `The payment is assigned. Still due: ${money(made.due, made.currency)}.` });
  const sendBack = () => ask(`${back} the ${kind.toLowerCase()} of ${shown}`, explanationFields(), back, path("refund"),
    { me, done: resolved(kind === "PAYMENT" ? "Being sent back" : "Dismissed"), said: ({ amount: refunded }) => (refunded ? `${money(refunded, currency)} is being sent back.` : "It leaves the list.") });
  const command = (text, run) => button(text, run, { kind: "small", "aria-label": `${text}: ${shown}` });
  const actions = el("div", { class: "row tight" }, kind === "PAYMENT" && command("Assign", assign), command(back, sendBack));
  const made = row(timeOf(at), what, orderLink(id), { number: shown }, reason.replaceAll("_", " "), actions);
  return made;
}

// Credit notes ---------------------------------------------------------------------------------------------------------
/** The list of orders with money that left outside the shop without a credit note. */
export const missingCreditNotes = {
  path: "credit-notes/missing", caption: "Orders with money that left without a credit note, oldest first",
  heads: ["Placed", "Order", { text: "Amount", number: true }, "Actions"], line: missingRow,
  none: ["No missing credit notes", "An order appears here after a lost dispute, or a refund at the payment provider."],
};

function missingRow({ order_id: id, amount, currency, placed_at: at }, me) {
  const shown = money(amount, currency);
  const done = () => {
    actions.replaceChildren(chip("Being issued", "good"));
    made.querySelector("a").focus();
  };
  const issue = () => ask(`Issue a credit note of ${shown}`, [el("p", null, "It takes this amount off the invoice. A lost dispute may be a loss instead: ask your adviser.")],
    "Issue the credit note", pathOf(id, "credit-notes"), { me, done, said: () => "The credit note comes a moment later." });
  const actions = el("div", { class: "row tight" }, button("Issue", issue, { kind: "small", "aria-label": `Issue: ${shown}` }));
  const made = row(timeOf(at), orderLink(id), { number: shown }, actions);
  return made;
}
