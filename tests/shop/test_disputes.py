"""Tests disputes: the customer's bank claims a payment back, and the money of the order follows the outcome."""

from dataclasses import replace
from typing import Any, TypeVar

import pytest

from functions.dynamodb.errors import TableBusy
from functions.dynamodb.writes import put_if_absent
from functions.model.entities import ArchivedOrder, Dispute, KeptEvent, Order, Payment
from functions.model.errors import NotFound, TooMuch, WrongState
from functions.model.patterns import ORDER_ITEM_COLLECTION
from functions.model.table import PAYMENT, REFUND
from functions.shop import cancellation, payments, refunds
from functions.shop.accounts import store_credit_account_id
from functions.shop.disputes import MAX_RETRIED_REFUNDS
from functions.shop.refund_processing import ProviderRefundEvent, process_refund, record_refund
from functions.shop.refunds import MAX_PAYMENTS, build_refund
from functions.shop.shop import ShopContext
from local.world.payment_provider import REFUSED, FakeProvider
from proof.support.actors import (
    ANN,
    STAFF,
    advance_to_status,
    archive_order,
    get_order,
    place,
    report_dispute,
    report_external_refund,
    report_payment,
    return_items,
    set_shipping_prices,
)
from proof.support.client_faults import WireTap
from tests.support import order_money
from tests.support.credit_actions import balance

T = TypeVar("T")


def statuses(payment: Payment) -> dict[str, str]:
    return {id: dispute.status for id, dispute in (payment.disputes or {}).items()}


def dispute(
    shop: ShopContext, order: Order, outcome: Any, number: int = 1, payment_id: str | None = None, **changed: Any
) -> dict[str, Any]:
    """Report a dispute of a payment (default: the first payment), as the provider's webhook does. Return the answer."""
    payment_id = payment_id or next((it.payment_id for it in order_money.payments(shop, order.order_id)), "pi_1")
    return report_dispute(shop, payment_id, outcome, dispute_id=f"dp_{number}", **changed)


def test_a_disputed_payment_gives_nothing_back_until_it_is_won(shop: ShopContext) -> None:
    order = advance_to_status(shop, place(shop), "PAID")
    assert dispute(shop, order, "opened")["status"] == "DISPUTED"
    assert get_order(shop, order.order_id) == order
    with pytest.raises(TooMuch) as refusal:
        refunds.refund_order(shop, STAFF, "sorry", order.order_id, 100)
    assert (refusal.value.field, refusal.value.most) == ("amount", 0)
    assert dispute(shop, order, "won")["status"] == "CAPTURED"
    refunds.refund_order(shop, STAFF, "sorry", order.order_id, 100)
    assert get_order(shop, order.order_id).refunded == 100


def test_a_lost_dispute_takes_the_money_of_a_refund_that_is_not_sent(shop: ShopContext) -> None:
    order = advance_to_status(shop, place(shop), "PAID")
    refunds.refund_order(shop, STAFF, "sorry", order.order_id, 700)
    dispute(shop, order, "opened")
    dispute(shop, order, "lost")
    (found,) = order_money.payments(shop, order.order_id)
    assert (found.status, found.refunded, found.reason) == ("REFUNDED", 0, "dispute lost: fraudulent")
    assert found.disputes == {"dp_1": Dispute(status="LOST", amount=2500, reason="fraudulent")}
    assert get_order(shop, order.order_id).refunded == 2500
    assert [(it.amount, it.why) for it in order_money.refunds(shop, order.order_id)] == [(700, "GOODWILL")]


def test_an_order_that_is_not_paid_yet_waits_again_for_what_a_lost_dispute_took(shop: ShopContext) -> None:
    order = place(shop)
    report_payment(shop, order, amount=900)
    dispute(shop, order, "opened")
    dispute(shop, order, "lost")
    waiting = get_order(shop, order.order_id)
    assert (waiting.status, waiting.paid, waiting.refunded) == ("PENDING", 0, 0)
    report_payment(shop, order, event_id="evt_2", payment_id="pi_2")
    assert get_order(shop, order.order_id).status == "PAID"


