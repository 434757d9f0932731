"""Payment disputes (chargebacks): record them, and adjust the order's money when a dispute ends.

In a dispute, the customer's bank claims a payment back. The payment item stores the status of each of its disputes,
keyed by the dispute's id. In the sequence OPEN, WON, LOST, the status only moves forward. An event that would move it
back is ignored. So the provider may send the events in any sequence. It may also send the same event twice with
different event ids.

The payments of an archived order are in the archive. Then the dispute is stored beside the order's stub, as an item of
its own. When the order is restored, `apply_kept_disputes` moves it to its payment. If the restored order does not have
the payment, the dispute stays where it is, and later events move its status forward there.

If the shop loses a dispute, the bank takes all money of the payment that was not refunded before. After that, the shop
sends no refunds of this payment. So if an earlier refund of the payment fails, it cannot be retried.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

from functions.dynamodb.writes import Write, check_unchanged, delete, put_if_absent, update
from functions.model.changes import RESTORED_ATTRIBUTE
from functions.model.entities import (
    ArchivedDispute,
    ArchivedOrder,
    DisputeStatus,
    Order,
    OrderStatus,
    Payment,
    PaymentStatus,
    RefundReason,
)
from functions.model.errors import TooEarly
from functions.model.patterns import ORDER_ITEM_COLLECTION, PAYMENT_BY_ID, REFUNDS_OF_ORDER
from functions.model.states import (
    RECEIVED_PAYMENT_STATUSES,
    PaymentCommand,
    apply_order_command,
    apply_payment_command,
    derive_payment_status,
)
from functions.model.table import ARCHIVED_DISPUTE, PAYMENT, REFUND
from functions.shop.idempotency import IdempotentResult, run_idempotently
from functions.shop.orders import save_order
from functions.shop.payments import Decision, payment_result
from functions.shop.refund_processing import PROVIDER_CALLER_ID
from functions.shop.refunds import (
    build_refund,
    check_order_unchanged,
    compute_refundable,
    get_order_id_of_money,
    get_order_unless_archiving,
    reset_for_retry,
)
from functions.shop.shop import Shop, retry_on_conflict

TOO_EARLY_RETRY_SECONDS = 60
MAX_RETRIED_REFUNDS = 90
"""How many failed refunds are retried automatically when the shop wins a dispute. Staff can retry further refunds."""
DisputeOutcome = Literal["opened", "won", "lost"]
STATUS_BY_OUTCOME: Mapping[DisputeOutcome, DisputeStatus] = {"opened": "OPEN", "won": "WON", "lost": "LOST"}
COMMAND_BY_STATUS: Mapping[PaymentStatus, PaymentCommand] = {
    "DISPUTED": "dispute",
    "CAPTURED": "win_dispute",
    "REFUNDED": "lose_dispute",
}
"""Maps the new status of a payment after a dispute event to the command that moves the payment to this status."""
REFUND_REASON_BY_STATUS: Mapping[OrderStatus, RefundReason] = {"CANCELLED": "CANCELLED", "LAPSED": "LAPSED"}
"""The reason of a refund that waited for the end of a dispute, by the order's status.

