// The business steps of an order, such as placed, paid or sent. They come from the items in the table, so every order
// has them: also an old or a seeded one.

import { money } from "./format.js";
import { textOf } from "./labels.js";
import { button, el, empty, stateChip, timeOf } from "./ui.js";

/** Returns {element, state, update}: the steps at the last refresh. For AWS, which has no spans to show below them. */
export function history({ look }) {
  const element = el("div", { class: "card" });
  const update = (whole) => {
    const steps = stepsOf(whole);
    element.replaceChildren(steps.length ? stepList(steps) : nothing());
  };
  return { element, state: button(textOf("order.refresh"), look, { kind: "small quiet" }), update };
}

/** Returns the list of steps, each with its time and state. */
export const stepList = (steps, shown) => el("ol", { class: "plain-list steps" }, steps.map(({ at, text, status }) =>
  el("li", { class: "row tight" }, timeOf(at, shown), el("span", null, text), status && stateChip(status))));

const nothing = () => empty(textOf("step.none"), textOf("step.later"));

/**
 * Returns the steps of an order, oldest first: {at, text, status, mail}. Its argument is the order with all its items,
 * and with its mails if they are known. `mail`: the id of the mail, if the step is a mail. "Order paid" stands for a
 * payment that succeeded: its item has only the time of its latest change, for example of a refund.
 */
export function stepsOf({ timeline, payments, invoices, shipments, returns, refunds, mails }) {
  const steps = [
    ...timeline.map(({ at, event, status }) => ({ at, text: textOf(`step.${event}`), status })),
    ...payments.filter(({ status }) => !["CAPTURED", "REFUNDED"].includes(status))
      .map(({ updated_at: at, method, amount, currency, status }) => ({ at, text: paymentText(method, money(amount, currency)), status })),
    ...invoices.map(({ issued_at: at, invoice_id: id, corrects }) => ({ at, text: corrects ? textOf("step.credit_note", { id }) : textOf("step.invoice", { id }) })),
    ...shipments.map(({ created_at: at }) => ({ at, text: textOf("step.parcel_requested") })),
    ...shipments.filter((one) => one.updated_at !== one.created_at)
      .map(({ updated_at: at, carrier, tracking_number: tracking, status }) => ({ at, text: textOf("step.parcel", { parcel: [carrier, tracking].filter(Boolean).join(" ") }).trim(), status })),
    ...returns.map(({ created_at: at, amount, currency }) => ({ at, text: textOf("step.return", { amount: money(amount, currency) }) })),
    ...refunds.map(({ updated_at: at, amount, currency, status }) => ({ at, text: textOf("step.refund", { amount: money(amount, currency) }), status })),
    ...(mails ?? []).map(({ at, subject, id }) => ({ at, text: textOf("step.mail", { subject }), mail: id })),
  ];
  return steps.sort((one, other) => Date.parse(one.at) - Date.parse(other.at));
}

const paymentText = (method, amount) =>
  method === "CREDIT" ? textOf("step.credit", { amount }) : textOf("step.payment", { method: textOf(`method.${method}`), amount });
