"""Money out: what is given back is a Refund item, written with the decision; a reaction brings it where it goes.

What may be refunded of a payment is its amount less all its refunds, failed ones too (these are tried again, or sent
elsewhere). Whoever adds a refund writes the order in the same transaction, so that two never give back the same money;
money that counts for no order is guarded by the refund's id, which is made of its number.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from functions.dynamodb.patience import Busy
from functions.dynamodb.store import Page
from functions.dynamodb.writes import Changed, Write, absent, change, put, unchanged
from functions.model.entities import ArchivedOrder, Order, Payment, Refund, RefundReason
from functions.model.errors import NotFound, TooMuch, WrongState
from functions.model.patterns import A1, A12, C2, C3, A12c, A12d
from functions.model.states import moved, moved_refund
from functions.model.table import ARCHIVED_ORDER, ORDER, REFUND
from functions.shop.accounts import positive, store_credit_id
from functions.shop.keyed import Answer, once_per_key
from functions.shop.orders import open_order, opened, order_by_id
from functions.shop.shop import Caller, Shop, decided_again

MOST_PAYMENTS = 5
"""In so many parts an order is paid at most, so that all of them can be given back in the transaction that ends it."""
ARCHIVING_SECONDS = 60
To = Literal["original", "credit"]
"""Where money goes: back to where it came from, or onto the customer's store credit."""


# deciding, within the transaction of whoever decides ------------------------------------------------------------------
@dataclass(frozen=True)
class GivenBack:
    """The refunds that give money back, to be written: together less than asked where a payment is disputed."""

    refunds: tuple[Refund, ...] = ()

    @property
    def writes(self) -> tuple[Write[Refund], ...]:
        return tuple(put(REFUND, refund) for refund in self.refunds)

    @property
    def amount(self) -> int:
        return sum(refund.amount for refund in self.refunds)


def given_back(shop: Shop, order: Order, amount: int, why: RefundReason, account_id: str | None = None) -> GivenBack:
    """Give back so much of what was paid for an order: the latest payment first, each to where it came from, or all to
    one credit account. Two consistent queries, none where nothing was paid."""
    if not order.paid or not amount:
        return GivenBack()
    return GivenBack(
        tuple(
            requested(shop, payment, part, why, number=number, customer_id=order.customer_id, account_id=account_id)
            for payment, part, number in _parts(shop, order, amount)
        )
    )


def _parts(shop: Shop, order: Order, amount: int) -> Iterator[tuple[Payment, int, int]]:
    """What each payment gives of an amount, and the number of its next refund."""
    refunds = list(shop.table.every(A12d, order_id=order.order_id))
    payments = [p for p in shop.table.every(A12c, order_id=order.order_id) if p.status == "CAPTURED"]
    for payment in sorted(payments, key=lambda payment: (payment.created_at, payment.payment_id), reverse=True):
        rest, number = _left(payment, refunds)
        if part := min(amount, rest):
            amount -= part
            yield payment, part, number


def left_of(shop: Shop, payment: Payment) -> tuple[int, int]:
    """What of a payment nobody has decided to give back yet, and the number of its next refund. One query."""
    return _left(payment, shop.table.every(A12d, order_id=payment.order_id))


def _left(payment: Payment, refunds: Iterable[Refund]) -> tuple[int, int]:
    before = [refund.amount for refund in refunds if refund.payment_id == payment.payment_id]
    return max(0, payment.amount - sum(before)), len(before) + 1


