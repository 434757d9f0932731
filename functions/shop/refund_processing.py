"""Process refunds: send them to the payment provider or to a credit account, and record the provider's updates.

Staff can also record that a failed refund was paid outside the shop.

Each refund request to the provider has an idempotency key, so a repeated request refunds the money only once. One
transaction writes the refund's result and the payment, with a condition on the versions of both items. If the result is
already stored, processing the refund again does nothing.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from functions.dynamodb.writes import Write, check_unchanged, update
from functions.model.entities import Order, Payment, Refund
from functions.model.errors import CommandRejected, InvalidInput, NotFound, WrongState
from functions.model.patterns import REFUND_BY_ID, REFUNDS_OF_ORDER
from functions.model.states import apply_money_change, apply_refund_command
from functions.model.table import PAYMENT, REFUND
from functions.shop.accounts import credit_account
from functions.shop.idempotency import IdempotentResult, run_idempotently
from functions.shop.order_money import count_withdrawal, refunds_on_their_way
from functions.shop.payment_provider import PaymentProvider, ProviderRefundState, ProviderRejected, RefundOutcome
from functions.shop.refunds import (
    RefundPlan,
    get_order_unless_archiving,
    get_payment,
    plan_refunds,
    reason_of_owed,
    save_or_check_order,
)
from functions.shop.shop import Caller, ShopContext, require_found, retries_on_conflict

PROVIDER_CALLER_ID = "payment-provider"
"""The caller id of commands that record an event of the payment provider. Their idempotency key is the event's id."""
KEY_LIFETIME = timedelta(hours=20)
"""How long a refund request may be repeated under its idempotency key without any further check.

After this time, the provider may have deleted the idempotency key. So the shop first asks whether the provider already
has the refund. The provider deletes these keys after at least 24 hours: https://docs.stripe.com/api/idempotent_requests
"""

PAY_BACK_BY_HAND = "pay it back by hand, and settle the refund"
"""The error of each refund of an offline payment: the provider does not know the payment, so staff pay it back."""


# process a refund -----------------------------------------------------------------------------------------------------
@retries_on_conflict
def process_refund(shop: ShopContext, provider: PaymentProvider, order_id: str, refund_id: str) -> Refund | None:
    """Send a requested refund to the provider or a credit account, and return the refund with its new status.

    That is SUCCEEDED, FAILED, or SENT if the provider reports the result later. Returns None if the refund does not
    exist or is not REQUESTED. Safe to repeat, even if the provider's answer was lost. If the payment is disputed, or
    has less money left than the refund needs, the refund becomes FAILED, unless the provider has it from an earlier
    call. Before a refund to a credit account, the money of other refunds in progress counts as gone. Temporary errors
    of the provider are raised unchanged. Raises NotFound if the payment does not exist.
    """
    refund = shop.table.get(REFUND_BY_ID, order_id=order_id, refund_id=refund_id)
    if refund is None or refund.status != "REQUESTED":
        return None
    payment = get_payment(shop, order_id, refund.payment_id)
    after, writes = _try_refund(shop, provider, refund, payment)
    shop.table.write(*writes, *_adjust_order(shop, refund, after, payment, must_check=False))
    return after


def _try_refund(
    shop: ShopContext, provider: PaymentProvider, refund: Refund, payment: Payment
) -> tuple[Refund, list[Write[Any]]]:
    """Send a refund to the provider, or build the writes of a refund to a credit account. The table is not written.

    Returns the refund with its new status, and the writes that store this result, with those of the account.
    """
    if refund.account_id is None and payment.is_offline:
        return _apply_refund_state(shop, refund, payment, ProviderRefundState(None, "failed", PAY_BACK_BY_HAND))
    if refund.account_id is None:
        block_reason = _block_reason(payment, refund.amount)
        try:
            return _apply_refund_state(shop, refund, payment, _send_to_provider(shop, provider, refund, block_reason))
        except ProviderRejected as rejection:
            return _apply_refund_state(shop, refund, payment, ProviderRefundState(None, "failed", rejection.code))
    if block_reason := _block_reason(payment, refund.amount, _taken_by_others(shop, refund, payment)):
        return _apply_refund_state(shop, refund, payment, ProviderRefundState(None, "failed", block_reason))
    try:
        credit = credit_account(
            shop,
            refund.account_id,
            refund.amount,
            "REFUNDED",
            currency=refund.currency,
            customer_id=refund.customer_id,
            order_id=refund.order_id,
        )
    except NotFound:
        return _apply_refund_state(
            shop,
            refund,
            payment,
            ProviderRefundState(None, "failed", "the customer of the store credit does not exist any more"),
        )
    except (CommandRejected, InvalidInput) as rejection:
        return _apply_refund_state(shop, refund, payment, ProviderRefundState(None, "failed", str(rejection)))
    after, writes = _apply_refund_state(shop, refund, payment, ProviderRefundState(None, "succeeded"))
    return after, [*writes, *credit]


