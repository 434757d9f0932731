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
 * exists only on a laptop, `signIn()` only on AWS. `chosenLanguage()`: the code of the language that the acting user
 * chose as a customer, or null. `choseLanguage(code)`: called after the user chose another one.
 */
export const { arrive, account, person, staffMember, fullName, register, choose, signIn, token, choseLanguage } = here;

/** Returns a user's group. A guest, {token}, has none. */
export const groupOf = (name) => (name?.token ? null : here.groupOf(name));

export const isStaff = (name) => groupOf(name) !== null;

/** Returns the language in which the acting user sees the order page. Staff see it in English. */
export async function orderLanguage() {
  if (isStaff(person())) return "en";
  const chosen = await here.chosenLanguage().catch(() => null); // the view itself shows that the shop does not answer
  return languageOf(chosen);
}

/** Returns the code of a language if the shop has it, or that of the shop's own language. */
export const languageOf = (code) => (code in settings.languages ? code : settings.language);

/** Returns a note that the user acts as staff, and if a customer is chosen above, that the user does not act as them. */
export function staffNote(me) {
  const note = `Acting as ${groupOf(me)}`;
  return el("p", null, chip(person() === me ? note : `${note}, not as ${fullName(person())}`, "waiting"));
}
