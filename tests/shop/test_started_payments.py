"""Tests the start of payments at the provider: what is due can be paid once, whatever happens at the same time."""

from collections.abc import Callable
from typing import Any

import pytest

from functions.adapters.payment_provider import HttpPaymentProvider
from functions.model.entities import Order
from functions.model.errors import PaymentInProgress, PaymentNotPossible, TooManyPayments, WrongState
from functions.model.patterns import STARTED_PAYMENT_OF_ORDER
from functions.model.table import STARTED_PAYMENT
from functions.shop import cancellation, credit_payments
from functions.shop.offline_payments import ReceivedPayment, record_offline_payment
from functions.shop.payment_provider import PaymentProviderUnavailable, ProviderPayment
from functions.shop.shop import ShopContext
from functions.shop.started_payments import cancel_open_payments, start_payment
from functions.shop.unmatched_payments import assign_payment
from local.world.payment_provider import FakeProvider
from proof.support.actors import ANN, STAFF, advance_to_status, archive_order, get_order, place, report_payment
from proof.support.client_faults import ProcessKilled
from tests.shop.conftest import TappedShop
from tests.support.credit_actions import new_store_credit, parse_source
from tests.support.order_money import pay_in_parts

CARD = "pm_card_visa"


@pytest.fixture
def provider() -> FakeProvider:
    return FakeProvider()


def start(shop: ShopContext, provider: FakeProvider, order: Order, caller: Any = ANN) -> ProviderPayment:
    return start_payment(shop, provider, caller, order.order_id)


def use_credit(shop: ShopContext, order: Order, amount: int = 1000, key: str = "credit") -> None:
    source = parse_source(shop, new_store_credit(shop))
    credit_payments.pay_with_credit(shop, ANN, key, order.order_id, source, amount)


def open_amounts(provider: FakeProvider) -> list[int]:
    """Return the amounts of the payments that a customer could confirm now."""
    payments = provider.account.payments.values()
    return [one["amount"] for one in payments if one["status"] == "requires_payment_method"]


def has_outdated_payment(shop: ShopContext, order: Order) -> bool:
    started = shop.table.get(STARTED_PAYMENT_OF_ORDER, order_id=order.order_id)
    return started is not None and started.status == "OUTDATED"


def test_what_is_due_is_started_once(shop: TappedShop, provider: FakeProvider) -> None:
    order = place(shop)
    shop.wire.clear()
    made = start(shop, provider, order)
    assert shop.wire.operations == ["GetItem", "GetItem", "PutItem", "GetItem"]
    assert (made.status, made.amount, made.currency, bool(made.client_secret)) == ("open", 2500, "EUR", True)
    assert provider.account.payments[made.payment_id]["metadata"] == {"order_id": order.order_id}
    shop.wire.clear()
    assert start(shop, provider, order, STAFF) == made
    assert shop.wire.operations == ["GetItem", "GetItem"]
    assert open_amounts(provider) == [2500]


@pytest.mark.parametrize(
    ("paid", "error", "code"), [([100] * 5, TooManyPayments, None), ([2480], PaymentNotPossible, "amount_too_small")]
)
def test_the_limit_of_payments_and_the_minimum_of_the_provider_hold(
    shop: ShopContext, provider: FakeProvider, paid: list[int], error: type[Exception], code: str | None
) -> None:
    order = pay_in_parts(shop, place(shop), *paid)
    with pytest.raises(error) as rejection:
        start(shop, provider, order)
    assert getattr(rejection.value, "code", None) == code


def test_a_declined_card_leaves_the_same_payment_open(shop: ShopContext, provider: FakeProvider) -> None:
    order = place(shop)
    made = start(shop, provider, order)
    provider.account.answer(
        "POST", f"/v1/payment_intents/{made.payment_id}/confirm", {}, b"payment_method=pm_card_chargeDeclined"
    )
    assert start(shop, provider, order) == made


def record_transfer(shop: ShopContext, order: Order) -> None:
    received = ReceivedPayment("BANK_TRANSFER", 1000, "EUR", "14/3", "2026-01-02")
    record_offline_payment(shop, STAFF, "transfer", order.order_id, received)


