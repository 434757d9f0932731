"""Refunds on their way: given once, whatever is lost, and whatever the provider tells in whichever order."""

from dataclasses import replace
from typing import Any

import pytest

from functions.dynamodb.store import Table
from functions.dynamodb.writes import change, put
from functions.model.entities import Account, Order, Payment, Refund
from functions.model.errors import NotFound
from functions.model.patterns import C2, C3, A22b
from functions.model.table import ACCOUNT, BY_TYPE
from functions.provider import Unavailable
from functions.shop import accounts, ending, erasure, refunds
from functions.shop.settling import settle
from functions.shop.shop import Shop
from tests.dynamodb.fixtures import Clock
from tests.dynamodb.wire import Wire, after, cancelled, lost
from tests.provider import REFUSED, FakeProvider, meeting
from tests.shop import money
from tests.shop.acts import ANN, STAFF, order_now, place, tell
from tests.shop.credit import balance, credit, ledger

HOUR = 3600


@pytest.fixture
def order(shop: Shop) -> Order:
    """Paid with 25.00 by card, of which 10.00 are to be given back."""
    placed = place(shop)
    tell(shop, placed)
    refunds.refund_order(shop, STAFF, "sorry", placed.order_id, 1000)
    return order_now(shop, placed.order_id)


def refund_of(shop: Shop, order: Order, refund_id: str = "pi_1-1") -> Refund:
    found = shop.table.get(C3, order_id=order.order_id, refund_id=refund_id)
    assert found is not None
    return found


def payment_of(shop: Shop, order: Order, payment_id: str = "pi_1") -> Payment:
    found = shop.table.get(C2, order_id=order.order_id, payment_id=payment_id)
    assert found is not None
    return found


# to the provider ------------------------------------------------------------------------------------------------------
def test_what_the_provider_gave_back_is_written_with_the_payment(shop: Shop, order: Order, wire: Wire) -> None:
    provider = FakeProvider()
    wire.clear()
    settled = settle(shop, provider, order.order_id, "pi_1-1")
    assert wire.operations == ["GetItem", "GetItem", "TransactWriteItems"]
    assert provider.asked == [("refund", "pi_1-1-1")]
    ((_, amount, given),) = provider.given
    assert (amount, given.metadata) == (
        1000,
        {"order_id": order.order_id, "refund_id": "pi_1-1", "attempt": "1"},
    )
    refund = refund_of(shop, order)
    assert settled == refund
    assert (refund.status, refund.provider_id, refund.version) == ("SUCCEEDED", "re_1", 2)
    payment = payment_of(shop, order)
    assert (payment.status, payment.refunded) == ("CAPTURED", 1000)
    assert order_now(shop, order.order_id) == order, "it was counted when it was decided"


def test_a_payment_of_which_all_is_given_back_is_refunded(shop: Shop, order: Order) -> None:
    refunds.refund_order(shop, STAFF, "the rest", order.order_id, 1500)
    for number in (1, 2):
        settle(shop, FakeProvider(), order.order_id, f"pi_1-{number}")
    assert (payment_of(shop, order).status, payment_of(shop, order).refunded) == ("REFUNDED", 2500)


def test_what_is_done_already_is_not_done_again(shop: Shop, order: Order, wire: Wire) -> None:
    provider = FakeProvider()
    settle(shop, provider, order.order_id, "pi_1-1")
    wire.clear()
    assert settle(shop, provider, order.order_id, "pi_1-1") is None
    assert settle(shop, provider, order.order_id, "none-such") is None
    assert wire.operations == ["GetItem", "GetItem"]
    assert len(provider.asked) == 1


@pytest.mark.parametrize("trouble", ["answer lost", "unavailable"])
def test_what_passes_comes_again_under_the_same_key_and_is_given_once(shop: Shop, order: Order, trouble: Any) -> None:
    provider = meeting(trouble)
    with pytest.raises(Unavailable):
        settle(shop, provider, order.order_id, "pi_1-1")
    assert refund_of(shop, order).status == "REQUESTED"
    settle(shop, provider, order.order_id, "pi_1-1")
    assert provider.asked == [("refund", "pi_1-1-1")] * 2
    assert provider.of("pi_1") == 1000
    assert refund_of(shop, order).status == "SUCCEEDED"


def test_a_crash_between_the_providers_answer_and_our_write_gives_the_money_back_once(
    shop: Shop, order: Order, wire: Wire
) -> None:
    class Crashed(BaseException):
        """The process ends."""

    def crash(_: Any) -> None:
        raise Crashed

    provider = FakeProvider()
    wire.next("TransactWriteItems", crash)
    with pytest.raises(Crashed):
        settle(shop, provider, order.order_id, "pi_1-1")
    assert (provider.of("pi_1"), refund_of(shop, order).status) == (1000, "REQUESTED")
    settle(shop, provider, order.order_id, "pi_1-1")
    assert provider.asked == [("refund", "pi_1-1-1")] * 2
    assert (provider.of("pi_1"), len(provider.given)) == (1000, 1)
    assert (payment_of(shop, order).refunded, refund_of(shop, order).status) == (1000, "SUCCEEDED")


