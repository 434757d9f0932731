// The commands for an order: buttons that depend on the user's role and the order's state, and their dialogs.

import { call, get, once, ownPath, post } from "./api.js";
import { addressFields, checkbox, field, form, refundToField } from "./forms.js";
import { money, plural, shortId } from "./format.js";
import { payPanel } from "./pay.js";
import { recordPayment, refundOrder } from "./payments.js";
import { groupOf, isStaff, staffNote } from "./people.js";
import { isHere } from "./settings.js";
import { button, dialog, el, finish, loadingDialog, toast } from "./ui.js";
import { labels, textOf } from "./labels.js";

const AT_ONCE = ["PENDING", "PAID"];
const CANCELLABLE = [...AT_ONCE, "FULFILLING", "PARTIALLY_SHIPPED"];
const RETURNABLE = ["DELIVERED", "PARTIALLY_RETURNED"];
const TO_SHIP = ["FULFILLING", "CANCEL_REQUESTED", "PARTIALLY_SHIPPED", "CUT_REQUESTED"];
const TO_DELIVER = ["PARTIALLY_SHIPPED", "CUT_REQUESTED", "SHIPPED"];
const ASKED_TO_STOP = ["CANCEL_REQUESTED", "CUT_REQUESTED"];
const isShopStaff = (me) => groupOf(me) === "staff";

/** The commands; those of staff are in English. `inList`: whether the rows of a list offer the command. `when`: returns whether an order allows it. `solves`: the action of a diagnosis. */
const ACTIONS = [
  { name: () => "Restore", archived: true, who: isStaff, open: restore, laptop: true, solves: "restore_order" },
  { name: () => textOf("pay"), states: ["PENDING"], who: (me) => !isStaff(me), open: pay, kind: "primary" },
  { name: () => "Record payment", states: ["PENDING"], who: isShopStaff, open: recordPayment, inList: false, solves: "ask_customer" },
  { name: () => "Change address", states: ["PENDING", "PAID"], who: isShopStaff, open: changeAddress, inList: false },
  { name: () => "Ship", states: TO_SHIP, who: isStaff, open: ship, solves: "report_parcel" },
  { name: () => "Deliver", states: TO_DELIVER, who: isStaff, open: deliver, solves: "report_delivery" },
  { name: () => "Return", states: RETURNABLE, who: isStaff, open: giveBack },
  { name: () => "Agree to cancel", states: ASKED_TO_STOP, who: isStaff, open: (asked) => answerCancel(asked, "agreed"), solves: "answer_cancellation" },
  { name: () => "Refuse to cancel", states: ASKED_TO_STOP, who: isStaff, open: (asked) => answerCancel(asked, "refused"), solves: "answer_cancellation" },
  { name: () => "Refund", who: isShopStaff, open: refundOrder, inList: false, when: ({ status, paid, refunded, owed }) => status !== "PENDING" && paid > refunded + owed },
  { name: () => textOf("guest.new_link"), who: (me) => me?.token || isShopStaff(me), open: renewLink, inList: false, when: ({ customer_id: id, archived }) => id.startsWith("guest-") && !archived },
  { name: () => "Cancel and place again", who: isShopStaff, open: replaceOrder, inList: false, when: ({ customer_id: id, status }) => !id.startsWith("guest-") && AT_ONCE.includes(status) },
  { name: () => "Place again", who: isShopStaff, open: placeAgain, inList: false, when: ({ customer_id: id, status, archived }) => !archived && !id.startsWith("guest-") && ["CANCELLED", "LAPSED"].includes(status) },
  { name: () => textOf("cancel"), states: CANCELLABLE, who: (me) => groupOf(me) !== "warehouse", open: cancel, kind: "danger" },
];

