"""List the payments that match no order, and assign one of them to an order. Only staff may call these commands.

The provider keeps the order id of the payment as it was. So the payment's item under that order id stays, as a record
of FAILED with the amount 0: a repeated event of the provider then finds it and changes nothing, and no sum counts the
money twice. It looks like any payment whose money is recorded for another order. The money moves to a new item of the
other order, and the payment's claim names that order. So all later disputes and refunds find the payment there.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from functions.dynamodb.writes import Write, check_absent, put_if_absent, update
from functions.model.entities import KeptEvent, Order, Payment, PaymentClaim
from functions.model.errors import InvalidInput, TooManyPayments, WrongCurrency, WrongState
from functions.model.patterns import PAYMENT_BY_ID, PAYMENT_CLAIM_BY_ID, REFUNDS_OF_ORDER, UNMATCHED_PAYMENTS_BY_DATE
from functions.model.states import apply_order_command, apply_payment_command
from functions.model.table import PAYMENT, PAYMENT_CLAIM, REFUND
from functions.shop.idempotency import IdempotentResult, run_idempotently
from functions.shop.lists import ListPage, ListRequest, read_page
from functions.shop.orders import require_unarchived
from functions.shop.payments import apply_kept_events, count_towards_order
from functions.shop.refunds import MAX_PAYMENTS, check_order_unchanged, get_order_unless_archiving, get_payment
from functions.shop.shop import Caller, ShopContext
from functions.shop.started_payments import mark_outdated


def list_unmatched_payments_by_date(shop: ShopContext, request: ListRequest) -> ListPage[Payment | KeptEvent]:
    """Return the payments that match no order and came in the time range, oldest first (access pattern R5).

    Also the disputes and refunds of payments whose money is not reported yet. The index is eventually consistent.
    """
    request.caller.require_group("staff")
    return read_page(shop, request, UNMATCHED_PAYMENTS_BY_DATE, open_status="UNMATCHED")


def assign_payment(
    shop: ShopContext, caller: Caller, key: str, order_id: str, payment_id: str, to_order_id: str, reason: str
) -> IdempotentResult:
    """Assign an unmatched payment to an order that is not fully paid. The money counts as if it came for this order.

    `key`: the idempotency key. `order_id`: the id stored with the payment, even if no order has this id. `to_order_id`:
    the order that gets the money. Money above its due amount is refunded with the reason EXCESS. `reason`: why staff
    know the order, without personal data. The result is {"order_id", "payment_id", "amount", "currency", "due"}, of the
    new order.

    Raises WrongState if the payment is not UNMATCHED, if it brought no money, or if it is disputed or refunded, also
    partly or without success: send the rest back instead. Raises WrongState and TooManyPayments if the order takes no
    more money. Raises NotFound if only disputes or refunds of the payment are known. If the provider has reported the
    payment for the new order, too, close that record first. Also raises NotAllowed, InvalidInput, WrongCurrency,
    IdempotencyKeyReused and TableBusy.
    """
    caller.require_group("staff")
    request = {"order_id": order_id, "payment_id": payment_id, "to_order_id": to_order_id, "reason": reason}
    if to_order_id == order_id:
        raise InvalidInput("to_order_id", "must be another order: the payment has this order id, but does not match it")

    def decide(shop: ShopContext) -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        named_order = get_order_unless_archiving(shop, order_id)
        payment, now = get_payment(shop, order_id, payment_id), shop.now_instant()
        _require_assignable(shop, payment)
        order = _get_order_to_pay(shop, to_order_id, payment.currency)
        closed = replace(
            apply_payment_command(payment, "close", now),
            amount=0,
            uncounted=0,
            unmatched=False,
            reason=f"assigned to another order: {reason}",
        )
        known = shop.table.get(PAYMENT_BY_ID, order_id=to_order_id, payment_id=payment_id)
        start = known or replace(payment, order_id=to_order_id, status="AUTHORISED", events=None, version=0)
        moved = replace(
            apply_payment_command(start, "capture", now),
            amount=payment.amount,
            currency=payment.currency,
            disputes=payment.disputes,
            unmatched=False,
            reason=f"assigned by staff: {reason}",
        )
        counted, order_writes = count_towards_order(shop, order, moved)
        if counted.uncounted == counted.amount:
            raise TooManyPayments(MAX_PAYMENTS)
        result = {
            "order_id": to_order_id,
            "payment_id": payment_id,
            "amount": counted.amount,
            "currency": counted.currency,
            "due": order.total - order.paid - (counted.amount - counted.uncounted),
        }
        return [
            update(PAYMENT, payment, closed),
            put_if_absent(PAYMENT, counted) if known is None else update(PAYMENT, known, counted),
            _claim_for(shop, payment_id, to_order_id),
            check_absent(REFUND, REFUND.key(order_id=order_id, refund_id=f"{payment_id}-1")),
            check_order_unchanged(order_id, named_order),
            *order_writes,
            mark_outdated(shop, to_order_id),
        ], result

    done = run_idempotently(shop, caller.id, key, "assign_payment", request, decide)
    claim = shop.table.get(PAYMENT_CLAIM_BY_ID, payment_id=payment_id)
    if claim is not None and claim.kept_under is not None:
        apply_kept_events(shop, claim.kept_under, payment_id)
    return done


def _require_assignable(shop: ShopContext, payment: Payment) -> None:
    """Raise WrongState if the payment matches an order, has no money, or if some of its money may leave it."""
    if payment.status != "UNMATCHED":
        raise WrongState("payment", payment.status, "assign")
    if payment.amount < 1:
        raise WrongState("payment", "without money", "assign")
    refunds = shop.table.query_all(REFUNDS_OF_ORDER, order_id=payment.order_id)
    if payment.is_disputed or payment.gone or any(it.payment_id == payment.payment_id for it in refunds):
        raise WrongState("payment", "disputed or refunded", "assign")


def _get_order_to_pay(shop: ShopContext, order_id: str, currency: str) -> Order:
    order = require_unarchived(get_order_unless_archiving(shop, order_id), "pay")
    apply_order_command(order, "pay", shop.now_instant())  # only the error WrongState matters
    if order.currency != currency:
        raise WrongCurrency(order.currency, currency)
    return order


def _claim_for(shop: ShopContext, payment_id: str, order_id: str) -> Write[PaymentClaim]:
    """Return the write of the claim that names the new order. A payment from before the claims has none yet."""
    claim = shop.table.get(PAYMENT_CLAIM_BY_ID, payment_id=payment_id)
    if claim is None:
        made = PaymentClaim(payment_id=payment_id, order_id=order_id, created_at=shop.now_instant())
        return put_if_absent(PAYMENT_CLAIM, made)
    return update(PAYMENT_CLAIM, claim, replace(claim, order_id=order_id, version=claim.version + 1))
