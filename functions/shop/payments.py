"""Payments, as the provider tells of them. The provider is right about money, the shop is right about orders.

Money for an order that waits for it counts up to what is due. Whatever came beside that is given back at once: its
refund stands in the transaction that keeps the payment. News come in any order: a payment moves only as the table of
states says, later news of an earlier state changes nothing, and news of a state that others must lead to come again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from functions.dynamodb.writes import Write, change, put, unchanged
from functions.model.entities import ArchivedOrder, Order, Payment, RefundReason
from functions.model.errors import WrongState
from functions.model.patterns import C2, R5
from functions.model.states import PaymentCommand, moved_payment
from functions.model.table import ORDER, PAYMENT, REFUND
from functions.shop.keyed import Answer, once_per_key
from functions.shop.orders import with_paid
from functions.shop.refunds import as_read, order_beside, requested, takes_no_more
from functions.shop.settling import PROVIDER
from functions.shop.shop import Shop

NO_ORDER = "none"
"""Stands in the key of a payment that names no order we could have."""
Decision = tuple[Sequence[Write[Any]], dict[str, Any]]


@dataclass(frozen=True)
class Told:
    """What the provider says happened: by its event and payment ids, for this order, in minor units.

    `reason`: why it failed, in the provider's words for machines.
    """

    event_id: str
    payment_id: str
    order_id: str
    outcome: Literal["authorised", "succeeded", "failed"]
    amount: int
    currency: str
    reason: str | None = None


def record_payment(shop: Shop, told: Told, body: Mapping[str, Any]) -> Answer:
    """Keep what the provider tells of a payment; an order that waits for its money is paid in the same transaction.

    Each event is taken once, by its id. Of money for a PENDING order, what is above what is due is given back (EXCESS;
    all of it where the order counts as many payments as it may already); money for an order that does not wait for it
    any more is given back whole (LATE). Money that fits no order is kept as UNMATCHED with the reason: the provider is
    answered as always, a person must look. Result: {"payment_id", "status", "reason"}; status null where it is no
    money, and of an order that is archived.

    Raises Busy while the order is being archived: the provider tells again.
    """

    def decide() -> Decision:
        order = order_beside(shop, told.order_id)
        known = shop.table.get(C2, order_id=told.order_id, payment_id=told.payment_id)
        if known is None and isinstance(order, ArchivedOrder) and told.outcome != "succeeded":
            # It may lie in the archive, further on than this.
            return [], {"payment_id": told.payment_id, "status": None, "reason": "the order is archived"}
        if told.outcome == "succeeded":
            came = _captured(shop, known, told, order)
        else:
            came = _moved(shop, known, told, "authorise" if told.outcome == "authorised" else "fail", told.reason)
        if came is None:
            assert known is not None, "what is new is news"
            return [unchanged(PAYMENT, known)], result_of(known)
        write = put(PAYMENT, came) if known is None else change(PAYMENT, known, came)
        if came.status == "CAPTURED" and isinstance(order, Order):
            return [write, *_counted(shop, order, came)], result_of(came)
        return [write, as_read(told.order_id, order)], result_of(came)

    return once_per_key(shop, PROVIDER, told.event_id, "record_payment", body, decide)


def _captured(shop: Shop, known: Payment | None, told: Told, order: Order | ArchivedOrder | None) -> Payment | None:
    """The payment whose money is here, for the order or for none."""
    if reason := _mismatch(order, told):
        return _moved(shop, known, told, "unmatch", reason)
    return _moved(shop, known, told, "capture", None)


def _mismatch(order: Order | ArchivedOrder | None, told: Told) -> str:
    """Why this money is for no order; "" where it is."""
    if order is None:
        return "there is no such order"
    if isinstance(order, ArchivedOrder):
        return "the order is archived"
    if told.currency != order.currency:
        return f"the order is in {order.currency}"
    if told.amount < 1:
        return "nothing came"
    return ""


def _moved(
    shop: Shop, known: Payment | None, told: Told, command: PaymentCommand, reason: str | None
) -> Payment | None:
    """The payment after what is told of it; None where that is no step on. One that is heard of first is new."""
    now = shop.instant()
    before = known or Payment(
        order_id=told.order_id,
        payment_id=told.payment_id,
        status="FAILED" if command == "authorise" else "AUTHORISED",
        amount=told.amount,
        currency=told.currency,
        created_at=now,
        updated_at=now,
        version=0,
    )
    try:
        after = moved_payment(before, command, now)
    except WrongState:
        return None
    return replace(after, amount=told.amount, currency=told.currency, reason=reason)


def _counted(shop: Shop, order: Order, came: Payment) -> list[Write[Any]]:
    """The writes of the order that money came for, and of the refund of what is not for it."""
    counts = 0
    if order.status == "PENDING" and not takes_no_more(shop, order):
        counts = min(came.amount, order.total - order.paid)
    writes: list[Write[Any]] = [as_read(order.order_id, order)]
    if counts:
        writes = [change(ORDER, order, with_paid(order, counts, shop.instant()))]
    if rest := came.amount - counts:
        why: RefundReason = "EXCESS" if order.status == "PENDING" else "LATE"
        refund = requested(shop, came, rest, why, number=1, customer_id=order.customer_id)
        writes.append(put(REFUND, refund))
    return writes


def unmatched(shop: Shop) -> Iterator[Payment]:
    """R5: the payments that match no order and have not been given back, oldest first, as the index shows them."""
    return shop.table.every(R5, queue="UNMATCHED")


def result_of(payment: Payment) -> dict[str, Any]:
    """The JSON of what has become of a payment."""
    return {"payment_id": payment.payment_id, "status": payment.status, "reason": payment.reason}
