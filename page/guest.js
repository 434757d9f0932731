// The order of a guest, opened with a link from a mail. Whoever has the token of the link acts as the guest.

import { show as showOrder } from "./order.js";

export const show = (place, about) => showOrder(place, { ...about, me: { token: about.query.get("token") || "none" } });
