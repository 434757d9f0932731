"""Tests refunds: they are decided once, together with the order, and never exceed the paid amount."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from functions.dynamodb.errors import TableBusy
from functions.model.errors import InvalidInput, NotFound, TooMuch, WrongState
from functions.model.patterns import PAYMENTS_OF_ORDER
from functions.shop import accounts, cancellation, payments, refund_processing, refunds
from functions.shop.idempotency import IdempotentResult
from functions.shop.shop import ShopContext
from local.world.payment_provider import REFUSED, FakeProvider
from proof.support.actors import (
    ANN,
    STAFF,
    advance_to_status,
    archive_order,
    create_stocked_product,
    get_order,
    place,
    report_dispute,
    report_payment,
    run_concurrently,
)
from proof.support.samples import moment
from tests.shop.conftest import TappedShop
from tests.support import order_money

STATES = (
    "PAID", "FULFILLING", "CANCEL_REQUESTED", "PARTIALLY_SHIPPED", "CUT_REQUESTED", "SHIPPED", "DELIVERED",
    "PARTIALLY_RETURNED",
)  # fmt: skip


def paid(shop: ShopContext, key: str = "key-1", *amounts: int) -> str:
    """Place an order of 25.00, and pay it by card with these amounts, by default at once. Return its id."""
    order = place(shop, key)
    for number, amount in enumerate(amounts or (order.total,)):
        report_payment(shop, order, event_id=f"{key} {number}", payment_id=f"pi_{key}_{number}", amount=amount)
    assert get_order(shop, order.order_id).status == "PAID"
    return order.order_id


def give(shop: ShopContext, order_id: str, amount: int, key: str = "sorry", **more: Any) -> dict[str, Any]:
    """Refund an amount of an order as staff."""
    return refunds.refund_order(shop, STAFF, key, order_id, amount, **more).result


# goodwill refunds -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("status", STATES)
def test_staff_gives_some_back_in_one_transaction_with_the_order(shop: TappedShop, status: str) -> None:
    before = advance_to_status(shop, place(shop), status)
    known = {refund.refund_id for refund in order_money.refunds(shop, before.order_id)}
    shop.wire.clear()
    result = give(shop, before.order_id, 500)
    assert shop.wire.operations.count("TransactWriteItems") == 1
    order = get_order(shop, before.order_id)
    assert (order.status, order.refunded, order.version) == (status, before.refunded + 500, before.version + 1)
    (refund,) = [it for it in order_money.refunds(shop, before.order_id) if it.refund_id not in known]
    expected = {"order_id": order.order_id, "amount": 500, "currency": "EUR", "refund_ids": [refund.refund_id]}
    assert result == expected
    assert (refund.amount, refund.why, refund.status, refund.account_id) == (500, "GOODWILL", "REQUESTED", None)
    assert order_money.refunded_total(shop, before.order_id) == order.refunded


@pytest.mark.parametrize("status", ["CANCELLED", "LAPSED", "RETURNED"])
def test_of_an_order_that_gave_all_back_nothing_is_left(shop: ShopContext, status: str) -> None:
    order = advance_to_status(shop, place(shop), status)
    with pytest.raises(TooMuch) as refusal:
        give(shop, order.order_id, 1)
    assert refusal.value.most == 0


def test_each_refund_of_a_command_has_the_cause_and_the_note_of_staff(shop: ShopContext) -> None:
    why = refunds.Explanation("LATE_DELIVERY", "Sorry for the wait.")
    order_id = paid(shop, "key-1", 1000, 1500)
    refunds.refund_order(shop, STAFF, "sorry", order_id, 2000, explanation=why)
    assert [(it.cause, it.note) for it in order_money.refunds(shop, order_id)] == [(why.cause, why.note)] * 2


def test_a_refund_is_of_at_least_one_cent_and_at_most_what_is_left_of_the_paid_amount(shop: ShopContext) -> None:
    order_id = paid(shop)
    for amount in (0, -1):
        with pytest.raises(InvalidInput, match="amount"):
            give(shop, order_id, amount)
    with pytest.raises(TooMuch) as refusal:
        give(shop, order_id, 2501)
    assert (refusal.value.field, refusal.value.most) == ("amount", 2500)
    assert order_money.refunds(shop, order_id) == []
    give(shop, order_id, 2000)
    with pytest.raises(TooMuch) as refusal:
        give(shop, order_id, 501, key="more")
    assert refusal.value.most == 500


def test_money_comes_from_the_latest_payment_first(shop: TappedShop) -> None:
    order = place(shop)
    for number, amount in enumerate((700, 800, 1000)):
        report_payment(shop, order, event_id=f"evt_{number}", payment_id=f"pi_{number}", amount=amount)
        shop.clock.sleep(60)
    give(shop, order.order_id, 1200)
    give(shop, order.order_id, 900, key="more")
    assert [(it.refund_id, it.amount) for it in order_money.refunds(shop, order.order_id)] == [
        ("pi_0-1", 300),
        ("pi_1-1", 200),
        ("pi_1-2", 600),
        ("pi_2-1", 1000),
    ]


@pytest.mark.parametrize("minutes", [(0, 0, 0), (0, 1, 2), (2, 1, 0), (1, 0, 1)], ids=str)
def test_the_clocks_of_payments_change_no_amount_of_a_refund(shop: TappedShop, minutes: tuple[int, ...]) -> None:
    order, start = place(shop), shop.clock.now
    brought = {"pi_0": 700, "pi_1": 800, "pi_2": 1000}
    for number, (payment_id, amount) in enumerate(brought.items()):
        shop.clock.now = start + timedelta(minutes=minutes[number])
        report_payment(shop, order, event_id=f"evt_{number}", payment_id=payment_id, amount=amount)
    for number, amount in enumerate((1200, 900, 400)):
        assert give(shop, order.order_id, amount, key=str(number))["amount"] == amount
    back = Counter[str]()
    for refund in order_money.refunds(shop, order.order_id):
        back[refund.payment_id] += refund.amount
    assert back == brought, "each payment was refunded exactly"


def test_many_refunds_at_once_never_give_back_more_than_was_paid(shop: ShopContext) -> None:
    order_id = paid(shop)
    found = run_concurrently(*[lambda key=str(n): give(shop, order_id, 700, key=key) for n in range(6)])
    assert sorted(type(one).__name__ for one in found) == ["TooMuch"] * 3 + ["dict"] * 3
    assert order_money.refunded_total(shop, order_id) == 2100


def test_a_refund_concurrent_with_the_cancel_is_part_of_the_refunded_amount(shop: TappedShop) -> None:
    order_id = paid(shop)
    shop.meanwhile(lambda rival: give(rival, order_id, 700))
    cancellation.cancel_order(shop, ANN, order_id)
    assert [(it.amount, it.why) for it in order_money.refunds(shop, order_id)] == [
        (700, "GOODWILL"),
        (1800, "CANCELLED"),
    ]
    assert order_money.refunded_total(shop, order_id) == 2500


# payments that match no order -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("place_of", ["no order", "a stub", "another currency"])
def test_money_that_matched_nothing_is_given_back_whole(shop: ShopContext, place_of: str) -> None:
    order = place(shop)
    changed: dict[str, Any] = {}
    if place_of == "no order":
        changed = {"order_id": "none-such"}
    elif place_of == "a stub":
        advance_to_status(shop, order, "CANCELLED")
        archive_order(shop, order.order_id, to_stub=True)
    else:
        changed = {"currency": "USD"}
    id = changed.get("order_id", order.order_id)
    assert report_payment(shop, order, **changed)["status"] == "UNMATCHED"
    first = refunds.refund_payment(shop, STAFF, "back", id, "pi_1")
    again = refunds.refund_payment(shop, STAFF, "back", id, "pi_1")
    assert first.result == again.result
    assert again.replayed
    (refund,) = order_money.refunds(shop, id)
    assert (refund.refund_id, refund.amount, refund.why) == ("pi_1-1", 2500, "UNMATCHED")
    assert refund.customer_id == (None if place_of == "no order" else "ann")
    with pytest.raises(TooMuch):
        refunds.refund_payment(shop, STAFF, "again", id, "pi_1")
    provider = FakeProvider()
    refund_processing.process_refund(shop, provider, id, "pi_1-1")
    (payment,) = shop.table.query(PAYMENTS_OF_ORDER, order_id=id).items
    assert (payment.status, payment.refunded) == ("REFUNDED", 2500)
    with pytest.raises(WrongState):
        refunds.refund_payment(shop, STAFF, "once more", id, "pi_1")


def test_money_that_counts_for_an_order_goes_back_through_the_order(shop: ShopContext) -> None:
    order_id = paid(shop)
    with pytest.raises(WrongState) as refusal:
        refunds.refund_payment(shop, STAFF, "back", order_id, "pi_key-1_0")
    assert (refusal.value.what, refusal.value.state) == ("payment", "CAPTURED")
    with pytest.raises(NotFound):
        refunds.refund_payment(shop, STAFF, "back", order_id, "pi_other")


def test_nothing_is_added_beside_an_order_that_is_being_archived(shop: ShopContext) -> None:
    order = advance_to_status(shop, place(shop), "CANCELLED")
    report_payment(shop, order, currency="USD")
    archive_order(shop, order.order_id)
    with pytest.raises(TableBusy):
        refunds.refund_payment(shop, STAFF, "back", order.order_id, "pi_1")


# retries of failed refunds --------------------------------------------------------------------------------------------
def failed(shop: ShopContext, *amounts: int) -> str:
    """Pay an order, and let a refund of 5.00 fail. Return the order's id."""
    order_id = paid(shop, "key-1", *amounts)
    give(shop, order_id, 500)
    (refund,) = order_money.refunds(shop, order_id)
    refund_processing.process_refund(shop, FakeProvider(REFUSED), order_id, refund.refund_id)
    assert order_money.refunds(shop, order_id)[0].status == "FAILED"
    return order_id


