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

/** Makes a customer of who is none yet. Remembered by the id that the shop knows them by: after `make reset` all are new. */
export async function register(name, signal) {
  const known = `orderstream.registered.${(await signedIn(name, signal)).customer_id}`;
  if (localStorage.getItem(known)) return;
  try {
    await post("/api/customers", { name: fullName(name) }, { as: name, signal });
  } catch (error) {
    if (!(error instanceof Problem && error.slug === "already-exists")) throw error;
  }
  localStorage.setItem(known, "yes");
}
