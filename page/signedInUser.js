// The signed-in user on AWS: the groups in their token, and their customer profile, if they have one.

import { create, get } from "./api.js";
import { capital } from "./format.js";
import { explain } from "./problems.js";
import { comeBack, session, signIn, signOut, whose } from "./signin.js";
import { button, el, toast } from "./ui.js";

export { forget, signIn, token } from "./signin.js";

const GROUPS = ["staff", "warehouse"];
let customer = null;

export const person = () => whose()?.sub ?? null;
export const groupOf = (id) => (id === null ? null : GROUPS.find((group) => whose()?.groups.includes(group)) ?? null);
export const staffMember = () => (groupOf(person()) ? person() : null);
export const fullName = () => customer?.name ?? "";

/** Completes a sign-in. After an error, the user is not signed in, but can still see the products. */
export async function arrive() {
  try {
    await comeBack();
    if (person() && !staffMember()) customer = await myself();
  } catch (error) {
    toast(explain(error), "bad");
  }
}

/** Loads the customer who is signed in. Returns null if the user is not registered as a customer. */
async function myself() {
  try {
    return await get("/api/customers/me", { as: person(), tries: 2 });
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

export async function register(id, name, signal) {
  if (customer) return;
  customer = await create("/api/customers", { name }, { as: id, signal }) ?? await myself();
  session.dispatchEvent(new Event("change"));
}

export const chosenLanguage = async () => customer?.language;
export async function choseLanguage(language) {
  customer = { ...customer, language };
}

// Above ----------------------------------------------------------------------------------------------------------------
export function account(again) {
  const place = el("div", { class: "row tight" });
  const draw = () => {
    const name = el("span", null, capital(groupOf(person()) ?? fullName()));
    const somebody = [name, button("Sign out", signOut, { kind: "small quiet" })];
    place.replaceChildren(...(person() ? somebody : [button("Sign in", signIn, { kind: "small primary" })]));
  };
  session.addEventListener("change", () => {
    draw();
    if (!person()) again({ keepFocus: true });
  });
  draw();
  return place;
}
