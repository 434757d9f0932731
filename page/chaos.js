// Chaos, only on a laptop: switches that break a part of the system on purpose, and sample orders that show the effect.

import { get, pause, post } from "./api.js";
import { checkbox, field, form } from "./forms.js";
import { labels } from "./labels.js";
import { fullName, groupOf, person, register } from "./people.js";
import { el, orderLink } from "./ui.js";

const SAMPLE = "stoneware-mug";
const SPANS = [["1h", "1 hour: unpaid orders lapse"], ["30d", "30 days"], ["90d", "90 days"], ["400d", "400 days: closed orders are archived"]];
const MAIL_FAULTS = [["rate", "mails above a rate of one a second"], ["quota", "all: the daily quota is used up"], ["paused", "all: the account is paused"], ["sandbox", "all: the account is in the sandbox"], ["unknown", "all, for an unknown reason"], ["suppressed", "none, but it sends none either"], ["none", "nothing: it accepts all mails"]];
const DELAYS = [["3", "3 seconds"], ["12", "12 seconds: longer than the refund Lambda waits"], ["0", "none: it answers at once"]];
const DELIVERIES = [["late", "late: after 10 seconds"], ["twice", "twice"], ["out_of_order", "out of order: the next event first"], ["in_time", "once, in time"]];
const LATE = "Also place a sample order, cancel it, and pay it late: it is refunded";
const EFFECT_MS = 8000;

// The sample order -------------------------------------------------------------------------------------------------------
/** Places a sample order as a local customer, pays for it, and returns it. Fills an empty shop with products first. */
export async function sampleOrder({ signal, paid = true, late = false }) {
  const me = groupOf(person()) ? "alice" : person() ?? "alice";
  await register(me, fullName(me), signal);
  const order = await placed(me, signal);
  if (late) await post(`/api/orders/${order.order_id}/cancel`, {}, { as: me, key: crypto.randomUUID(), signal });
  if (paid || late) {
    const payment = { order_id: order.order_id, amount: order.due, currency: order.currency, payment_method: "pm_card_visa" };
    await post("/local/payments", payment, { key: crypto.randomUUID(), signal });
  }
  return order;
}

async function placed(me, signal) {
  const product_id = (await inStock(signal)) ?? (await stock());
  const body = { lines: [{ product_id, quantity: 1 }], address: { name: fullName(me), ...labels.address } };
  return post("/api/orders", body, { as: me, key: crypto.randomUUID(), signal });
}

/** Returns a product that can be ordered, preferably the sample product, or undefined if there is none. */
async function inStock(signal) {
  const { items } = await get("/api/products?limit=100", { signal });
  const sold = items.filter((one) => one.available > 0).map((one) => one.product_id);
  return sold.includes(SAMPLE) ? SAMPLE : sold[0];
}

async function stock() {
  await (await import("./seedProducts.js")).seedProducts();
  return SAMPLE;
}

/** Waits until the mail of a new order is sent, so that no function reads the order any more. */
async function mailed(id, signal) {
  for (const end = Date.now() + EFFECT_MS; Date.now() < end; await pause(200, signal)) {
    const { entries } = await get(`/local/orders/${encodeURIComponent(id)}/entries`, { signal });
    if (entries.some((entry) => entry.kind === "effect")) return;
  }
}

// The switches -----------------------------------------------------------------------------------------------------------
const PROCESSES = {
  dynamodb: ["Kill the local DynamoDB", "The local DynamoDB is killed with kill -9. It restarts within seconds."],
  aws: ["Kill the local AWS", "The functions, queues and the bus are killed with kill -9. They restart within seconds."],
  everything: ["Kill everything", "Both processes are killed at once with kill -9: the table, the functions, the queues and the bus."],
};

/**
 * The switches. Each has its title, its fields, the fields of its request, what it does, and what to watch. `order`: how
 * to place its sample order. `first`: whether this order comes before the switch. `always`: whether the switch needs it.
 */
