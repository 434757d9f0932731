"""Decide refunds: a Refund item is written with the decision, and a reaction sends the money later.

The refundable rest of a payment is its amount minus all its refunds. Failed refunds count too: they are retried, or
sent elsewhere. Every command that adds a refund writes the order in the same transaction, so two commands never refund
the same money. Money that counts for no order is guarded by the refund's id, which contains its number.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from functions.dynamodb.patience import TableBusy
from functions.dynamodb.store import QueryPage
from functions.dynamodb.writes import Write, WriteConflict, check_absent, check_unchanged, put_if_absent, update
from functions.model.entities import ArchivedOrder, Order, Payment, Refund, RefundReason
from functions.model.errors import NotFound, TooMuch, WrongState
from functions.model.patterns import (
    CUSTOMER_BY_ID,
    ORDER_BY_ID,
    PAYMENT_BY_ID,
    PAYMENTS_OF_ORDER,
    REFUND_BY_ID,
    REFUNDS_OF_ORDER,
)
from functions.model.states import apply_order_command, apply_refund_command
from functions.model.table import ARCHIVED_ORDER, ORDER, PAYMENT, REFUND
from functions.shop.accounts import require_positive, store_credit_account_id
from functions.shop.keyed import IdempotentResult, run_idempotently
from functions.shop.orders import get_order, get_unarchived_order, require_unarchived
from functions.shop.shop import Caller, Shop, retry_on_conflict

MAX_PAYMENTS = 5
"""The most payments of one order. The transaction that ends the order must have room to refund all of them."""
ARCHIVING_RETRY_SECONDS = 60
RefundDestination = Literal["original", "credit"]
"""Where the money goes: to the original payment method, or to the customer's store credit."""


# planning refunds, for the caller's transaction -----------------------------------------------------------------------
@dataclass(frozen=True)
class RefundPlan:
    """The refunds to write.

    `owed`: the part of the requested amount that cannot be refunded yet, because its payments are disputed.
    """

    refunds: tuple[Refund, ...] = ()
    owed: int = 0

    @property
    def writes(self) -> tuple[Write[Refund], ...]:
        return tuple(put_if_absent(REFUND, refund) for refund in self.refunds)

    @property
    def amount(self) -> int:
        return sum(refund.amount for refund in self.refunds)


def plan_refunds(shop: Shop, order: Order, amount: int, why: RefundReason, account_id: str | None = None) -> RefundPlan:
    """Plan how to refund this amount of an order's payments, the latest payment first.

    Each refund goes to the original payment method, or all go to one credit account. Makes two consistent queries, and
    none if nothing was paid.
    """
    if not order.paid or not amount:
        return RefundPlan()
    refunds = tuple(
        build_refund(shop, payment, part, why, number=number, customer_id=order.customer_id, account_id=account_id)
        for payment, part, number in _allocate_to_payments(shop, order, amount)
    )
    return RefundPlan(refunds, amount - sum(refund.amount for refund in refunds))


def _allocate_to_payments(shop: Shop, order: Order, amount: int) -> Iterator[tuple[Payment, int, int]]:
    """Split the amount over the payments. Yield each payment, its share, and the number of its next refund."""
    refunds = list(shop.table.query_all(REFUNDS_OF_ORDER, order_id=order.order_id))
    payments = [p for p in shop.table.query_all(PAYMENTS_OF_ORDER, order_id=order.order_id) if p.status == "CAPTURED"]
    for payment in sorted(payments, key=lambda payment: (payment.created_at, payment.payment_id), reverse=True):
        rest, number = compute_refundable(payment, refunds)
        if part := min(amount, rest):
            amount -= part
            yield payment, part, number


def compute_refundable(payment: Payment, refunds: Iterable[Refund]) -> tuple[int, int]:
    """Return the amount of a payment that has no refund yet, and the number of its next refund.

    `refunds`: all refunds of its order.
    """
    before = [refund.amount for refund in refunds if refund.payment_id == payment.payment_id]
    return 0 if payment.is_charged_back else max(0, payment.amount - sum(before)), len(before) + 1


