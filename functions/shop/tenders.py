"""Paying an order with credit, wholly or in part, and what has been paid for it by whichever means."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from functions.dynamodb.store import Page
from functions.dynamodb.writes import Write, change, put
from functions.model.entities import Account, Order, Payment
from functions.model.errors import InsufficientFunds, TooManyPayments, TooMuch, WrongCurrency
from functions.model.patterns import A12c
from functions.model.states import moved
from functions.model.table import ORDER, PAYMENT
from functions.shop.accounts import Source, movement, positive, spendable
from functions.shop.keyed import Answer, once_per_key
from functions.shop.orders import opened, order_by_id
from functions.shop.refunds import MOST_PAYMENTS, takes_no_more
from functions.shop.shop import Caller, Shop


def pay_with_credit(
    shop: Shop, caller: Caller, key: str, order_id: str, source: Source, amount: int | None = None
) -> Answer:
    """Pay an order from its customer's store credit, or from a gift card by its code. Keyed. For them and staff.

    One transaction of the account, its entry, the payment and the order, which is PAID once nothing is due any more.
    Without an amount, it takes all that is due, or all that is there.

    Result: {"order_id", "payment_id", "account_id", "amount", "currency", "due"}, `due` after it. Raises NotFound,
    WrongState, WrongCurrency, Invalid, TooMuch(amount), InsufficientFunds, TooManyPayments, KeyReused.
    """
    asked = {"order_id": order_id, "account_id": source.account_id, "amount": amount}

    def decide() -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        order, now = opened(order_by_id(shop, caller, order_id), "pay"), shop.instant()
        paid = moved(order, "pay", now)
        account = spendable(shop, source, order.customer_id)
        paying = _paying(order, account, amount)
        if takes_no_more(shop, order):
            raise TooManyPayments(MOST_PAYMENTS)
        due = order.total - order.paid - paying
        after = replace(moved(order, "pay_part", now) if due else paid, paid=order.paid + paying)
        payment = _payment(shop, order, account, paying, shop.id_of("credit payment", caller.id, key))
        writes = [
            *movement(shop, account, -paying, "PAID", order_id=order_id),
            put(PAYMENT, payment),
            change(ORDER, order, after),
        ]
        return writes, {
            "order_id": order_id,
            "payment_id": payment.payment_id,
            "account_id": account.account_id,
            "amount": paying,
            "currency": order.currency,
            "due": due,
        }

    return once_per_key(shop, caller.id, key, "pay_with_credit", asked, decide)


def _paying(order: Order, account: Account, amount: int | None) -> int:
    """How much is paid, of an order that waits for it."""
    if account.currency != order.currency:
        raise WrongCurrency(order.currency, account.currency)
    due = order.total - order.paid
    if amount is None:
        amount = min(due, account.balance)
        if not amount:
            raise InsufficientFunds(account.balance)
    if positive(amount) > due:
        raise TooMuch("amount", due)
    return amount


def _payment(shop: Shop, order: Order, account: Account, amount: int, payment_id: str) -> Payment:
    now = shop.instant()
    return Payment(
        order_id=order.order_id,
        payment_id=payment_id,
        method="CREDIT",
        status="CAPTURED",
        amount=amount,
        currency=order.currency,
        account_id=account.account_id,
        created_at=now,
        updated_at=now,
    )


def payments_of_order(shop: Shop, caller: Caller, order_id: str, limit: int, after: str | None) -> Page[Payment]:
    """All that was paid for an order, or tried to be, by payment id. For its customer and staff.

    Raises NotFound; WrongState where the order is archived, with its payments.
    """
    opened(order_by_id(shop, caller, order_id), "show its payments")
    return shop.table.query(A12c, order_id=order_id, limit=limit, after=after)
