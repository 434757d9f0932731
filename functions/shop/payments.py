"""Record payments as the payment provider reports them.

If an order is not fully paid (PENDING), a payment is added to its paid amount, up to the amount due. Money above the
amount due is refunded: the transaction that stores the payment also stores the refund.

The provider may send its events in any order. The state table of payments lists the allowed status changes. If an event
reports a status that comes before the stored status, the table does not allow the change, and the event is ignored. A
dispute or refund that arrives before the money of its payment is kept, and applied after the money was recorded.

The first event that reports the money of a payment claims the payment for its order. The claim is a PaymentClaim item,
written in the same transaction and never deleted, not even when the order is archived. If the provider reports the same
payment for another order, no money is counted or refunded there, because the money exists only once. Staff can assign a
payment that matches no order to an order (module unmatched_payments). The claim then names this order.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from functions.dynamodb.writes import ItemExists, Write, check_absent, check_unchanged, put_if_absent, update
from functions.model.entities import (
    ArchivedOrder,
    KeptEvent,
    Order,
    Payment,
    PaymentClaim,
    PaymentStatus,
    RecordedEvent,
    RefundReason,
)
from functions.model.errors import NotFound, WrongState
from functions.model.patterns import KEPT_EVENTS_OF_PAYMENT, PAYMENT_CLAIM_BY_ID, UNMATCHED_PAYMENTS_BY_DATE
from functions.model.states import PaymentCommand, apply_payment_command
from functions.model.table import ORDER, PAYMENT, PAYMENT_CLAIM, REFUND
from functions.shop import disputes, external_refunds
from functions.shop.idempotency import IdempotencyKey, IdempotentResult
from functions.shop.kept_events import find_kept_event, find_payment
from functions.shop.orders import apply_payment, save_order
from functions.shop.refund_processing import PROVIDER_CALLER_ID
from functions.shop.refunds import (
    build_refund,
    check_order_unchanged,
    has_max_payments,
    payment_result,
    require_not_archiving,
)
from functions.shop.shop import Caller, ShopContext, retry_on_conflict

MAX_RECORDED_EVENTS = 4
"""The number of the provider's events that a payment remembers. They take about 500 bytes."""
NO_ORDER = "none"
"""The order id under which a payment is stored if the provider's event has no valid order id."""


@dataclass(frozen=True)
class ProviderPaymentEvent:
    """An event of the payment provider about a payment. `reason`: its error code if the payment failed, or None."""

    event_id: str
    payment_id: str
    order_id: str
    outcome: Literal["authorised", "succeeded", "failed"]
    amount: int
    currency: str
    reason: str | None = None


class PaymentAlreadyClaimed(ItemExists):
    """The payment has a claim: its money is recorded, or its dispute or refund was reported before the money."""


def record_payment(shop: ShopContext, event: ProviderPaymentEvent, body: Mapping[str, Any]) -> IdempotentResult:
    """Record the provider's event about a payment. Safe to repeat: an event id is recorded only once.

    If the event reports received money, the same transaction does one of the following:
    - If the order is PENDING (not fully paid), the payment is added to its paid amount. Money above the due amount is
      refunded with the reason EXCESS. So is all of it if the order already has the maximum number of payments.
    - If the order is not PENDING any more, the whole payment is refunded with the reason LATE.
    - If the money matches no order, the payment gets the status UNMATCHED, and `reason` says why. Staff must decide.
      The provider gets a success answer, because a retry would not help.
    - If an earlier event claimed the payment for another order, the payment gets the status UNMATCHED with the amount
      0. `get_payment_claim` shows the other order to staff.

    `body`: the fields of the event, to detect an event id with other content. The result is {"payment_id", "status",
    "reason"}, without a status if the event is ignored. That is if the order is archived and the table does not have
    the payment, unless the event reports received money that is not claimed for this order yet. Raises TableBusy while
    the order is being archived. The provider then sends the event again.
    """

    key = IdempotencyKey.of(shop, PROVIDER_CALLER_ID, event.event_id, "record_payment", body)

    claim: PaymentClaim | None = None
    while True:
        try:
            done = retry_on_conflict(shop, partial(_record, shop, key=key, event=event, claim=claim))
            break
        except PaymentAlreadyClaimed as found:
            claim = found.item
    if done.replayed and claim is None:  # the first delivery may have died before it applied the kept events
        claim = shop.table.get(PAYMENT_CLAIM_BY_ID, payment_id=event.payment_id)
    if claim is not None and claim.kept_under is not None:
        apply_kept_events(shop, claim.kept_under, event.payment_id)
    return done


