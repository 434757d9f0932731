"""Tests payments that staff record: they count like card payments, and never touch the payment provider."""

from dataclasses import replace
from typing import Any

import pytest

from functions.model.entities import Order, Payment
from functions.model.errors import InvalidInput, NotFound, WrongCurrency, WrongState
from functions.model.patterns import INVOICES_OF_ORDER
from functions.shop import cancellation, refund_processing, refunds
from functions.shop.erasure import erase_items
from functions.shop.fulfilment import fulfil_order
from functions.shop.offline_payments import ReceivedPayment, record_offline_payment, reverse_offline_payment
from functions.shop.refund_processing import PAY_BACK_BY_HAND
from functions.shop.refunds import MAX_PAYMENTS
from functions.shop.shop import Caller, ShopContext
from proof.support.actors import ANN, STAFF, advance_to_status, get_order, place, report_payment
from tests.shop.conftest import TappedShop
from tests.support import order_money

NO_PROVIDER: Any = None  # an offline payment needs no provider
RECEIVED = ReceivedPayment("BANK_TRANSFER", 2500, "EUR", "Ann Ash, invoice 7", "2026-11-20", "by phone")


def record(
    shop: ShopContext, order: Order, key: str = "came", caller: Caller = STAFF, **changed: Any
) -> dict[str, Any]:
    return record_offline_payment(shop, caller, key, order.order_id, replace(RECEIVED, **changed)).result


def reverse(shop: ShopContext, order: Order, payment_id: str, key: str = "wrong", caller: Caller = STAFF) -> Any:
    return reverse_offline_payment(shop, caller, key, order.order_id, payment_id, "for another order").result


def get_payment(shop: ShopContext, order: Order, recorded: dict[str, Any]) -> Payment:
    return order_money.get_payment(shop, order, recorded["payment_id"])


# recording ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["BANK_TRANSFER", "CASH", "INVOICE"])
def test_an_offline_payment_pays_its_order_in_one_transaction(shop: TappedShop, method: Any) -> None:
    order = place(shop)
    shop.wire.clear()
    done = record(shop, order, method=method)
    assert shop.wire.operations == ["GetItem"] * 3 + ["TransactWriteItems"]
    payment = get_payment(shop, order, done)
    assert done == {
        "order_id": order.order_id,
        "payment_id": payment.payment_id,
        "method": method,
        "amount": 2500,
        "currency": "EUR",
        "due": 0,
    }
    assert (payment.status, payment.method, payment.uncounted) == ("CAPTURED", method, 0)
    assert (payment.reference, payment.received_on, payment.note) == ("Ann Ash, invoice 7", "2026-11-20", "by phone")
    assert (get_order(shop, order.order_id).status, get_order(shop, order.order_id).paid) == ("PAID", 2500)


@pytest.mark.parametrize("status", ["PENDING", "PAID", "CANCELLED"])
def test_money_that_the_order_does_not_need_is_paid_back_by_hand(shop: ShopContext, status: str) -> None:
    order = advance_to_status(shop, place(shop), status)
    payment = get_payment(shop, order, record(shop, order, amount=2600))
    (refund,) = [it for it in order_money.refunds(shop, order.order_id) if it.payment_id == payment.payment_id]
    assert (refund.amount, refund.why) == ((100, "EXCESS") if status == "PENDING" else (2600, "LATE"))
    assert payment.uncounted == refund.amount
    failed = refund_processing.process_refund(shop, NO_PROVIDER, order.order_id, refund.refund_id)
    assert failed is not None
    assert (failed.status, failed.reason) == ("FAILED", PAY_BACK_BY_HAND)
    refund_processing.settle_refund(shop, STAFF, "settle", order.order_id, refund.refund_id, "paid in cash")
    assert order_money.get_payment(shop, order, payment.payment_id).refunded == refund.amount


def test_a_refund_of_an_offline_payment_can_go_to_store_credit(shop: ShopContext) -> None:
    order = place(shop)
    id = f"{record(shop, order)['payment_id']}-1"
    cancellation.cancel_order(shop, ANN, order.order_id)
    refund_processing.process_refund(shop, NO_PROVIDER, order.order_id, id)
    refunds.retry_refund(shop, STAFF, order.order_id, id, "credit")
    done = refund_processing.process_refund(shop, NO_PROVIDER, order.order_id, id)
    assert done is not None
    assert done.status == "SUCCEEDED"


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"amount": 0}, InvalidInput),
        ({"currency": "USD"}, WrongCurrency),
        ({"received_on": "2026-11-22"}, InvalidInput),
    ],
    ids=str,
)
def test_an_impossible_payment_is_rejected(shop: ShopContext, changed: dict[str, Any], error: type[Exception]) -> None:
    order = place(shop)
    with pytest.raises(error):
        record(shop, order, **changed)
    assert record(shop, order, received_on="2026-11-21")["due"] == 0, "the rejected command did not use up its key"