@pytest.mark.parametrize("end", ["CANCELLED", "LAPSED"])
def test_what_an_ended_order_could_not_give_back_is_given_back_once_the_dispute_is_won(
    shop: ShopContext, end: str
) -> None:
    order = place(shop)
    report_payment(shop, order, amount=900)
    report_payment(shop, order, event_id="evt_2", payment_id="pi_2", amount=100)
    dispute(shop, order, "opened")
    ended = advance_to_status(shop, get_order(shop, order.order_id), end)
    assert (ended.paid, ended.refunded) == (1000, 100)
    dispute(shop, order, "won")
    dispute(shop, order, "won")
    assert get_order(shop, order.order_id).refunded == 1000
    assert [(it.refund_id, it.amount, it.why) for it in order_money.refunds(shop, order.order_id)] == [
        ("pi_1-1", 900, end),
        ("pi_2-1", 100, end),
    ]


@pytest.mark.parametrize("known", ["nothing", "authorised", "failed"])
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("outcomes", [("opened",), ("won",), ("lost",), ("opened", "lost"), ("lost", "opened")])
def test_a_dispute_that_comes_before_its_payment_is_applied_when_the_payment_comes(
    shop: ShopContext, known: str, named: bool, outcomes: tuple[Any, ...]
) -> None:
    order = place(shop)
    if known != "nothing":
        report_payment(shop, order, event_id=known, outcome=known)
    named_order = order.order_id if named else payments.NO_ORDER
    last = "LOST" if "lost" in outcomes else {"opened": "OPEN", "won": "WON"}[outcomes[-1]]
    for outcome in outcomes:
        report_dispute(shop, "pi_1", outcome, order_id=named_order)
    (waiting,) = payments.list_unmatched_payments(shop)
    assert (waiting.payment_id, waiting.status) == ("pi_1", last), "staff see the dispute until then"
    report_payment(shop, order)
    (found,) = order_money.payments(shop, order.order_id)
    assert (found.status, statuses(found)) == (
        {"OPEN": "DISPUTED", "WON": "CAPTURED", "LOST": "REFUNDED"}[last],
        {"dp_1": last},
    )
    assert money_of(get_order(shop, order.order_id)) == (2500, 2500 if last == "LOST" else 0, 0)
    assert list(payments.list_unmatched_payments(shop)) == []
    assert items_of(shop, named_order, KeptEvent) == []