def apply_kept_events(shop: ShopContext, kept_under: str, payment_id: str) -> None:
    """Apply the disputes and refunds of a payment that were kept, under an order id, while it was not in the table.

    Call it after the payment was recorded or restored. The order's money is adjusted as if the events came now, but
    failed refunds are not retried. Safe to repeat. Without the payment, nothing is changed. Raises TableBusy while the
    order is being archived.
    """
    for kept in list(shop.table.query_all(KEPT_EVENTS_OF_PAYMENT, order_id=kept_under, payment_id=payment_id)):
        retry_on_conflict(shop, partial(_apply_kept_event, shop, kept))


def _apply_kept_event(shop: ShopContext, kept: KeptEvent) -> None:
    place = find_payment(shop, kept.payment_id, kept.order_id)
    current = find_kept_event(shop, kept.order_id, kept.payment_id, kept.object_id)
    if place.payment is not None and current is not None:
        apply = disputes.apply_kept_dispute if kept.kind == "DISPUTE" else external_refunds.apply_kept_refund
        writes, _ = apply(shop, place, place.payment, current)
        shop.table.write(*writes)


def _record(
    shop: ShopContext, key: IdempotencyKey, event: ProviderPaymentEvent, claim: PaymentClaim | None
) -> IdempotentResult:
    """Record the event, or return the result of its first delivery.

    A payment remembers the first events that changed it. A Command item remembers any other event. So the first event
    of a new payment, of an order that was never archived, neither reads nor writes a Command item. `claim`: that of the
    payment. If it is None, the writes also store a new claim, and raise PaymentAlreadyClaimed if one exists.
    """
    claimed_by = claim.order_id if claim else None
    payment_key = PAYMENT.key(order_id=event.order_id, payment_id=event.payment_id)
    order, existing = shop.table.get_neighbours(ORDER.key(order_id=event.order_id), payment_key)
    events = (existing and existing.events) or {}
    if known := events.get(event.event_id):
        key.require_same(known.fingerprint)
        return IdempotentResult(_result(event.payment_id, known.status, known.reason), replayed=True)
    was_archived = isinstance(order, ArchivedOrder) or (order is not None and order.restored_at is not None)
    may_be_known = existing is not None or was_archived
    if may_be_known and (done := key.find_result(shop)):
        return done
    require_not_archiving(order)
    is_known = claim is not None and claim.order_id == event.order_id
    if existing is None and isinstance(order, ArchivedOrder) and (event.outcome != "succeeded" or is_known):
        # The event brings no new money, and the order is archived. Store nothing: the archive may already contain this
        # payment, with a status that comes after the status in the event.
        same_payment = check_absent(PAYMENT, payment_key)
        result = _result(event.payment_id, None, "the order is archived")
        return key.write(shop, [check_order_unchanged(event.order_id, order), same_payment], result)
    after = _apply_event(shop, existing, event, order, claimed_by)
    if after is None:
        assert existing is not None, "a new payment is always a change"
        return key.write(shop, [check_unchanged(PAYMENT, existing)], payment_result(existing))
    order_writes: list[Write[Any]] = [check_order_unchanged(event.order_id, order)]
    if after.status == "CAPTURED" and isinstance(order, Order):
        after, order_writes = count_towards_order(shop, order, after)
    remembers = len(events) < MAX_RECORDED_EVENTS
    if remembers:
        recorded = RecordedEvent(fingerprint=key.fingerprint, status=after.status, reason=after.reason)
        after = replace(after, events={**events, event.event_id: recorded})
    writes: list[Write[Any]] = [put_if_absent(PAYMENT, after) if existing is None else update(PAYMENT, existing, after)]
    if event.outcome == "succeeded" and after.amount > 0 and claimed_by is None:
        if claim is None:
            made = PaymentClaim(payment_id=event.payment_id, order_id=event.order_id, created_at=shop.now_instant())
            writes.append(put_if_absent(PAYMENT_CLAIM, made, condition_error=PaymentAlreadyClaimed))
        else:
            made = replace(claim, order_id=event.order_id, version=claim.version + 1)
            writes.append(update(PAYMENT_CLAIM, claim, made, condition_error=PaymentAlreadyClaimed))
    writes += order_writes
    if not remembers:
        return key.write(shop, writes, payment_result(after))
    shop.table.write(*writes)
    return IdempotentResult(payment_result(after), replayed=False)


