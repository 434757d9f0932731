"""Payments, as the provider tells of them. The provider is right about money, the shop is right about orders."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from functions.dynamodb.patience import Busy
from functions.dynamodb.writes import Changed, Write, absent, change, put, unchanged
from functions.model.entities import ArchivedOrder, Order, Payment
from functions.model.patterns import A12, C2
from functions.model.states import moved
from functions.model.table import ARCHIVED_ORDER, ORDER, PAYMENT
from functions.shop.keyed import Answer, once_per_key
from functions.shop.shop import Shop

PROVIDER = "payment-provider"
ARCHIVING_SECONDS = 60
NO_ORDER = "none"
"""Stands in the key of a payment that names no order we could have."""


@dataclass(frozen=True)
class Told:
    """What the provider says happened: by its event and payment ids, for this order, in minor units."""

    event_id: str
    payment_id: str
    order_id: str
    outcome: Literal["succeeded", "failed"]
    amount: int
    currency: str


def record_payment(shop: Shop, told: Told, body: Mapping[str, Any]) -> Answer:
    """Keep what the provider tells; an order that waits for exactly this money is paid in the same transaction.

    Each event is taken once, by its id. Money that fits no order waiting for it is kept as UNMATCHED with the reason:
    the provider is answered as always, a person must look. Result: {"payment_id", "status", "reason"}.

    Raises Busy while the order is being archived: the provider tells again.
    """

    def decide() -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        order = shop.table.get(A12, order_id=told.order_id)
        if isinstance(order, Order) and order.status == "ARCHIVING":  # what it owns is being listed and deleted
            raise Busy(ARCHIVING_SECONDS)
        known = shop.table.get(C2, order_id=told.order_id, payment_id=told.payment_id)
        if known is not None and (known.status != "FAILED" or told.outcome == "failed"):
            return [unchanged(PAYMENT, known)], _result(known)  # money that came does not fail any more
        reason = "" if told.outcome == "failed" else _mismatch(order, told)
        payment = _payment(shop, told, reason)
        writes: list[Write[Any]] = []
        if known is None:
            writes.append(put(PAYMENT, payment))
        else:
            payment = replace(payment, created_at=known.created_at, version=known.version + 1)
            writes.append(change(PAYMENT, known, payment))
        if payment.status == "CAPTURED" and isinstance(order, Order):
            writes.append(change(ORDER, order, moved(order, "pay", shop.instant())))
        elif isinstance(order, Order):  # a child is added only to an order as it was read: it may be going away
            writes.append(unchanged(ORDER, order))
        elif isinstance(order, ArchivedOrder):
            writes.append(unchanged(ARCHIVED_ORDER, order))
        else:
            key = ORDER.key(order_id=told.order_id)
            writes.append(absent(ORDER, key, refused=lambda found: Changed(ORDER, key)))
        return writes, _result(payment)

    return once_per_key(shop, PROVIDER, told.event_id, "record_payment", body, decide)


def _mismatch(order: Order | ArchivedOrder | None, told: Told) -> str:
    """Why this money pays no order; "" where it does."""
    if order is None:
        return "there is no such order"
    if isinstance(order, ArchivedOrder):
        return "the order is archived"
    if order.status != "PENDING":
        return f"the order is {order.status}"
    if told.currency != order.currency:
        return f"the order is in {order.currency}"
    if told.amount != order.total:
        return f"the order costs {order.total}"
    return ""


def _payment(shop: Shop, told: Told, reason: str) -> Payment:
    now = shop.instant()
    status: Literal["CAPTURED", "FAILED", "UNMATCHED"]
    status = "FAILED" if told.outcome == "failed" else "UNMATCHED" if reason else "CAPTURED"
    return Payment(
        order_id=told.order_id,
        payment_id=told.payment_id,
        status=status,
        amount=told.amount,
        currency=told.currency,
        reason=reason or None,
        created_at=now,
        updated_at=now,
    )


def _result(payment: Payment) -> dict[str, Any]:
    return {"payment_id": payment.payment_id, "status": payment.status, "reason": payment.reason}