def requested(
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
    now = shop.instant()
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


def takes_no_more(shop: Shop, order: Order) -> bool:
    """Whether an order counts as many payments as can be given back at once. The order's version guards the answer."""
    if not order.paid:
        return False
    payments = shop.table.every(A12c, order_id=order.order_id)
    return sum(payment.status in ("CAPTURED", "DISPUTED") for payment in payments) >= MOST_PAYMENTS


# what lies beside an order --------------------------------------------------------------------------------------------
def order_beside(shop: Shop, order_id: str) -> Order | ArchivedOrder | None:
    """The order that money is for, its stub, or none. Raises Busy while what it owns is being listed and deleted."""
    order = shop.table.get(A12, order_id=order_id)
    if isinstance(order, Order) and order.status == "ARCHIVING":
        raise Busy(ARCHIVING_SECONDS)
    return order


def as_read(order_id: str, order: Order | ArchivedOrder | None) -> Write[Any]:
    """Let the transaction hold only if the order is still as it was read: what is written beside it may be going away,
    and a stub may be restored."""
    if isinstance(order, Order):
        return unchanged(ORDER, order)
    if isinstance(order, ArchivedOrder):
        return unchanged(ARCHIVED_ORDER, order)
    key = ORDER.key(order_id=order_id)
    return absent(ORDER, key, refused=lambda found: Changed(ORDER, key))


# commands of staff ----------------------------------------------------------------------------------------------------
def refund_order(shop: Shop, caller: Caller, key: str, order_id: str, amount: int, to: To = "original") -> Answer:
    """Give back some of what was paid for an order, without a return: out of goodwill. Keyed. For staff.

    Result: {"order_id", "amount", "currency", "refund_ids"}. Raises NotAllowed, NotFound, Invalid, WrongState,
    KeyReused, TooMuch(amount, how much is kept and not disputed).
    """
    caller.must_be("staff")
    asked = {"order_id": order_id, "amount": amount, "to": to}

    def decide() -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        positive(amount)
        order = open_order(shop, order_id, "refund")
        after = moved(order, "refund", shop.instant())
        if amount > (kept := order.paid - order.refunded):
            raise TooMuch("amount", kept)
        account_id = store_credit_of(shop, order.customer_id, order.currency) if to == "credit" else None
        back = given_back(shop, order, amount, "GOODWILL", account_id)
        if back.amount < amount:
            raise TooMuch("amount", back.amount)
        after = replace(after, refunded=order.refunded + amount)
        return [change(ORDER, order, after), *back.writes], _result(*back.refunds)

    return once_per_key(shop, caller.id, key, "refund_order", asked, decide)


def refund_payment(shop: Shop, caller: Caller, key: str, order_id: str, payment_id: str) -> Answer:
    """Give back all that is left of money that matched no order, to where it came from. Keyed. For staff.

    `order_id`: as the payment has it, whether there is such an order or not. Result: {"order_id", "amount", "currency",
    "refund_ids"}. Raises NotAllowed, NotFound, KeyReused, Busy; WrongState for money that counts for an order, and
    TooMuch(amount, 0) where all of it is given back, or tried to be, already.
    """
    caller.must_be("staff")
    asked = {"order_id": order_id, "payment_id": payment_id}

    def decide() -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        order = order_beside(shop, order_id)
        payment = _payment(shop, order_id, payment_id)
        if payment.status != "UNMATCHED":
            raise WrongState("payment", payment.status, "refund")
        rest, number = left_of(shop, payment)
        if not rest:
            raise TooMuch("amount", 0)
        customer_id = order.customer_id if order else None
        refund = requested(shop, payment, rest, "UNMATCHED", number=number, customer_id=customer_id)
        return [put(REFUND, refund), as_read(order_id, order)], _result(refund)

    return once_per_key(shop, caller.id, key, "refund_payment", asked, decide)


def retry_refund(shop: Shop, caller: Caller, order_id: str, refund_id: str, to: To = "original") -> Refund:
    """Try a refund again that failed, to where the money came from, or to the customer's store credit. For staff.

    Repeatable while it is on its way again. Raises NotAllowed, NotFound, Busy, WrongState: of the refund where it did
    not fail, of the payment where the customer's bank has taken all of it.
    """
    caller.must_be("staff")

    def attempt() -> Refund:
        order = order_beside(shop, order_id)
        before = shop.table.get(C3, order_id=order_id, refund_id=refund_id)
        if before is None:
            raise NotFound("refund")
        payment = _payment(shop, order_id, before.payment_id)
        account_id = payment.account_id
        if to == "credit":
            account_id = store_credit_of(shop, before.customer_id, before.currency)
        if before.status == "REQUESTED" and before.attempt > 1 and before.account_id == account_id:
            return before
        after = moved_refund(before, "retry", shop.instant())
        if payment.status == "REFUNDED":
            raise WrongState("payment", payment.status, "refund")
        after = replace(after, account_id=account_id, attempt=before.attempt + 1, provider_id=None, reason=None)
        shop.table.write(change(REFUND, before, after), as_read(order_id, order))
        return after

    return decided_again(shop, attempt)


def _result(*refunds: Refund) -> dict[str, Any]:
    """The JSON of what was decided."""
    return {
        "order_id": refunds[0].order_id,
        "amount": sum(refund.amount for refund in refunds),
        "currency": refunds[0].currency,
        "refund_ids": [refund.refund_id for refund in refunds],
    }


def _payment(shop: Shop, order_id: str, payment_id: str) -> Payment:
    payment = shop.table.get(C2, order_id=order_id, payment_id=payment_id)
    if payment is None:
        raise NotFound("payment")
    return payment


def store_credit_of(shop: Shop, customer_id: str | None, currency: str) -> str:
    """The account of somebody's store credit; raises NotFound where nobody is known any more who could spend it."""
    if customer_id is None or shop.table.get(A1, customer_id=customer_id) is None:
        raise NotFound("customer")
    return store_credit_id(shop, customer_id, currency)


# reading --------------------------------------------------------------------------------------------------------------
def refunds_of_order(shop: Shop, caller: Caller, order_id: str, limit: int, after: str | None) -> Page[Refund]:
    """What is given back of an order's payments, by refund id. For its customer; staff sees also what lies beside a
    stub, or where no such order is. Raises NotFound; WrongState where the order is archived, with its refunds."""
    if "staff" not in caller.groups:
        opened(order_by_id(shop, caller, order_id), "show its refunds")
    return shop.table.query(A12d, order_id=order_id, limit=limit, after=after)
