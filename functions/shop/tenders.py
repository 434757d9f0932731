"""Paying an order with credit, wholly or in part, and what has been paid for it by whichever means."""

from collections.abc import Sequence
from typing import Any

from functions.dynamodb.store import QueryPage
from functions.dynamodb.writes import Write, put_if_absent, update
from functions.model.entities import Account, Order, Payment
from functions.model.errors import InsufficientFunds, TooManyPayments, TooMuch, WrongCurrency
from functions.model.patterns import PAYMENTS_OF_ORDER
from functions.model.states import apply_order_command
from functions.model.table import ORDER, PAYMENT
from functions.shop.accounts import CreditSource, adjust_balance, get_spendable_account, require_positive
from functions.shop.keyed import IdempotentResult, run_idempotently
from functions.shop.orders import apply_payment, get_order, require_unarchived
from functions.shop.refunds import MAX_PAYMENTS, has_max_payments
from functions.shop.shop import Caller, Shop


def pay_with_credit(
    shop: Shop, caller: Caller, key: str, order_id: str, source: CreditSource, amount: int | None = None
) -> IdempotentResult:
    """Pay an order from its customer's store credit, or from a gift card by its code. Keyed. For them and staff.

    One transaction of the account, its entry, the payment and the order, which is PAID once nothing is due any more.
    Without an amount, it takes all that is due, or all that is there.

    Result: {"order_id", "payment_id", "account_id", "amount", "currency", "due"}, `due` after it. Raises NotFound,
    WrongState, WrongCurrency, Invalid, TooMuch(amount), InsufficientFunds, TooManyPayments, KeyReused.
    """
    request = {"order_id": order_id, "account_id": source.account_id, "amount": amount}

    def decide() -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        order = require_unarchived(get_order(shop, caller, order_id), "pay")
        apply_order_command(
            order, "pay", shop.now_instant()
        )  # refused where it waits for no money, before anything else is said
        account = get_spendable_account(shop, source, order.customer_id)
        paying = _amount_to_pay(order, account, amount)
        if has_max_payments(shop, order):
            raise TooManyPayments(MAX_PAYMENTS)
        after = apply_payment(order, paying, shop.now_instant())
        payment = _build_payment(shop, order, account, paying, shop.derive_id("credit payment", caller.id, key))
        writes = [
            *adjust_balance(shop, account, -paying, "PAID", order_id=order_id),
            put_if_absent(PAYMENT, payment),
            update(ORDER, order, after),
        ]
        return writes, {
            "order_id": order_id,
            "payment_id": payment.payment_id,
            "account_id": account.account_id,
            "amount": paying,
            "currency": order.currency,
            "due": after.total - after.paid,
        }

    return run_idempotently(shop, caller.id, key, "pay_with_credit", request, decide)


def _amount_to_pay(order: Order, account: Account, amount: int | None) -> int:
    """How much is paid, of an order that waits for it."""
    if account.currency != order.currency:
        raise WrongCurrency(order.currency, account.currency)
    due = order.total - order.paid
    if amount is None:
        amount = min(due, account.balance)
        if not amount:
            raise InsufficientFunds(account.balance)
    if require_positive(amount) > due:
        raise TooMuch("amount", due)
    return amount


def _build_payment(shop: Shop, order: Order, account: Account, amount: int, payment_id: str) -> Payment:
    now = shop.now_instant()
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


def list_payments_of_order(
    shop: Shop, caller: Caller, order_id: str, limit: int, after: str | None
) -> QueryPage[Payment]:
    """All that was paid for an order, or tried to be, by payment id. For its customer; staff sees also money that
    matched no order, beside a stub or where no such order is.

    Raises NotFound where there is neither an order nor money; WrongState where it is archived, with its payments.
    """
    if "staff" not in caller.groups:
        require_unarchived(get_order(shop, caller, order_id), "show its payments")
    page = shop.table.query(PAYMENTS_OF_ORDER, order_id=order_id, limit=limit, after=after)
    if not page.items and after is None:
        get_order(shop, caller, order_id)
    return page
