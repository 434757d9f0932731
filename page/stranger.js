// Instead of a view that is not for whoever looks: they may sign in, as somebody else if need be.

import { person, signIn } from "./people.js";
import { button, el, empty } from "./ui.js";

export function show(place) {
  const heading = el("h1", null, person() ? "Not for you" : "Who are you?");
  const card = person()
    ? empty("This is for the staff", "Sign out, and in again as somebody of the staff.")
    : empty("This is not for everybody", "Sign in to see it.", button("Sign in", signIn, { kind: "primary" }));
  place.append(heading, el("section", { class: "card" }, card));
  return heading;
}