def _taken_by_others(shop: ShopContext, refund: Refund, payment: Payment) -> int:
    """Return the money that other refunds will take from the payment. The provider may have paid one already.

    The provider itself pays no more than the payment has. The shop must know before it pays in another way.
    """
    refunds = shop.table.query_all(REFUNDS_OF_ORDER, order_id=refund.order_id)
    return refunds_on_their_way(payment, [it for it in refunds if it.refund_id != refund.refund_id])


def _block_reason(payment: Payment, amount: int, taken: int = 0) -> str:
    """Return the reason why this amount of the payment cannot be refunded now, or "" if it can be refunded.

    `taken`: the money of the payment that other refunds will take.
    """
    if payment.is_disputed:
        return "the customer's bank disputes the payment"
    if amount <= payment.remaining - taken:
        return ""
    if amount <= payment.remaining:
        return "another refund in progress takes the money of the payment"
    if payment.gone > payment.refunded:
        return "the customer's bank has taken the payment back"
    return "the payment was refunded at the payment provider"


def _send_to_provider(
    shop: ShopContext, provider: PaymentProvider, refund: Refund, block_reason: str
) -> ProviderRefundState:
    """Send the refund to the provider if the provider does not have it yet. Return the refund's state at the provider.

    `block_reason`: why the payment cannot be refunded now, or "" if it can. An earlier request may have succeeded
    although its answer was lost. Normally, the function repeats the request, and the provider recognizes the
    idempotency key. In two cases, it first searches the provider's refunds of this payment:
    - The key is so old that the provider may have deleted it (KEY_LIFETIME). If it finds nothing, it sends the refund.
    - The payment cannot be refunded now. If it finds nothing, the returned state is "failed".
    """
    metadata = {"order_id": refund.order_id, "refund_id": refund.refund_id, "attempt": str(refund.attempt)}
    if block_reason or shop.now() - datetime.fromisoformat(refund.updated_at) > KEY_LIFETIME:
        for known in provider.refunds_of(refund.payment_id):
            if metadata.items() <= (known.metadata or {}).items():
                return known
    if block_reason:
        return ProviderRefundState(None, "failed", block_reason)
    key = f"{refund.refund_id}-{refund.attempt}"
    return provider.refund(key=key, payment_id=refund.payment_id, amount=refund.amount, metadata=metadata)


# record the provider's updates of refunds -----------------------------------------------------------------------------
@dataclass(frozen=True)
class ProviderRefundEvent:
    """An event of the payment provider about a refund.

    `attempt`: the number of the attempt to send the refund. The shop sent this number to the provider with the refund.
    """

    event_id: str
    order_id: str
    refund_id: str
    attempt: int
    provider_id: str
    status: RefundOutcome
    reason: str | None = None


def record_refund(shop: ShopContext, event: ProviderRefundEvent) -> IdempotentResult:
    """Record the provider's update of a refund. Safe to repeat: an event id is recorded only once.

    An update changes nothing if the refund has the reported or a later status, or if it is about an earlier attempt. If
    a refund fails after it had succeeded, the provider has returned the money to the shop. The payment's refunded
    amount is then reduced, and staff can retry the refund, unless the customer's bank has taken the payment back.

    The result is {"refund_id", "status", "reason"}; `status` is None if the refund does not exist. Raises TableBusy if
    a refund that had succeeded fails while the order is being archived. The provider then sends the event again.
    """

    def decide(shop: ShopContext) -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        refund = shop.table.get(REFUND_BY_ID, order_id=event.order_id, refund_id=event.refund_id)
        if refund is None:
            return [], {"refund_id": event.refund_id, "status": None, "reason": "the refund does not exist"}
        return apply_refund_event(shop, refund, event)

    return run_idempotently(shop, PROVIDER_CALLER_ID, event.event_id, "record_refund", asdict(event), decide)


def apply_refund_event(
    shop: ShopContext, refund: Refund, event: ProviderRefundEvent
) -> tuple[Sequence[Write[Any]], dict[str, Any]]:
    """Return the writes that record the provider's update of a stored refund, and the result of `record_refund`."""
    after: Refund = refund
    writes: list[Write[Any]] = [check_unchanged(REFUND, refund)]
    if event.attempt == refund.attempt:
        payment = get_payment(shop, refund.order_id, refund.payment_id)
        try:
            state = ProviderRefundState(event.provider_id, event.status, event.reason)
            after, writes = _apply_refund_state(shop, refund, payment, state)
        except WrongState:  # the refund already has the reported status or a later status: ignore the event
            pass
        else:
            # If a refund that had succeeded fails now, the transaction changes the order's payment. The order must not
            # be archived at the same time. A refund in progress prevents archiving, but a refund that succeeded long
            # ago does not. So in this case, the transaction checks that archiving of the order does not start.
            writes = [*writes, *_adjust_order(shop, refund, after, payment, must_check=refund.status == "SUCCEEDED")]
    return writes, {"refund_id": after.refund_id, "status": after.status, "reason": after.reason}


