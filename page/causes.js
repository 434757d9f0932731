// Finds the request that caused an entry of the activity log. The log is sorted by time, so the effects of two requests
// are mixed; a timeline shows them request by request.

/** The order of a request, and the events that it causes; the first match counts. */
const REQUESTS = [
  { route: /^POST \/orders$/, title: "The order is placed", causes: /^OrderPlaced$/ },
  { route: /\/payments(\/|$)/, title: "The payment is reported", causes: /^(OrderPaid|OrderPartlyPaid|OrderUnpaid|OrderFulfilling|ShipmentRequested|InvoiceIssued|Payment|Dispute|Refund(Sent|Succeeded|Failed))/ },
  { route: /\/dispatched$/, title: "The parcel is dispatched", causes: /^(Order(Partly)?Shipped|ShipmentDispatched)/ },
  { route: /\/delivered$/, title: "The parcel is delivered", causes: /^(Order(Partly)?Delivered|ShipmentDelivered)/ },
  { route: /\/cancel(\/|$)/, title: "A cancellation", causes: /^(OrderCancel|OrderCutShort|ShipmentCancelled|RefundRequested|OrderRefunded)/ },
  { route: /\/returns$/, title: "Goods are returned", causes: /^(Order(Partly)?Returned|RefundRequested|OrderRefunded)/ },
  { route: /\/settle$/, title: "A refund is settled by hand", causes: /^(RefundSettled|PaymentRefunded)/ },
  { route: /\/refunds/, title: "A refund is requested", causes: /^(RefundRequested|OrderRefunded)/ },
  { route: /\/address$/, title: "The address is changed", causes: /^OrderReaddressed/ },
];
const EXPIRY = { title: "The order expires", causes: /^(OrderLapsed|OrderArchiv|OrderExpired)/ };
const CHAOS = { title: "Chaos", causes: /^$/ };
const BEFORE = { title: "Earlier activity", causes: /^$/ };

/** A webhook is named by the event that it reports. */
const TOLD = {
  PaymentFailed: "A payment fails", PaymentCaptured: "The order is paid", OrderPaid: "The order is paid",
  RefundSucceeded: "A refund succeeds", RefundFailed: "A refund fails",
};
/** The records that have the order's version, so that they belong to the request that wrote this version. */
const OF_THE_ORDER = new Set(["Order", "OrderSummary", "OrderNumber", "Sale", "Activity", "Expiry"]);
const REACTION_TO = { fulfilment: "OrderPaid", archive: "OrderExpired" };

/** The start of an entry: a request is logged when it ends, and its records come while it runs. */
export const beganAt = ({ kind, at, ms }) => Date.parse(at) - (kind === "request" ? (ms ?? 0) : 0);

/** The chapters of a timeline: [{title, opens, causes, entries}]. `entries` are sorted by their start. */
export function chaptersOf(entries) {
  const chapters = [];
  const open = (entry, { title, causes }) => chapters[chapters.push({ title, causes, opens: entry, entries: [] }) - 1];
  const eventOf = eventsOf(entries);
  for (const entry of entries) chapterOf(entry, eventOf(entry), chapters, open).entries.push(entry);
  for (const chapter of chapters) chapter.title = chapter.entries.map((entry) => TOLD[entry.event]).find(Boolean) ?? chapter.title;
  return chapters;
}

function chapterOf(entry, event, chapters, open) {
  if (entry.kind === "request") return open(entry, requestOf(entry));
  if (entry.kind === "chaos") return open(entry, CHAOS);
  if (entry.event === "REMOVE" && entry.by === "expiry") return chapters.find((one) => one.causes === EXPIRY.causes) ?? open(entry, EXPIRY);
  const causing = event && chapters.findLast((one) => one.causes.test(event));
  return causing ?? chapters.at(-1) ?? open(entry, BEFORE);
}

function requestOf({ route = "", text }) {
  return REQUESTS.find((one) => one.route.test(route)) ?? { title: route || text, causes: /^$/ };
}

/** Returns the event that an entry is, or follows from. */
function eventsOf(entries) {
  const published = entries.filter((entry) => entry.kind === "published");
  const names = new Map(published.map((entry) => [entry.event_id, entry.event]));
  const ofVersion = [...names.values()].filter((event) => /^Order[A-Z]/.test(event)); // each version of an order has one event
  return ({ kind, event, change, reaction, reader, type, version, text = "" }) => {
    if (kind === "published") return event;
    if (kind === "copied") return change;
    if (kind === "delivery" && version) return ofVersion[version - 1];
    if (kind === "record") return OF_THE_ORDER.has(type) && event !== "REMOVE" ? ofVersion[version - 1] : undefined;
    if (kind === "effect") return names.get(event) ?? REACTION_TO[reaction];
    const named = text.match(/\b(Order|Payment|Refund|Shipment|Invoice|Dispute)[A-Z][A-Za-z]+/);
    return named?.[0] ?? REACTION_TO[reaction ?? reader];
  };
}
