"""Decide refunds, and write a Refund item for each refund. The module refund_processing sends the money later.

The module order_money calculates how much of a payment can still be refunded. Failed refunds are subtracted too,
because they may still be retried or sent to another destination.

Two concurrent commands must never refund the same money. If a payment is included in an order's paid amount, each
command that adds a refund also writes the order, with a condition on the order's version. So one of the two commands
fails. If a payment is UNMATCHED (it belongs to no order), both commands create a refund with the same id. The write
requires that the id is new, so one of the two commands fails.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from functions.dynamodb.errors import TableBusy
from functions.dynamodb.writes import Write, check_absent, check_unchanged, put_if_absent, update
from functions.model.entities import ArchivedOrder, Order, Payment, Refund, RefundCause, RefundReason
from functions.model.errors import InvalidInput, NotFound, TooMuch, WrongState
from functions.model.money import CURRENCIES
from functions.model.patterns import (
    CUSTOMER_BY_ID,
    KEPT_EVENTS_OF_PAYMENT,
    ORDER_BY_ID,
    PAYMENT_BY_ID,
    PAYMENTS_OF_ORDER,
    REFUND_BY_ID,
    REFUNDS_OF_ORDER,
)
from functions.model.states import apply_order_command, apply_payment_command, apply_refund_command
from functions.model.table import ARCHIVED_ORDER, KEPT_EVENT, ORDER, PAYMENT, REFUND
from functions.shop.accounts import require_positive, store_credit_account_id
from functions.shop.idempotency import IdempotentResult, run_idempotently
from functions.shop.lists import ListPage, ListRequest
from functions.shop.order_money import OrderOrStub, compute_refundable, count_credit, save_order_money
from functions.shop.orders import get_order_or_none, get_unarchived_order, list_items_of_order, save_order
from functions.shop.shop import Caller, ShopContext, require_found, require_registered, retries_on_conflict

MAX_PAYMENTS = 5
"""The maximum number of payments of one order.

The limit exists because one transaction must be able to cancel the order and refund all its payments.
"""
ARCHIVING_RETRY_SECONDS = 60
RefundDestination = Literal["original", "credit"]
"""The destination of a refund: the original payment method, or the customer's store credit."""


@dataclass(frozen=True)
class Explanation:
    """Why staff refund money, in words for the customer: a cause, and a note that may have personal data."""

    cause: RefundCause | None = None
    note: str | None = None

    @property
    def given(self) -> dict[str, str]:
        """The given values by name. A request without them has the same fingerprint as before these fields existed."""
        return {name: value for name, value in asdict(self).items() if value is not None}


UNEXPLAINED = Explanation()


# planning refunds: these functions build Refund items, and the caller stores them in its transaction ------------------
@dataclass(frozen=True)
class RefundPlan:
    """The refunds that a command must write. `owed`: what cannot be refunded yet, because the payments are disputed."""

    refunds: tuple[Refund, ...] = ()
    owed: int = 0

    @property
    def writes(self) -> tuple[Write[Refund], ...]:
        return tuple(put_if_absent(REFUND, refund) for refund in self.refunds)

    @property
    def amount(self) -> int:
        return sum(refund.amount for refund in self.refunds)


def plan_refunds(
    shop: ShopContext,
    order: Order,
    amount: int,
    why: RefundReason,
    account_id: str | None = None,
    explanation: Explanation = UNEXPLAINED,
) -> RefundPlan:
    """Plan how to refund this amount from an order's payments, the latest payment first. Nothing is written.

    `amount`: in minor units. `account_id`: the credit account that gets all refunds; if it is None, each refund goes to
    the original payment method. The queries are strongly consistent. If nothing was paid or `amount` is 0, none is
    sent.
    """
    if not order.paid or not amount:
        return RefundPlan()
    refunds = tuple(
        replace(
            build_refund(shop, payment, part, why, number=number, customer_id=order.customer_id, account_id=account_id),
            cause=explanation.cause,
            note=explanation.note,
        )
        for payment, part, number in _allocate_to_payments(shop, order, amount)
    )
    return RefundPlan(refunds, amount - sum(refund.amount for refund in refunds))


