// The business steps of an order, such as placed, paid or sent. They come from the items in the table, so every order
// has them: also an old or a seeded one.

import { money, stateName } from "./format.js";
import { button, el, empty, stateChip, timeOf } from "./ui.js";

/** Returns {element, state, update}: the steps at the last refresh. For AWS, which has no spans to show below them. */
export function history({ look }) {
  const element = el("div", { class: "card" });
  const update = (whole) => {
    const steps = stepsOf(whole);
    element.replaceChildren(steps.length ? stepList(steps) : nothing());
  };
  return { element, state: button("Refresh", look, { kind: "small quiet" }), update };
}

/** Returns the list of steps, each with its time and state. */
export const stepList = (steps, shown) => el("ol", { class: "plain-list steps" }, steps.map(({ at, text, status }) =>
  el("li", { class: "row tight" }, timeOf(at, shown), el("span", null, text), status && stateChip(status))));

const nothing = () => empty("No history yet", "Changes of the order appear here shortly after they happen.");

/**
 * Returns the steps of an order, oldest first: {at, text, status, mail}. Its argument is the order with all its items,
 * and with its mails if they are known. `mail`: the id of the mail, if the step is a mail. "Order paid" stands for a
 * payment that succeeded: its item has only the time of its latest change, for example of a refund.
 */
export function stepsOf({ order, timeline, payments, invoices, shipments, returns, refunds, mails }) {
  const changes = timeline.length ? timeline.map(({ at, event, status }) => ({ at, text: inWords(event), status })) : archived(order);
  const steps = [
    ...changes,
    ...payments.filter(({ status }) => !["CAPTURED", "REFUNDED"].includes(status))
      .map(({ updated_at: at, method, amount, currency, status }) => ({ at, text: `${method === "CREDIT" ? "Credit" : `${stateName(method)} payment`} of ${money(amount, currency)}`, status })),
    ...invoices.map(({ issued_at: at, invoice_id: id, corrects }) => ({ at, text: `${corrects ? "Credit note" : "Invoice"} ${id} issued` })),
    ...shipments.map(({ created_at: at }) => ({ at, text: "Parcel requested" })),
    ...shipments.filter((one) => one.updated_at !== one.created_at)
      .map(({ updated_at: at, carrier, tracking_number: tracking, status }) => ({ at, text: `Parcel ${[carrier, tracking].filter(Boolean).join(" ")}`.trim(), status })),
    ...returns.map(({ created_at: at, amount, currency }) => ({ at, text: `Goods returned, worth ${money(amount, currency)}` })),
    ...refunds.map(({ updated_at: at, amount, currency, status }) => ({ at, text: `Refund of ${money(amount, currency)}`, status })),
    ...(mails ?? []).map(({ at, subject, id }) => ({ at, text: `Mail: ${subject}`, mail: id })),
  ];
  return steps.sort((one, other) => Date.parse(one.at) - Date.parse(other.at));
}

/** Returns the steps that an archived order still has: the table keeps no other change of it. */
const archived = ({ placed_at: placedAt, updated_at: updatedAt, status }) => [{ at: placedAt, text: "Order placed" }, { at: updatedAt, text: "Order closed", status }];

/** Returns an event's name in words: "Order partly shipped" for OrderPartlyShipped. */
function inWords(event) {
  const text = event.replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase();
  return text.charAt(0).toUpperCase() + text.slice(1);
}
