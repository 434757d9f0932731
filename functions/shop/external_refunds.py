"""Record refunds that a person makes at the payment provider, for example in its dashboard.

The provider reports such a refund without the shop's metadata. It becomes a Refund item with the reason EXTERNAL, and
counts like a refund of the shop: in the payment, in the order, and in what a return may still give back. If the payment
is not in the table, because the order is archived or the money is not reported yet, the refund is kept (module
kept_events).

If such a refund fails, it is like a failed refund of the shop: staff can retry or settle it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from functions.dynamodb.writes import Write, delete, put_if_absent, update
from functions.model.entities import KeptEvent, KeptEventStatus, Payment, Refund, RefundStatus
from functions.model.patterns import REFUND_BY_ID, REFUNDS_OF_ORDER
from functions.model.states import apply_money_change
from functions.model.table import KEPT_EVENT, PAYMENT, REFUND
from functions.shop.idempotency import IdempotentResult, run_idempotently
from functions.shop.kept_events import Decision, PaymentPlace, find_kept_event, find_payment, is_later, keep_event
from functions.shop.order_money import count_withdrawal
from functions.shop.payment_provider import RefundOutcome
from functions.shop.refund_processing import PROVIDER_CALLER_ID, ProviderRefundEvent, apply_refund_event
from functions.shop.refunds import save_or_check_order
from functions.shop.shop import ShopContext

STATUS_BY_OUTCOME: Mapping[RefundOutcome, KeptEventStatus] = {
    "pending": "SENT",
    "succeeded": "SUCCEEDED",
    "failed": "FAILED",
}
OUTCOME_BY_STATUS = {status: outcome for outcome, status in STATUS_BY_OUTCOME.items()}


@dataclass(frozen=True)
class ExternalRefundEvent:
    """An event about a refund that was made at the provider. `provider_id`: the provider's id of the refund.

    `order_id`: the order id that the event names. It is used only if the payment is not known yet. `amount`: in minor
    units of `currency`. `reason`: why the refund failed, or None.
    """

    event_id: str
    provider_id: str
    payment_id: str
    order_id: str
    status: RefundOutcome
    amount: int
    currency: str
    reason: str | None = None


def record_external_refund(shop: ShopContext, event: ExternalRefundEvent) -> IdempotentResult:
    """Record a refund that was made at the provider, or its new status. Safe to repeat: an event id is applied once.

    The events of a refund may come in any sequence: the status only moves forward. The money counts as refunded from
    the first event on. If more money leaves than was paid, the order records it as over-refunded. The result is
    {"payment_id", "status", "reason"}, with the status of the refund. Raises TableBusy while the order is being
    archived. The provider then sends the event again.
    """

    def decide(shop: ShopContext) -> Decision:
        place = find_payment(shop, event.payment_id, event.order_id)
        now = shop.now_instant()
        kept = KeptEvent(
            order_id=place.order_id,
            payment_id=event.payment_id,
            object_id=event.provider_id,
            kind="REFUND",
            status=STATUS_BY_OUTCOME[event.status],
            amount=event.amount,
            currency=event.currency,
            reason=event.reason,
            created_at=now,
            updated_at=now,
        )
        if place.payment is None:
            return keep_event(shop, place, kept)
        earlier = find_kept_event(shop, place.order_id, event.payment_id, event.provider_id)
        if earlier is not None:
            latest = kept if is_later(kept.status, earlier.status) else earlier
            writes, result = _record_on_payment(shop, place, place.payment, latest)
            return [*writes, delete(KEPT_EVENT, earlier)], result
        return _record_on_payment(shop, place, place.payment, kept)

    return run_idempotently(shop, PROVIDER_CALLER_ID, event.event_id, "record_refund", asdict(event), decide)


def apply_kept_refund(shop: ShopContext, place: PaymentPlace, payment: Payment, kept: KeptEvent) -> Decision:
    """Return the writes that move a kept refund to its payment, and that adjust the order's money now."""
    writes, result = _record_on_payment(shop, place, payment, kept)
    return [*writes, delete(KEPT_EVENT, kept)], result


def _record_on_payment(shop: ShopContext, place: PaymentPlace, payment: Payment, event: KeptEvent) -> Decision:
    refund_id = f"{event.payment_id}-{event.object_id}"
    stored = shop.table.get(REFUND_BY_ID, order_id=place.order_id, refund_id=refund_id)
    if stored is not None:
        outcome = OUTCOME_BY_STATUS[event.status]
        update_event = ProviderRefundEvent("", place.order_id, refund_id, 1, event.object_id, outcome, event.reason)
        recorded, result = apply_refund_event(shop, stored, update_event)
        return recorded, _result(event, result["status"], result["reason"])
    now = shop.now_instant()
    refund = Refund(
        order_id=place.order_id,
        refund_id=refund_id,
        payment_id=event.payment_id,
        status=cast(RefundStatus, event.status),
        amount=event.amount,
        currency=payment.currency,
        why="EXTERNAL",
        customer_id=place.order.customer_id if place.order else None,
        provider_id=event.object_id,
        reason=event.reason,
        created_at=now,
        updated_at=now,
    )
    refunds = list(shop.table.query_all(REFUNDS_OF_ORDER, order_id=place.order_id))
    changed = replace(payment, refunded=payment.refunded + refund.amount * refund.has_left)
    order, changed = count_withdrawal(place.order, payment, changed, refunds, [*refunds, refund])
    writes: list[Write[Any]] = [put_if_absent(REFUND, refund)]
    after = apply_money_change(payment, changed, now) if changed != payment else None
    writes += [update(PAYMENT, payment, after)] if after else []
    writes += save_or_check_order(shop, place.order_id, place.order, order)
    return writes, _result(event, refund.status, refund.reason)


def _result(event: KeptEvent, status: str, reason: str | None) -> dict[str, Any]:
    return {"payment_id": event.payment_id, "status": status, "reason": reason}