def test_kept_events_are_applied_by_the_next_delivery_if_the_first_one_died(
    shop: ShopContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = place(shop)
    report_dispute(shop, "pi_1", "lost")
    report_external_refund(shop, "pi_2", 100)
    with monkeypatch.context() as dying:
        dying.setattr(payments, "apply_kept_events", lambda *_: None)
        report_payment(shop, order)
    assert statuses(order_money.payments(shop, order.order_id)[0]) == {}
    report_payment(shop, order)
    assert statuses(order_money.payments(shop, order.order_id)[0]) == {"dp_1": "LOST"}
    assert [it.payment_id for it in payments.list_unmatched_payments(shop)] == ["pi_2"]


def test_staff_close_events_of_a_payment_that_never_comes(shop: ShopContext) -> None:
    report_dispute(shop, "pi_1", "opened")
    report_external_refund(shop, "pi_1", 700)
    report_dispute(shop, "pi_2", "opened")
    closed = refunds.refund_payment(shop, STAFF, "close", payments.NO_ORDER, "pi_1").result
    assert (closed["amount"], closed["refund_ids"]) == (0, [])
    assert [it.payment_id for it in payments.list_unmatched_payments(shop)] == ["pi_2"]
    with pytest.raises(NotFound):
        refunds.refund_payment(shop, STAFF, "again", payments.NO_ORDER, "pi_1")
    order = place(shop)
    report_payment(shop, order)
    assert order_money.payments(shop, order.order_id)[0].status == "DISPUTED", "a payment that still comes gets them"
    assert order_money.payments(shop, order.order_id)[0].refunded == 700


@pytest.mark.parametrize("order_id", ["none", "another-order"])
def test_the_order_of_a_dispute_is_that_of_its_payment_whatever_its_metadata_says(
    shop: ShopContext, order_id: str
) -> None:
    order = advance_to_status(shop, place(shop), "PAID")
    (payment,) = order_money.payments(shop, order.order_id)
    assert report_dispute(shop, payment.payment_id, "opened", order_id=order_id)["status"] == "DISPUTED"
    report_dispute(shop, payment.payment_id, "lost", order_id=order_id)
    assert get_order(shop, order.order_id).refunded == 2500


def test_a_lost_dispute_takes_its_amount_and_leaves_the_rest(shop: ShopContext) -> None:
    order = advance_to_status(shop, place(shop), "DELIVERED")
    dispute(shop, order, "opened", amount=500)
    dispute(shop, order, "lost", amount=500, reason=None)
    (payment,) = order_money.payments(shop, order.order_id)
    assert (payment.status, payment.reason) == ("CAPTURED", "dispute lost")
    lost = get_order(shop, order.order_id)
    assert (money_of(lost), lost.withdrawn) == ((2500, 500, 0), 500)
    for key, amount in (("first", 1250), ("second", 750)):
        assert return_items(shop, order.order_id, key, mug=1).result["amount"] == amount
    assert money_of(get_order(shop, order.order_id)) == (2500, 2500, 0)


def test_a_partly_lost_dispute_releases_what_is_owed(shop: ShopContext) -> None:
    order = advance_to_status(shop, place(shop), "DELIVERED")
    dispute(shop, order, "opened", amount=500)
    for key in ("first", "second"):
        return_items(shop, order.order_id, key, mug=1)
    assert money_of(get_order(shop, order.order_id)) == (2500, 0, 2500)
    dispute(shop, order, "lost", amount=500)
    assert money_of(get_order(shop, order.order_id)) == (2500, 2500, 0)
    assert [it.amount for it in order_money.refunds(shop, order.order_id)] == [2000]


def test_a_dispute_in_another_currency_is_one_of_the_whole_payment(shop: ShopContext) -> None:
    order = advance_to_status(shop, place(shop), "PAID")
    dispute(shop, order, "lost", amount=27, currency="USD")
    assert get_order(shop, order.order_id).refunded == 2500


def test_disputed_payments_count_among_the_most_payments_of_an_order(shop: ShopContext) -> None:
    order = place(shop)
    for number in range(MAX_PAYMENTS):
        report_payment(shop, order, event_id=f"evt_{number}", payment_id=f"pi_{number}", amount=100)
        dispute(shop, order, "opened", number, f"pi_{number}")
    report_payment(shop, order, event_id="evt_more", payment_id="pi_more", amount=100)
    assert get_order(shop, order.order_id).paid == MAX_PAYMENTS * 100
    assert [(it.payment_id, it.why) for it in order_money.refunds(shop, order.order_id)] == [("pi_more", "EXCESS")]


@pytest.mark.parametrize(
    ("outcomes", "end", "status", "version", "lost"),
    [
        (("opened", "opened", "won", "won", "opened"), "WON", "CAPTURED", 3, 0),
        (("opened", "won", "lost", "won", "opened"), "LOST", "REFUNDED", 4, 2500),
    ],
)
def test_a_dispute_goes_only_forward_whatever_the_events_are_called(
    shop: ShopContext, outcomes: tuple[Any, ...], end: str, status: str, version: int, lost: int
) -> None:
    order = advance_to_status(shop, place(shop), "PAID")
    for outcome in outcomes:
        dispute(shop, order, outcome)
    (found,) = order_money.payments(shop, order.order_id)
    assert (found.status, statuses(found), found.version) == (status, {"dp_1": end}, version)
    assert money_of(get_order(shop, order.order_id)) == (2500, lost, 0)


def test_a_second_dispute_has_its_own_effect(shop: ShopContext) -> None:
    order = advance_to_status(shop, place(shop), "PAID")
    for outcome, number in (("opened", 1), ("won", 1), ("opened", 2)):
        dispute(shop, order, outcome, number)
    assert order_money.payments(shop, order.order_id)[0].status == "DISPUTED"


def cancel_paid_order(shop: ShopContext) -> Order:
    """Return a cancelled order that was paid with pi_1."""
    order = place(shop)
    report_payment(shop, order)
    return advance_to_status(shop, get_order(shop, order.order_id), "CANCELLED")


def archive_order_and_payment(shop: ShopContext, order: Order) -> Order:
    """Replace the order with its stub, and delete its payment, as the archive Lambda does."""
    archive_order(shop, order.order_id, to_stub=True)
    shop.table.batch_delete([PAYMENT.key(order_id=order.order_id, payment_id="pi_1")])
    return order


def items_of(shop: ShopContext, order_id: str, kind: type[T]) -> list[T]:
    return [item for item in shop.table.query(ORDER_ITEM_COLLECTION, order_id=order_id).items if isinstance(item, kind)]


def test_a_dispute_of_an_archived_order_is_kept_beside_its_stub_and_goes_only_forward(shop: ShopContext) -> None:
    ended = archive_order_and_payment(shop, cancel_paid_order(shop))
    for outcome, status in (("opened", "OPEN"), ("opened", "OPEN"), ("lost", "LOST"), ("opened", "LOST")):
        assert dispute(shop, ended, outcome, payment_id="pi_1")["status"] == status
    (kept,) = items_of(shop, ended.order_id, KeptEvent)
    assert (kept.payment_id, kept.object_id, kept.status, kept.reason) == ("pi_1", "dp_1", "LOST", "fraudulent")
    assert items_of(shop, ended.order_id, ArchivedOrder), "the order stays archived"


@pytest.mark.parametrize(("kept", "late"), [([], "opened"), (["opened"], "won")])
def test_a_late_event_of_an_archived_order_does_not_replace_one_that_is_kept_meanwhile(
    shop: ShopContext, rival: ShopContext, wire: WireTap, kept: list[str], late: str
) -> None:
    ended = archive_order_and_payment(shop, cancel_paid_order(shop))
    for outcome in kept:
        dispute(shop, ended, outcome, payment_id="pi_1")
    wire.run_before_call("TransactWriteItems", lambda: dispute(rival, ended, "lost", payment_id="pi_1"))
    assert dispute(shop, ended, late, payment_id="pi_1")["status"] == "LOST"
    assert [event.status for event in items_of(shop, ended.order_id, KeptEvent)] == ["LOST"]


@pytest.mark.parametrize("earlier", [0, 1])
def test_a_dispute_just_before_its_payment_is_recorded_is_of_the_payment(
    shop: ShopContext, rival: ShopContext, wire: WireTap, earlier: int
) -> None:
    """`earlier`: how many other disputes of the payment were kept before."""
    order = place(shop)
    for number in range(earlier):
        dispute(shop, order, "opened", number=2 + number, payment_id="pi_1")
    wire.run_before_call("TransactWriteItems", lambda: report_payment(rival, order))
    dispute(shop, order, "opened", payment_id="pi_1")
    assert len(statuses(order_money.payments(shop, order.order_id)[0])) == 1 + earlier
    assert list(payments.list_unmatched_payments(shop)) == []


def test_a_dispute_just_before_its_order_is_restored_is_moved_to_the_payment(
    shop: ShopContext, rival: ShopContext, wire: WireTap
) -> None:
    """The restore replaces the stub between the command's read and its write, so the command is decided again."""
    ended = cancel_paid_order(shop)
    before = shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=ended.order_id)
    archive_order_and_payment(shop, ended)

    def restore() -> None:
        for image in before:
            rival.table.client.put_item(TableName=rival.table.name, Item=image)

    wire.run_before_call("TransactWriteItems", restore)
    assert dispute(shop, ended, "opened", payment_id="pi_1")["status"] in ("DISPUTED", "REFUNDED")
    assert items_of(shop, ended.order_id, KeptEvent) == []
    assert statuses(order_money.payments(shop, ended.order_id)[0]) == {"dp_1": "OPEN"}


