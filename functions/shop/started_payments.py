"""Start the payment of what is due for an order at the payment provider, and cancel it if it is not due any more.

At most one payment of an order can be confirmed. So a customer who opens the checkout twice gets the same payment, and
a payment about another amount is cancelled before the new payment is returned. The sequence matters:

1. `start_payment` stores the started payment, and then reads the order once more. So it sees each change of the due
   amount that was written before.
2. Another payment, such as with credit, which changes the due amount later, sees the started payment, and marks it as
   OUTDATED in its own transaction. The refunds Lambda then cancels it at the provider. It also does so if the order
   lapses or is cancelled.

If a process dies between the provider's answer and the write, no browser has the payment's client secret, so nobody can
confirm this payment. The next start finds it under the same idempotency key, or by its order id.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any

from functions.dynamodb.writes import Write, WriteConflict, check_absent, put_if_absent, update
from functions.model.entities import ArchivedOrder, Order, StartedPayment
from functions.model.errors import PaymentInProgress, PaymentNotPossible, TooManyPayments
from functions.model.patterns import ORDER_BY_ID, PAYMENT_BY_ID, STARTED_PAYMENT_OF_ORDER
from functions.model.states import RECEIVED_PAYMENT_STATUSES, apply_order_command
from functions.model.table import STARTED_PAYMENT
from functions.shop.orders import get_order, require_unarchived
from functions.shop.payment_provider import (
    PaymentProvider,
    PaymentProviderUnavailable,
    ProviderPayment,
    ProviderRejected,
)
from functions.shop.refunds import MAX_PAYMENTS, has_max_payments
from functions.shop.shop import Caller, ShopContext, retry_on_conflict

INTERNAL_SERVER_ERROR = 500


def start_payment(shop: ShopContext, provider: PaymentProvider, caller: Caller, order_id: str) -> ProviderPayment:
    """Return a payment at the provider about what is due for an order, which the customer's browser then confirms.

    Safe to repeat: while the due amount is the same, the same payment is returned, in its current state. A payment
    about another amount is cancelled first. Raises NotFound, WrongState, TooManyPayments, PaymentInProgress if the
    money of an earlier payment is on its way, PaymentNotPossible if the provider does not take this amount or currency,
    PaymentProviderUnavailable and TableBusy.
    """

    def attempt() -> ProviderPayment:
        order = require_unarchived(get_order(shop, caller, order_id), "pay")
        apply_order_command(order, "pay", shop.now_instant())  # raises WrongState
        if has_max_payments(shop, order):
            raise TooManyPayments(MAX_PAYMENTS)
        started = shop.table.get(STARTED_PAYMENT_OF_ORDER, order_id=order_id)
        if started is not None:
            earlier = provider.get_payment(started.payment_id)
            is_current = started.status == "OPEN" and started.amount == _due(order)
            if is_current and not _has_ended(shop, earlier, started):
                return earlier
            _cancel_or_raise(shop, provider, started)
        return _start(shop, provider, order, started)

    try:
        return retry_on_conflict(shop, attempt)
    except ProviderRejected as rejection:
        raise PaymentNotPossible(rejection.code) from rejection


def _start(
    shop: ShopContext, provider: PaymentProvider, order: Order, started: StartedPayment | None
) -> ProviderPayment:
    """Start a payment of what is due, and store it. Raises WriteConflict if the order or `started` has changed."""
    made, number = _make(provider, order, started.attempt + 1 if started else 1)
    if number > 1 or order.version > 1:  # an earlier start may have left a payment
        for other in provider.find_open_payments(order.order_id):
            if other.payment_id != made.payment_id:
                provider.cancel_payment(other.payment_id)
    now = shop.now_instant()
    after = StartedPayment(
        order_id=order.order_id,
        payment_id=made.payment_id,
        amount=made.amount,
        currency=made.currency,
        created_at=started.created_at if started else now,
        updated_at=now,
        attempt=number,
        version=started.version + 1 if started else 1,
    )
    try:
        shop.table.write(update(STARTED_PAYMENT, started, after) if started else put_if_absent(STARTED_PAYMENT, after))
        _require_due(shop, after)
    except WriteConflict:
        stored = shop.table.get(STARTED_PAYMENT_OF_ORDER, order_id=order.order_id)
        if stored is None or stored.payment_id != made.payment_id or stored == after:
            provider.cancel_payment(made.payment_id)
        raise
    return made


def _make(provider: PaymentProvider, order: Order, first: int) -> tuple[ProviderPayment, int]:
    """Make a payment, and return it with its number. Numbers whose key gives a cancelled payment are left out.

    The provider repeats its first answer to a key for a day, even an error 500. So after such an error, the next number
    is tried once. The payment that the provider may have made under the first key cannot be confirmed by anybody.
    """
    failed = False
    for number in count(first):
        key = f"{order.order_id}-{_due(order)}-{number}"
        try:
            made = provider.start_payment(key=key, order_id=order.order_id, amount=_due(order), currency=order.currency)
        except PaymentProviderUnavailable as error:
            if error.status != INTERNAL_SERVER_ERROR or failed:
                raise
            failed = True
            continue
        if made.status != "cancelled":
            return made, number
    raise AssertionError("count has no end")


def _require_due(shop: ShopContext, started: StartedPayment) -> None:
    """Raise WriteConflict if the order, read again, is not due with the amount of the payment."""
    order = shop.table.get(ORDER_BY_ID, order_id=started.order_id)
    if not isinstance(order, Order) or order.status != "PENDING" or _due(order) != started.amount:
        raise WriteConflict(STARTED_PAYMENT.type)


def _cancel_or_raise(shop: ShopContext, provider: PaymentProvider, started: StartedPayment) -> None:
    """Cancel an earlier payment. Raises PaymentInProgress if its money came or comes, and is not recorded yet."""
    state = provider.cancel_payment(started.payment_id)
    if not _has_ended(shop, state, started):
        raise PaymentInProgress(state.amount, state.currency)


def _has_ended(shop: ShopContext, state: ProviderPayment, started: StartedPayment) -> bool:
    """Return whether a payment is cancelled, or its money is in the table, maybe before the provider's webhook."""
    if state.status != "succeeded":
        return state.status == "cancelled"
    payment = shop.table.get(PAYMENT_BY_ID, order_id=started.order_id, payment_id=started.payment_id)
    return payment is not None and payment.status in RECEIVED_PAYMENT_STATUSES


