// Texts that differ between the local shop and a shop on AWS.

import { settings } from "./settings.js";

const ON_A_LAPTOP = {
  lead: (name) => `What a customer sees: put products into the basket, place an order and pay for it. You shop as ${name}. Nothing here is charged.`,
  shelves: "Add six sample products.",
  staffShops: "Choose alice, bob or another customer at the top to place an order.",
  board: "All orders, by state. The local warehouse ships automatically. Heavy orders take longer.",
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
  strangers: "Put products into the basket. Sign in to place an order.",
  shelves: "New products will appear here.",
  staffShops: "Sign in as a customer to place an order.",
  board: "All orders, by state.",
  noParcel: "There is no parcel to ship. It is already in transit, or not requested yet.",
  unanswered: "The shop does not answer. Are you online?",
  unknown: "Your sign-in has ended. Sign in again.",
  unregistered: "You are not a customer yet. Your first order makes you a customer.",
  taken: "Another customer has your e-mail address.",
  unreadable: "The operators of the shop can see this problem.",
  order: "See the order",
  foot: "",
  address: {},
};

export const labels = settings.laptop ? ON_A_LAPTOP : ELSEWHERE;
