"""Money out: what is given back is a Refund item, written with the decision; a reaction brings it where it goes.

What may be refunded of a payment is its amount less all its refunds, failed ones too (these are tried again, or sent
elsewhere). Whoever adds a refund writes the order in the same transaction, so that two never give back the same money;
money that counts for no order is guarded by the refund's id, which is made of its number.
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
"""In so many parts an order is paid at most, so that all of them can be given back in the transaction that ends it."""
ARCHIVING_RETRY_SECONDS = 60
RefundDestination = Literal["original", "credit"]
"""Where money goes: back to where it came from, or onto the customer's store credit."""


# deciding, within the transaction of whoever decides ------------------------------------------------------------------
@dataclass(frozen=True)
class RefundPlan:
    """The refunds that give money back, to be written. `owed`: what was asked for beyond them, of disputed payments."""

    refunds: tuple[Refund, ...] = ()
    owed: int = 0

    @property
    def writes(self) -> tuple[Write[Refund], ...]:
        return tuple(put_if_absent(REFUND, refund) for refund in self.refunds)

    @property
    def amount(self) -> int:
        return sum(refund.amount for refund in self.refunds)


def plan_refunds(shop: Shop, order: Order, amount: int, why: RefundReason, account_id: str | None = None) -> RefundPlan:
    """Give back so much of what was paid for an order: the latest payment first, each to where it came from, or all to
    one credit account. Two consistent queries, none where nothing was paid."""
    if not order.paid or not amount:
        return RefundPlan()
    refunds = tuple(
        build_refund(shop, payment, part, why, number=number, customer_id=order.customer_id, account_id=account_id)
        for payment, part, number in _allocate_to_payments(shop, order, amount)
    )
    return RefundPlan(refunds, amount - sum(refund.amount for refund in refunds))


def _allocate_to_payments(shop: Shop, order: Order, amount: int) -> Iterator[tuple[Payment, int, int]]:
    """What each payment gives of an amount, and the number of its next refund."""
    refunds = list(shop.table.query_all(REFUNDS_OF_ORDER, order_id=order.order_id))
    payments = [p for p in shop.table.query_all(PAYMENTS_OF_ORDER, order_id=order.order_id) if p.status == "CAPTURED"]
    for payment in sorted(payments, key=lambda payment: (payment.created_at, payment.payment_id), reverse=True):
        rest, number = compute_refundable(payment, refunds)
        if part := min(amount, rest):
            amount -= part
            yield payment, part, number


def compute_refundable(payment: Payment, refunds: Iterable[Refund]) -> tuple[int, int]:
    """What of a payment nobody has decided to give back yet, and the number of its next refund, by all refunds of its
    order."""
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
    """A refund of so much of a payment, its `number`th: to where it came from, or to a credit account."""
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
    """A refund that failed, on its way anew: to where the money came from, or to this account. Raises WrongState."""
    after = apply_refund_command(refund, "retry", shop.now_instant())
    return replace(after, account_id=account_id, attempt=refund.attempt + 1, provider_id=None, reason=None)


def has_max_payments(shop: Shop, order: Order) -> bool:
    """Whether an order counts as many payments as can be given back at once. The order's version guards the answer."""
    if not order.paid:
        return False
    payments = shop.table.query_all(PAYMENTS_OF_ORDER, order_id=order.order_id)
    return sum(payment.status in ("CAPTURED", "DISPUTED") for payment in payments) >= MAX_PAYMENTS


# what lies beside an order --------------------------------------------------------------------------------------------
def get_order_unless_archiving(shop: Shop, order_id: str) -> Order | ArchivedOrder | None:
    """The order that money is for, its stub, or none. Raises Busy while what it owns is being listed and deleted."""
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
    """Let the transaction hold only if the order is still as it was read: what is written beside it may be going away,
    and a stub may be restored."""
    if isinstance(order, Order):
        return check_unchanged(ORDER, order)
    if isinstance(order, ArchivedOrder):
        return check_unchanged(ARCHIVED_ORDER, order)
    key = ORDER.key(order_id=order_id)
    return check_absent(ORDER, key, condition_error=lambda found: WriteConflict(ORDER, key))


# commands of staff ----------------------------------------------------------------------------------------------------
def refund_order(
    shop: Shop, caller: Caller, key: str, order_id: str, amount: int, to: RefundDestination = "original"
) -> IdempotentResult:
    """Give back some of what was paid for an order, without a return: out of goodwill. Keyed. For staff.

    Result: {"order_id", "amount", "currency", "refund_ids"}. Raises NotAllowed, NotFound, Invalid, WrongState,
    KeyReused, TooMuch(amount, how much is kept, not owed already and not disputed).
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
    """Give back all that is left of money that matched no order, to where it came from. Keyed. For staff.

    `order_id`: as the payment has it, whether there is such an order or not. Result: {"order_id", "amount", "currency",
    "refund_ids"}. Raises NotAllowed, NotFound, KeyReused, Busy; WrongState for money that counts for an order, and
    TooMuch(amount, 0) where all of it is given back, or tried to be, already.
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
    """Try a refund again that failed, to where the money came from, or to the customer's store credit. For staff.

    Repeatable while it is on its way again. Raises NotAllowed, NotFound, Busy, WrongState: of the refund where it did
    not fail, of the payment where the customer's bank has taken it, or disputes it: then the refund is tried again by
    itself once the dispute is won.
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
    """The JSON of what was decided."""
    return {
        "order_id": refunds[0].order_id,
        "amount": sum(refund.amount for refund in refunds),
        "currency": refunds[0].currency,
        "refund_ids": [refund.refund_id for refund in refunds],
    }


def get_store_credit_account_id(shop: Shop, customer_id: str | None, currency: str) -> str:
    """The account of somebody's store credit; raises NotFound where nobody is known any more who could spend it."""
    if customer_id is None or shop.table.get(CUSTOMER_BY_ID, customer_id=customer_id) is None:
        raise NotFound("customer")
    return store_credit_account_id(shop, customer_id, currency)


# reading --------------------------------------------------------------------------------------------------------------
def list_refunds_of_order(
    shop: Shop, caller: Caller, order_id: str, limit: int, after: str | None
) -> QueryPage[Refund]:
    """What is given back of an order's payments, by refund id. For its customer; staff sees also what lies beside a
    stub, or where no such order is. Raises NotFound; WrongState where the order is archived, with its refunds."""
    if "staff" not in caller.groups:
        require_unarchived(get_order(shop, caller, order_id), "show its refunds")
    return shop.table.query(REFUNDS_OF_ORDER, order_id=order_id, limit=limit, after=after)