def test_a_refund_that_failed_is_tried_again_under_another_key(shop: TappedShop) -> None:
    order_id = failed(shop)
    shop.clock.sleep(60)
    again = refunds.retry_refund(shop, STAFF, order_id, "pi_key-1_0-1")
    assert (again.status, again.attempt, again.reason, again.updated_at) == ("REQUESTED", 2, None, moment(1))
    assert refunds.retry_refund(shop, STAFF, order_id, "pi_key-1_0-1") == again, "repeatable until it is sent"
    with pytest.raises(WrongState):
        refunds.retry_refund(shop, STAFF, order_id, "pi_key-1_0-1", "credit")
    provider = FakeProvider()
    refund_processing.process_refund(shop, provider, order_id, again.refund_id)
    assert provider.requests == [("refund", "pi_key-1_0-1-2")]
    assert order_money.refunds(shop, order_id)[0].status == "SUCCEEDED"
    assert get_order(shop, order_id).refunded == 500, "the order counted the refund when it was decided"
    with pytest.raises(WrongState) as refusal:
        refunds.retry_refund(shop, STAFF, order_id, "pi_key-1_0-1")
    assert (refusal.value.what, refusal.value.state) == ("refund", "SUCCEEDED")


@pytest.mark.parametrize("fails_first", [False, True])
def test_yen_that_become_store_credit_stay_yen(shop: ShopContext, fails_first: bool) -> None:
    create_stocked_product(shop, "kin", 5, price=4980, currency="JPY")
    order = place(shop, "yen", kin=1)
    report_payment(shop, order)
    give(shop, order.order_id, 980, to="original" if fails_first else "credit")
    (refund,) = order_money.refunds(shop, order.order_id)
    if fails_first:
        refund_processing.process_refund(shop, FakeProvider(REFUSED), order.order_id, refund.refund_id)
        refund = refunds.retry_refund(shop, STAFF, order.order_id, refund.refund_id, "credit")
    refund_processing.process_refund(shop, FakeProvider(), order.order_id, refund.refund_id)
    account = accounts.get_account(shop, ANN, accounts.store_credit_account_id(shop, "ann", "JPY"))
    assert (refund.currency, account.currency, account.balance) == ("JPY", "JPY", 980)


