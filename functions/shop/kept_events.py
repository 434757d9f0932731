"""Keep the disputes and refunds that the provider reports, as long as their payment is not in the table.

The order id in such an event is not reliable. The claim of the payment (PaymentClaim) names the order that has the
payment's money. There are two reasons to keep an event:
- The money is not reported yet. The first such event writes a claim without an order. So the transaction that records
  the money finds the claim, and then applies the kept events. Until then, the event waits for staff like a payment that
  matches no order, because the money may never be reported.
- The order is archived, and its payments with it. The event is stored in the order's partition. When the order is
  restored, the event is applied.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from functions.dynamodb.writes import Write, check_unchanged, put_if_absent, update
from functions.model.changes import RESTORED_ATTRIBUTE
from functions.model.entities import ArchivedOrder, KeptEvent, KeptEventStatus, Payment, PaymentClaim
from functions.model.patterns import PAYMENT_BY_ID, PAYMENT_CLAIM_BY_ID
from functions.model.states import RECEIVED_PAYMENT_STATUSES
from functions.model.table import KEPT_EVENT, PAYMENT, PAYMENT_CLAIM
from functions.shop.order_money import OrderOrStub
from functions.shop.refunds import check_order_unchanged, get_order_unless_archiving
from functions.shop.shop import ShopContext

STEPS: Sequence[str] = get_args(KeptEventStatus)
Decision = tuple[Sequence[Write[Any]], dict[str, Any]]


@dataclass(frozen=True)
class PaymentPlace:
    """The order and the payment of an event. `order_id`: the order with the payment's money, or the id in the event.

    `payment`: None if the event must be kept. `claim`: None if the provider has not reported the payment before.
    """

    order_id: str
    claim: PaymentClaim | None
    order: OrderOrStub = None
    payment: Payment | None = None


def find_payment(shop: ShopContext, payment_id: str, named_order_id: str) -> PaymentPlace:
    """Find the order and the payment of an event (access patterns C7, A12 and C2).

    `named_order_id`: the order id in the event. It is used only if the payment is not known yet. Raises TableBusy while
    the order is being archived.
    """
    claim = shop.table.get(PAYMENT_CLAIM_BY_ID, payment_id=payment_id)
    if claim is None or claim.order_id is None:
        return PaymentPlace(claim.kept_under or named_order_id if claim else named_order_id, claim)
    order = get_order_unless_archiving(shop, claim.order_id)
    payment = shop.table.get(PAYMENT_BY_ID, order_id=claim.order_id, payment_id=payment_id)
    if payment and (
        payment.status not in RECEIVED_PAYMENT_STATUSES
        or (isinstance(order, ArchivedOrder) and _is_being_restored(shop, payment))
    ):
        payment = None
    return PaymentPlace(claim.order_id, claim, order, payment)


def _is_being_restored(shop: ShopContext, payment: Payment) -> bool:
    """Return whether a running restore of the order has marked this payment, so that it must not change yet.

    A payment without the mark arrived after the archiving. Clocks differ, so timestamps cannot show it.
    """
    key = PAYMENT.key(order_id=payment.order_id, payment_id=payment.payment_id)
    images = shop.table.batch_get_raw([key], consistent=True)
    return any(RESTORED_ATTRIBUTE in image for image in images)


def find_kept_event(shop: ShopContext, order_id: str, payment_id: str, object_id: str) -> KeptEvent | None:
    key = KEPT_EVENT.key(order_id=order_id, payment_id=payment_id, object_id=object_id)
    found = shop.table.batch_get([key], consistent=True)
    return next((item for item in found if isinstance(item, KeptEvent)), None)


def is_later(status: str, stored: str | None) -> bool:
    """Return whether a status of a dispute or refund comes after the stored status."""
    return stored is None or STEPS.index(status) > STEPS.index(stored)


def keep_event(shop: ShopContext, place: PaymentPlace, event: KeptEvent) -> Decision:
    """Return the writes that store a kept event, with its order id, `unmatched` and version, and the command's result.

    The transaction fails if the order or the claim changes meanwhile. The event changes nothing if the stored event has
    the same or a later status.
    """
    is_known = place.claim is not None and place.claim.order_id is not None
    guards: list[Write[Any]] = []
    if place.claim is None:
        claim = PaymentClaim(payment_id=event.payment_id, created_at=event.created_at, kept_under=place.order_id)
        guards.append(put_if_absent(PAYMENT_CLAIM, claim))
    else:
        guards.append(check_unchanged(PAYMENT_CLAIM, place.claim))
    if is_known:
        guards.append(check_order_unchanged(place.order_id, place.order))
    why = "the order is archived" if is_known else "the payment is not known yet"
    result = {"payment_id": event.payment_id, "status": event.status, "reason": why}
    kept = find_kept_event(shop, place.order_id, event.payment_id, event.object_id)
    if kept is None:
        return [
            *guards,
            put_if_absent(KEPT_EVENT, replace(event, order_id=place.order_id, unmatched=not is_known)),
        ], result
    if not is_later(event.status, kept.status):
        return [*guards, check_unchanged(KEPT_EVENT, kept)], result | {"status": kept.status}
    changed = replace(event, order_id=kept.order_id, created_at=kept.created_at, unmatched=not is_known)
    return [*guards, update(KEPT_EVENT, kept, replace(changed, version=kept.version + 1))], result