def _apply_event(
    shop: ShopContext,
    existing: Payment | None,
    event: ProviderPaymentEvent,
    order: Order | ArchivedOrder | None,
    claimed_by: str | None,
) -> Payment | None:
    """Return the payment after the event, or None if the event does not change it. Nothing is written."""
    if event.outcome == "succeeded":
        return _capture(shop, existing, event, order, claimed_by)
    return _apply_command(shop, existing, event, "authorise" if event.outcome == "authorised" else "fail", event.reason)


def _capture(
    shop: ShopContext,
    existing: Payment | None,
    event: ProviderPaymentEvent,
    order: Order | ArchivedOrder | None,
    claimed_by: str | None,
) -> Payment | None:
    """Return the payment, or a new one, with status CAPTURED, or UNMATCHED if its money matches no order.

    `claimed_by`: the order for which it is claimed. Return None if the event does not change the payment.
    """
    if claimed_by not in (None, event.order_id):
        # The customer can read the reason. The other order may belong to another customer, so it is not named.
        reason = "the payment is recorded for another order"
        return _apply_command(shop, existing, replace(event, amount=0), "unmatch", reason)
    if reason := _mismatch_reason(order, event):
        return _apply_command(shop, existing, event, "unmatch", reason)
    return _apply_command(shop, existing, event, "capture", None)


def _mismatch_reason(order: Order | ArchivedOrder | None, event: ProviderPaymentEvent) -> str:
    """Return the reason why the payment does not match the order, or "" if it matches."""
    if order is None:
        return "the order does not exist"
    if isinstance(order, ArchivedOrder):
        return "the order is archived"
    if event.currency != order.currency:
        return f"the order is in {order.currency}"
    if event.amount < 1:
        return "the amount is less than 1"
    return ""


def _apply_command(
    shop: ShopContext,
    existing: Payment | None,
    event: ProviderPaymentEvent,
    command: PaymentCommand,
    reason: str | None,
) -> Payment | None:
    """Return the stored or new payment after the command, or None if the status does not allow it. Writes nothing."""
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
    unmatched = command == "unmatch"
    return replace(
        after,
        amount=event.amount,
        uncounted=event.amount if unmatched else 0,
        unmatched=unmatched,
        currency=event.currency,
        reason=reason,
    )


def count_towards_order(shop: ShopContext, order: Order, payment: Payment) -> tuple[Payment, list[Write[Any]]]:
    """Add a payment to the order's paid amount, and refund the money that cannot be added. Return payment and writes.

    That is money above the due amount, or all of it if the order is not PENDING or has the maximum number of payments.
    """
    counted = 0
    if order.status == "PENDING" and not has_max_payments(shop, order):
        counted = min(payment.amount, order.total - order.paid)
    writes: list[Write[Any]] = [check_order_unchanged(order.order_id, order)]
    if counted:
        writes = save_order(order, apply_payment(order, counted, shop.now_instant()))
    if rest := payment.amount - counted:
        why: RefundReason = "EXCESS" if order.status == "PENDING" else "LATE"
        refund = build_refund(shop, payment, rest, why, number=1, customer_id=order.customer_id)
        writes.append(put_if_absent(REFUND, refund))
    return replace(payment, uncounted=rest), writes


def list_unmatched_payments(shop: ShopContext) -> Iterator[Payment | KeptEvent]:
    """Return the payments that match no order and are not refunded, oldest first (access pattern R5).

    Also the disputes and refunds of payments whose money is not reported yet. The index is eventually consistent.
    """
    return shop.table.query_all(UNMATCHED_PAYMENTS_BY_DATE, open_status="UNMATCHED")


def get_payment_claim(shop: ShopContext, caller: Caller, payment_id: str) -> PaymentClaim:
    """Return the claim of a provider's payment, with its order (access pattern C7). Raises NotAllowed, NotFound."""
    caller.require_group("staff")
    claim = shop.table.get(PAYMENT_CLAIM_BY_ID, payment_id=payment_id)
    if claim is None or claim.order_id is None:
        raise NotFound("payment")
    return claim


def _result(payment_id: str, status: PaymentStatus | None, reason: str | None) -> dict[str, Any]:
    return {"payment_id": payment_id, "status": status, "reason": reason}
