// The switches of the local payment provider for one payment: what a bank or a person in the provider's dashboard does.

import { get, post } from "./api.js";
import { amountField, checkbox, field, form, wholeOf } from "./forms.js";
import { money, stateName } from "./format.js";
import { button, chip, dialog, el, fill, part, renew, toast } from "./ui.js";

const REASONS = ["fraudulent", "duplicate", "general", "product_not_received", "product_unacceptable", "unrecognized"];
const TONES = { won: "good", lost: "bad", warning_closed: "over" };
const ACTIONS = { submit: "Submit evidence", win: "Win", lose: "Lose", escalate: "Escalate", close: "Close inquiry" };

const reached = (path) => `/local/provider/${encodeURIComponent(path)}`;

export function openAtProvider({ payment_id: id, amount, refunded, currency }) {
  dialog(`Payment of ${money(amount, currency)} at the provider`, () => {
    const list = el("div");
    const load = async () => disputes((await get(reached(`payments/${id}/disputes`))).data, play);
    const play = async (path, asked, said) => {
      await post(reached(path), asked, { tries: 1 });
      toast(said);
      await renew(list, load);
    };
    fill(list, "the disputes", load);
    const why = field("Reason of the bank", "reason", {}, { options: REASONS.map((one) => [one, stateName(one)]) });
    const [disputed, refund] = [amountField(amount, currency, "Disputed amount"), amountField(Math.max(1, amount - refunded), currency, "Refunded amount")];
    const inquiry = checkbox("Only an inquiry, which takes no money", "inquiry");
    return el("div", { class: "stack" },
      el("p", { class: "hint" }, "Here you act as the customer's bank, and as a person in the provider's dashboard."),
      part("Disputes", list),
      part("Open a dispute", form({ class: "stack" }, [disputed, why, inquiry], "Open the dispute", () =>
        play(`payments/${id}/disputes`, { amount: String(wholeOf(disputed.control)), reason: why.control.value, inquiry: String(inquiry.querySelector("input").checked) }, "The dispute is open."), { kind: "" })),
      part("Refund in the dashboard", form({ class: "stack" }, refund, "Refund", () => play(`payments/${id}/refunds`, { amount: String(wholeOf(refund.control)) }, "The provider refunds the amount."), { kind: "" })));
  });
}

function disputes(all, play) {
  if (!all.length) return el("p", { class: "hint" }, "The payment has no dispute.");
  return el("ul", { class: "plain-list" }, all.map(({ id, status, amount, currency, reason, actions }) => {
    const shown = money(amount, currency);
    const act = (action) => button(ACTIONS[action], () => play(`disputes/${id}/${action}`, {}, "The provider reports the change."), { kind: "small", "aria-label": `${ACTIONS[action]}: dispute of ${shown}` });
    return el("li", { class: "stack" },
      el("p", { class: "row tight" }, chip(stateName(status), TONES[status] ?? "waiting"), `${shown}, ${reason.replaceAll("_", " ")}`),
      el("div", { class: "row tight" }, actions.map(act)));
  }));
}
