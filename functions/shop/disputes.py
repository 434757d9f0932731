"""Disputes: the customer's bank asks a payment back, and the order's money follows what becomes of that.

Each is remembered in its payment by its id, whatever else happens to the payment, and goes only forward: OPEN, WON,
LOST. So events may come in any order and under any names. Lost, it has taken all of the payment: a refund of it that
fails afterwards leaves nothing that could be given once more.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from functions.dynamodb.writes import Write, check_unchanged, put_if_absent, update
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
from functions.model.patterns import PAYMENT_BY_ID, REFUNDS_OF_ORDER
from functions.model.states import (
    RECEIVED_PAYMENT_STATUSES,
    PaymentCommand,
    apply_order_command,
    apply_payment_command,
    derive_payment_status,
)
from functions.model.table import ORDER, PAYMENT, REFUND
from functions.shop.keyed import IdempotentResult, run_idempotently
from functions.shop.payments import Decision, payment_result
from functions.shop.refunds import (
    build_refund,
    check_order_unchanged,
    compute_refundable,
    get_order_unless_archiving,
    reset_for_retry,
)
from functions.shop.settling import PROVIDER_CALLER_ID
from functions.shop.shop import Shop

TOO_EARLY_RETRY_SECONDS = 60
MAX_RETRIED_REFUNDS = 90
"""So many refunds are tried again with the end of a dispute; staff can have the others tried."""
DisputeOutcome = Literal["opened", "won", "lost"]
STATUS_BY_OUTCOME: Mapping[DisputeOutcome, DisputeStatus] = {"opened": "OPEN", "won": "WON", "lost": "LOST"}
COMMAND_BY_STATUS: Mapping[PaymentStatus, PaymentCommand] = {
    "DISPUTED": "dispute",
    "CAPTURED": "win_dispute",
    "REFUNDED": "lose_dispute",
}
"""What takes a payment to the state it stands in after a dispute."""
REFUND_REASON_BY_STATUS: Mapping[OrderStatus, RefundReason] = {"CANCELLED": "CANCELLED", "LAPSED": "LAPSED"}
"""Why an order owes money, if not for what was returned."""


@dataclass(frozen=True)
class ProviderDisputeEvent:
    """The customer's bank asks a payment back: it was `opened`, `won` by the shop, or `lost`. `reason`: the bank's."""

    event_id: str
    dispute_id: str
    payment_id: str
    order_id: str
    outcome: DisputeOutcome
    reason: str | None = None


def record_dispute(shop: Shop, event: ProviderDisputeEvent) -> IdempotentResult:
    """Keep what becomes of a disputed payment. Each event is taken once, by its id.

    While it is open the payment gives nothing back: what is to be given is owed by the order, or a refund that fails.
    Won, both are on their way in the same transaction. Lost, the order's money is less by what was left, what it owed
    first, and one that is not paid yet waits for it again.

    Result: {"payment_id", "status", "reason"}, status null where there is no such payment. Raises Busy while the order
    is being archived, TooEarly where its payment has not been told to have come: the provider tells again.
    """

    def decide() -> Decision:
        order = get_order_unless_archiving(shop, event.order_id)
        payment = shop.table.get(PAYMENT_BY_ID, order_id=event.order_id, payment_id=event.payment_id)
        if isinstance(order, Order) and (payment is None or payment.status not in RECEIVED_PAYMENT_STATUSES):
            raise TooEarly(TOO_EARLY_RETRY_SECONDS)
        if payment is None:
            return [], {"payment_id": event.payment_id, "status": None, "reason": "there is no such payment"}
        if payment.status not in RECEIVED_PAYMENT_STATUSES or not _is_newer(payment, event):
            return [check_unchanged(PAYMENT, payment)], payment_result(payment)
        after = _apply_dispute_event(shop, payment, event)
        return [
            update(PAYMENT, payment, after),
            *_adjust_order_money(shop, order, payment, after, event),
        ], payment_result(after)

    return run_idempotently(shop, PROVIDER_CALLER_ID, event.event_id, "record_dispute", asdict(event), decide)


def _is_newer(payment: Payment, event: ProviderDisputeEvent) -> bool:
    """Whether it takes the dispute further than it is known to have come."""
    steps = (None, *get_args(DisputeStatus))
    return steps.index(STATUS_BY_OUTCOME[event.outcome]) > steps.index((payment.disputes or {}).get(event.dispute_id))


def _apply_dispute_event(shop: Shop, payment: Payment, event: ProviderDisputeEvent) -> Payment:
    """The payment after it."""
    disputes: dict[str, DisputeStatus] = {
        **(payment.disputes or {}),
        event.dispute_id: STATUS_BY_OUTCOME[event.outcome],
    }
    reason = f"dispute lost: {event.reason}" if event.outcome == "lost" else payment.reason
    after = replace(payment, disputes=disputes, reason=reason)
    status = derive_payment_status(after, unmatched=payment.status == "UNMATCHED")
    return apply_payment_command(
        after, "note_dispute" if status == payment.status else COMMAND_BY_STATUS[status], shop.now_instant()
    )


def _adjust_order_money(
    shop: Shop, order: Order | ArchivedOrder | None, payment: Payment, after: Payment, event: ProviderDisputeEvent
) -> list[Write[Any]]:
    """What the end of a dispute does to the money of the order, and to what was to be given back of the payment."""
    order_unchanged = check_order_unchanged(event.order_id, order)
    if event.outcome == "opened":
        return [order_unchanged]
    refunds = list(shop.table.query_all(REFUNDS_OF_ORDER, order_id=event.order_id))
    left, number = compute_refundable(payment, refunds)
    ours = order if isinstance(order, Order) and payment.status != "UNMATCHED" else None
    if event.outcome == "lost":
        return [update(ORDER, ours, _deduct_lost_money(shop, ours, left)) if ours and left else order_unchanged]
    if after.is_disputed or after.is_charged_back:  # by another dispute
        return [order_unchanged]
    failed = [refund for refund in refunds if (refund.payment_id, refund.status) == (payment.payment_id, "FAILED")]
    again = [update(REFUND, it, reset_for_retry(shop, it, it.account_id)) for it in failed[:MAX_RETRIED_REFUNDS]]
    if ours is None or not (pays := min(ours.owed, left)):
        return [order_unchanged, *again]
    paying = replace(
        apply_order_command(ours, "refund", shop.now_instant()), refunded=ours.refunded + pays, owed=ours.owed - pays
    )
    why = REFUND_REASON_BY_STATUS.get(ours.status, "RETURNED")
    refund = build_refund(shop, payment, pays, why, number=number, customer_id=ours.customer_id)
    return [update(ORDER, ours, paying), put_if_absent(REFUND, refund), *again]


def _deduct_lost_money(shop: Shop, order: Order, lost: int) -> Order:
    """The order after the bank has taken so much of its money; what is owed is paid by that first."""
    if order.status == "PENDING":
        return replace(apply_order_command(order, "unpay_part", shop.now_instant()), paid=order.paid - lost)
    after = apply_order_command(order, "refund", shop.now_instant())
    return replace(after, refunded=order.refunded + lost, owed=max(0, order.owed - lost))
