// What an order waits for, for staff: each cause with the buttons that help, or that nothing is wrong.

import { get, post } from "./api.js";
import { actionButtons } from "./actions.js";
import { plural } from "./format.js";
import { renew } from "./panels.js";
import { retryRefund, settleRefund } from "./payments.js";
import { settings } from "./settings.js";
import { button, chip, el, loading, timeOf, toast } from "./ui.js";

const link = (href, text) => el("a", { href }, text);

/** Returns a button that publishes the events of the order again. On a laptop, also a link to the stored failures. */
function repeat({ order, me, done }) {
  const republish = async () => {
    const { events } = await post(`/api/orders/${encodeURIComponent(order.order_id)}/republish`, null, { as: me });
    toast(`${plural(events, "event")} published again. What was done already is not done twice.`);
    await done();
  };
  return [button("Publish its events again", republish, { kind: "small" }), settings.laptop && link("#/flow", "Failures")];
}

/** What helps, by the action of a cause, beside the commands for the order. `one`: the refund that the cause is about. */
const HELP = {
  assign_payment: () => link("#/records?list=unmatched", "Unmatched payments"),
  issue_credit_note: () => link("#/records?list=undocumented", "Missing credit notes"),
  redrive: repeat,
  resend_mail: repeat,
  settle_refund: (about, one) => one && [
    button("Retry", () => retryRefund(about, one), { kind: "small", "aria-label": "Retry this refund" }),
    button("Settle", () => settleRefund(about, one), { kind: "small", "aria-label": "Settle this refund" })],
};

/** Returns a panel about the order with this id, and `refresh(whole)`, which asks the shop again. `done`: called after a command. */
export function diagnosisPanel({ id, me, signal, done }) {
  const place = el("section", { class: "card", "aria-label": "Diagnosis" }, loading("Checking the order …"));
  const load = async ({ whole: { order } }) => {
    const { checked_at: _, ...found } = await get(`/api/orders/${encodeURIComponent(id)}/diagnosis`, { as: me, signal });
    return { found, order };
  };
  const panel = { place, load, draw: ({ found, order }, { whole }) => draw(found, whole, { order, me, done }) };
  return { element: place, refresh: (whole) => renew(panel, { whole, signal }) };
}

function draw({ next_step: next, causes }, whole, about) {
  if (!causes.length) return [el("p", null, chip("Nothing is wrong", "good"), ` ${next.text}`, next.next_at && [" Until ", timeOf(next.next_at), "."])];
  return [el("ul", { class: "plain-list" }, causes.map((cause) => shown(cause, whole, about)))];
}

function shown({ name, text, since, next_at: nextAt, subject, reason, action, advice }, whole, about) {
  const refund = whole.refunds.find((one) => one.refund_id === subject);
  const help = [actionButtons({ ...about, small: true, solves: action }), HELP[action]?.(about, refund)];
  return el("li", null,
    el("p", null, chip(name.replaceAll("_", " "), "bad"), ` ${text}`),
    el("p", { class: "hint" }, "Since ", timeOf(since), nextAt && [", until ", timeOf(nextAt)], subject && `: ${subject}`, reason && ` (${reason.replaceAll("_", " ")})`),
    el("div", { class: "row tight" }, el("span", null, advice), help));
}