While a dispute is open, the shop cannot refund the payment. So the order stores the amount that the shop owes to the
customer, and the refund is requested after the shop has won. For any other status, the reason is RETURNED.
"""


@dataclass(frozen=True)
class ProviderDisputeEvent:
    """An event of the payment provider: a dispute was `opened`, `won` by the shop, or `lost` by the shop.

    `reason`: the reason that the customer's bank gave, or None.
    """

    event_id: str
    dispute_id: str
    payment_id: str
    order_id: str
    outcome: DisputeOutcome
    reason: str | None = None


def record_dispute(shop: Shop, event: ProviderDisputeEvent) -> IdempotentResult:
    """Record a dispute event and adjust the order's money. Safe to repeat: an event id is applied only once.

    While a dispute is open, its payment cannot be refunded. If the order is cancelled or goods are returned in this
    time, the order records the amount that the shop owes to the customer. A requested refund that is not sent yet
    becomes FAILED. If the shop wins, the transaction that records the event also refunds the owed amount and retries
    the failed refunds.

    If the shop loses, the bank keeps the amount of the payment that was not refunded yet. If the order is not fully
    paid yet, this amount becomes due again. Otherwise the order records this amount as refunded, and subtracts it from
    the owed amount.

    The provider may send a payment with the ids of several orders. The dispute is recorded on the order that has the
    payment's money, even if the event has the id of another order.

    The result is {"payment_id", "status", "reason"}. If the order is archived, the dispute is stored beside its stub,
    and `status` is the status of the dispute. If neither the order nor the payment exists, `status` is None.

    Raises TableBusy while the order is being archived. Raises TooEarly if the order exists and is not archived, but the
    payment is not recorded as received yet. If a restored order does not have the payment, and the dispute is stored
    beside it since the order was archived, only its status moves forward there. After either error, the provider sends
    the event again later.
    """

    def decide(shop: Shop) -> Decision:
        return _decide(shop, replace(event, order_id=get_order_id_of_money(shop, event.order_id, event.payment_id)))

    return run_idempotently(shop, PROVIDER_CALLER_ID, event.event_id, "record_dispute", asdict(event), decide)


def _decide(shop: Shop, event: ProviderDisputeEvent) -> Decision:
    """Return the writes that record the event, and the result. `event.order_id`: the order that has the money."""
    order = get_order_unless_archiving(shop, event.order_id)
    payment = shop.table.get(PAYMENT_BY_ID, order_id=event.order_id, payment_id=event.payment_id)
    kept = next(iter(_kept_disputes(shop, event.order_id, event.dispute_id)), None)
    if isinstance(order, Order) and (payment is None or payment.status not in RECEIVED_PAYMENT_STATUSES):
        if kept is None:
            raise TooEarly(TOO_EARLY_RETRY_SECONDS)
        return _keep_beside_order(shop, order, event, kept, "the order does not have the payment")
    if isinstance(order, ArchivedOrder) and (payment is None or _is_being_restored(shop, payment)):
        return _keep_beside_order(shop, order, event, kept, "the order is archived")
    if payment is None:
        return [], {"payment_id": event.payment_id, "status": None, "reason": "the payment does not exist"}
    if payment.status not in RECEIVED_PAYMENT_STATUSES:
        return [check_unchanged(PAYMENT, payment)], payment_result(payment)
    return _record_on_payment(shop, order, payment, event, kept)


def _record_on_payment(
    shop: Shop,
    order: Order | ArchivedOrder | None,
    payment: Payment,
    event: ProviderDisputeEvent,
    kept: ArchivedDispute | None,
) -> Decision:
    """Return the writes that record the event on the payment and delete `kept`, the dispute beside the order.

    If the event is not newer than `kept`, the status of `kept` is recorded instead. Then failed refunds are not
    retried: the dispute ended earlier, so staff decide about them.
    """
    removals = [] if kept is None else [delete(ARCHIVED_DISPUTE, kept)]
    retries = kept is None or _is_newer(event, kept.status)
    if kept is not None and not retries:
        outcome = next(outcome for outcome, status in STATUS_BY_OUTCOME.items() if status == kept.status)
        event = replace(event, outcome=outcome, reason=kept.reason)
    if not _is_newer(event, (payment.disputes or {}).get(event.dispute_id)):
        return [check_unchanged(PAYMENT, payment), *removals], payment_result(payment)
    after = _apply_dispute_event(shop, payment, event)
    return [
        update(PAYMENT, payment, after),
        *_adjust_order_money(shop, order, payment, after, event, retries=retries),
        *removals,
    ], payment_result(after)


def _is_newer(event: ProviderDisputeEvent, stored: DisputeStatus | None) -> bool:
    """Return whether the event's status comes after the dispute's stored status in the sequence OPEN, WON, LOST."""
    steps = (None, *get_args(DisputeStatus))
    return steps.index(STATUS_BY_OUTCOME[event.outcome]) > steps.index(stored)


# disputes of archived orders ------------------------------------------------------------------------------------------
def _is_being_restored(shop: Shop, payment: Payment) -> bool:
    """Return whether a running restore has written this payment beside the stub. It must not be changed then.

    Any other payment beside a stub arrived after the archiving. A restore marks the items that it writes. Times cannot
    decide this, because the clocks of Lambdas differ.
    """
    key = PAYMENT.key(order_id=payment.order_id, payment_id=payment.payment_id)
    images = shop.table.batch_get_raw([key], consistent=True)
    return any(RESTORED_ATTRIBUTE in image for image in images)


def _keep_beside_order(
    shop: Shop, order: Order | ArchivedOrder, event: ProviderDisputeEvent, kept: ArchivedDispute | None, reason: str
) -> Decision:
    """Return the writes that store a dispute beside its order or stub, which must not change meanwhile.

    `kept`: the dispute as it is stored beside the order, or None. `reason`: why it is not recorded on its payment.
    """
    status, now = STATUS_BY_OUTCOME[event.outcome], shop.now_instant()
    result = {"payment_id": event.payment_id, "status": status, "reason": reason}
    same_order = check_order_unchanged(event.order_id, order)
    if kept is None:
        item = ArchivedDispute(
            order_id=event.order_id,
            dispute_id=event.dispute_id,
            payment_id=event.payment_id,
            status=status,
            reason=event.reason,
            created_at=now,
            updated_at=now,
        )
        return [same_order, put_if_absent(ARCHIVED_DISPUTE, item)], result
    if not _is_newer(event, kept.status):
        return [same_order, check_unchanged(ARCHIVED_DISPUTE, kept)], result | {"status": kept.status}
    after = replace(kept, status=status, reason=event.reason, updated_at=now, version=kept.version + 1)
    return [same_order, update(ARCHIVED_DISPUTE, kept, after)], result


def _kept_disputes(shop: Shop, order_id: str, *dispute_ids: str) -> list[ArchivedDispute]:
    keys = [ARCHIVED_DISPUTE.key(order_id=order_id, dispute_id=id) for id in dispute_ids]
    return [item for item in shop.table.batch_get(keys, consistent=True) if isinstance(item, ArchivedDispute)]


def apply_kept_disputes(shop: Shop, order_id: str) -> None:
    """After an order was restored, move the disputes that came meanwhile from beside the stub to their payments.

    The order's money is adjusted as if the events came now, but failed refunds are not retried. A dispute of a payment
    that the order does not have stays. Safe to repeat. If this function does not run, the next event of the dispute
    moves it.
    """
    images = shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=order_id)
    for image in images:
        if image["type"]["S"] == ARCHIVED_DISPUTE.type:
            dispute_id = ARCHIVED_DISPUTE.decode(image).dispute_id
            retry_on_conflict(shop, partial(_apply_kept_dispute, shop, order_id, dispute_id))


def _apply_kept_dispute(shop: Shop, order_id: str, dispute_id: str) -> None:
    order = get_order_unless_archiving(shop, order_id)
    for kept in _kept_disputes(shop, order_id, dispute_id) if isinstance(order, Order) else ():
        payment = shop.table.get(PAYMENT_BY_ID, order_id=order_id, payment_id=kept.payment_id)
        if payment is not None and payment.status in RECEIVED_PAYMENT_STATUSES:
            event = ProviderDisputeEvent("", dispute_id, kept.payment_id, order_id, "opened")  # `kept` is not older
            writes, _ = _record_on_payment(shop, order, payment, event, kept)
            shop.table.write(*writes)


def _apply_dispute_event(shop: Shop, payment: Payment, event: ProviderDisputeEvent) -> Payment:
    """Return the payment with the new status of the dispute and the resulting status of the payment."""
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
    shop: Shop,
    order: Order | ArchivedOrder | None,
    payment: Payment,
    after: Payment,
    event: ProviderDisputeEvent,
    *,
    retries: bool,
) -> list[Write[Any]]:
    """Return the writes that adjust the order's money and the payment's refunds when a dispute ends.

    `payment` and `after`: the payment before and after the event. If the event opens a dispute, nothing is adjusted.
    Then the only write is a condition check that the order is unchanged. `retries`: whether a won dispute also retries
    the failed refunds of the payment.
    """
    order_unchanged = check_order_unchanged(event.order_id, order)
    if event.outcome == "opened":
        return [order_unchanged]
    refunds = list(shop.table.query_all(REFUNDS_OF_ORDER, order_id=event.order_id))
    left, number = compute_refundable(payment, refunds)
    ours = order if isinstance(order, Order) and payment.status != "UNMATCHED" else None
    if event.outcome == "lost":
        return save_order(ours, _deduct_lost_money(shop, ours, left)) if ours and left else [order_unchanged]
    if after.is_disputed or after.is_charged_back:  # another dispute of this payment is open or lost: refund nothing
        return [order_unchanged]
    failed = [refund for refund in refunds if (refund.payment_id, refund.status) == (payment.payment_id, "FAILED")]
    failed = failed[:MAX_RETRIED_REFUNDS] if retries else []
    again = [update(REFUND, it, reset_for_retry(shop, it, it.account_id)) for it in failed]
    if ours is None or not (pays := min(ours.owed, left)):
        return [order_unchanged, *again]
    paying = replace(
        apply_order_command(ours, "refund", shop.now_instant()), refunded=ours.refunded + pays, owed=ours.owed - pays
    )
    why = REFUND_REASON_BY_STATUS.get(ours.status, "RETURNED")
    refund = build_refund(shop, payment, pays, why, number=number, customer_id=ours.customer_id)
    return [*save_order(ours, paying), put_if_absent(REFUND, refund), *again]


def _deduct_lost_money(shop: Shop, order: Order, lost: int) -> Order:
    """Return the order after the customer's bank took back the amount `lost`. Nothing is written.

    If the order is PENDING (not fully paid), its paid amount is reduced. Otherwise the amount is added to the refunded
    amount, and the amount that the shop owes to the customer is reduced.
    """
    if order.status == "PENDING":
        return replace(apply_order_command(order, "unpay_part", shop.now_instant()), paid=order.paid - lost)
    after = apply_order_command(order, "refund", shop.now_instant())
    return replace(after, refunded=order.refunded + lost, owed=max(0, order.owed - lost))
