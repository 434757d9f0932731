"""Pay an order with store credit or a gift card, completely or partly, and list an order's payments."""

from collections.abc import Sequence
from typing import Any

from functions.dynamodb.writes import Write, put_if_absent
from functions.model.entities import Account, Order, Payment
from functions.model.errors import InsufficientFunds, TooManyPayments, TooMuch, WrongCurrency
from functions.model.patterns import PAYMENTS_OF_ORDER
from functions.model.states import apply_order_command
from functions.model.table import PAYMENT
from functions.shop.accounts import CreditSource, adjust_balance, get_spendable_account, require_positive
from functions.shop.idempotency import IdempotentResult, run_idempotently
from functions.shop.lists import ListPage, ListRequest
from functions.shop.orders import (
    apply_payment,
    get_order,
    get_order_or_none,
    list_items_of_order,
    require_unarchived,
    save_order,
)
from functions.shop.refunds import MAX_PAYMENTS, has_max_payments
from functions.shop.shop import Caller, ShopContext
from functions.shop.started_payments import mark_outdated


def pay_with_credit(
    shop: ShopContext, caller: Caller, key: str, order_id: str, source: CreditSource, amount: int | None = None
) -> IdempotentResult:
    """Pay an order from its customer's store credit or from a gift card. The order becomes PAID if nothing is due any
    more.

    Only the order's customer and staff may call it. `key`: the idempotency key. `amount`: in minor units; None for the
    due amount, or the balance of the account if that is lower. The result is {"order_id", "payment_id", "account_id",
    "amount", "currency", "due"}, with the amount that is due after the payment.

    Raises NotFound, WrongState, WrongCurrency, InvalidInput, InsufficientFunds, TooManyPayments, IdempotencyKeyReused,
    and TooMuch if `amount` is more than the due amount.
    """
    request = {"order_id": order_id, "account_id": source.account_id, "amount": amount}

    def decide(shop: ShopContext) -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        order = require_unarchived(get_order(shop, caller, order_id), "pay")
        # Reject an order in the wrong state before any other check. Only the error matters here, so the result is not
        # used: `apply_payment` below changes the order.
        apply_order_command(order, "pay", shop.now_instant())
        account = get_spendable_account(shop, source, order.customer_id)
        paying = _amount_to_pay(order, account, amount)
        if has_max_payments(shop, order):
            raise TooManyPayments(MAX_PAYMENTS)
        after = apply_payment(order, paying, shop.now_instant())
        payment = _build_payment(shop, order, account, paying, shop.derive_id("credit payment", caller.id, key))
        writes = [
            *adjust_balance(shop, account, -paying, "PAID", order_id=order_id),
            put_if_absent(PAYMENT, payment),
            *save_order(order, after),
            mark_outdated(shop, order_id),
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
    """Return the amount to pay: `amount`, or if it is None, the lower of the due amount and the balance.

    A given amount is not compared with the balance. Raises WrongCurrency, InvalidInput, TooMuch, and InsufficientFunds
    if the balance to use is zero.
    """
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


def _build_payment(shop: ShopContext, order: Order, account: Account, amount: int, payment_id: str) -> Payment:
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


def list_payments_of_order(shop: ShopContext, request: ListRequest, order_id: str) -> ListPage[Payment]:
    """Return all payments of an order, also the failed payments, sorted by payment id. Raises ArchiveUnavailable.

    Staff also see payments for an order id that does not exist. For customers, raises NotFound.
    """
    return list_items_of_order(
        shop, request, PAYMENTS_OF_ORDER, order_id, get_order_or_none(shop, request.caller, order_id)
    )
