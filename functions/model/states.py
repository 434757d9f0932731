"""The tables of what may happen to an order, a shipment, a payment and a refund; commands, changes, docs and tests read
them. What a table does not list is refused."""

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
)
from functions.model.errors import WrongState

OrderCommand = Literal[
    "pay_part", "pay", "unpay_part", "readdress", "cancel", "lapse", "fulfil", "request_cancel", "agree_cancel",
    "refuse_cancel", "dispatch_part", "dispatch", "request_cut", "cut_short", "cut_short_arrived", "refuse_cut",
    "deliver_part", "deliver", "return_part", "return", "refund", "erase", "archive",
]  # fmt: skip
ShipmentCommand = Literal["dispatch", "deliver", "cancel"]
PaymentCommand = Literal[
    "authorise", "capture", "fail", "unmatch", "dispute", "win_dispute", "lose_dispute", "note_dispute", "refund_part",
    "refund", "regain", "regain_disputed", "regain_unmatched",
]  # fmt: skip
RefundCommand = Literal["send", "succeed", "fail", "retry"]
STAYS = ""
"""The state after a command that changes something else than the state."""


@dataclass(frozen=True)
class Transition:
    """`command` takes what is in one of `before` to `after`; the change that the stream then tells of is `change`.

    `by`: the field whose difference tells this change, where the states do not; `falls`: only where it is less, which
    stands before what any difference tells.
    """

    command: str
    before: tuple[str, ...]
    after: str
    change: str
    by: str = ""
    falls: bool = False

    def __post_init__(self) -> None:
        if self.after in (STAYS, *self.before) and not self.by:
            raise TypeError(f"{self.command}: where the state may stay, a field tells the change")

    def reached(self, status: str) -> str:
        """The state after it, from this one."""
        return self.after or status


OPEN_TO_REFUNDS = (
    "PAID", "FULFILLING", "CANCEL_REQUESTED", "PARTIALLY_SHIPPED", "CUT_REQUESTED", "SHIPPED", "DELIVERED",
    "PARTIALLY_RETURNED", "RETURNED", "CANCELLED", "LAPSED",
)  # fmt: skip
"""The states in which money can be given back on its own: all but that of waiting for it. Of an order that has ended
some is left only while the customer's bank disputes it, and goes back by itself if the bank lets it."""
HERE = ("CAPTURED", "DISPUTED", "UNMATCHED", "REFUNDED")
"""The states of a payment whose money came."""
CLOSED = ("CANCELLED", "LAPSED", "DELIVERED", "PARTIALLY_RETURNED", "RETURNED")
ON_THE_TABLE = ("FULFILLING", "CANCEL_REQUESTED", "PARTIALLY_SHIPPED", "CUT_REQUESTED")
"""The states in which the warehouse has something of an order to send, also while it is asked to stop."""
# fmt: off
ORDER_TRANSITIONS = (
    Transition("unpay_part",     ("PENDING",),                                       STAYS,                "OrderUnpaid",          by="paid", falls=True),
    Transition("pay_part",       ("PENDING",),                                       STAYS,                "OrderPartlyPaid",      by="paid"),
    Transition("pay",            ("PENDING",),                                       "PAID",               "OrderPaid"),
    Transition("readdress",      ("PENDING", "PAID"),                                STAYS,                "OrderReaddressed",     by="address"),
    Transition("cancel",         ("PENDING", "PAID"),                                "CANCELLED",          "OrderCancelled"),
    Transition("lapse",          ("PENDING",),                                       "LAPSED",             "OrderLapsed"),
    Transition("fulfil",         ("PAID",),                                          "FULFILLING",         "OrderFulfilling"),
    Transition("request_cancel", ("FULFILLING",),                                    "CANCEL_REQUESTED",   "OrderCancelRequested"),
    Transition("agree_cancel",   ("CANCEL_REQUESTED",),                              "CANCELLED",          "OrderCancelled"),
    Transition("refuse_cancel",  ("CANCEL_REQUESTED",),                              "FULFILLING",         "OrderCancelRefused"),
    Transition("dispatch_part",  ON_THE_TABLE,                                       "PARTIALLY_SHIPPED",  "OrderPartlyShipped",   by="shipped"),
    Transition("dispatch",       ON_THE_TABLE,                                       "SHIPPED",            "OrderShipped",         by="shipped"),
    Transition("request_cut",    ("PARTIALLY_SHIPPED",),                             "CUT_REQUESTED",      "OrderCancelRequested"),
    Transition("cut_short",      ("CUT_REQUESTED",),                                 "SHIPPED",            "OrderCutShort",        by="dropped"),
    Transition("cut_short_arrived", ("CUT_REQUESTED",),                              "DELIVERED",          "OrderCutShort",        by="dropped"),
    Transition("refuse_cut",     ("CUT_REQUESTED",),                                 "PARTIALLY_SHIPPED",  "OrderCancelRefused"),
    Transition("deliver_part",   ("PARTIALLY_SHIPPED", "CUT_REQUESTED", "SHIPPED"),  STAYS,                "OrderPartlyDelivered", by="delivered"),
    Transition("deliver",        ("SHIPPED",),                                       "DELIVERED",          "OrderDelivered"),
    Transition("return_part",    ("DELIVERED", "PARTIALLY_RETURNED"),                "PARTIALLY_RETURNED", "OrderPartlyReturned",  by="returned"),
    Transition("return",         ("DELIVERED", "PARTIALLY_RETURNED"),                "RETURNED",           "OrderReturned"),
    Transition("refund",         OPEN_TO_REFUNDS,                                    STAYS,                "OrderRefunded",        by="refunded"),
    Transition("erase",          CLOSED,                                             STAYS,                "OrderErased",          by="address"),
    Transition("archive",        CLOSED,                                             "ARCHIVING",          "OrderArchiving"),
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
    Transition("dispute",        ("CAPTURED",),                                      "DISPUTED",           "PaymentDisputed"),
    Transition("win_dispute",    ("DISPUTED",),                                      "CAPTURED",           "PaymentCaptured"),
    Transition("lose_dispute",   ("CAPTURED", "DISPUTED", "UNMATCHED"),              "REFUNDED",           "PaymentRefunded"),
    Transition("note_dispute",   HERE,                                               STAYS,                "PaymentDisputeNoted",  by="disputes"),
    Transition("refund_part",    HERE,                                               STAYS,                "PaymentPartlyRefunded", by="refunded"),
    Transition("refund",         ("CAPTURED", "DISPUTED", "UNMATCHED"),              "REFUNDED",           "PaymentRefunded"),
    Transition("regain",         ("REFUNDED",),                                      "CAPTURED",           "PaymentCaptured"),
    Transition("regain_disputed", ("REFUNDED",),                                     "DISPUTED",           "PaymentDisputed"),
    Transition("regain_unmatched", ("REFUNDED",),                                    "UNMATCHED",          "PaymentUnmatched"),
)
REFUND_TRANSITIONS = (
    Transition("send",           ("REQUESTED",),                                     "SENT",               "RefundSent"),
    Transition("succeed",        ("REQUESTED", "SENT"),                              "SUCCEEDED",          "RefundSucceeded"),
    Transition("fail",           ("REQUESTED", "SENT", "SUCCEEDED"),                 "FAILED",             "RefundFailed"),
    Transition("retry",          ("FAILED",),                                        "REQUESTED",          "RefundRequested"),
)
# fmt: on


