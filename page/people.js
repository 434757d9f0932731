// Who acts: on a laptop whoever is chosen, elsewhere whoever has signed in. What both can be asked is said here.

import { tokensFrom } from "./api.js";
import * as localUser from "./localUser.js";
import { settings } from "./settings.js";
import * as signedInUser from "./signedInUser.js";

const here = settings.laptop ? localUser : signedInUser;
tokensFrom(here);

/**
 * `arrive()`: once, before the first view. `account(again)`: what stands above for who one is; `again` shows the view
 * anew. `person()`: who acts, or null. `groupOf(person)`: "staff", "warehouse" or null. `staffMember()`: who acts where
 * only the staff may, or null. `register(person, name)`: makes a customer of who is none yet. `choose(person)`,
 * `signIn()`: the one there is here, the other is undefined.
 */
export const { arrive, account, person, groupOf, staffMember, fullName, register, choose, signIn } = here;

export const isStaff = (name) => groupOf(name) !== null;
