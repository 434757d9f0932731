// Offers to fill an empty local shop with orders of three years, and shows the progress. `make fill` does the same.

import { get, pause, post } from "./api.js";
import { Rejection } from "./problems.js";
import { settings } from "./settings.js";
import { button, el } from "./ui.js";

const ORDERS = 500;
const LOOK_MS = 500;

/** Returns a button that fills the empty shop, or null on AWS. At the end, it reloads the page to show the orders. */
export function seedOffer() {
  if (!settings.laptop) return null;
  const done = el("progress", { max: ORDERS, value: 0, hidden: true, "aria-label": "Seeded orders" });
  const said = el("p", { class: "hint", role: "status" });
  const start = button(`Seed ${ORDERS} orders`, async () => {
    await post("/local/fill", { orders: ORDERS }, { tries: 1 });
    done.hidden = false;
    let now;
    do {
      await pause(LOOK_MS);
      now = await get("/local/fill");
      done.value = now.orders;
      said.textContent = now.line;
    } while (now.is_running);
    if (now.has_failed) throw new Rejection(now.line);
    if (start.isConnected) location.reload();
  }, { kind: "primary" });
  return el("div", { class: "seed-offer" }, start, done, said);
}
