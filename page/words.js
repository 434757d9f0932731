// What is said in other words on a laptop, where nothing is real and everybody may be anybody.

import { settings } from "./settings.js";

const ON_A_LAPTOP = {
  lead: (name) => `You shop as ${name}. Nothing here is charged.`,
  shelves: "Put six products on them, as the staff would.",
  staffShops: "Choose alice, bob or somebody else at the top to place an order.",
  board: (name) => `Everybody's open orders, as ${name} sees them. The laptop's warehouse ships by itself; what is heavy takes it a while.`,
  noParcel: "There is no parcel to ship: the laptop's warehouse was faster, or it is not requested yet.",
  unanswered: "The shop does not answer. Is `make up` still running?",
  unknown: "The shop does not know this person any more. Choose who you are again.",
  unregistered: "You are no customer yet. Open the shop once as this person.",
  taken: "Another customer has this person's e-mail address. The local AWS forgets people when it is killed: choose another name.",
  unreadable: "What the readers made of it is told here and on the Stream view.",
  story: "See its story",
  foot: "A shop on this laptop: nothing here is sold, sent or charged.",
  address: { street: "1 Elm Row", postcode: "1010", city: "Wien", country: "AT" },
};

const ELSEWHERE = {
  lead: (name) => (name ? `You shop as ${name}.` : "With your first order you become a customer."),
  strangers: "Look around. To order, sign in.",
  shelves: "There will be something soon.",
  staffShops: "Sign in as a customer to place an order.",
  board: () => "Everybody's open orders.",
  noParcel: "There is no parcel to ship: it is on its way, or not requested yet.",
  unanswered: "The shop does not answer. Are you online?",
  unknown: "Your sign-in has ended. Sign in again.",
  unregistered: "You are no customer yet. You become one with your first order.",
  taken: "Another customer has your e-mail address.",
  unreadable: "Who runs the shop knows of it.",
  story: "See the order",
  foot: "",
  address: {},
};

export const words = settings.laptop ? ON_A_LAPTOP : ELSEWHERE;