def test_a_dispute_is_not_told_to_an_order_that_is_being_archived(shop: ShopContext) -> None:
    ended = cancel_paid_order(shop)
    archive_order(shop, ended.order_id, to_stub=False)
    with pytest.raises(TableBusy):
        dispute(shop, ended, "opened")


@pytest.mark.parametrize("outcome", ["won", "lost"])
def test_the_end_of_a_dispute_and_the_end_of_its_order_agree_though_they_race(
    shop: ShopContext, rival: ShopContext, wire: WireTap, outcome: str
) -> None:
    order = place(shop)
    report_payment(shop, order)
    dispute(shop, order, "opened")
    wire.run_before_call("TransactWriteItems", lambda: cancellation.cancel_order(rival, ANN, order.order_id))
    dispute(shop, order, outcome)
    ended = get_order(shop, order.order_id)
    assert (ended.status, ended.paid, ended.refunded) == ("CANCELLED", 2500, 2500)
    assert [it.amount for it in order_money.refunds(shop, order.order_id)] == ([2500] if outcome == "won" else [])


# refunds that a dispute delays ----------------------------------------------------------------------------------------
def money_of(order: Order) -> tuple[int, int, int]:
    return order.paid, order.refunded, order.owed


def test_what_comes_back_while_its_payment_is_disputed_is_given_back_once_that_is_won(shop: ShopContext) -> None:
    order = advance_to_status(shop, place(shop), "DELIVERED")
    dispute(shop, order, "opened")
    first = return_items(shop, order.order_id, "first", mug=1).result
    assert (first["amount"], first["owed"], first["refund_ids"]) == (0, 1250, [])
    assert money_of(get_order(shop, order.order_id)) == (2500, 0, 1250)
    dispute(shop, order, "won")
    assert money_of(get_order(shop, order.order_id)) == (2500, 1250, 0)
    return_items(shop, order.order_id, "second", mug=1)
    assert [(it.amount, it.why) for it in order_money.refunds(shop, order.order_id)] == [(1250, "RETURNED")] * 2
    assert order_money.refunded_total(shop, order.order_id) == 2500


