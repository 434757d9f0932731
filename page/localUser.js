// Users on a laptop: a visitor can act as any user, by name, or as a guest, who is no user. The browser stores the choice for this tab.

import { create, get, post } from "./api.js";
import { field, form } from "./forms.js";
import { capital } from "./format.js";
import { dialog, el } from "./ui.js";

const CHOSEN = "orderstream.person";
const FULL_NAMES = { alice: "Alice Ash", bob: "Bob Birch" };
const GROUPS = new Set(["staff", "warehouse"]);
const USERS = ["alice", "bob", "staff", "warehouse"];
const SOMEBODY_ELSE = "…";
const GUEST = "guest";
const tokens = new Map();
const asked = new Map();
const select = el("select", { id: "who" });
let users = USERS;

const chosen = () => sessionStorage.getItem(CHOSEN) ?? "alice";
export const person = () => (chosen() === GUEST ? null : chosen());
export const groupOf = (name) => (GROUPS.has(name) ? name : null);
export const staffMember = () => "staff";
export const fullName = (name) => FULL_NAMES[name] ?? capital(name ?? "a guest");
export const arrive = async () => {};

export function choose(name) {
  sessionStorage.setItem(CHOSEN, name);
  offer();
}

// Tokens ---------------------------------------------------------------------------------------------------------------
export const token = async (name) => (await signedIn(name)).token;
export const forget = (name) => tokens.delete(name); // the local AWS forgets tokens when it is killed

/**
 * Returns the user's token, from a cache while it is valid, whether the user is a customer, and the language that they
 * chose: {token, registered, language}.
 * Requests at the same time share one request for the token. No view can abort it, because another view may wait for it.
 */
async function signedIn(user) {
  const known = tokens.get(user);
  if (known && known.until > Date.now()) return known;
  if (asked.has(user)) return asked.get(user);
  const made = post("/local/tokens", { user })
    .then((found) => ({ ...found, until: Date.now() + (found.expires_in_seconds - 60) * 1000 }))
    .then((kept) => (tokens.set(user, kept), kept))
    .finally(() => asked.delete(user));
  asked.set(user, made);
  return made;
}

export async function register(name, _, signal) {
  const me = await signedIn(name);
  if (me.registered) return;
  await create("/api/customers", { name: fullName(name) }, { as: name, signal });
  me.registered = true;
}

export const chosenLanguage = async () => (await signedIn(person())).language;
export async function choseLanguage(language) {
  (await signedIn(person())).language = language;
}

// Above ----------------------------------------------------------------------------------------------------------------
export function account(again) {
  offer();
  get("/local/shop").then((found) => {
    users = found.users;
    offer();
  });
  select.addEventListener("change", () => {
    if (select.value === SOMEBODY_ELSE) {
      select.value = chosen();
      askName(again);
      return;
    }
    choose(select.value);
    again({ keepFocus: true });
  });
  return el("label", { class: "row tight" }, "You are ", select);
}

function offer() {
  const names = [...new Set([...users, GUEST, chosen()])];
  select.replaceChildren(...names.map((name) => el("option", { value: name, selected: name === chosen() }, capital(name))));
  select.append(el("option", { value: SOMEBODY_ELSE }, "Another user …"));
}

function askName(again) {
  const name = field("Name", "user", { required: true, pattern: "[a-z][a-z0-9]{0,29}", autocomplete: "off", autocapitalize: "none" }, { hint: "Lower-case letters and digits, such as carol." });
  dialog("Another user", (box) =>
    form({ class: "stack" }, name, "Continue as this user", async () => {
      choose(name.control.value);
      box.close();
      again();
    }),
  );
}