@pytest.mark.parametrize(
    ("changed", "error", "field"),
    [({"order_id": "none-such"}, NotFound, "customer"), ({"currency": "SEK"}, InvalidInput, "to")],
)
def test_money_of_an_unknown_customer_or_in_an_unknown_currency_cannot_become_store_credit(
    shop: ShopContext, changed: dict[str, Any], error: type[Exception], field: str
) -> None:
    order = place(shop)
    id = changed.get("order_id", order.order_id)
    report_payment(shop, order, **changed)
    refunds.refund_payment(shop, STAFF, "back", id, "pi_1")
    refund_processing.process_refund(shop, FakeProvider(REFUSED), id, "pi_1-1")
    with pytest.raises(error, match=field):
        refunds.retry_refund(shop, STAFF, id, "pi_1-1", "credit")
    assert refunds.retry_refund(shop, STAFF, id, "pi_1-1").attempt == 2


@pytest.mark.parametrize("command", ["retry", "refund"])
def test_a_refund_that_an_archive_overtakes_is_not_written(shop: TappedShop, command: str) -> None:
    """The archive, which has already listed the order's items, would otherwise delete the refund."""
    order = advance_to_status(shop, place(shop), "CANCELLED")
    report_payment(shop, order, currency="USD")
    if command == "retry":
        refunds.refund_payment(shop, STAFF, "back", order.order_id, "pi_1")
        refund_processing.process_refund(shop, FakeProvider(REFUSED), order.order_id, "pi_1-1")
    commands: dict[str, Callable[[], object]] = {
        "retry": lambda: refunds.retry_refund(shop, STAFF, order.order_id, "pi_1-1"),
        "refund": lambda: refunds.refund_payment(shop, STAFF, "back", order.order_id, "pi_1"),
    }
    shop.meanwhile(lambda rival: archive_order(rival, order.order_id))
    with pytest.raises(TableBusy):
        commands[command]()
    assert [one.status for one in order_money.refunds(shop, order.order_id)] == ["FAILED"] * (command == "retry")


