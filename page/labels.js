// The texts of the order page in its user's language, one file for each language. All other views are in English.
// Also texts that differ between the local shop and a shop on AWS.

import { english, read, settings } from "./settings.js";

const loaded = { en: english };
let current = english;
let wanted = "en";

/** Loads a language and uses it from now on, unless another one is wanted meanwhile. */
export async function useLanguage(code) {
  wanted = code;
  loaded[code] ??= await read(`languages/${code}.json`);
  if (wanted !== code) return;
  current = loaded[code];
  document.documentElement.lang = code;
}

/** The locale in which the language writes numbers and times. */
export const locale = () => textOf("locale");

/** Returns a text, with `values` in its placeholders. A state that only a newer shop has is shown by its name. */
export const textOf = (key, values = {}) => (current[key] ?? inWords(key)).replace(/{(\w+)}/g, (_, name) => values[name]);

/** Returns the last part of a key in words: "Order partly shipped" for step.OrderPartlyShipped. */
function inWords(key) {
  const text = key.split(".").pop().replace(/(?<=[a-z])(?=[A-Z])/g, " ").replaceAll("_", " ").toLowerCase();
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// Local or AWS ---------------------------------------------------------------------------------------------------------

const ON_A_LAPTOP = {
  lead: (name) => `What a customer sees: put products into the basket, place an order and pay for it. You shop as ${name}. Nothing here is charged.`,
  strangers: "Put products into the basket, and order as a guest. Nothing here is charged.",
  shelves: "Add six sample products.",
  board: "All orders, by state. The local warehouse ships automatically, unless it is switched off.",
  noParcel: "There is no parcel to ship. The local warehouse shipped it already, or it is not requested yet.",
  unanswered: "The shop does not answer. Is `make up` still running?",
  unknown: "The shop does not know this user any more. Choose the user again.",
  unregistered: "This user is not a customer yet. Place an order as this user first.",
  taken: "Another customer has the e-mail address of this user. The local AWS loses new users when it is killed. Choose another name.",
  unreadable: "This trace and the Flow view show how the readers handled it.",
  order: "See its trace",
  foot: "This shop runs on this laptop. Nothing is sold, sent or charged.",
  address: { street: "1 Elm Row", postcode: "1010", city: "Wien", country: "AT" },
};

const ELSEWHERE = {
  lead: (name) => `Put products into the basket, and place an order. ${name ? `You shop as ${name}.` : "Your first order makes you a customer."}`,
  strangers: "Put products into the basket. Sign in, or order as a guest.",
  shelves: "New products will appear here.",
  board: "All orders, by state.",
  noParcel: "There is no parcel to ship. It is already in transit, or not requested yet.",
  get unanswered() {
    return textOf("problem.unanswered");
  },
  get unknown() {
    return textOf("problem.signed_out");
  },
  unregistered: "You are not a customer yet. Your first order makes you a customer.",
  taken: "Another customer has your e-mail address.",
  unreadable: "The operators of the shop can see this problem.",
  get order() {
    return textOf("order.see");
  },
  foot: "",
  address: {},
};

export const labels = settings.laptop ? ON_A_LAPTOP : ELSEWHERE;