def test_what_the_bank_takes_pays_what_is_owed_first(shop: ShopContext) -> None:
    placed = place(shop)
    for number, amount in enumerate((1000, 1500)):
        report_payment(shop, placed, event_id=f"evt_{number}", payment_id=f"pi_{number}", amount=amount)
    order = order_money.deliver_order(shop, placed)
    for number in (0, 1):
        dispute(shop, order, "opened", number, f"pi_{number}")
    return_items(shop, order.order_id, mug=1)
    dispute(shop, order, "lost", 0, "pi_0")
    assert money_of(get_order(shop, order.order_id)) == (2500, 1000, 250)
    dispute(shop, order, "won", 1, "pi_1")
    assert money_of(get_order(shop, order.order_id)) == (2500, 1250, 0)
    assert [it.amount for it in order_money.refunds(shop, order.order_id)] == [250]


def test_what_is_owed_is_not_given_back_for_another_reason_too(shop: ShopContext) -> None:
    set_shipping_prices(shop, EUR=490)
    placed = place(shop)
    for number, amount in enumerate((990, 2000)):
        report_payment(shop, placed, event_id=f"evt_{number}", payment_id=f"pi_{number}", amount=amount)
    order = order_money.deliver_order(shop, placed)
    dispute(shop, order, "opened", 1, "pi_1")
    first = order_money.return_pieces(shop, order, "first", mug=1, refund_shipping=True).result
    assert (first["amount"], first["owed"], first["shipping"]) == (990, 750, 490)
    dispute(shop, order, "won", 1, "pi_1")
    dispute(shop, order, "opened", 2, "pi_1")
    second = order_money.return_pieces(shop, order, "second", mug=1, refund_shipping=True).result
    assert (second["amount"], second["owed"], second["shipping"]) == (0, 1250, 0), "shipping is refunded only once"
    with pytest.raises(TooMuch) as refusal:
        refunds.refund_order(shop, STAFF, "sorry", order.order_id, 1)
    assert refusal.value.most == 0
    dispute(shop, order, "won", 2, "pi_1")
    assert order_money.refunded_total(shop, order.order_id) == order.total