def _allocate_to_payments(shop: ShopContext, order: Order, amount: int) -> Iterator[tuple[Payment, int, int]]:
    """Split an amount to refund over an order's payments, the latest payment first.

    Yields each payment, the amount of its refund, and the refund's number among the payment's refunds, from 1. The
    clocks of Lambdas differ a little, so payments of nearly the same moment may be in another sequence. This changes no
    sum.
    """
    refunds = list(shop.table.query_all(REFUNDS_OF_ORDER, order_id=order.order_id))
    payments = [p for p in shop.table.query_all(PAYMENTS_OF_ORDER, order_id=order.order_id) if p.status == "CAPTURED"]
    for payment in sorted(payments, key=lambda payment: (payment.created_at, payment.payment_id), reverse=True):
        rest, number = compute_refundable(payment, refunds)
        if part := min(amount, rest):
            amount -= part
            yield payment, part, number


def reason_of_owed(order: Order) -> RefundReason:
    """Return why the shop owes money of the order, which it refunds as soon as a payment can be refunded."""
    closed: dict[str, RefundReason] = {"CANCELLED": "CANCELLED", "LAPSED": "LAPSED"}
    return closed.get(order.status, "RETURNED")


def build_refund(
    shop: ShopContext,
    payment: Payment,
    amount: int,
    why: RefundReason,
    *,
    number: int,
    customer_id: str | None,
    account_id: str | None = None,
) -> Refund:
    """Return a new Refund item for a payment. Nothing is written. `number`: among the payment's refunds, from 1.

    If `account_id` is None, the refund goes to the credit account that paid, or to the card.
    """
    now = shop.now_instant()
    return Refund(
        order_id=payment.order_id,
        refund_id=f"{payment.payment_id}-{number}",
        payment_id=payment.payment_id,
        status="REQUESTED",
        amount=amount,
        currency=payment.currency,
        why=why,
        customer_id=customer_id,
        account_id=account_id or payment.account_id,
        created_at=now,
        updated_at=now,
    )


def reset_for_retry(shop: ShopContext, refund: Refund, account_id: str | None, remaining: int) -> Refund:
    """Return a failed refund with its status set back to REQUESTED. Raises WrongState if the refund has not failed.

    If `account_id` is None, the payment provider refunds the money, for example to the card. `remaining`: the money
    that is left of the payment, which limits the amount. Nothing is written.
    """
    after = apply_refund_command(refund, "retry", shop.now_instant())
    amount = min(refund.amount, remaining)
    return replace(
        after, account_id=account_id, amount=amount, attempt=refund.attempt + 1, provider_id=None, reason=None
    )


def has_max_payments(shop: ShopContext, order: Order) -> bool:
    """Return whether the order already has MAX_PAYMENTS captured or disputed payments.

    The caller's transaction must check that the order's version is unchanged: each payment that is added to a PENDING
    order also changes this version. The read is strongly consistent, because this check does not detect outdated
    payments.
    """
    if not order.paid:
        return False
    payments = shop.table.query_all(PAYMENTS_OF_ORDER, order_id=order.order_id)
    return sum(payment.status in ("CAPTURED", "DISPUTED") for payment in payments) >= MAX_PAYMENTS


# read the order and its payments --------------------------------------------------------------------------------------
def get_order_unless_archiving(shop: ShopContext, order_id: str) -> Order | ArchivedOrder | None:
    """Return the order, or the stub of an archived order, or None if neither exists.

    Raises TableBusy while the order is being archived: then no item of the order may be added or changed.
    """
    order = shop.table.get(ORDER_BY_ID, order_id=order_id)
    require_not_archiving(order)
    return order


def require_not_archiving(order: Order | ArchivedOrder | None) -> None:
    """Raise TableBusy if the order is being archived."""
    if isinstance(order, Order) and order.status == "ARCHIVING":
        raise TableBusy(ARCHIVING_RETRY_SECONDS)


def get_payment(shop: ShopContext, order_id: str, payment_id: str) -> Payment:
    """Return a payment of an order (access pattern C2). Raises NotFound."""
    return require_found(shop.table.get(PAYMENT_BY_ID, order_id=order_id, payment_id=payment_id), "payment")


def payment_result(payment: Payment) -> dict[str, Any]:
    """Return the payment's id, status and reason as a JSON object: the result of a command about this payment."""
    return {"payment_id": payment.payment_id, "status": payment.status, "reason": payment.reason}


def save_or_check_order(shop: ShopContext, order_id: str, before: OrderOrStub, after: OrderOrStub) -> list[Write[Any]]:
    """Return the writes of an order's changed amounts. If no amount changed, return a check of the order's version."""
    if isinstance(before, Order) and isinstance(after, Order) and before != after:
        return save_order_money(before, after, shop.now_instant())
    return [check_order_unchanged(order_id, before)]


