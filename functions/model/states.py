"""The state tables: from which state to which state a command may move an order, shipment, payment or refund.

If a table does not list a command for the current state, the command is rejected. Each move has a name, such as
OrderPaid. When the stream delivers the record of a move, the module `changes` returns a change with this name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, cast

from functions.dynamodb.keys import Instant
from functions.model.entities import (
    Order,
    OrderStatus,
    Payment,
    PaymentStatus,
    Refund,
    RefundStatus,
    Shipment,
    ShipmentStatus,
    TimelineEntry,
)
from functions.model.errors import WrongState
from functions.model.timelines import append_entry

OrderCommand = Literal[
    "pay_part", "pay", "unpay_part", "join", "change_address", "cancel", "lapse", "fulfil", "request_cancel", "agree_cancel",
    "refuse_cancel", "dispatch_part", "dispatch", "request_cut", "cut_short", "cut_short_arrived", "refuse_cut",
    "deliver_part", "deliver", "return_part", "return", "over_refund", "refund", "credit", "erase", "archive",
]  # fmt: skip
ShipmentCommand = Literal["dispatch", "deliver", "cancel"]
PaymentCommand = Literal[
    "authorise", "capture", "fail", "unmatch", "close", "reverse", "dispute", "note_dispute", "refund_part", "refund", "regain",
    "regain_unmatched",
]  # fmt: skip
RefundCommand = Literal["send", "succeed", "fail", "retry", "settle"]
UNCHANGED = ""
"""The value of `Transition.after` if the command does not change the state, but only another field of the item."""


@dataclass(frozen=True)
class Transition:
    """An allowed move of an item: `command` moves the item from any state in `before` to the state `after`.

    `change_name`: the name of the move, such as OrderPaid. The stream record of the move is reported under this name. A
    stream record shows only the old and the new item, not the command. So the record is matched with a move by the
    states before and after.

    `changed_field`: a field of the item. If it is set, the move matches only if this field changed too. Set it if the
    states do not identify the move: the state can stay the same, or another move has the same states. `decreasing`: the
    move matches only if the value of `changed_field` became smaller.

    If several moves match a record, the first of these moves is used. So list a decreasing move before a move that
    matches any change of the same field.
    """

    command: str
    before: tuple[str, ...]
    after: str
    change_name: str
    changed_field: str = ""
    decreasing: bool = False

    def check(self) -> None:
        """Raise TypeError if the command can leave the item's state unchanged, but `changed_field` is not set.

        A stream record shows only the old and the new item. So if the state stays the same, only the change of another
        field shows that the transition has happened.
        """
        if self.after in (UNCHANGED, *self.before) and not self.changed_field:
            raise TypeError(f"{self.command}: the state may stay the same, so set changed_field")

    def status_after(self, status: str) -> str:
        """Return the item's state after the command. `status`: the item's state before the command."""
        return self.after or status


REFUNDABLE_STATUSES = (
    "PAID", "FULFILLING", "CANCEL_REQUESTED", "PARTIALLY_SHIPPED", "CUT_REQUESTED", "SHIPPED", "DELIVERED",
    "PARTIALLY_RETURNED", "RETURNED", "CANCELLED", "LAPSED",
)  # fmt: skip
"""The states of an order in which money can be refunded without a return: all except PENDING and ARCHIVING.

CANCELLED and LAPSED (not paid in time) are included because of disputes. While the customer's bank disputes a payment,
the payment cannot be refunded. If the shop wins the dispute after the order was cancelled or lapsed, the shop refunds
the payment then.
"""
RECEIVED_PAYMENT_STATUSES = ("CAPTURED", "DISPUTED", "UNMATCHED", "REFUNDED")
"""The statuses of a payment whose money the shop has received, even if it was disputed or refunded later."""
CLOSED_STATUSES = ("CANCELLED", "LAPSED", "DELIVERED", "PARTIALLY_RETURNED", "RETURNED")
AT_WAREHOUSE_STATUSES = ("FULFILLING", "CANCEL_REQUESTED", "PARTIALLY_SHIPPED", "CUT_REQUESTED")
"""The states of an order in which the warehouse still has goods to ship.