def build_refund(
    shop: Shop,
    payment: Payment,
    amount: int,
    why: RefundReason,
    *,
    number: int,
    customer_id: str | None,
    account_id: str | None = None,
) -> Refund:
    """Build refund `number` of a payment: to the original payment method, or to a credit account."""
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


def reset_for_retry(shop: Shop, refund: Refund, account_id: str | None) -> Refund:
    """Return a failed refund as requested again: to the original payment method, or to this account.

    Raises WrongState.
    """
    after = apply_refund_command(refund, "retry", shop.now_instant())
    return replace(after, account_id=account_id, attempt=refund.attempt + 1, provider_id=None, reason=None)


def has_max_payments(shop: Shop, order: Order) -> bool:
    """Return whether the order has as many payments as one transaction can refund.

    The answer holds as long as the version of the order does not change.
    """
    if not order.paid:
        return False
    payments = shop.table.query_all(PAYMENTS_OF_ORDER, order_id=order.order_id)
    return sum(payment.status in ("CAPTURED", "DISPUTED") for payment in payments) >= MAX_PAYMENTS


# the order and its payments -------------------------------------------------------------------------------------------
def get_order_unless_archiving(shop: Shop, order_id: str) -> Order | ArchivedOrder | None:
    """Return the order, its archive stub, or None.

    Raises TableBusy while the order is being archived, because its items are then being listed and deleted.
    """
    order = shop.table.get(ORDER_BY_ID, order_id=order_id)
    if isinstance(order, Order) and order.status == "ARCHIVING":
        raise TableBusy(ARCHIVING_RETRY_SECONDS)
    return order


def get_payment(shop: Shop, order_id: str, payment_id: str) -> Payment:
    """C2. Raises NotFound."""
    payment = shop.table.get(PAYMENT_BY_ID, order_id=order_id, payment_id=payment_id)
    if payment is None:
        raise NotFound("payment")
    return payment


def check_order_unchanged(order_id: str, order: Order | ArchivedOrder | None) -> Write[Any]:
    """Return a condition that fails the transaction if the order changed since it was read.

    Without it, an item could be written beside an order that is being archived, or a stub that is being restored.
    """
    if isinstance(order, Order):
        return check_unchanged(ORDER, order)
    if isinstance(order, ArchivedOrder):
        return check_unchanged(ARCHIVED_ORDER, order)
    key = ORDER.key(order_id=order_id)
    return check_absent(ORDER, key, condition_error=lambda found: WriteConflict(ORDER, key))


# commands for staff ---------------------------------------------------------------------------------------------------
def refund_order(
    shop: Shop, caller: Caller, key: str, order_id: str, amount: int, to: RefundDestination = "original"
) -> IdempotentResult:
    """Refund some of the money paid for an order, without a return (goodwill). For staff.

    Needs an idempotency key. Result: {"order_id", "amount", "currency", "refund_ids"}. Raises NotAllowed, NotFound,
    InvalidInput, WrongState, IdempotencyKeyReused, TooMuch(amount, the most that can be refunded: paid, not refunded,
    not owed and not disputed).
    """
    caller.require_group("staff")
    request = {"order_id": order_id, "amount": amount, "to": to}

    def decide() -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        require_positive(amount)
        order = get_unarchived_order(shop, order_id, "refund")
        after = apply_order_command(order, "refund", shop.now_instant())
        if amount > (kept := order.paid - order.refunded - order.owed):
            raise TooMuch("amount", kept)
        account_id = get_store_credit_account_id(shop, order.customer_id, order.currency) if to == "credit" else None
        plan = plan_refunds(shop, order, amount, "GOODWILL", account_id)
        if plan.owed:
            raise TooMuch("amount", plan.amount)
        after = replace(after, refunded=order.refunded + amount)
        return [update(ORDER, order, after), *plan.writes], _result(*plan.refunds)

    return run_idempotently(shop, caller.id, key, "refund_order", request, decide)


