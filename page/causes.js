// Which request an entry of the journal follows from. The journal tells in the order of time, and what follows from two
// requests comes mixed; a story is told request by request.

/** What a request is about, and the events that it causes; the first that fits counts. */
const REQUESTS = [
  { route: /^POST \/orders$/, title: "The order is placed", causes: /^OrderPlaced$/ },
  { route: /\/payments(\/|$)/, title: "The payment is told", causes: /^(OrderPaid|OrderPartlyPaid|OrderUnpaid|OrderFulfilling|ShipmentRequested|InvoiceIssued|Payment|Dispute|Refund(Sent|Succeeded|Failed))/ },
  { route: /\/dispatched$/, title: "The parcel leaves", causes: /^(Order(Partly)?Shipped|ShipmentDispatched)/ },
  { route: /\/delivered$/, title: "The parcel arrives", causes: /^(Order(Partly)?Delivered|ShipmentDelivered)/ },
  { route: /\/cancel(\/|$)/, title: "The order is to be cancelled", causes: /^(OrderCancel|OrderCutShort|ShipmentCancelled|RefundRequested|OrderRefunded)/ },
  { route: /\/returns$/, title: "Goods come back", causes: /^(Order(Partly)?Returned|RefundRequested|OrderRefunded)/ },
  { route: /\/refunds/, title: "Money is given back", causes: /^(RefundRequested|OrderRefunded)/ },
  { route: /\/address$/, title: "The address changes", causes: /^OrderReaddressed/ },
];
const EXPIRY = { title: "Its time is over", causes: /^(OrderLapsed|OrderArchiv)/ };
const CHAOS = { title: "Chaos", causes: /^$/ };
const BEFORE = { title: "What came before", causes: /^$/ };

/** What a reaction without a named event follows from. */
const REACTION_TO = { fulfilment: "OrderPaid", archive: "OrderArchiving" };

/** The chapters of a story, in the order of time: [{title, opens, causes, entries}]. `entries` are sorted by time. */
export function chaptersOf(entries) {
  const chapters = [];
  const open = (entry, { title, causes }) => chapters[chapters.push({ title, causes, opens: entry, entries: [] }) - 1];
  for (const entry of entries) (chapterOf(entry, chapters, open)).entries.push(entry);
  return chapters;
}

function chapterOf(entry, chapters, open) {
  if (entry.kind === "request") return open(entry, requestOf(entry));
  if (entry.kind === "chaos") return open(entry, CHAOS);
  if (entry.event === "REMOVE" && entry.by === "expiry") return chapters.find((one) => one.title === EXPIRY.title) ?? open(entry, EXPIRY);
  const event = eventOf(entry);
  const causing = event && chapters.findLast((one) => one.causes.test(event));
  return causing ?? chapters.at(-1) ?? open(entry, BEFORE);
}

function requestOf({ route = "", text }) {
  return REQUESTS.find((one) => one.route.test(route)) ?? { title: route || text, causes: /^$/ };
}

/** The event that an entry names, or is known to follow from. */
function eventOf({ kind, event, change, reaction, what, text = "" }) {
  if (kind === "published" || kind === "effect") return event ?? REACTION_TO[reaction];
  if (kind === "copied") return change;
  const named = `${what ?? ""} ${text}`.match(/\b(Order|Payment|Refund|Shipment|Invoice|Dispute)[A-Z][A-Za-z]+/);
  return named?.[0] ?? REACTION_TO[reaction];
}