They include the states in which the warehouse was asked to stop the goods but has not answered yet.
"""
# fmt: off
ORDER_TRANSITIONS = (
    Transition("over_refund",    ("PENDING", *REFUNDABLE_STATUSES),                  UNCHANGED,                "OrderOverRefunded",    changed_field="over_refunded"),
    Transition("unpay_part",     ("PENDING",),                                       UNCHANGED,                "OrderUnpaid",          changed_field="paid", decreasing=True),
    Transition("pay_part",       ("PENDING",),                                       UNCHANGED,                "OrderPartlyPaid",      changed_field="paid"),
    Transition("pay",            ("PENDING",),                                       "PAID",               "OrderPaid"),
    Transition("join",           ("PENDING", *REFUNDABLE_STATUSES),                  UNCHANGED,                "OrderJoined",          changed_field="customer_id"),
    Transition("change_address",      ("PENDING", "PAID"),                                UNCHANGED,                "OrderAddressChanged",     changed_field="address"),
    Transition("cancel",         ("PENDING", "PAID"),                                "CANCELLED",          "OrderCancelled"),
    Transition("lapse",          ("PENDING",),                                       "LAPSED",             "OrderLapsed"),
    Transition("fulfil",         ("PAID",),                                          "FULFILLING",         "OrderFulfilling"),
    Transition("request_cancel", ("FULFILLING",),                                    "CANCEL_REQUESTED",   "OrderCancelRequested"),
    Transition("agree_cancel",   ("CANCEL_REQUESTED",),                              "CANCELLED",          "OrderCancelled"),
    Transition("refuse_cancel",  ("CANCEL_REQUESTED",),                              "FULFILLING",         "OrderCancelRefused"),
    Transition("dispatch_part",  AT_WAREHOUSE_STATUSES,                                       "PARTIALLY_SHIPPED",  "OrderPartlyShipped",   changed_field="shipped"),
    Transition("dispatch",       AT_WAREHOUSE_STATUSES,                                       "SHIPPED",            "OrderShipped",         changed_field="shipped"),
    Transition("request_cut",    ("PARTIALLY_SHIPPED",),                             "CUT_REQUESTED",      "OrderCancelRequested"),
    Transition("cut_short",      ("CUT_REQUESTED",),                                 "SHIPPED",            "OrderCutShort",        changed_field="dropped"),
    Transition("cut_short_arrived", ("CUT_REQUESTED",),                              "DELIVERED",          "OrderCutShort",        changed_field="dropped"),
    Transition("refuse_cut",     ("CUT_REQUESTED",),                                 "PARTIALLY_SHIPPED",  "OrderCancelRefused"),
    Transition("deliver_part",   ("PARTIALLY_SHIPPED", "CUT_REQUESTED", "SHIPPED"),  UNCHANGED,                "OrderPartlyDelivered", changed_field="delivered"),
    Transition("deliver",        ("SHIPPED",),                                       "DELIVERED",          "OrderDelivered"),
    Transition("return_part",    ("DELIVERED", "PARTIALLY_RETURNED"),                "PARTIALLY_RETURNED", "OrderPartlyReturned",  changed_field="returned"),
    Transition("return",         ("DELIVERED", "PARTIALLY_RETURNED"),                "RETURNED",           "OrderReturned"),
    Transition("refund",         REFUNDABLE_STATUSES,                                    UNCHANGED,                "OrderRefunded",        changed_field="refunded"),
    Transition("credit",         REFUNDABLE_STATUSES,                                    UNCHANGED,                "OrderCredited",        changed_field="credited"),
    Transition("erase",          CLOSED_STATUSES,                                             UNCHANGED,                "OrderErased",          changed_field="address"),
    Transition("archive",        CLOSED_STATUSES,                                             "ARCHIVING",          "OrderArchiving"),
)
SHIPMENT_TRANSITIONS = (
    Transition("dispatch",       ("REQUESTED",),                                     "DISPATCHED",         "ShipmentDispatched"),
    Transition("deliver",        ("DISPATCHED",),                                    "DELIVERED",          "ShipmentDelivered"),
    Transition("cancel",         ("REQUESTED",),                                     "CANCELLED",          "ShipmentCancelled"),
)
PAYMENT_TRANSITIONS = (
    Transition("authorise",      ("FAILED",),                                        "AUTHORISED",         "PaymentAuthorised"),
    Transition("capture",        ("AUTHORISED", "FAILED"),                           "CAPTURED",           "PaymentCaptured"),
    Transition("fail",           ("AUTHORISED",),                                    "FAILED",             "PaymentFailed"),
    Transition("unmatch",        ("AUTHORISED", "FAILED"),                           "UNMATCHED",          "PaymentUnmatched"),
    Transition("close",          ("UNMATCHED",),                                     "FAILED",             "PaymentFailed"),
    Transition("reverse",        ("CAPTURED",),                                      "FAILED",             "PaymentFailed"),
    Transition("dispute",        ("CAPTURED", "REFUNDED"),                           "DISPUTED",           "PaymentDisputed"),
    Transition("note_dispute",   RECEIVED_PAYMENT_STATUSES,                          UNCHANGED,            "PaymentDisputeNoted",  changed_field="disputes"),
    Transition("refund_part",    RECEIVED_PAYMENT_STATUSES,                          UNCHANGED,            "PaymentPartlyRefunded", changed_field="refunded"),
    Transition("refund",         ("CAPTURED", "DISPUTED", "UNMATCHED"),              "REFUNDED",           "PaymentRefunded"),
    Transition("regain",         ("DISPUTED", "REFUNDED"),                           "CAPTURED",           "PaymentCaptured"),
    Transition("regain_unmatched", ("REFUNDED",),                                    "UNMATCHED",          "PaymentUnmatched"),
)
REFUND_TRANSITIONS = (
    Transition("send",           ("REQUESTED",),                                     "SENT",               "RefundSent"),
    Transition("succeed",        ("REQUESTED", "SENT"),                              "SUCCEEDED",          "RefundSucceeded"),
    Transition("fail",           ("REQUESTED", "SENT", "SUCCEEDED"),                 "FAILED",             "RefundFailed"),
    Transition("retry",          ("FAILED",),                                        "REQUESTED",          "RefundRequested"),
    Transition("settle",         ("FAILED",),                                        "SETTLED",            "RefundSettled"),
)
# fmt: on


def apply_order_command(order: Order, command: OrderCommand, at: Instant) -> Order:
    """Return the order in its state after a command, with the next version and an entry in its timeline.

    Raises WrongState if the state table does not allow the command in the order's current state.
    """
    move = _find_transition("order", order.status, command, ORDER_TRANSITIONS)
    status = cast(OrderStatus, move.status_after(order.status))
    after = replace(order, status=status, updated_at=at, version=order.version + 1)
    if status == "ARCHIVING":
        return after  # ARCHIVING only locks the order, so its timeline gets no entry and is archived unchanged
    entry = TimelineEntry(at=at, event=move.change_name, status=status)
    return replace(after, timeline=append_entry(order, after.version, entry))


def apply_shipment_command(shipment: Shipment, command: ShipmentCommand, at: Instant) -> Shipment:
    """Return the shipment in its state after a command, with the next version.

    Raises WrongState if the state table does not allow the command in the shipment's current state.
    """
    status = _next_status("shipment", shipment.status, command, SHIPMENT_TRANSITIONS)
    return replace(shipment, status=cast(ShipmentStatus, status), updated_at=at, version=shipment.version + 1)


def apply_payment_command(payment: Payment, command: PaymentCommand, at: Instant) -> Payment:
    """Return the payment in its state after a command, with the next version.

    Raises WrongState if the state table does not allow the command in the payment's current state.
    """
    status = _next_status("payment", payment.status, command, PAYMENT_TRANSITIONS)
    return replace(payment, status=cast(PaymentStatus, status), updated_at=at, version=payment.version + 1)


def derive_payment_status(payment: Payment) -> PaymentStatus:
    """Return the status of a received payment, derived from its refunds and disputes.

    Call this function only for a payment whose money the shop has received.
    """
    if payment.gone >= payment.amount > 0:
        return "REFUNDED"
    if payment.unmatched:
        return "UNMATCHED"
    return "DISPUTED" if payment.is_disputed else "CAPTURED"


COMMAND_BY_STATUS: Mapping[PaymentStatus, PaymentCommand] = {
    "REFUNDED": "refund",
    "DISPUTED": "dispute",
    "CAPTURED": "regain",
    "UNMATCHED": "regain_unmatched",
}
"""Maps the new status of a received payment to the command that moves the payment to this status."""


def apply_money_change(before: Payment, after: Payment, at: Instant) -> Payment:
    """Return `after` with the status that its changed refunds or disputes give it, and with the next version."""
    status = derive_payment_status(after)
    if status != before.status:
        return apply_payment_command(after, COMMAND_BY_STATUS[status], at)
    return apply_payment_command(after, "note_dispute" if after.disputes != before.disputes else "refund_part", at)


def apply_refund_command(refund: Refund, command: RefundCommand, at: Instant) -> Refund:
    """Return the refund in its state after a command, with the next version.

    Raises WrongState if the state table does not allow the command in the refund's current state.
    """
    status = _next_status("refund", refund.status, command, REFUND_TRANSITIONS)
    return replace(refund, status=cast(RefundStatus, status), updated_at=at, version=refund.version + 1)


def _next_status(what: str, state: str, command: str, transitions: tuple[Transition, ...]) -> str:
    return _find_transition(what, state, command, transitions).status_after(state)


def _find_transition(what: str, state: str, command: str, transitions: tuple[Transition, ...]) -> Transition:
    for transition in transitions:
        if transition.command == command and state in transition.before:
            return transition
    raise WrongState(what, state, command)
