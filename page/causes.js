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
const ENDS = new Set(["REMOVE by expiry"]);

/** Takes entries one by one, oldest first, and says to which chapter each belongs. A chapter is opened once and stays. */
export class Chapters {
  #chapters = [];

  /** The chapter of an entry: {number, title, causes, opens}. */
  of(entry) {
    if (entry.kind === "request") return this.#open(entry, requestOf(entry));
    if (entry.kind === "chaos") return this.#open(entry, CHAOS);
    if (ENDS.has(`${entry.event} by ${entry.by}`)) return this.#find((one) => one.title === EXPIRY.title) ?? this.#open(entry, EXPIRY);
    const event = eventOf(entry);
    const causing = event && this.#find((one) => one.causes.test(event));
    return causing ?? this.#chapters.at(-1) ?? this.#open(entry, BEFORE);
  }

  #open(entry, { title, causes }) {
    const chapter = { number: this.#chapters.length + 1, title, causes, opens: entry };
    this.#chapters.push(chapter);
    return chapter;
  }

  #find = (fits) => this.#chapters.findLast(fits);
}

function requestOf({ route = "", text }) {
  return REQUESTS.find((one) => one.route.test(route)) ?? { title: route || text, causes: /^$/ };
}

/** The event that an entry names, or is known to follow from. */
function eventOf({ kind, event, change, reaction, what, text = "" }) {
  if (kind === "published") return event;
  if (kind === "copied") return change;
  const named = `${what ?? ""} ${text}`.match(/\b(Order|Payment|Refund|Shipment|Invoice|Dispute)[A-Z][A-Za-z]+/);
  return named?.[0] ?? REACTION_TO[reaction];
}