def _due(order: Order) -> int:
    return order.total - order.paid


# when the due amount changes ------------------------------------------------------------------------------------------
def mark_outdated(shop: ShopContext, order_id: str) -> Write[Any]:
    """Return the write for a transaction that changes the due amount of an order: it marks the started payment.

    If the read finds none, it is a check that none is started meanwhile.
    """
    started = shop.table.get(STARTED_PAYMENT_OF_ORDER, order_id=order_id)
    if started is None:
        return check_absent(STARTED_PAYMENT, STARTED_PAYMENT.key(order_id=order_id))
    after = replace(started, status="OUTDATED", updated_at=shop.now_instant(), version=started.version + 1)
    return update(STARTED_PAYMENT, started, after)


def cancel_open_payments(shop: ShopContext, provider: PaymentProvider, order_id: str) -> list[str]:
    """Cancel the payments that were started for an order that cannot be paid any more. Return their ids.

    Safe to repeat. Sends no request to the provider if no payment was started, or if the order can still be paid. If
    the money of a payment came before, it is refunded when it is recorded. If the order is archived by then, the
    started payment is not in the table any more, so the provider is asked for it.
    """
    started = shop.table.get(STARTED_PAYMENT_OF_ORDER, order_id=order_id)
    order = shop.table.get(ORDER_BY_ID, order_id=order_id)
    is_archived = isinstance(order, ArchivedOrder) or (order is not None and order.status == "ARCHIVING")
    if (started is None and not is_archived) or (order is not None and order.status == "PENDING"):
        return []
    ids = {started.payment_id} if started else set()
    with suppress(ProviderRejected):  # the shop has no payment provider any more
        ids |= {payment.payment_id for payment in provider.find_open_payments(order_id)}
    return cancel_payments(provider, sorted(ids))


def cancel_payments(provider: PaymentProvider, payment_ids: Iterable[str]) -> list[str]:
    """Cancel these payments if they are open, and return the ids of those that are cancelled. Safe to repeat.

    A payment that the provider does not know, for example because the keys are of another account, is left out.
    """
    cancelled = []
    for payment_id in payment_ids:
        with suppress(ProviderRejected):
            if provider.cancel_payment(payment_id).status == "cancelled":
                cancelled.append(payment_id)
    return cancelled
