// Who acts: the chosen person, kept for this tab, and their being a customer.

import { Problem, post, signedIn } from "./api.js";
import { capital } from "./format.js";

const CHOSEN = "orderstream.person";
const FULL_NAMES = { alice: "Alice Ash", bob: "Bob Birch" };
const STAFF = new Set(["staff", "warehouse"]);

export const STAFF_MEMBER = "staff";
export const person = () => sessionStorage.getItem(CHOSEN) ?? "alice";
export const choose = (name) => sessionStorage.setItem(CHOSEN, name);
export const isStaff = (name) => STAFF.has(name);
export const fullName = (name) => FULL_NAMES[name] ?? capital(name);

/** Makes a customer of who is none yet. */
export async function register(name, signal) {
  const me = await signedIn(name, signal);
  if (me.registered) return;
  try {
    await post("/api/customers", { name: fullName(name) }, { as: name, signal });
  } catch (error) {
    if (!(error instanceof Problem && error.slug === "already-exists")) throw error;
  }
  me.registered = true;
}