def test_a_write_whose_answer_is_lost_is_found_done(shop: Shop, order: Order, patient_wire: Wire) -> None:
    provider = FakeProvider()
    table = Table(patient_wire.client, shop.table.name, BY_TYPE, clock=shop.table.clock, sleep=shop.table.sleep)
    patient = replace(shop, table=table)
    patient_wire.next("TransactWriteItems", lost)
    settle(patient, provider, order.order_id, "pi_1-1")
    assert (payment_of(shop, order).refunded, payment_of(shop, order).version) == (1000, 2)


def test_two_workers_with_the_same_refund_give_it_back_once(shop: Shop, rival: Shop, order: Order, wire: Wire) -> None:
    provider = FakeProvider()
    wire.next("TransactWriteItems", after(lambda: settle(rival, provider, order.order_id, "pi_1-1")))
    assert settle(shop, provider, order.order_id, "pi_1-1") is None
    assert (provider.of("pi_1"), len(provider.given)) == (1000, 1)
    assert (payment_of(shop, order).refunded, payment_of(shop, order).version) == (1000, 2)


def test_two_refunds_of_one_payment_at_once_both_count(shop: Shop, rival: Shop, order: Order, wire: Wire) -> None:
    refunds.refund_order(shop, STAFF, "more", order.order_id, 500)
    provider = FakeProvider()
    wire.next("TransactWriteItems", after(lambda: settle(rival, provider, order.order_id, "pi_1-2")))
    settle(shop, provider, order.order_id, "pi_1-1")
    assert payment_of(shop, order).refunded == provider.of("pi_1") == 1500


def test_conflicts_pass(shop: Shop, order: Order, wire: Wire) -> None:
    wire.next("TransactWriteItems", *[cancelled("TransactionConflict", "None")] * 4)
    settle(shop, FakeProvider(), order.order_id, "pi_1-1")
    assert payment_of(shop, order).refunded == 1000


def test_what_is_refused_for_good_fails_with_the_providers_code(shop: Shop, order: Order) -> None:
    settled = settle(shop, meeting(REFUSED), order.order_id, "pi_1-1")
    assert settled == refund_of(shop, order)
    assert (settled.status, settled.reason) == ("FAILED", "charge_already_refunded")
    assert payment_of(shop, order).refunded == 0
    assert order_now(shop, order.order_id) == order, "it is still to be given back: a person must look"


def test_what_the_provider_answers_as_failed_is_failed(shop: Shop, order: Order) -> None:
    settled = settle(shop, meeting("failed"), order.order_id, "pi_1-1")
    assert settled is not None
    assert (settled.status, settled.provider_id, settled.reason) == ("FAILED", "re_1", "expired_or_canceled_card")


def test_an_old_request_is_looked_for_before_it_is_made_again(shop: Shop, order: Order, clock: Clock) -> None:
    provider = meeting("answer lost")
    provider.clock = clock
    with pytest.raises(Unavailable):
        settle(shop, provider, order.order_id, "pi_1-1")
    clock.sleep(25 * HOUR)  # by now the provider has forgotten the key
    settle(shop, provider, order.order_id, "pi_1-1")
    assert provider.asked == [("refund", "pi_1-1-1"), ("list", "pi_1")]
    assert (provider.of("pi_1"), refund_of(shop, order).status) == (1000, "SUCCEEDED")


@pytest.mark.parametrize(("hours", "looks"), [(20, False), (20.1, True)])
def test_a_key_is_trusted_for_twenty_hours(shop: Shop, order: Order, clock: Clock, hours: float, looks: bool) -> None:
    provider = FakeProvider()
    clock.sleep(hours * HOUR)
    settle(shop, provider, order.order_id, "pi_1-1")
    assert [kind for kind, _ in provider.asked] == (["list", "refund"] if looks else ["refund"])
    assert provider.of("pi_1") == 1000


def test_an_attempt_before_the_last_is_not_taken_for_it(shop: Shop, order: Order, clock: Clock) -> None:
    provider = meeting("failed")
    settle(shop, provider, order.order_id, "pi_1-1")
    refunds.retry_refund(shop, STAFF, order.order_id, "pi_1-1")
    clock.sleep(30 * HOUR)
    settle(shop, provider, order.order_id, "pi_1-1")
    assert provider.asked[1:] == [("list", "pi_1"), ("refund", "pi_1-1-2")]
    assert (refund_of(shop, order).status, refund_of(shop, order).provider_id) == ("SUCCEEDED", "re_2")


def test_without_its_payment_nothing_is_given_back(shop: Shop, order: Order) -> None:
    shop.table.delete([C2.rows[0].key(order_id=order.order_id, payment_id="pi_1")])
    provider = FakeProvider()
    with pytest.raises(NotFound):
        settle(shop, provider, order.order_id, "pi_1-1")
    assert provider.asked == []


