// The acting user: the selected user on a laptop, the signed-in user on AWS. Both modules have this interface.

import { tokensFrom } from "./api.js";
import { settings } from "./settings.js";
import { chip, el } from "./ui.js";

const here = await (settings.laptop ? import("./localUser.js") : import("./signedInUser.js"));
tokensFrom(here);

/**
 * `arrive()`: called once before the first view. `account(again)`: the user's part of the header; `again` redraws the
 * view. `person()`: the acting user, or null. `groupOf(person)`: "staff", "warehouse" or null. `staffMember()`: the
 * acting user for staff commands, or null. `register(person, name)`: registers a user as a customer. `choose(person)`
 * exists only on a laptop, `signIn()` only on AWS.
 */
export const { arrive, account, person, staffMember, fullName, register, choose, signIn, token } = here;

/** Returns a user's group. A guest, {token}, has none. */
export const groupOf = (name) => (name?.token ? null : here.groupOf(name));

export const isStaff = (name) => groupOf(name) !== null;

/** Returns a note that the user acts as staff, and if a customer is chosen above, that the user does not act as them. */
export function staffNote(me) {
  const note = `Acting as ${groupOf(me)}`;
  return el("p", null, chip(person() === me ? note : `${note}, not as ${fullName(person())}`, "waiting"));
}