@pytest.mark.parametrize("news", ["refused by the provider", "told later", "not asked any more"])
def test_a_cancel_just_before_a_dispute_comes_to_the_same_as_one_just_after(shop: ShopContext, news: str) -> None:
    order = advance_to_status(shop, place(shop), "PAID")
    cancellation.cancel_order(shop, ANN, order.order_id)
    (refund,) = order_money.refunds(shop, order.order_id)
    if news == "refused by the provider":
        process_refund(shop, FakeProvider(REFUSED), order.order_id, refund.refund_id)
    elif news == "told later":
        process_refund(shop, FakeProvider(), order.order_id, refund.refund_id)
    dispute(shop, order, "opened")
    if news == "told later":
        told = ProviderRefundEvent("evt_r", order.order_id, refund.refund_id, 1, "re_1", "failed", "disputed")
        record_refund(shop, told)
        assert order_money.payments(shop, order.order_id)[0].status == "DISPUTED"
    else:
        process_refund(shop, FakeProvider(REFUSED), order.order_id, refund.refund_id)
    assert [it.status for it in order_money.refunds(shop, order.order_id)] == ["FAILED"]
    dispute(shop, order, "won")
    assert [(it.status, it.attempt) for it in order_money.refunds(shop, order.order_id)] == [("REQUESTED", 2)]
    process_refund(shop, FakeProvider(), order.order_id, refund.refund_id)
    (payment,) = order_money.payments(shop, order.order_id)
    assert (payment.status, payment.refunded) == ("REFUNDED", 2500)
    assert money_of(get_order(shop, order.order_id)) == (2500, 2500, 0)


def test_no_more_is_tried_again_at_once_than_fits_the_transaction(shop: ShopContext) -> None:
    order = advance_to_status(shop, place(shop), "DELIVERED")
    (payment,) = order_money.payments(shop, order.order_id)
    for number in range(1, 100):
        failed = build_refund(shop, payment, 1, "GOODWILL", number=number, customer_id="ann")
        shop.table.write(put_if_absent(REFUND, replace(failed, status="FAILED")))
    dispute(shop, order, "opened")
    return_items(shop, order.order_id, mug=1)
    dispute(shop, order, "won")
    found = [it.status for it in order_money.refunds(shop, order.order_id)]
    assert (found.count("REQUESTED"), found.count("FAILED")) == (MAX_RETRIED_REFUNDS + 1, 99 - MAX_RETRIED_REFUNDS)


# outcomes that a payment records --------------------------------------------------------------------------------------
def given(shop: ShopContext) -> tuple[Order, str]:
    """Cancel a paid order, and refund it completely at the provider. Return the order and the refund's id."""
    order = advance_to_status(shop, place(shop), "PAID")
    cancellation.cancel_order(shop, ANN, order.order_id)
    (refund,) = order_money.refunds(shop, order.order_id)
    process_refund(shop, FakeProvider(), order.order_id, refund.refund_id)
    return order, refund.refund_id


def came_back(shop: ShopContext, order: Order, refund_id: str) -> None:
    """Report that a refund failed after it had succeeded, so that the provider has the money again."""
    told = ProviderRefundEvent(
        "evt_r", order.order_id, refund_id, 1, "re_1", "failed", "charge_for_pending_refund_disputed"
    )
    record_refund(shop, told)


