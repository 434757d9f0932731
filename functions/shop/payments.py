"""Payments, as the provider tells of them. The provider is right about money, the shop is right about orders.

Money for an order that waits for it counts up to what is due. Whatever came beside that is given back at once: its
refund stands in the transaction that keeps the payment. News come in any order: a payment moves only as the table of
states says, later news of an earlier state changes nothing, and news of a state that others must lead to come again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from functions.dynamodb.writes import Write, check_unchanged, put_if_absent, update
from functions.model.entities import ArchivedOrder, Order, Payment, RefundReason
from functions.model.errors import WrongState
from functions.model.patterns import PAYMENT_BY_ID, UNMATCHED_PAYMENTS_BY_DATE
from functions.model.states import PaymentCommand, apply_payment_command
from functions.model.table import ORDER, PAYMENT, REFUND
from functions.shop.keyed import IdempotentResult, run_idempotently
from functions.shop.orders import apply_payment
from functions.shop.refunds import build_refund, check_order_unchanged, get_order_unless_archiving, has_max_payments
from functions.shop.settling import PROVIDER_CALLER_ID
from functions.shop.shop import Shop

NO_ORDER = "none"
"""Stands in the key of a payment that names no order we could have."""
Decision = tuple[Sequence[Write[Any]], dict[str, Any]]


@dataclass(frozen=True)
class ProviderPaymentEvent:
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


def record_payment(shop: Shop, event: ProviderPaymentEvent, body: Mapping[str, Any]) -> IdempotentResult:
    """Keep what the provider tells of a payment; an order that waits for its money is paid in the same transaction.

    Each event is taken once, by its id. Of money for a PENDING order, what is above what is due is given back (EXCESS;
    all of it where the order counts as many payments as it may already); money for an order that does not wait for it
    any more is given back whole (LATE). Money that fits no order is kept as UNMATCHED with the reason: the provider is
    answered as always, a person must look. Result: {"payment_id", "status", "reason"}; status null where it is no
    money, and of an order that is archived.

    Raises Busy while the order is being archived: the provider tells again.
    """

    def decide() -> Decision:
        order = get_order_unless_archiving(shop, event.order_id)
        existing = shop.table.get(PAYMENT_BY_ID, order_id=event.order_id, payment_id=event.payment_id)
        if existing is None and isinstance(order, ArchivedOrder) and event.outcome != "succeeded":
            # It may lie in the archive, further on than this.
            return [], {"payment_id": event.payment_id, "status": None, "reason": "the order is archived"}
        if event.outcome == "succeeded":
            after = _capture(shop, existing, event, order)
        else:
            after = _apply_command(
                shop, existing, event, "authorise" if event.outcome == "authorised" else "fail", event.reason
            )
        if after is None:
            assert existing is not None, "what is new is news"
            return [check_unchanged(PAYMENT, existing)], payment_result(existing)
        write = put_if_absent(PAYMENT, after) if existing is None else update(PAYMENT, existing, after)
        if after.status == "CAPTURED" and isinstance(order, Order):
            return [write, *_count_towards_order(shop, order, after)], payment_result(after)
        return [write, check_order_unchanged(event.order_id, order)], payment_result(after)

    return run_idempotently(shop, PROVIDER_CALLER_ID, event.event_id, "record_payment", body, decide)


def _capture(
    shop: Shop, existing: Payment | None, event: ProviderPaymentEvent, order: Order | ArchivedOrder | None
) -> Payment | None:
    """The payment whose money is here, for the order or for none."""
    if reason := _mismatch_reason(order, event):
        return _apply_command(shop, existing, event, "unmatch", reason)
    return _apply_command(shop, existing, event, "capture", None)


def _mismatch_reason(order: Order | ArchivedOrder | None, event: ProviderPaymentEvent) -> str:
    """Why this money is for no order; "" where it is."""
    if order is None:
        return "there is no such order"
    if isinstance(order, ArchivedOrder):
        return "the order is archived"
    if event.currency != order.currency:
        return f"the order is in {order.currency}"
    if event.amount < 1:
        return "nothing came"
    return ""


def _apply_command(
    shop: Shop, existing: Payment | None, event: ProviderPaymentEvent, command: PaymentCommand, reason: str | None
) -> Payment | None:
    """The payment after what is told of it; None where that is no step on. One that is heard of first is new."""
    now = shop.now_instant()
    before = existing or Payment(
        order_id=event.order_id,
        payment_id=event.payment_id,
        status="FAILED" if command == "authorise" else "AUTHORISED",
        amount=event.amount,
        currency=event.currency,
        created_at=now,
        updated_at=now,
        version=0,
    )
    try:
        after = apply_payment_command(before, command, now)
    except WrongState:
        return None
    return replace(after, amount=event.amount, currency=event.currency, reason=reason)


def _count_towards_order(shop: Shop, order: Order, payment: Payment) -> list[Write[Any]]:
    """The writes of the order that money came for, and of the refund of what is not for it."""
    counted = 0
    if order.status == "PENDING" and not has_max_payments(shop, order):
        counted = min(payment.amount, order.total - order.paid)
    writes: list[Write[Any]] = [check_order_unchanged(order.order_id, order)]
    if counted:
        writes = [update(ORDER, order, apply_payment(order, counted, shop.now_instant()))]
    if rest := payment.amount - counted:
        why: RefundReason = "EXCESS" if order.status == "PENDING" else "LATE"
        refund = build_refund(shop, payment, rest, why, number=1, customer_id=order.customer_id)
        writes.append(put_if_absent(REFUND, refund))
    return writes


def list_unmatched_payments(shop: Shop) -> Iterator[Payment]:
    """R5: the payments that match no order and have not been given back, oldest first, as the index shows them."""
    return shop.table.query_all(UNMATCHED_PAYMENTS_BY_DATE, queue="UNMATCHED")


def payment_result(payment: Payment) -> dict[str, Any]:
    """The JSON of what has become of a payment."""
    return {"payment_id": payment.payment_id, "status": payment.status, "reason": payment.reason}
