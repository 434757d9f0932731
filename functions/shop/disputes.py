"""Payment disputes (chargebacks): record them, and adjust the order's money when a dispute ends.

In a dispute, the customer's bank claims money of a payment back. The payment item stores each of its disputes by the
dispute's id. In the sequence OPEN, WON, LOST, the status only moves forward. An event that would move it back is
ignored. So the provider may send the events in any sequence. It may also send the same event twice with different
event ids.

The order of a dispute is found by its payment: the dispute's metadata is normally empty. If the payment is not in the
table, because the order is archived or the money is not reported yet, the dispute is kept (module kept_events).

If the shop loses a dispute, the bank takes the disputed amount. Then the shop refunds only what is left of the payment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, cast

from functions.dynamodb.writes import Write, check_unchanged, delete, put_if_absent, update
from functions.model.entities import (
    Dispute,
    DisputeStatus,
    KeptEvent,
    Order,
    Payment,
    Refund,
)
from functions.model.patterns import REFUNDS_OF_ORDER
from functions.model.states import apply_money_change
from functions.model.table import KEPT_EVENT, PAYMENT, REFUND
from functions.shop.idempotency import IdempotentResult, run_idempotently
from functions.shop.kept_events import Decision, PaymentPlace, find_kept_event, find_payment, is_later, keep_event
from functions.shop.order_money import OrderOrStub, compute_refundable, count_withdrawal, refunds_on_their_way
from functions.shop.refund_processing import PROVIDER_CALLER_ID
from functions.shop.refunds import (
    build_refund,
    payment_result,
    reason_of_owed,
    reset_for_retry,
    save_or_check_order,
)
from functions.shop.shop import ShopContext

MAX_RETRIED_REFUNDS = 90
"""How many failed refunds are retried automatically when the shop wins a dispute. Staff can retry further refunds."""
DisputeOutcome = Literal["opened", "won", "lost"]
STATUS_BY_OUTCOME: Mapping[DisputeOutcome, DisputeStatus] = {"opened": "OPEN", "won": "WON", "lost": "LOST"}


@dataclass(frozen=True)
class ProviderDisputeEvent:
    """An event of the payment provider: a dispute was `opened`, `won` by the shop, or `lost` by the shop.

    `order_id`: the order id that the event names. It is used only if the payment is not known yet. `amount`: the
    disputed amount in minor units of `currency`. `reason`: the reason that the customer's bank gave, or None.
    """

    event_id: str
    dispute_id: str
    payment_id: str
    order_id: str
    outcome: DisputeOutcome
    amount: int
    currency: str
    reason: str | None = None


def record_dispute(shop: ShopContext, event: ProviderDisputeEvent) -> IdempotentResult:
    """Record a dispute event and adjust the order's money. Safe to repeat: an event id is applied only once.

    While a dispute is open, its payment cannot be refunded. If the order is cancelled or goods are returned in this
    time, the order records the owed amount. A requested refund that is not sent yet becomes FAILED. When the last open
    dispute of the payment ends, the same transaction refunds the owed amount and retries the failed refunds, if the
    money is left.

    If the shop loses, the bank takes the disputed amount. It becomes due again if the order is not fully paid yet.
    Otherwise the order records it as refunded, and subtracts it from the owed amount. A dispute in another currency
    than the payment counts as a dispute of the whole payment.

    The result is {"payment_id", "status", "reason"}. If the payment is not in the table, the dispute is kept until it
    is, and `status` is the status of the dispute. Raises TableBusy while the order is being archived. The provider
    sends it again.
    """

    def decide(shop: ShopContext) -> Decision:
        place = find_payment(shop, event.payment_id, event.order_id)
        status, now = STATUS_BY_OUTCOME[event.outcome], shop.now_instant()
        kept = KeptEvent(
            order_id=place.order_id,
            payment_id=event.payment_id,
            object_id=event.dispute_id,
            kind="DISPUTE",
            status=status,
            amount=event.amount,
            currency=event.currency,
            reason=event.reason,
            created_at=now,
            updated_at=now,
        )
        if place.payment is None:
            return keep_event(shop, place, kept)
        earlier = find_kept_event(shop, place.order_id, event.payment_id, event.dispute_id)
        if earlier is not None and not is_later(status, earlier.status):
            return apply_kept_dispute(shop, place, place.payment, earlier)
        writes, result = _record_on_payment(shop, place, place.payment, kept, retries=True)
        return [*writes, *([delete(KEPT_EVENT, earlier)] if earlier else [])], result

    return run_idempotently(shop, PROVIDER_CALLER_ID, event.event_id, "record_dispute", asdict(event), decide)


def apply_kept_dispute(shop: ShopContext, place: PaymentPlace, payment: Payment, kept: KeptEvent) -> Decision:
    """Return the writes that move a kept dispute to its payment, and that adjust the order's money now.

    Failed refunds are not retried: the dispute ended earlier, so staff decide about them.
    """
    writes, result = _record_on_payment(shop, place, payment, kept, retries=False)
    return [*writes, delete(KEPT_EVENT, kept)], result


def _record_on_payment(
    shop: ShopContext, place: PaymentPlace, payment: Payment, event: KeptEvent, *, retries: bool
) -> Decision:
    stored = (payment.disputes or {}).get(event.object_id)
    if not is_later(event.status, stored.status if stored else None):
        return [check_unchanged(PAYMENT, payment)], payment_result(payment)
    changed = _add_dispute(payment, event)
    if event.status == "OPEN":
        after = apply_money_change(payment, changed, shop.now_instant())
        return [
            update(PAYMENT, payment, after),
            *save_or_check_order(shop, place.order_id, place.order, place.order),
        ], payment_result(after)
    refunds = list(shop.table.query_all(REFUNDS_OF_ORDER, order_id=place.order_id))
    order, changed = count_withdrawal(place.order, payment, changed, refunds, refunds)
    after = apply_money_change(payment, changed, shop.now_instant())
    writes: list[Write[Any]] = [update(PAYMENT, payment, after)]
    if not after.is_disputed:
        order, more = _release_money(shop, order, after, refunds, retries=retries)
        writes += more
    return [*writes, *save_or_check_order(shop, place.order_id, place.order, order)], payment_result(after)


def _add_dispute(payment: Payment, event: KeptEvent) -> Payment:
    """Return the payment with the new state of a dispute. Its status is not changed yet."""
    amount = event.amount if event.currency == payment.currency else payment.amount
    dispute = Dispute(status=cast(DisputeStatus, event.status), amount=amount, reason=event.reason)
    reason = payment.reason
    if event.status == "LOST":
        reason = f"dispute lost: {event.reason}" if event.reason else "dispute lost"
    return replace(payment, disputes={**(payment.disputes or {}), event.object_id: dispute}, reason=reason)


def _release_money(
    shop: ShopContext, order: OrderOrStub, payment: Payment, refunds: Sequence[Refund], *, retries: bool
) -> tuple[OrderOrStub, list[Write[Any]]]:
    """Return the order, and the writes of the refunds that waited until the last dispute of the payment ended."""
    left, number = compute_refundable(payment, refunds)
    writes: list[Write[Any]] = []
    if isinstance(order, Order) and not payment.unmatched and (pays := min(order.owed, left)):
        refund = build_refund(shop, payment, pays, reason_of_owed(order), number=number, customer_id=order.customer_id)
        order = replace(order, refunded=order.refunded + pays, owed=order.owed - pays)
        writes.append(put_if_absent(REFUND, refund))
    else:
        pays = 0
    failed = [it for it in refunds if it.payment_id == payment.payment_id and it.status == "FAILED"]
    rest = payment.remaining - pays - refunds_on_their_way(payment, refunds)
    for refund in failed[:MAX_RETRIED_REFUNDS] if retries else ():
        again = reset_for_retry(shop, refund, refund.account_id, max(0, rest))
        if again.amount:
            rest -= again.amount
            writes.append(update(REFUND, refund, again))
    return order, writes