# reversing ------------------------------------------------------------------------------------------------------------
def test_a_reversed_payment_is_due_again(shop: ShopContext) -> None:
    order = place(shop)
    first, second = record(shop, order, amount=1000), record(shop, order, "second", amount=500)
    done = reverse(shop, order, first["payment_id"])
    assert done == {"payment_id": first["payment_id"], "status": "FAILED", "reason": "reversed: for another order"}
    assert reverse(shop, order, first["payment_id"]) == done
    payment = get_payment(shop, order, first)
    assert payment.amount == payment.uncounted == 1000, "no part of it counts"
    assert get_order(shop, order.order_id).paid == 500
    with pytest.raises(WrongState):
        reverse(shop, order, first["payment_id"], "again")
    record(shop, order, "third", amount=2000)
    assert get_order(shop, order.order_id).status == "PAID"
    with pytest.raises(WrongState) as refusal:
        reverse(shop, order, second["payment_id"], "second")
    assert (refusal.value.what, refusal.value.state) == ("order", "PAID")


def test_the_record_of_money_that_never_came_is_settled_after_the_order_was_cancelled(shop: ShopContext) -> None:
    order = place(shop)
    payment_id = record(shop, order)["payment_id"]
    cancellation.cancel_order(shop, STAFF, order.order_id)
    refund_processing.process_refund(shop, NO_PROVIDER, order.order_id, f"{payment_id}-1")
    refund_processing.settle_refund(shop, STAFF, "s", order.order_id, f"{payment_id}-1", "the money never came")
    assert order_money.get_payment(shop, order, payment_id).status == "REFUNDED"
    assert get_order(shop, order.order_id).refunded == 2500


def test_a_refunded_payment_is_not_reversed(shop: ShopContext) -> None:
    order = order_money.pay_in_parts(shop, place(shop), *[10] * MAX_PAYMENTS)
    with pytest.raises(WrongState) as refusal:
        reverse(shop, order, record(shop, order, amount=100)["payment_id"])
    assert refusal.value.state == "refunded"


def test_a_payment_that_staff_did_not_record_is_not_reversed(shop: ShopContext) -> None:
    order = place(shop)
    report_payment(shop, order, amount=100)
    with pytest.raises(WrongState) as refusal:
        reverse(shop, order, "pi_1")
    assert str(refusal.value) == "cannot reverse: the payment is made by CARD"
    with pytest.raises(NotFound):
        reverse(shop, order, "pi_2")


# beside the money -----------------------------------------------------------------------------------------------------
def test_the_invoice_shows_how_an_offline_payment_came(shop: ShopContext) -> None:
    order = place(shop)
    record(shop, order, method="CASH")
    fulfil_order(shop, order.order_id)
    (invoice,) = shop.table.query_all(INVOICES_OF_ORDER, order_id=order.order_id)
    assert [(paid.method, paid.amount) for paid in invoice.payments] == [("CASH", 2500)]


@pytest.mark.parametrize(("by_card", "day"), [(0, "2026-11-20"), (1000, "2026-11-21")])
def test_the_invoice_has_the_day_on_which_staff_received_all_the_money(
    shop: ShopContext, by_card: int, day: str
) -> None:
    order = place(shop)
    record(shop, order, "first", amount=500, received_on="2026-11-18")
    if by_card:
        report_payment(shop, order, amount=by_card)
    record(shop, order, "last", amount=2000 - by_card)
    fulfil_order(shop, order.order_id)
    (invoice,) = shop.table.query_all(INVOICES_OF_ORDER, order_id=order.order_id)
    assert invoice.payment_day == day


def test_an_erasure_clears_what_staff_wrote_and_keeps_the_money(shop: ShopContext) -> None:
    order = place(shop)
    before = get_payment(shop, order, record(shop, order))
    why = refunds.Explanation("OTHER", "Sorry, Ann.")
    refunds.refund_order(shop, STAFF, "sorry", order.order_id, 100, explanation=why)
    assert erase_items(shop, "order_id", order.order_id)
    assert not erase_items(shop, "order_id", order.order_id)
    (payment,), (refund,) = order_money.payments(shop, order.order_id), order_money.refunds(shop, order.order_id)
    assert payment == replace(before, reference=None, note=None, version=before.version + 1)
    assert (refund.note, refund.cause, refund.amount) == (None, "OTHER", 100)
