// Explains the errors of the API to a user, with the steps to take.

import { Problem, Unanswered } from "./api.js";
import { capital, moment, number, stateName } from "./format.js";
import { labels, textOf } from "./labels.js";

const REJECTIONS = {
  "out-of-stock": ({ short = {} }, nameOf) =>
    `${Object.entries(short).map(([id, left]) => (left > 0 ? `Only ${number(left)} of ${nameOf(id)} left.` : `${nameOf(id)} is sold out.`)).join(" ")} Change the quantity and place the order again.`,
  "price-changed": ({ changed = {} }, nameOf) =>
    `The price changed: ${Object.keys(changed).map(nameOf).join(", ")}. Your basket shows the new price. Place the order again to accept it.`,
  "unknown-products": ({ product_ids: ids = [] }, nameOf) =>
    `No longer for sale: ${ids.map(nameOf).join(", ")}. Remove it from the basket.`,
  "mixed-currencies": () => "An order can have only one currency. Order products in other currencies separately.",
  "shipping-method-not-available": ({ available = [] }) => (available.length ? `This shipping method cannot send the order. Choose one of: ${available.join(", ")}.` : "The shop does not send these goods to this address."),
  "discount-not-valid": ({ code, why }) => `The discount code ${code} cannot be used: ${why}. Remove it or try another code.`,
  "not-registered": () => labels.unregistered,
  "email-taken": () => labels.taken,
  "wrong-state": ({ what, state }) => what === "order" ? textOf("problem.state", { state: stateName(state) }) : `This is not possible: the ${what} now has the status “${stateName(state)}”.`,
  "return-window-over": ({ ended_at: end }) => `The return period ended on ${moment(end)}.`,
  "too-much": ({ field, most }, nameOf) => field === "amount" ? "The amount is higher than what is left. Money of a disputed payment cannot be refunded." : `Too many pieces of ${nameOf(String(field).split(".").pop())}: the maximum is ${number(most)}.`,
  "not-allowed": ({ detail }) => `This user is not allowed to do that: ${detail}`.replace(/\.?$/, "."),
  "not-found": ({ what }) => what === "order" ? textOf("problem.no_order") : `This ${what ?? "item"} does not exist, or it belongs to another customer.`,
  "key-reused": () => textOf("problem.key_reused"),
  "unreadable": () => `The data was written by a version of the shop that this version cannot read. ${labels.unreadable}`,
  "fault": ({ instance }) => textOf("problem.fault", { instance }),
};

/** An error that is not from the API. The page shows its message unchanged. */
export class Rejection extends Error {}

/** Explains an error in one or two plain sentences. `nameOf`: returns the name of a product by its id. */
export function explain(error, nameOf = (id) => id) {
  if (error instanceof Unanswered || error instanceof Rejection) return error.message;
  if (!(error instanceof Problem)) {
    console.error(error);
    return textOf("problem.page", { message: error.message });
  }
  if (error.slug === "guest-link-invalid") return `${capital(error.message)}.`;
  if (error.status === 401) return labels.unknown;
  if (error.status === 429) return textOf("problem.too_many");
  if (error.status >= 502) return textOf("problem.unavailable");
  const rejection = REJECTIONS[error.slug];
  if (rejection) return rejection(error.document, nameOf);
  return fieldErrors(error).length ? textOf("problem.fields") : `${error.message.replace(/\.?$/, ".")}`;
}

/** Returns the errors of the sent values: [{field, why}]. `field`: a path such as address.postcode. */
export function fieldErrors(error) {
  const errors = error instanceof Problem ? error.document.errors ?? [] : [];
  return errors.map(({ field, why, message }) => ({ field, why: plain(why ?? message ?? "is not valid") }));
}

/** Replaces technical terms of the API's validator (string, pattern) with plain words. */
function plain(why) {
  return why
    .replace(/^String should have at least 1 character$/, "must not be empty")
    .replace(/^(String|Input|Value) should /, "should ");
}