# onto a credit account ------------------------------------------------------------------------------------------------
def test_store_credit_is_opened_credited_and_the_refund_done_in_one_transaction(
    shop: Shop, order: Order, wire: Wire
) -> None:
    refunds.refund_order(shop, STAFF, "credit", order.order_id, 500, "credit")
    provider = FakeProvider()
    wire.clear()
    settled = settle(shop, provider, order.order_id, "pi_1-2")
    assert wire.operations.count("TransactWriteItems") == 1
    assert provider.asked == []
    assert settled is not None
    assert settled.status == "SUCCEEDED"
    account_id = accounts.store_credit_id(shop, "ann", "EUR")
    assert balance(shop, account_id) == 500
    (entry,) = ledger(shop, account_id)
    assert (entry.amount, entry.reason, entry.order_id) == (500, "REFUNDED", order.order_id)
    assert payment_of(shop, order).refunded == 500
    assert settle(shop, provider, order.order_id, "pi_1-2") is None
    assert balance(shop, account_id) == 500


def test_what_a_gift_card_paid_goes_back_onto_it(shop: Shop) -> None:
    placed = place(shop)
    order = money.pay_in_parts(shop, placed, 1000, 1500)
    ending.cancel_order(shop, ANN, order.order_id)
    for refund in money.refunds(shop, order.order_id):
        settle(shop, FakeProvider(), order.order_id, refund.refund_id)
    for refund in money.refunds(shop, order.order_id):
        assert refund.account_id is not None
        assert (refund.status, balance(shop, refund.account_id)) == ("SUCCEEDED", refund.amount)


def test_two_workers_credit_once(shop: Shop, rival: Shop, order: Order, wire: Wire) -> None:
    refunds.refund_order(shop, STAFF, "credit", order.order_id, 500, "credit")
    wire.next("TransactWriteItems", after(lambda: settle(rival, FakeProvider(), order.order_id, "pi_1-2")))
    assert settle(shop, FakeProvider(), order.order_id, "pi_1-2") is None
    assert balance(shop, accounts.store_credit_id(shop, "ann", "EUR")) == 500


def test_an_account_that_moves_meanwhile_is_read_again(shop: Shop, rival: Shop, order: Order, wire: Wire) -> None:
    for key in ("one", "two"):
        refunds.refund_order(shop, STAFF, key, order.order_id, 500, "credit")
    wire.next("TransactWriteItems", after(lambda: settle(rival, FakeProvider(), order.order_id, "pi_1-3")))
    settle(shop, FakeProvider(), order.order_id, "pi_1-2")
    account_id = accounts.store_credit_id(shop, "ann", "EUR")
    assert [entry.balance for entry in ledger(shop, account_id)] == [500, 1000]


@pytest.mark.parametrize("had_some", [False, True])
def test_what_would_go_to_the_credit_of_who_was_forgotten_waits_for_a_person(
    shop: Shop, order: Order, had_some: bool
) -> None:
    refunds.refund_order(shop, STAFF, "credit", order.order_id, 500, "credit")
    if had_some:
        credit(shop, 100)
    erasure.forget(shop, ANN, ANN.id)
    settled = settle(shop, FakeProvider(), order.order_id, "pi_1-2")
    assert settled is not None
    assert (settled.status, settled.reason) == ("FAILED", "nobody is known any more who could spend it")
    assert payment_of(shop, order).refunded == 0
    account = shop.table.get(A22b, account_id=accounts.store_credit_id(shop, "ann", "EUR"))
    assert (account.balance if account else 0) == (100 if had_some else 0)


def test_who_is_forgotten_just_then_gets_no_credit(shop: Shop, rival: Shop, order: Order, wire: Wire) -> None:
    refunds.refund_order(shop, STAFF, "credit", order.order_id, 500, "credit")
    wire.next("TransactWriteItems", after(lambda: erasure.forget(rival, ANN, ANN.id)))
    settle(shop, FakeProvider(), order.order_id, "pi_1-2")
    assert refund_of(shop, order, "pi_1-2").status == "FAILED"
    assert shop.table.get(A22b, account_id=accounts.store_credit_id(shop, "ann", "EUR")) is None


def test_an_account_that_cannot_take_it_fails_the_refund(shop: Shop, order: Order) -> None:
    refunds.refund_order(shop, STAFF, "credit", order.order_id, 500, "credit")
    full = Account(
        account_id=accounts.store_credit_id(shop, "ann", "EUR"),
        kind="STORE_CREDIT",
        currency="EUR",
        balance=10**12,
        created_at=order.placed_at,
        updated_at=order.placed_at,
        customer_id="ann",
    )
    shop.table.write(put(ACCOUNT, full))
    settled = settle(shop, FakeProvider(), order.order_id, "pi_1-2")
    assert settled is not None
    assert (settled.status, settled.reason) == ("FAILED", "amount: is more than an account may hold")
    assert payment_of(shop, order).refunded == 0
    shop.table.write(change(ACCOUNT, full, replace(full, balance=0, version=2)))
    refunds.retry_refund(shop, STAFF, order.order_id, "pi_1-2", "credit")
    settle(shop, FakeProvider(), order.order_id, "pi_1-2")
    assert refund_of(shop, order, "pi_1-2").status == "SUCCEEDED"
