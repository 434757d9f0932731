// What the shop's refusals mean to a person, and what to do about them.

import { Problem, Unanswered } from "./api.js";
import { moment, number, stateName } from "./format.js";
import { words } from "./words.js";

const REFUSALS = {
  "out-of-stock": ({ short = {} }, nameOf) =>
    `${Object.entries(short).map(([id, left]) => (left > 0 ? `Only ${number(left)} of ${nameOf(id)} left.` : `${nameOf(id)} is sold out.`)).join(" ")} Change the quantity and place the order again.`,
  "price-changed": ({ changed = {} }, nameOf) =>
    `The price changed since you saw it: ${Object.keys(changed).map(nameOf).join(", ")}. Your basket shows the new price now; place the order again if you like it.`,
  "unknown-products": ({ product_ids: ids = [] }, nameOf) =>
    `Not for sale any more: ${ids.map(nameOf).join(", ")}. Take it out of the basket.`,
  "mixed-currencies": () => "An order is in one currency. Order what has another price tag separately.",
  "discount-not-valid": ({ code, why }) => `The discount code ${code} cannot be used: ${why}. Leave it out or try another.`,
  "not-registered": () => words.unregistered,
  "email-taken": () => words.taken,
  "wrong-state": ({ what, state }) => `Not any more: the ${what} is “${stateName(state)}” by now.`,
  "return-window-over": ({ ended_at: end }) => `It could be returned until ${moment(end)}.`,
  "too-much": ({ field, most }, nameOf) => `Too many of ${nameOf(String(field).split(".").pop())}: ${number(most)} at most.`,
  "not-allowed": ({ detail }) => `This person may not do that: ${detail}.`,
  "not-found": ({ what }) => `There is no such ${what ?? "thing"}, or it is somebody else's.`,
  "key-reused": () => "This was sent before with other contents. Try once more.",
  "unreadable": () => `It was written by a version of the shop that this one cannot read. ${words.unreadable}`,
  "fault": ({ instance }) => `A fault of the shop, which is logged under ${instance}. Try again.`,
};

/** A no that is not an answer of the API; its message is said as it is. */
export class Refusal extends Error {}

/** One or two plain sentences. `nameOf` knows products by their ids. */
export function explain(error, nameOf = (id) => id) {
  if (error instanceof Unanswered || error instanceof Refusal) return error.message;
  if (!(error instanceof Problem)) {
    console.error(error);
    return `The page stumbled: ${error.message}. Reload it.`;
  }
  if (error.status === 401) return words.unknown;
  if (error.status === 429) return "The shop is asked too often. Wait a moment and try again.";
  if (error.status >= 502) return "The shop does not answer just now. Try again in a moment; nothing is done twice.";
  const refusal = REFUSALS[error.slug];
  if (refusal) return refusal(error.document, nameOf);
  return fieldErrors(error).length ? "Some of it is not as it should be:" : `${error.message.replace(/\.?$/, ".")}`;
}

/** [{field, why}] of what was sent; `field` is a path such as address.postcode. */
export function fieldErrors(error) {
  const errors = error instanceof Problem ? error.document.errors ?? [] : [];
  return errors.map(({ field, why, message }) => ({ field, why: plain(why ?? message ?? "is not right") }));
}

/** The validator speaks of strings and patterns; people do not. */
function plain(why) {
  return why
    .replace(/^String should have at least 1 character$/, "is empty")
    .replace(/^String should match pattern.*$/, "holds a character that cannot be in it")
    .replace(/^(String|Input|Value) should /, "should ");
}