def check_order_unchanged(order_id: str, order: OrderOrStub) -> Write[Any]:
    """Return a condition check that fails the transaction if the order, its stub or None has changed since the read.

    Otherwise, the order could be archived or restored while the transaction writes an item of it.
    """
    if isinstance(order, Order):
        return check_unchanged(ORDER, order)
    if isinstance(order, ArchivedOrder):
        return check_unchanged(ARCHIVED_ORDER, order)
    return check_absent(ORDER, ORDER.key(order_id=order_id))


# commands for staff ---------------------------------------------------------------------------------------------------
def refund_order(
    shop: ShopContext,
    caller: Caller,
    key: str,
    order_id: str,
    amount: int,
    to: RefundDestination = "original",
    explanation: Explanation = UNEXPLAINED,
) -> IdempotentResult:
    """Refund some of the money paid for an order, without a return (goodwill). Only staff may call it.

    `key`: the idempotency key. `amount`: in minor units. `explanation`: the customer's mail shows it. The result is
    {"order_id", "amount", "currency", "refund_ids"}.

    If `amount` is too high, raises TooMuch with the highest amount: without money that is refunded, disputed or owed.
    Also raises NotAllowed, NotFound, InvalidInput, WrongState and IdempotencyKeyReused.
    """
    caller.require_group("staff")
    request = {"order_id": order_id, "amount": amount, "to": to, **explanation.given}

    def decide(shop: ShopContext) -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        require_positive(amount)
        order = get_unarchived_order(shop, order_id, "refund")
        after = apply_order_command(order, "refund", shop.now_instant())
        if amount > order.kept:
            raise TooMuch("amount", order.kept)
        account_id = get_store_credit_account_id(shop, order.customer_id, order.currency) if to == "credit" else None
        plan = plan_refunds(shop, order, amount, "GOODWILL", account_id, explanation)
        if plan.owed:
            raise TooMuch("amount", plan.amount)
        after = count_credit(order, replace(after, refunded=order.refunded + amount), amount)
        return [*save_order(order, after), *plan.writes], _result(*plan.refunds)

    return run_idempotently(shop, caller.id, key, "refund_order", request, decide)


def refund_payment(
    shop: ShopContext,
    caller: Caller,
    key: str,
    order_id: str,
    payment_id: str,
    explanation: Explanation = UNEXPLAINED,
) -> IdempotentResult:
    """Refund an UNMATCHED payment, which belongs to no order: its amount minus all its earlier refunds. Only for staff.

    `key`: the idempotency key. `order_id`: the id stored with the payment, even if no order has this id. The money goes
    back to the original payment method. The result is {"order_id", "amount", "currency", "refund_ids"}.

    A payment with the amount 0 brought no money, for example because the provider had reported it for another order
    before. It becomes FAILED, so that it does not wait for staff any more. If the provider has reported only disputes
    or refunds of the payment, these leave the list of unmatched payments. If the money is reported later, they are
    applied anyway.

    Raises WrongState if the payment is not UNMATCHED, and TooMuch if its refunds, also the failed ones, already add up
    to its whole amount. Also raises NotAllowed, NotFound, IdempotencyKeyReused and TableBusy.
    """
    caller.require_group("staff")
    request = {"order_id": order_id, "payment_id": payment_id, **explanation.given}

    def decide(shop: ShopContext) -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        order = get_order_unless_archiving(shop, order_id)
        payment = shop.table.get(PAYMENT_BY_ID, order_id=order_id, payment_id=payment_id)
        if payment is None or payment.status in ("AUTHORISED", "FAILED"):
            return _close_unmatched_events(shop, order_id, payment_id, payment)
        if payment.status != "UNMATCHED":
            raise WrongState("payment", payment.status, "refund")
        if payment.amount < 1:
            closed = apply_payment_command(payment, "close", shop.now_instant())
            result = {"order_id": order_id, "amount": 0, "currency": payment.currency, "refund_ids": []}
            return [update(PAYMENT, payment, closed), check_order_unchanged(order_id, order)], result
        rest, number = compute_refundable(payment, list(shop.table.query_all(REFUNDS_OF_ORDER, order_id=order_id)))
        if not rest:
            raise TooMuch("amount", 0)
        customer_id = order.customer_id if order else None
        refund = build_refund(shop, payment, rest, "UNMATCHED", number=number, customer_id=customer_id)
        refund = replace(refund, cause=explanation.cause, note=explanation.note)
        # Staff may assign the payment to an order at this moment, so check that it is unchanged.
        checks = [check_unchanged(PAYMENT, payment), check_order_unchanged(order_id, order)]
        return [put_if_absent(REFUND, refund), *checks], _result(refund)

    return run_idempotently(shop, caller.id, key, "refund_payment", request, decide)