def assign_lost_payment(shop: ShopContext, order: Order) -> None:
    report_payment(shop, order, order_id="unknown", payment_id="pi_lost", amount=1000)
    assign_payment(shop, STAFF, "assign", "unknown", "pi_lost", order.order_id, "named in the receipt")


@pytest.mark.parametrize("pay_a_part", [use_credit, record_transfer, assign_lost_payment])
def test_a_part_that_is_paid_otherwise_outdates_a_started_payment_and_the_next_start_cancels_it(
    shop: ShopContext, provider: FakeProvider, pay_a_part: Callable[[ShopContext, Order], None]
) -> None:
    order = place(shop)
    first = start(shop, provider, order)
    pay_a_part(shop, order)
    assert has_outdated_payment(shop, order)
    second = start(shop, provider, order)
    assert (second.amount, open_amounts(provider)) == (1500, [1500])
    assert provider.get_payment(first.payment_id).status == "cancelled"
    assert not has_outdated_payment(shop, order)
    assert start(shop, provider, order) == second


def test_credit_finds_no_started_payment_and_checks_that_none_starts(shop: TappedShop, provider: FakeProvider) -> None:
    order = place(shop)
    shop.wire.run_before_call("TransactWriteItems", lambda: None, lambda: start(shop.rival, provider, order))
    use_credit(shop, order, 1000)  # its first transaction issues the credit
    assert has_outdated_payment(shop, order)
    assert start(shop, provider, order).amount == 1500
    assert open_amounts(provider) == [1500]


@pytest.mark.parametrize("call", [2, 3, 4])
def test_credit_during_a_start_leaves_only_what_is_due(shop: TappedShop, provider: FakeProvider, call: int) -> None:
    order = place(shop)
    operation, number = {2: ("GetItem", 2), 3: ("PutItem", 1), 4: ("GetItem", 3)}[call]
    shop.meanwhile(lambda rival: use_credit(rival, order, 1000), operation, call=number)
    assert start(shop, provider, order).amount == 1500
    assert open_amounts(provider) == [1500]


@pytest.mark.parametrize("end", [cancellation.lapse_order, lambda shop, id: cancellation.cancel_order(shop, ANN, id)])
@pytest.mark.parametrize("operation", ["PutItem", "GetItem"])
def test_an_order_that_ends_during_a_start_leaves_no_open_payment(
    shop: TappedShop, provider: FakeProvider, end: Callable[[ShopContext, str], object], operation: str
) -> None:
    order = place(shop)
    shop.meanwhile(lambda rival: end(rival, order.order_id), operation, call=3 if operation == "GetItem" else 1)
    with pytest.raises(WrongState):
        start(shop, provider, order)
    assert open_amounts(provider) == []


def test_two_starts_at_once_give_the_same_payment(shop: TappedShop, provider: FakeProvider) -> None:
    order, other = place(shop), []
    shop.meanwhile(lambda rival: other.append(start(rival, provider, order)), "PutItem")
    assert start(shop, provider, order) == other[0]
    assert open_amounts(provider) == [2500]


def test_a_start_after_a_crash_finds_the_same_payment(shop: TappedShop, provider: FakeProvider) -> None:
    order = place(shop)
    shop.wire.crash_at("PutItem")
    with pytest.raises(ProcessKilled):
        start(shop, provider, order)
    start(shop, provider, order)
    assert open_amounts(provider) == [2500]


@pytest.mark.parametrize("has_earlier", [False, True])
def test_a_start_after_a_crash_and_another_due_amount_cancels_what_the_crash_left(
    shop: TappedShop, provider: FakeProvider, has_earlier: bool
) -> None:
    order = place(shop)
    if has_earlier:
        start(shop, provider, order)
        use_credit(shop, order, 100, "earlier")
    shop.wire.crash_at("UpdateItem" if has_earlier else "PutItem")
    with pytest.raises(ProcessKilled):
        start(shop, provider, order)
    use_credit(shop, order, 1000)
    due = 1400 if has_earlier else 1500
    assert start(shop, provider, order).amount == due
    assert open_amounts(provider) == [due]