/** Returns the buttons for an order. `done`: called after a command succeeded. `small`: whether they are in a list. `solves`: only those for this action of a diagnosis. */
export function actionButtons({ order, me, done, small = false, solves }) {
  const asked = { order, me, done, path: ownPath(me, `/orders/${order.order_id}`) };
  const there = ACTIONS.filter(isHere).filter(({ states, archived = false, who, inList = true, solves: solved, when = () => archived || states.includes(order.status) }) =>
    archived === Boolean(order.archived) && when(order) && who(me) && (solves ? solves === solved : inList || !small));
  const buttons = there.map(({ name, open, kind = "" }) =>
    button(name(), () => open(asked), { kind: `${kind} ${small ? "small" : ""}`, "aria-label": textOf("action", { action: name(), id: shortId(order.order_id) }) }));
  return buttons.length && isStaff(me) && !small ? [staffNote(me), ...buttons] : buttons;
}

function pay({ order, me, done }) {
  dialog(textOf("pay.title", { id: shortId(order.order_id) }), () => payPanel({ order, me, paid: done }));
}

/** Returns the parts of a dialog that sends a command. `said`: returns the text afterwards. `keep`: the text of the button that sends nothing. */
const commandForm = (box, { text, fields = [], submit, send, said, done, keep, kind }) => [
  text && el("p", null, text),
  form({ class: "stack" }, fields, submit, async () => finish(box, said(await send()), done), { kind, also: keep ? [button(keep, () => box.close())] : [] })];

const command = (title, asked) => dialog(title, (box) => commandForm(box, asked));

function renewLink({ order, me, path, done }) {
  command(textOf("guest.new_link.title", { id: shortId(order.order_id) }), {
    text: textOf("guest.new_link.effect"), submit: textOf("guest.new_link.send"), keep: textOf("guest.new_link.keep"),
    send: () => post(`${path}/guest-link`, null, { as: me }), said: () => textOf("guest.new_link.done"), done,
  });
}

function changeAddress({ order, me, path, done }) {
  const { fields, address } = addressFields(order.address);
  const send = () => call("PATCH", `${path}/address`, { body: address(), as: me });
  command(`Change the address of order ${shortId(order.order_id)}`, { fields: [fields], submit: "Save the address", send, said: () => "The address is changed.", done });
}

function cancel({ order, me, path, done }) {
  const text = AT_ONCE.includes(order.status) ? textOf("cancel.at_once") : textOf("cancel.asked");
  const why = isStaff(me) ? [reasonField()] : [];
  command(textOf("cancel.title", { id: shortId(order.order_id) }), {
    text, fields: why, submit: textOf("cancel.submit"), keep: textOf("cancel.keep"), kind: "danger", done,
    send: () => post(`${path}/cancel`, reasonIn(why), { as: me }),
    said: ({ status }) => (status === "CANCELLED" ? textOf("cancel.done") : textOf("cancel.pending")),
  });
}

const reasonField = () => field("Reason (optional)", "reason", { maxlength: "200" });
const reasonIn = ([made]) => (made?.control.value.trim() ? { reason: made.control.value.trim() } : null);

/** Cancels an order, and opens the shop with the same basket for the same customer. An order is not edited. */
function replaceOrder({ order, me, path }) {
  const why = [reasonField()];
  command(`Cancel and place again: order ${shortId(order.order_id)}`, {
    text: "The order is cancelled, and what was paid is refunded. The shop opens with the same basket and address: change them, and place the new order.",
    fields: why, submit: "Cancel and open the shop", keep: textOf("cancel.keep"), kind: "danger",
    send: () => post(`${path}/cancel`, reasonIn(why), { as: me }), said: () => "The order is cancelled.", done: () => placeAgain({ order }),
  });
}

/** Opens the shop with the basket of an order. */
function placeAgain({ order }) {
  location.hash = `#/shop?again=${encodeURIComponent(order.order_id)}`;
}

async function restore({ order, done }) {
  const { ends_at: endsAt } = await post(`/local/orders/${encodeURIComponent(order.order_id)}/restore`);
  toast(endsAt ? "The order is restored. Nothing is sent or counted again." : "The order was already restored.");
  await done();
}

function answerCancel({ order, me, path, done }, answer) {
  const [title, text, said] = answer === "agreed"
    ? ["Agree to cancel", "The goods are stopped, and what was paid for them is refunded.", "The cancellation is accepted."]
    : ["Refuse to cancel", "The goods are sent. The customer gets a mail.", "The cancellation is refused."];
  const send = () => post(`${path}/cancel/${answer}`, null, { as: me });
  command(`${title}: order ${shortId(order.order_id)}`, { text, submit: title, send, said: () => said, done });
}