# failed refunds that staff settle by hand -----------------------------------------------------------------------------
def settle(shop: ShopContext, order_id: str, key: str = "settle", refund_id: str = "pi_key-1_0-1") -> IdempotentResult:
    return refund_processing.settle_refund(shop, STAFF, key, order_id, refund_id, "paid in cash")


def test_a_failed_refund_is_settled_by_hand_once_and_counts_as_refunded(shop: ShopContext) -> None:
    order_id = failed(shop)
    first, again = settle(shop, order_id), settle(shop, order_id)
    assert (first.result["status"], again.result, again.replayed) == ("SETTLED", first.result, True)
    (refund,) = order_money.refunds(shop, order_id)
    (payment,) = shop.table.query_all(PAYMENTS_OF_ORDER, order_id=order_id)
    assert (refund.status, refund.reason) == ("SETTLED", "paid in cash")
    assert (payment.status, payment.refunded, get_order(shop, order_id).refunded) == ("CAPTURED", 500, 500)
    with pytest.raises(WrongState):
        settle(shop, order_id, "twice")
    with pytest.raises(WrongState):
        refunds.retry_refund(shop, STAFF, order_id, refund.refund_id)
    with pytest.raises(NotFound):
        settle(shop, order_id, "other", "none-such")


def test_a_refund_that_did_not_fail_is_neither_tried_again_nor_settled_by_hand(shop: ShopContext) -> None:
    order_id = paid(shop)
    give(shop, order_id, 500)
    with pytest.raises(WrongState):
        refunds.retry_refund(shop, STAFF, order_id, "pi_key-1_0-1")
    with pytest.raises(NotFound):
        refunds.retry_refund(shop, STAFF, order_id, "pi_key-1_0-2")
    with pytest.raises(WrongState) as refusal:
        settle(shop, order_id)
    assert (refusal.value.what, refusal.value.state) == ("refund", "REQUESTED")


def test_the_refund_of_a_disputed_payment_is_not_settled_by_hand(shop: ShopContext) -> None:
    """If the shop lost the dispute, the customer would get the money twice."""
    order_id = failed(shop)
    steps: list[tuple[Any, str]] = [("opened", "DISPUTED"), ("lost", "REFUNDED")]
    for outcome, state in steps:
        report_dispute(shop, "pi_key-1_0", outcome)
        with pytest.raises(WrongState) as refusal:
            settle(shop, order_id)
        assert (refusal.value.what, refusal.value.state) == ("payment", state)


def test_an_unmatched_payment_whose_refund_is_settled_by_hand_does_not_wait_for_staff_any_more(
    shop: ShopContext,
) -> None:
    report_payment(shop, place(shop), order_id="none-such")
    refunds.refund_payment(shop, STAFF, "back", "none-such", "pi_1")
    refund_processing.process_refund(shop, FakeProvider(REFUSED), "none-such", "pi_1-1")
    assert [one.payment_id for one in payments.list_unmatched_payments(shop)] == ["pi_1"]
    settle(shop, "none-such", refund_id="pi_1-1")
    assert list(payments.list_unmatched_payments(shop)) == []
    (payment,) = shop.table.query_all(PAYMENTS_OF_ORDER, order_id="none-such")
    assert (payment.status, payment.refunded) == ("REFUNDED", 2500)
