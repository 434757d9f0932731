"""Record payments that come outside the payment provider: by bank transfer, in cash, or on an invoice.

Staff record what came. The money counts like a card payment, and also pays a part of an order. Nothing is sent to the
payment provider, also not a refund: such a refund fails at once, so that staff pay it back by hand and settle it, or
retry it to the customer's store credit. A wrong record is reversed while the order is not fully paid.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, timedelta
from typing import Any

from functions.dynamodb.writes import Write, put_if_absent, update
from functions.model.entities import OfflineMethod, Payment
from functions.model.errors import InvalidInput, WrongCurrency, WrongState
from functions.model.patterns import REFUNDS_OF_ORDER
from functions.model.states import apply_order_command, apply_payment_command
from functions.model.table import PAYMENT
from functions.shop.accounts import require_positive
from functions.shop.idempotency import IdempotentResult, run_idempotently
from functions.shop.orders import require_unarchived, save_order
from functions.shop.payments import count_towards_order
from functions.shop.refunds import get_order_unless_archiving, get_payment, payment_result
from functions.shop.shop import Caller, ShopContext
from functions.shop.started_payments import mark_outdated

EARLIEST_TIME_ZONE = timedelta(hours=14)
"""The time zone in which a day begins first. There, the day may be one that has not begun in UTC."""


@dataclass(frozen=True)
class ReceivedPayment:
    """A payment that staff received. `amount`: in minor units. `reference`: such as the text of the bank transfer.

    `received_on`: the day on which the money came, such as 2026-11-21. `note`: a remark of staff. The reference and the
    note may have personal data, so an erasure of the customer removes them.
    """

    method: OfflineMethod
    amount: int
    currency: str
    reference: str
    received_on: str
    note: str | None = None


def record_offline_payment(
    shop: ShopContext, caller: Caller, key: str, order_id: str, received: ReceivedPayment
) -> IdempotentResult:
    """Record a payment of an order that staff received. Only staff may call it.

    `key`: the idempotency key. The money counts as a payment of the provider would: up to the due amount. Any other
    money becomes a refund, also if the order is closed or has the maximum number of payments. The result is
    {"order_id", "payment_id", "method", "amount", "currency", "due"}.

    Raises WrongState if the order is archived, WrongCurrency, and InvalidInput if the amount is not positive or the day
    is in the future. Also raises NotAllowed, NotFound, IdempotencyKeyReused and TableBusy.
    """
    caller.require_group("staff")
    require_positive(received.amount)
    if date.fromisoformat(received.received_on) > (shop.now() + EARLIEST_TIME_ZONE).date():
        raise InvalidInput("received_on", "must not be in the future: record the payment when the money has come")

    def decide(shop: ShopContext) -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        order = require_unarchived(get_order_unless_archiving(shop, order_id), "pay")
        if received.currency != order.currency:
            raise WrongCurrency(order.currency, received.currency)
        now = shop.now_instant()
        payment = Payment(
            order_id=order_id,
            payment_id=shop.derive_id("offline payment", caller.id, key),
            status="CAPTURED",
            customer_id=order.customer_id,
            created_at=now,
            updated_at=now,
            **asdict(received),
        )
        payment, order_writes = count_towards_order(shop, order, payment)
        due = order.total - order.paid - (payment.amount - payment.uncounted) if order.status == "PENDING" else 0
        result = {
            "order_id": order_id,
            "payment_id": payment.payment_id,
            "method": payment.method,
            "amount": payment.amount,
            "currency": payment.currency,
            "due": due,
        }
        writes = [put_if_absent(PAYMENT, payment), *order_writes]
        return [*writes, mark_outdated(shop, order_id)] if payment.uncounted < payment.amount else writes, result

    request = {"order_id": order_id, **asdict(received)}
    return run_idempotently(shop, caller.id, key, "record_offline_payment", request, decide)


def reverse_offline_payment(
    shop: ShopContext, caller: Caller, key: str, order_id: str, payment_id: str, reason: str
) -> IdempotentResult:
    """Reverse a payment that staff recorded by mistake. The payment becomes FAILED, and its amount is due again.

    `reason`: why it was wrong, without personal data. The result is {"payment_id", "status", "reason"}. Only staff may
    call it.

    Raises WrongState if the order is not PENDING any more: goods may be on their way, so cancel the order, and settle
    the refund of the money that never came. Raises WrongState if the payment was not recorded by staff, was reversed
    before, or is refunded: settle the refund. Also raises NotAllowed, NotFound, IdempotencyKeyReused and TableBusy.
    """
    caller.require_group("staff")
    request = {"order_id": order_id, "payment_id": payment_id, "reason": reason}

    def decide(shop: ShopContext) -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        order = require_unarchived(get_order_unless_archiving(shop, order_id), "reverse")
        payment, now = get_payment(shop, order_id, payment_id), shop.now_instant()
        if not payment.is_offline:
            raise WrongState("payment", f"made by {payment.method}", "reverse")
        after = apply_payment_command(payment, "reverse", now)
        if order.status != "PENDING":
            raise WrongState("order", order.status, "reverse")
        if any(it.payment_id == payment_id for it in shop.table.query_all(REFUNDS_OF_ORDER, order_id=order_id)):
            raise WrongState("payment", "refunded", "reverse")
        after = replace(after, uncounted=payment.amount, reason=f"reversed: {reason}")
        unpaid = replace(
            apply_order_command(order, "unpay_part", now), paid=order.paid - (payment.amount - payment.uncounted)
        )
        return [update(PAYMENT, payment, after), *save_order(order, unpaid)], payment_result(after)

    return run_idempotently(shop, caller.id, key, "reverse_offline_payment", request, decide)