/** Opens a dialog about the parcels of an order that are in this state. `build`: returns the command for these parcels. */
function aboutParcels(title, { me, path, done }, state, none, build) {
  loadingDialog(title, "parcels", async (box) => {
    const { items } = await get(`${path}/shipments`, { as: me });
    const parcels = items.filter((one) => one.status === state);
    return parcels.length ? commandForm(box, { done, ...build(parcels) }) : el("p", { class: "notice" }, none);
  });
}

const parcelField = (parcels) =>
  field("Parcel", "shipment_id", {}, {
    options: parcels.map((one) => [one.shipment_id, `${shortId(one.shipment_id)}${one.shipment_id.slice(-2)}: ${plural(pieces(one), "piece")}`]),
  });
const pieces = ({ quantities }) => Object.values(quantities).reduce((sum, quantity) => sum + quantity, 0);

function ship(asked) {
  const { order, me, path } = asked;
  aboutParcels(`Ship order ${shortId(order.order_id)}`, asked, "REQUESTED", labels.noParcel, (parcels) => {
    const which = parcelField(parcels);
    const carrier = field("Carrier", "carrier", { value: "DHL", required: true, maxlength: "64" });
    const number = field("Tracking number", "tracking_number", { value: `JJD${String(Date.now()).slice(-10)}`, required: true, maxlength: "64" });
    const told = () => ({ carrier: carrier.control.value, tracking_number: number.control.value });
    const send = () => post(`${path}/shipments/${which.control.value}/dispatched`, told(), { as: me });
    return { fields: [which, carrier, number], submit: "Ship the parcel", send, said: () => "The parcel is dispatched." };
  });
}

function deliver(asked) {
  const { order, me, path } = asked;
  aboutParcels(`Deliver order ${shortId(order.order_id)}`, asked, "DISPATCHED", "No parcel of this order is in transit.", (parcels) => {
    const which = parcelField(parcels);
    const send = () => post(`${path}/shipments/${which.control.value}/delivered`, null, { as: me });
    return { text: "Confirm that the customer received the parcel.", fields: which, submit: "Mark as delivered", send, said: () => "The parcel is delivered." };
  });
}

function giveBack({ order, me, path, done }) {
  loadingDialog(`Return of order ${shortId(order.order_id)}`, "order lines",
    async (box) => returnForm(box, (await get(`${path}/lines`, { as: me })).items, { order, me, path, done }));
}

function returnForm(box, lines, { order, me, path, done }) {
  const back = lines.filter((line) => line.delivered > line.returned).map((line) => returnLine(line));
  const shipping = checkbox("Refund the shipping costs too", "refund_shipping");
  const to = refundToField();
  return form({ class: "stack" }, [el("p", null, "Enter how many pieces of each product were returned."), back.map((one) => one.shown), shipping, to], "Record the return", async () => {
    const wanted = {
      lines: back.map((one) => one.value()).filter((line) => line.quantity > 0),
      refund_shipping: shipping.querySelector("input").checked,
      to: to.control.value,
    };
    const made = await once(`return of ${order.order_id}`, wanted, (key) => post(`${path}/returns`, wanted, { as: me, key }));
    await finish(box, `The return is recorded. The refund is ${money(made.amount, made.currency)}.`, done);
  }, { nameOf: (id) => lines.find((line) => line.product_id === id)?.name ?? id });
}

function returnLine({ product_id, name, delivered, returned }) {
  const most = delivered - returned;
  const count = field(name, `quantity ${product_id}`, { type: "number", min: "0", max: most, value: 0 }, { hint: `Maximum: ${most}` });
  const restock = checkbox(`Put ${name} back in stock`, `restock ${product_id}`, { checked: true });
  return {
    shown: el("div", { class: "return-line" }, count, restock),
    value: () => ({ product_id, quantity: Number(count.control.value), restock: restock.querySelector("input").checked }),
  };
}