@pytest.mark.parametrize("fails", ["before it is opened", "while it is open", "after it is lost"])
def test_what_the_bank_has_taken_is_not_given_again_though_its_refund_failed(shop: ShopContext, fails: str) -> None:
    order, refund_id = given(shop)
    for moment, outcome in (("before it is opened", "opened"), ("while it is open", "lost"), ("after it is lost", "")):
        if moment == fails:
            came_back(shop, order, refund_id)
        if outcome:
            dispute(shop, order, outcome)
    (payment,) = order_money.payments(shop, order.order_id)
    assert (payment.status, payment.refunded) == ("REFUNDED", 0)
    for to in ("original", "credit"):
        with pytest.raises(WrongState) as refusal:
            refunds.retry_refund(shop, STAFF, order.order_id, refund_id, to)
        assert (refusal.value.what, refusal.value.state) == ("payment", "REFUNDED")


def test_while_the_bank_disputes_it_a_payment_goes_onto_no_credit_account_either(shop: ShopContext) -> None:
    order = advance_to_status(shop, place(shop), "PAID")
    refunds.refund_order(shop, STAFF, "sorry", order.order_id, 500, "credit")
    (refund,) = order_money.refunds(shop, order.order_id)
    dispute(shop, order, "opened")
    settled = process_refund(shop, FakeProvider(), order.order_id, refund.refund_id)
    assert settled is not None
    assert (settled.status, settled.reason) == ("FAILED", "the customer's bank disputes the payment")
    with pytest.raises(WrongState) as refusal:
        refunds.retry_refund(shop, STAFF, order.order_id, refund.refund_id, "credit")
    assert (refusal.value.what, refusal.value.state) == ("payment", "DISPUTED")
    dispute(shop, order, "won")
    process_refund(shop, FakeProvider(), order.order_id, refund.refund_id)
    assert balance(shop, store_credit_account_id(shop, "ann", "EUR")) == 500


def test_a_refund_that_fails_just_as_the_dispute_is_won_is_tried_again(
    shop: ShopContext, rival: ShopContext, wire: WireTap
) -> None:
    order = advance_to_status(shop, place(shop), "PAID")
    cancellation.cancel_order(shop, ANN, order.order_id)
    (refund,) = order_money.refunds(shop, order.order_id)
    dispute(shop, order, "opened")
    wire.run_before_call("TransactWriteItems", lambda: dispute(rival, order, "won"))
    process_refund(shop, FakeProvider(), order.order_id, refund.refund_id)
    assert [it.status for it in order_money.refunds(shop, order.order_id)] == ["SUCCEEDED"]


def test_of_two_disputes_both_must_be_won(shop: ShopContext) -> None:
    order = advance_to_status(shop, place(shop), "PAID")
    for number in (1, 2):
        dispute(shop, order, "opened", number)
    cancellation.cancel_order(shop, ANN, order.order_id)
    assert dispute(shop, order, "won", 1)["status"] == "DISPUTED"
    assert money_of(get_order(shop, order.order_id)) == (2500, 0, 2500)
    assert dispute(shop, order, "won", 2)["status"] == "CAPTURED"
    assert money_of(get_order(shop, order.order_id)) == (2500, 2500, 0)


def test_what_a_second_bank_takes_is_not_taken_from_the_order_twice(shop: ShopContext) -> None:
    order = advance_to_status(shop, place(shop), "PAID")
    for number in (1, 2):
        dispute(shop, order, "lost", number)
    assert money_of(get_order(shop, order.order_id)) == (2500, 2500, 0)


def test_money_that_matched_no_order_is_not_given_back_once_the_bank_has_taken_it(shop: ShopContext) -> None:
    order = place(shop)
    report_payment(shop, order, currency="USD")
    assert dispute(shop, order, "opened")["status"] == "UNMATCHED"
    assert dispute(shop, order, "lost")["status"] == "REFUNDED"
    with pytest.raises(WrongState):
        refunds.refund_payment(shop, STAFF, "back", order.order_id, "pi_1")
    assert money_of(get_order(shop, order.order_id)) == (0, 0, 0)