def test_money_that_is_not_recorded_yet_starts_no_second_payment(shop: ShopContext, provider: FakeProvider) -> None:
    order = place(shop)
    made = start(shop, provider, order)
    provider.account.confirm_payment(made.payment_id, CARD)
    assert start(shop, provider, order).status == "succeeded"
    use_credit(shop, order, 1000)
    with pytest.raises(PaymentInProgress):
        start(shop, provider, order)
    report_payment(shop, order, payment_id=made.payment_id)
    assert get_order(shop, order.order_id).status == "PAID"


def test_money_that_the_bank_took_back_can_be_paid_again(shop: ShopContext, provider: FakeProvider) -> None:
    order = place(shop)
    use_credit(shop, order, 1000)
    made = start(shop, provider, order)
    provider.account.confirm_payment(made.payment_id, CARD)
    report_payment(shop, order, payment_id=made.payment_id, amount=1000)  # the provider reports less than was due
    again = start(shop, provider, order)
    assert (again.amount, again.payment_id != made.payment_id) == (500, True)


@pytest.mark.parametrize("archived", [False, True])
def test_a_lapsed_order_has_its_started_payment_cancelled_even_if_it_was_archived_before_its_event_came(
    shop: ShopContext, provider: FakeProvider, archived: bool
) -> None:
    order = place(shop)
    made = start(shop, provider, order)
    assert cancel_open_payments(shop, provider, order.order_id) == []  # it can still be paid
    cancellation.lapse_order(shop, order.order_id)
    if archived:
        archive_order(shop, order.order_id, to_stub=True)
        shop.table.batch_delete([STARTED_PAYMENT.key(order_id=order.order_id)])
    for again in (False, True):
        cancelled = [] if archived and again else [made.payment_id]
        assert cancel_open_payments(shop, provider, order.order_id) == cancelled
    assert open_amounts(provider) == []


def test_a_payment_that_the_provider_rejects_is_neither_started_again_nor_cancelled(shop: ShopContext) -> None:
    order, without_provider = place(shop), HttpPaymentProvider("", "")
    start_payment(shop, FakeProvider(), ANN, order.order_id)
    with pytest.raises(PaymentNotPossible) as rejection:
        start_payment(shop, without_provider, ANN, order.order_id)
    assert rejection.value.code == "no_payment_provider"
    cancellation.lapse_order(shop, order.order_id)
    assert cancel_open_payments(shop, without_provider, order.order_id) == []


def test_an_order_without_a_started_payment_asks_the_provider_nothing(
    shop: ShopContext, provider: FakeProvider
) -> None:
    order = advance_to_status(shop, place(shop), "LAPSED")
    assert cancel_open_payments(shop, provider, order.order_id) == []
    assert provider.requests == []


def test_a_payment_that_succeeded_before_the_order_lapsed_is_left_to_its_webhook(
    shop: ShopContext, provider: FakeProvider
) -> None:
    order = place(shop)
    made = start(shop, provider, order)
    provider.account.confirm_payment(made.payment_id, CARD)
    cancellation.lapse_order(shop, order.order_id)
    assert cancel_open_payments(shop, provider, order.order_id) == []
    assert report_payment(shop, order, payment_id=made.payment_id)["status"] == "CAPTURED"  # and it is refunded, LATE


@pytest.mark.parametrize("made_one", [False, True])
def test_after_an_error_500_that_the_provider_repeats_another_key_is_used(
    shop: ShopContext, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch, made_one: bool
) -> None:
    order, ask = place(shop), provider.start_payment

    def answer(*, key: str, **more: Any) -> ProviderPayment:
        if key.endswith("-1"):
            if made_one:
                ask(key=key, **more)
            raise PaymentProviderUnavailable(500)
        return ask(key=key, **more)

    monkeypatch.setattr(provider, "start_payment", answer)
    made = start(shop, provider, order)
    assert (made.amount, open_amounts(provider)) == (2500, [2500])
    assert start(shop, provider, order) == made


def test_a_provider_that_does_not_answer_stores_nothing(
    shop: ShopContext, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_answer(**_: Any) -> ProviderPayment:
        raise PaymentProviderUnavailable(0)

    order = place(shop)
    monkeypatch.setattr(provider, "start_payment", no_answer)
    with pytest.raises(PaymentProviderUnavailable):
        start(shop, provider, order)
    assert shop.table.get(STARTED_PAYMENT_OF_ORDER, order_id=order.order_id) is None
