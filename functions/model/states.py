"""The one table of what may happen to an order and to a shipment; commands, changes, docs and tests read it."""

from dataclasses import dataclass, replace
from typing import Literal, cast

from functions.dynamodb.keys import Instant
from functions.model.entities import Order, OrderStatus, Shipment, ShipmentStatus
from functions.model.errors import WrongState

OrderCommand = Literal["pay", "cancel", "lapse", "fulfil", "dispatch", "deliver", "archive"]
ShipmentCommand = Literal["dispatch", "deliver"]


@dataclass(frozen=True)
class Transition:
    """`command` takes what is in one of `before` to `after`; the change that the stream then tells of is `change`."""

    command: str
    before: tuple[str, ...]
    after: str
    change: str


# fmt: off
ORDER_TRANSITIONS = (
    Transition("pay",      ("PENDING",),                         "PAID",       "OrderPaid"),
    Transition("cancel",   ("PENDING",),                         "CANCELLED",  "OrderCancelled"),
    Transition("lapse",    ("PENDING",),                         "LAPSED",     "OrderLapsed"),
    Transition("fulfil",   ("PAID",),                            "FULFILLING", "OrderFulfilling"),
    Transition("dispatch", ("FULFILLING",),                      "SHIPPED",    "OrderShipped"),
    Transition("deliver",  ("SHIPPED",),                         "DELIVERED",  "OrderDelivered"),
    Transition("archive",  ("CANCELLED", "LAPSED", "DELIVERED"), "ARCHIVING",  "OrderArchiving"),
)
SHIPMENT_TRANSITIONS = (
    Transition("dispatch", ("REQUESTED",),                       "DISPATCHED", "ShipmentDispatched"),
    Transition("deliver",  ("DISPATCHED",),                      "DELIVERED",  "ShipmentDelivered"),
)
# fmt: on


def moved(order: Order, command: OrderCommand, at: Instant) -> Order:
    """The order after a command; raises WrongState where the table forbids it."""
    status = _after("order", order.status, command, ORDER_TRANSITIONS)
    return replace(order, status=cast(OrderStatus, status), updated_at=at, version=order.version + 1)


def moved_shipment(shipment: Shipment, command: ShipmentCommand, at: Instant) -> Shipment:
    """The shipment after a command; raises WrongState where the table forbids it."""
    status = _after("shipment", shipment.status, command, SHIPMENT_TRANSITIONS)
    return replace(shipment, status=cast(ShipmentStatus, status), updated_at=at, version=shipment.version + 1)


def _after(what: str, state: str, command: str, transitions: tuple[Transition, ...]) -> str:
    for transition in transitions:
        if transition.command == command and state in transition.before:
            return transition.after
    raise WrongState(what, state, command)