def _close_unmatched_events(
    shop: ShopContext, order_id: str, payment_id: str, payment: Payment | None
) -> tuple[Sequence[Write[Any]], dict[str, Any]]:
    """Return the writes that close the kept events of a payment that the provider has not reported.

    `payment`: if it was authorised or failed. If no such event waits for staff, raises WrongState with it, else
    NotFound.
    """
    kept = shop.table.query_all(KEPT_EVENTS_OF_PAYMENT, order_id=order_id, payment_id=payment_id)
    if not (waiting := [event for event in kept if event.unmatched]):
        raise NotFound("payment") if payment is None else WrongState("payment", payment.status, "refund")
    now = shop.now_instant()
    closed = [replace(it, unmatched=False, updated_at=now, version=it.version + 1) for it in waiting]
    result = {"order_id": order_id, "amount": 0, "currency": waiting[0].currency, "refund_ids": []}
    return [update(KEPT_EVENT, before, after) for before, after in zip(waiting, closed, strict=True)], result


@retries_on_conflict
def retry_refund(
    shop: ShopContext, caller: Caller, order_id: str, refund_id: str, to: RefundDestination = "original"
) -> Refund:
    """Retry a failed refund: to the original payment method, or to the customer's store credit. Only staff may call it.

    Safe to repeat while the retry is in progress. Only the money that is left of the payment is refunded. Raises
    WrongState if the refund has not failed, if no money is left, or if the payment is disputed: if the shop wins, the
    refund is retried automatically. Raises InvalidInput if the shop does not sell in the currency, NotAllowed, NotFound
    and TableBusy.
    """
    caller.require_group("staff")
    order = get_order_unless_archiving(shop, order_id)
    before = require_found(shop.table.get(REFUND_BY_ID, order_id=order_id, refund_id=refund_id), "refund")
    payment = get_payment(shop, order_id, before.payment_id)
    account_id = payment.account_id
    if to == "credit":
        account_id = get_store_credit_account_id(shop, before.customer_id, before.currency)
    if before.status == "REQUESTED" and before.attempt > 1 and before.account_id == account_id:
        return before
    after = reset_for_retry(shop, before, account_id, payment.remaining)
    if not payment.remaining or payment.is_disputed:
        raise WrongState("payment", payment.status, "refund")
    shop.table.write(
        update(REFUND, before, after), check_unchanged(PAYMENT, payment), check_order_unchanged(order_id, order)
    )
    return after


def _result(*refunds: Refund) -> dict[str, Any]:
    """Return the JSON result of a command that created these refunds: order id, total amount, currency, refund ids."""
    return {
        "order_id": refunds[0].order_id,
        "amount": sum(refund.amount for refund in refunds),
        "currency": refunds[0].currency,
        "refund_ids": [refund.refund_id for refund in refunds],
    }


def get_store_credit_account_id(shop: ShopContext, customer_id: str | None, currency: str) -> str:
    """Return the id of the customer's store credit account in this currency.

    Raises NotFound without such a customer, WrongState if the customer is a guest, and InvalidInput if the shop does
    not sell in this currency: nothing could be bought with such credit.
    """
    if currency not in CURRENCIES:
        raise InvalidInput(
            "to", f"must be original: {currency} is not a currency of this shop, so nobody could spend it"
        )
    customer = require_found(
        None if customer_id is None else shop.table.get(CUSTOMER_BY_ID, customer_id=customer_id), "customer"
    )
    require_registered(customer, "refund to credit")
    return store_credit_account_id(shop, customer.customer_id, currency)


# reading --------------------------------------------------------------------------------------------------------------
def list_refunds_of_order(shop: ShopContext, request: ListRequest, order_id: str) -> ListPage[Refund]:
    """Return the refunds of an order's payments, sorted by refund id. Only the order's customer and staff may call it.

    Staff also see those of an order id that does not exist. For customers, raises NotFound. Raises ArchiveUnavailable.
    """
    return list_items_of_order(
        shop, request, REFUNDS_OF_ORDER, order_id, get_order_or_none(shop, request.caller, order_id)
    )
