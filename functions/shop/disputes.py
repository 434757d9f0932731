"""Disputes: the customer's bank asks a payment back, and the order's money follows what becomes of that.

Each is remembered in its payment by its id, whatever else happens to the payment, and goes only forward: OPEN, WON,
LOST. So events may come in any order and under any names. Lost, it has taken all of the payment: a refund of it that
fails afterwards leaves nothing that could be given once more.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from functions.dynamodb.writes import Write, change, put, unchanged
from functions.model.entities import (
    ArchivedOrder,
    DisputeStatus,
    Order,
    OrderStatus,
    Payment,
    PaymentStatus,
    RefundReason,
)
from functions.model.errors import TooEarly
from functions.model.patterns import C2, A12d
from functions.model.states import HERE, PaymentCommand, moved, moved_payment, stands
from functions.model.table import ORDER, PAYMENT, REFUND
from functions.shop.keyed import Answer, once_per_key
from functions.shop.payments import Decision, result_of
from functions.shop.refunds import as_read, left_of, order_beside, requested, tried_again
from functions.shop.settling import PROVIDER
from functions.shop.shop import Shop

EARLY_SECONDS = 60
MOST_RETRIED = 90
"""So many refunds are tried again with the end of a dispute; staff can have the others tried."""
Outcome = Literal["opened", "won", "lost"]
BECOMES: Mapping[Outcome, DisputeStatus] = {"opened": "OPEN", "won": "WON", "lost": "LOST"}
TO: Mapping[PaymentStatus, PaymentCommand] = {
    "DISPUTED": "dispute",
    "CAPTURED": "win_dispute",
    "REFUNDED": "lose_dispute",
}
"""What takes a payment to the state it stands in after a dispute."""
OWED_FOR: Mapping[OrderStatus, RefundReason] = {"CANCELLED": "CANCELLED", "LAPSED": "LAPSED"}
"""Why an order owes money, if not for what was returned."""


@dataclass(frozen=True)
class Disputed:
    """The customer's bank asks a payment back: it was `opened`, `won` by the shop, or `lost`. `reason`: the bank's."""

    event_id: str
    dispute_id: str
    payment_id: str
    order_id: str
    outcome: Outcome
    reason: str | None = None


def record_dispute(shop: Shop, told: Disputed) -> Answer:
    """Keep what becomes of a disputed payment. Each event is taken once, by its id.

    While it is open the payment gives nothing back: what is to be given is owed by the order, or a refund that fails.
    Won, both are on their way in the same transaction. Lost, the order's money is less by what was left, what it owed
    first, and one that is not paid yet waits for it again.

    Result: {"payment_id", "status", "reason"}, status null where there is no such payment. Raises Busy while the order
    is being archived, TooEarly where its payment has not been told to have come: the provider tells again.
    """

    def decide() -> Decision:
        order = order_beside(shop, told.order_id)
        known = shop.table.get(C2, order_id=told.order_id, payment_id=told.payment_id)
        if isinstance(order, Order) and (known is None or known.status not in HERE):
            raise TooEarly(EARLY_SECONDS)
        if known is None:
            return [], {"payment_id": told.payment_id, "status": None, "reason": "there is no such payment"}
        if known.status not in HERE or not _is_news(known, told):
            return [unchanged(PAYMENT, known)], result_of(known)
        after = _disputed(shop, known, told)
        return [change(PAYMENT, known, after), *_follows(shop, order, known, after, told)], result_of(after)

    return once_per_key(shop, PROVIDER, told.event_id, "record_dispute", asdict(told), decide)


def _is_news(payment: Payment, told: Disputed) -> bool:
    """Whether it takes the dispute further than it is known to have come."""
    steps = (None, *get_args(DisputeStatus))
    return steps.index(BECOMES[told.outcome]) > steps.index((payment.disputes or {}).get(told.dispute_id))


def _disputed(shop: Shop, known: Payment, told: Disputed) -> Payment:
    """The payment after it."""
    disputes: dict[str, DisputeStatus] = {**(known.disputes or {}), told.dispute_id: BECOMES[told.outcome]}
    reason = f"dispute lost: {told.reason}" if told.outcome == "lost" else known.reason
    after = replace(known, disputes=disputes, reason=reason)
    status = stands(after, unmatched=known.status == "UNMATCHED")
    return moved_payment(after, "note_dispute" if status == known.status else TO[status], shop.instant())


def _follows(
    shop: Shop, order: Order | ArchivedOrder | None, payment: Payment, after: Payment, told: Disputed
) -> list[Write[Any]]:
    """What the end of a dispute does to the money of the order, and to what was to be given back of the payment."""
    as_it_is = as_read(told.order_id, order)
    if told.outcome == "opened":
        return [as_it_is]
    refunds = list(shop.table.every(A12d, order_id=told.order_id))
    left, number = left_of(payment, refunds)
    ours = order if isinstance(order, Order) and payment.status != "UNMATCHED" else None
    if told.outcome == "lost":
        return [change(ORDER, ours, _less(shop, ours, left)) if ours and left else as_it_is]
    if after.disputed or after.taken:  # by another dispute
        return [as_it_is]
    failed = [refund for refund in refunds if (refund.payment_id, refund.status) == (payment.payment_id, "FAILED")]
    again = [change(REFUND, it, tried_again(shop, it, it.account_id)) for it in failed[:MOST_RETRIED]]
    if ours is None or not (pays := min(ours.owed, left)):
        return [as_it_is, *again]
    paying = replace(moved(ours, "refund", shop.instant()), refunded=ours.refunded + pays, owed=ours.owed - pays)
    why = OWED_FOR.get(ours.status, "RETURNED")
    refund = requested(shop, payment, pays, why, number=number, customer_id=ours.customer_id)
    return [change(ORDER, ours, paying), put(REFUND, refund), *again]


def _less(shop: Shop, order: Order, taken: int) -> Order:
    """The order after the bank has taken so much of its money; what is owed is paid by that first."""
    if order.status == "PENDING":
        return replace(moved(order, "unpay_part", shop.instant()), paid=order.paid - taken)
    after = moved(order, "refund", shop.instant())
    return replace(after, refunded=order.refunded + taken, owed=max(0, order.owed - taken))