def refund_payment(shop: Shop, caller: Caller, key: str, order_id: str, payment_id: str) -> IdempotentResult:
    """Refund the rest of a payment that matched no order, to the original payment method. For staff.

    Needs an idempotency key. `order_id`: as stored with the payment, even if there is no such order. Result:
    {"order_id", "amount", "currency", "refund_ids"}. Raises NotAllowed, NotFound, IdempotencyKeyReused, TableBusy;
    WrongState if the payment counts for an order; TooMuch(amount, 0) if refunds of the whole amount exist already, also
    failed ones.
    """
    caller.require_group("staff")
    request = {"order_id": order_id, "payment_id": payment_id}

    def decide() -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        order = get_order_unless_archiving(shop, order_id)
        payment = get_payment(shop, order_id, payment_id)
        if payment.status != "UNMATCHED":
            raise WrongState("payment", payment.status, "refund")
        rest, number = compute_refundable(payment, shop.table.query_all(REFUNDS_OF_ORDER, order_id=order_id))
        if not rest:
            raise TooMuch("amount", 0)
        customer_id = order.customer_id if order else None
        refund = build_refund(shop, payment, rest, "UNMATCHED", number=number, customer_id=customer_id)
        return [put_if_absent(REFUND, refund), check_order_unchanged(order_id, order)], _result(refund)

    return run_idempotently(shop, caller.id, key, "refund_payment", request, decide)


def retry_refund(
    shop: Shop, caller: Caller, order_id: str, refund_id: str, to: RefundDestination = "original"
) -> Refund:
    """Retry a failed refund: to the original payment method, or to the customer's store credit. For staff.

    Repeatable while the retry is in progress. Raises NotAllowed, NotFound, TableBusy. Raises WrongState of the refund
    if it did not fail. Raises WrongState of the payment if the customer's bank took it back or disputes it. After a won
    dispute the refund is retried automatically.
    """
    caller.require_group("staff")

    def attempt() -> Refund:
        order = get_order_unless_archiving(shop, order_id)
        before = shop.table.get(REFUND_BY_ID, order_id=order_id, refund_id=refund_id)
        if before is None:
            raise NotFound("refund")
        payment = get_payment(shop, order_id, before.payment_id)
        account_id = payment.account_id
        if to == "credit":
            account_id = get_store_credit_account_id(shop, before.customer_id, before.currency)
        if before.status == "REQUESTED" and before.attempt > 1 and before.account_id == account_id:
            return before
        after = reset_for_retry(shop, before, account_id)
        if payment.is_charged_back or payment.is_disputed:
            raise WrongState("payment", payment.status, "refund")
        shop.table.write(
            update(REFUND, before, after), check_unchanged(PAYMENT, payment), check_order_unchanged(order_id, order)
        )
        return after

    return retry_on_conflict(shop, attempt)


def _result(*refunds: Refund) -> dict[str, Any]:
    """Return the decision as JSON."""
    return {
        "order_id": refunds[0].order_id,
        "amount": sum(refund.amount for refund in refunds),
        "currency": refunds[0].currency,
        "refund_ids": [refund.refund_id for refund in refunds],
    }


def get_store_credit_account_id(shop: Shop, customer_id: str | None, currency: str) -> str:
    """Return the account id of the customer's store credit. Raises NotFound if the customer does not exist any more."""
    if customer_id is None or shop.table.get(CUSTOMER_BY_ID, customer_id=customer_id) is None:
        raise NotFound("customer")
    return store_credit_account_id(shop, customer_id, currency)


# reading --------------------------------------------------------------------------------------------------------------
def list_refunds_of_order(
    shop: Shop, caller: Caller, order_id: str, limit: int, after: str | None
) -> QueryPage[Refund]:
    """List the refunds of an order's payments, by refund id. For its customer and staff.

    Staff also see the refunds beside an archive stub, or under an order id that does not exist. Others get NotFound, or
    WrongState if the order is archived together with its refunds.
    """
    if "staff" not in caller.groups:
        require_unarchived(get_order(shop, caller, order_id), "show its refunds")
    return shop.table.query(REFUNDS_OF_ORDER, order_id=order_id, limit=limit, after=after)