def _adjust_order(
    shop: ShopContext, refund: Refund, after: Refund, payment: Payment, *, must_check: bool
) -> list[Write[Any]]:
    """Return the writes that adjust the order if a refund moved more money than its payment had, or moved it back.

    `refund`, `after`: the refund before and after the move. `payment`: the payment before. `must_check`: whether the
    transaction must fail if the order changes meanwhile.
    """
    moved = replace(payment, refunded=payment.refunded + _moved_amount(refund, after))
    if max(payment.gone, moved.gone) <= payment.amount and not must_check:
        return []
    order = get_order_unless_archiving(shop, refund.order_id)
    refunds = list(shop.table.query_all(REFUNDS_OF_ORDER, order_id=refund.order_id))
    others = [it for it in refunds if it.refund_id != refund.refund_id]
    changed, _ = count_withdrawal(order, payment, moved, [*others, refund], [*others, after])
    plan = RefundPlan()
    if isinstance(order, Order) and isinstance(changed, Order):  # what is owed again may come from another payment
        plan = plan_refunds(shop, changed, max(0, changed.owed - order.owed), reason_of_owed(changed))
        changed = replace(changed, refunded=changed.refunded + plan.amount, owed=changed.owed - plan.amount)
    return [*plan.writes, *save_or_check_order(shop, refund.order_id, order, changed)]


def _moved_amount(refund: Refund, after: Refund) -> int:
    """Return the amount that left the payment when the refund changed; negative if the money came back."""
    return (after.has_left - refund.has_left) * refund.amount


def _apply_refund_state(
    shop: ShopContext, refund: Refund, payment: Payment, state: ProviderRefundState
) -> tuple[Refund, list[Write[Any]]]:
    """Apply the provider's state to a refund. Return it, and the writes of it and its payment. Raises WrongState."""
    now = shop.now_instant()
    named = replace(refund, provider_id=state.provider_id or refund.provider_id, reason=state.reason)
    if state.status == "pending":
        after = apply_refund_command(named, "send", now)
        return after, [update(REFUND, refund, after)]
    after = apply_refund_command(named, "succeed" if state.status == "succeeded" else "fail", now)
    writes: list[Write[Any]] = [update(REFUND, refund, after)]
    if not (amount := _moved_amount(refund, after)):
        # The refund has failed, or its money had left before. When the shop wins a dispute of the payment, the shop
        # retries the payment's failed refunds. If the shop wins a dispute at this moment, that retry does not see this
        # refund. So add a check that fails the transaction if the payment has changed since it was read.
        return after, [*writes, check_unchanged(PAYMENT, payment)]
    return after, [*writes, count_refund(shop, payment, amount)]


def count_refund(shop: ShopContext, payment: Payment, amount: int) -> Write[Payment]:
    """Return the write that adds `amount` to the refunded amount of the payment. `amount`: negative to subtract."""
    counted = replace(payment, refunded=payment.refunded + amount)
    return update(PAYMENT, payment, apply_money_change(payment, counted, shop.now_instant()))


# settle a refund by hand ----------------------------------------------------------------------------------------------
def settle_refund(
    shop: ShopContext, caller: Caller, key: str, order_id: str, refund_id: str, reason: str
) -> IdempotentResult:
    """Record that a failed refund was paid outside the shop, for example by bank transfer. Only staff may call it.

    Use it if neither the original payment method nor store credit can take the money. The refund becomes SETTLED for
    ever, and the amount counts as refunded in the payment. The shop moves no money. `key`: the idempotency key.
    `reason`: how the refund was paid. The result is {"order_id", "refund_id", "status", "amount", "currency",
    "reason"}.

    Raises WrongState if the refund has not failed, if the payment is disputed, or if it has less money left than the
    refund needs, after the refunds in progress: the customer could get the money twice. Also raises NotAllowed,
    NotFound, IdempotencyKeyReused and TableBusy.
    """
    caller.require_group("staff")
    request = {"order_id": order_id, "refund_id": refund_id, "reason": reason}

    def decide(shop: ShopContext) -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        order = get_order_unless_archiving(shop, order_id)
        refund = require_found(shop.table.get(REFUND_BY_ID, order_id=order_id, refund_id=refund_id), "refund")
        payment = get_payment(shop, order_id, refund.payment_id)
        after = replace(apply_refund_command(refund, "settle", shop.now_instant()), reason=reason)
        if _block_reason(payment, refund.amount, _taken_by_others(shop, refund, payment)):
            raise WrongState("payment", payment.status, "settle")
        result = {**request, "status": after.status, "amount": after.amount, "currency": after.currency}
        writes: list[Write[Any]] = [update(REFUND, refund, after), count_refund(shop, payment, refund.amount)]
        return [*writes, *save_or_check_order(shop, order_id, order, order)], result

    return run_idempotently(shop, caller.id, key, "settle_refund", request, decide)
