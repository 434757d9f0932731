// The prompt that replaces a view which the user may not see. It offers to sign in, or to sign in as another user.

import { person, signIn } from "./people.js";
import { button, el, empty } from "./ui.js";

export function show(place) {
  const heading = el("h1", null, person() ? "Access denied" : "Sign in required");
  const card = person()
    ? empty("This view is only for staff", "Sign out, then sign in with a staff account.")
    : empty("This view requires an account", "Sign in to open it.", signIn && button("Sign in", signIn, { kind: "primary" }));
  place.append(heading, el("section", { class: "card" }, card));
  return heading;
}