const SWITCHES = {
  fail: (_, { events }) => {
    const times = field("Times", "times", { type: "number", min: "1", max: "100", value: "3", required: true });
    return {
      title: "Fail deliveries", fields: [times], submit: "Make them fail", read: () => ({ times: Number(times.control.value) }), order: orderFor(events),
      what: "The next deliveries fail, as if the code or a service were broken.",
      watch: "Each attempt is later than the one before. Nothing is lost or done twice.",
    };
  },
  twice: (_, { events }) => ({
    title: "Deliver twice", submit: "Deliver twice", order: orderFor(events),
    what: "The next batch or message is delivered a second time, as Lambda and SQS sometimes do.",
    watch: "The second delivery changes nothing: one invoice, one mail, one refund.",
  }),
  reader: (_, { isStopped }) => ({
    title: "Stop a reader", submit: isStopped ? "Start the reader" : "Stop the reader", read: () => ({ running: isStopped }), order: !isStopped && {},
    what: "The reader stops processing the stream. The other reader continues.",
    watch: "Records wait and the lag grows. Start the reader again: it catches up.",
  }),
  poison: () => ({
    title: "Poison a record", submit: "Write a poison record", order: { paid: false }, first: true, always: true,
    what: "Places a sample order, and then writes it in a schema version that no version of the code can read.",
    watch: "Each reader parks the record and continues. Open a reader to mend and redrive it.",
  }),
  kill: ({ process }) => ({
    title: PROCESSES[process][0], submit: "Kill now", kind: "danger", order: {}, first: true, what: PROCESSES[process][1],
    watch: "The page reports that the shop does not answer, and then continues. No order is lost.",
  }),
  mails: () => {
    const refuse = field("SES refuses", "refuse", {}, { options: MAIL_FAULTS });
    return {
      title: "Refuse mails", fields: [refuse], submit: "Refuse mails", read: () => ({ refuse: refuse.control.value }), order: {},
      what: "The mail service refuses mails, as SES does.",
      watch: "The mails are deferred, and are sent within 15 minutes after the service accepts them again.",
    };
  },
  slow: () => {
    const seconds = field("Delay of each answer", "seconds", {}, { options: DELAYS });
    return {
      title: "Slow the provider", fields: [seconds], submit: "Set the delay", read: () => ({ seconds: Number(seconds.control.value) }), order: { late: true },
      what: "Each answer of the payment provider waits, for payments and for refunds.",
      watch: "A refund that takes too long is retried with the same idempotency key: the money goes back once.",
    };
  },
  delivery: () => {
    const mode = field("It sends each event", "mode", {}, { options: DELIVERIES });
    return {
      title: "Disturb the webhooks", fields: [mode], submit: "Set the delivery", read: () => ({ mode: mode.control.value }), order: {},
      what: "The payment provider sends its events late, twice or out of order, as Stripe sometimes does.",
      watch: "A late event changes the order late. A repeated or outdated event changes nothing. A dispute has several events: open one in an order.",
    };
  },
  advance: () => {
    const by = field("Duration", "by", {}, { options: SPANS });
    return {
      title: "Advance the clock", fields: [by], submit: "Advance", read: () => ({ by: by.control.value }),
      what: "Everything that is due within this duration ends now: unpaid orders, old markers, closed orders.",
      watch: "A delivered order is archived, and its trace shows this.",
    };
  },
};

const SAMPLE_EVENTS = ["OrderPlaced", "OrderPaid", "ShipmentRequested"];

/** Returns how to place a sample order that causes one of these events, or undefined. Stream readers get all events. */
function orderFor(events) {
  if (!events || events.some((name) => SAMPLE_EVENTS.includes(name))) return {};
  return events.includes("RefundRequested") ? { late: true } : undefined;
}

/**
 * Returns the form of a switch. `wanted`: the fields of the request that name the switch. `isStopped`: whether its
 * stream reader is stopped now. `events`: the names of the events that its reaction handles.
 */
export function switchForm(wanted, { signal, isStopped = false, events }) {
  const one = SWITCHES[wanted.switch](wanted, { isStopped, events });
  const said = el("div", { class: "said", role: "status" });
  const also = one.order && !one.always && checkbox(one.order.late ? LATE : "Also place a sample order", "order", { checked: true });
  const unreached = wanted.of && !one.order && events && `A sample order does not reach it: it waits for ${events.join(" or ")}.`;
  const about = [el("h3", null, one.title), el("p", null, one.what), el("p", { class: "hint" }, el("strong", null, "Watch: "), one.watch, unreached ? ` ${unreached}` : "")];
  const made = form({ class: "switch", "aria-label": one.title }, [about, el("div", { class: "inline" }, one.fields ?? []), also || ""], one.submit, async () => {
    const orders = one.order && (one.always || also.querySelector("input").checked);
    let order = orders && one.first && (await sampleOrder({ signal, ...one.order }));
    if (one.always) await mailed(order.order_id, signal);
    const asked = { ...wanted, ...one.read?.(), ...(one.always && { order_id: order.order_id }) };
    const answer = await post("/local/chaos", asked, { tries: 1 });
    const show = () => said.replaceChildren(el("p", { class: "notice good" }, answer.said, order ? el("span", null, orderLink(order.order_id, "See the trace of its order")) : ""));
    show();
    if (orders && !one.first) {
      order = await sampleOrder({ signal, ...one.order });
      show();
    }
  }, { kind: one.kind ?? "" });
  made.append(said);
  return made;
}