def moved(order: Order, command: OrderCommand, at: Instant) -> Order:
    """The order after a command; raises WrongState where the table forbids it."""
    status = cast(OrderStatus, _after("order", order.status, command, ORDER_TRANSITIONS))
    version = order.version + 1
    reached, reached_at = version, None
    if status == order.status:
        reached, reached_at = order.reached, order.came_at
    elif status == "ARCHIVING":  # what the archive does to an order is undone in what it archives
        reached, reached_at = order.reached, order.reached_at
    return replace(order, status=status, updated_at=at, version=version, reached=reached, reached_at=reached_at)


def moved_shipment(shipment: Shipment, command: ShipmentCommand, at: Instant) -> Shipment:
    """The shipment after a command; raises WrongState where the table forbids it."""
    status = _after("shipment", shipment.status, command, SHIPMENT_TRANSITIONS)
    return replace(shipment, status=cast(ShipmentStatus, status), updated_at=at, version=shipment.version + 1)


def moved_payment(payment: Payment, command: PaymentCommand, at: Instant) -> Payment:
    """The payment after a command; raises WrongState where the table forbids it."""
    status = _after("payment", payment.status, command, PAYMENT_TRANSITIONS)
    return replace(payment, status=cast(PaymentStatus, status), updated_at=at, version=payment.version + 1)


def stands(payment: Payment, *, unmatched: bool) -> PaymentStatus:
    """The state of a payment whose money came, by what has become of the money. `unmatched`: it is for no order."""
    if payment.taken or payment.refunded == payment.amount > 0:
        return "REFUNDED"
    if unmatched:
        return "UNMATCHED"
    return "DISPUTED" if payment.disputed else "CAPTURED"


def moved_refund(refund: Refund, command: RefundCommand, at: Instant) -> Refund:
    """The refund after a command; raises WrongState where the table forbids it."""
    status = _after("refund", refund.status, command, REFUND_TRANSITIONS)
    return replace(refund, status=cast(RefundStatus, status), updated_at=at, version=refund.version + 1)


def _after(what: str, state: str, command: str, transitions: tuple[Transition, ...]) -> str:
    for transition in transitions:
        if transition.command == command and state in transition.before:
            return transition.reached(state)
    raise WrongState(what, state, command)
