"""Tests disputes: the customer's bank claims a payment back, and the money of the order follows the outcome."""

from dataclasses import replace
from typing import Any

import pytest

from functions.dynamodb.errors import TableBusy
from functions.dynamodb.writes import put_if_absent
from functions.model.entities import ArchivedOrder, Dispute, KeptEvent, Order, Payment
from functions.model.errors import NotFound, TooMuch, WrongState
from functions.model.patterns import ORDER_BY_ID, ORDER_ITEM_COLLECTION
from functions.model.table import PAYMENT, REFUND
from functions.shop import cancellation, payments, refunds
from functions.shop.accounts import store_credit_account_id
from functions.shop.disputes import MAX_RETRIED_REFUNDS
from functions.shop.refund_processing import ProviderRefundEvent, process_refund, record_refund
from functions.shop.refunds import build_refund
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
from tests.shop.conftest import TappedShop
from tests.support import order_money
from tests.support.credit_actions import balance


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


@pytest.mark.parametrize(
    ("known", "named", "outcomes"),
    [
        ("nothing", True, ("opened",)), ("authorised", True, ("won",)), ("failed", True, ("lost",)),
        ("nothing", True, ("opened", "lost")), ("failed", True, ("lost", "opened")),
        ("nothing", False, ("opened", "lost")), ("authorised", False, ("opened",)), ("failed", False, ("won",)),
    ],
)  # fmt: skip
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
    assert kept_events(shop, named_order) == []


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


def test_a_dispute_in_another_currency_is_one_of_the_whole_payment(shop: ShopContext) -> None:
    order = advance_to_status(shop, place(shop), "PAID")
    dispute(shop, order, "lost", amount=27, currency="USD", reason=None)
    assert get_order(shop, order.order_id).refunded == 2500
    assert order_money.payments(shop, order.order_id)[0].reason == "dispute lost"


# examples -------------------------------------------------------------------------------------------------------------
def take_step(shop: ShopContext, order: Order, step: str) -> None:
    """Take a step: what happens, an amount, and the payment (pi_), the dispute (dp_) or the provider's refund (re_)."""
    what, *words = step.split()
    names = {word[:2]: word for word in words if "_" in word}
    amount: dict[str, Any] = next(({"amount": int(word)} for word in words if word.isdigit()), {})
    payment_id = names.get("pi", "pi_1")
    if what == "pays":
        report_payment(shop, order, event_id=f"evt_{payment_id}", payment_id=payment_id, **amount)
    elif what in ("opened", "won", "lost"):
        outcome: Any = what
        report_dispute(shop, payment_id, outcome, dispute_id=names.get("dp", f"dp_{payment_id}"), **amount)
    elif what in ("succeeded", "pending", "failed"):  # a refund at the provider
        report_external_refund(shop, payment_id, status=what, provider_id=names.get("re", "re_1"), **amount)
    elif what == "arrives":
        order_money.deliver_order(shop, get_order(shop, order.order_id))
    elif what == "cancel":
        cancellation.cancel_order(shop, ANN, order.order_id)
    elif what == "lapse":
        cancellation.lapse_order(shop, order.order_id)
    else:
        order_money.return_pieces(shop, order, shop.new_id(), mug=1, to="credit" if what == "credit" else "original")
        for refund in order_money.refunds(shop, order.order_id):
            if refund.account_id:
                process_refund(shop, FakeProvider(), order.order_id, refund.refund_id)


EXAMPLES: dict[str, list[tuple[str, tuple[int, int, int, int]]]] = {
    # what happens to an order of two mugs for 25.00, and then its paid, refunded, owed and over-refunded amounts
    "an order that is not paid yet waits again for what a lost dispute took": [
        ("pays 900, opened, lost", (0, 0, 0, 0)),
        ("pays pi_2", (2500, 0, 0, 0)),
    ],
    "a lost dispute takes its amount and leaves the rest": [
        ("pays, arrives, opened 500, lost 500", (2500, 500, 0, 0)),
        ("back", (2500, 1750, 0, 0)),
        ("back", (2500, 2500, 0, 0)),
    ],
    "a partly lost dispute releases what is owed": [
        ("pays, arrives, opened 500, back, back", (2500, 0, 2500, 0)),
        ("lost 500", (2500, 2500, 0, 0)),
    ],
    "what the bank takes pays what is owed first": [
        ("pays 1000, pays 1500 pi_2, arrives, opened, opened pi_2, back, lost", (2500, 1000, 250, 0)),
        ("won pi_2", (2500, 1250, 0, 0)),
    ],
    "of two disputes both must be won": [
        ("pays, opened dp_1, opened dp_2, cancel, won dp_1", (2500, 0, 2500, 0)),
        ("won dp_2", (2500, 2500, 0, 0)),
    ],
    "a second dispute has its own effect": [("pays, opened dp_1, won dp_1, opened dp_2, cancel", (2500, 0, 2500, 0))],
    "what a cancelled order could not give back is given back once the dispute is won": [
        ("pays 900, pays 100 pi_2, opened, cancel", (1000, 100, 900, 0)),
        ("won, won", (1000, 1000, 0, 0)),
    ],
    "what a lapsed order could not give back is given back once the dispute is won": [
        ("pays 900, pays 100 pi_2, opened, lapse", (1000, 100, 900, 0)),
        ("won, won", (1000, 1000, 0, 0)),
    ],
    "what a second bank takes is over-refunded": [("pays, lost dp_1, lost dp_2", (2500, 2500, 0, 2500))],
    "a return gives back only what the provider has left": [
        ("pays, arrives, succeeded 2000, back, back", (2500, 2500, 0, 0))
    ],
    "a return to credit gives back only what the provider has left": [
        ("pays, arrives, succeeded 2000, credit, credit", (2500, 2500, 0, 0))
    ],
    "a credited return that is refunded at the provider too is over-refunded": [
        ("pays, arrives, credit, succeeded 2500", (2500, 2500, 0, 1250))
    ],
    "money that leaves before the order is paid is due again": [
        ("pays 900, succeeded 400", (500, 0, 0, 0)),
        ("pays 2000 pi_2", (2500, 0, 0, 0)),
        ("cancel", (2500, 2500, 0, 0)),
    ],
    "money refunded at the provider pays what is owed": [
        ("pays 1000, pays 1500 pi_2, arrives, opened, opened pi_2, back, back", (2500, 0, 2500, 0)),
        ("succeeded 1000", (2500, 1000, 1500, 0)),
        ("won pi_2", (2500, 2500, 0, 0)),
    ],
    "what a refund at the provider had paid is owed again if it fails": [
        ("pays 1000 pi_0, pays 1500, arrives, opened, credit, succeeded 1000 pi_0", (2500, 2000, 0, 0)),
        ("failed 1000 pi_0", (2500, 1000, 250, 0)),
        ("won", (2500, 1250, 0, 0)),
    ],
    "what a failed refund at the provider leaves owed comes from a payment that has money": [
        ("pays 1000 pi_0, pays 1500, arrives, opened, credit, succeeded 1000 pi_0, won", (2500, 2000, 0, 0)),
        ("failed 1000 pi_0", (2500, 1250, 0, 0)),
    ],
    "a refund and a lost dispute of the same money are over-refunded": [
        ("pays, succeeded 1000, lost 2500", (2500, 2500, 0, 1000)),
        ("failed 1000", (2500, 2500, 0, 0)),
    ],
    "money that comes back is not owed": [
        ("pays 1000 pi_0, pays 1500, succeeded 400, lost 1500", (2500, 1900, 0, 0)),
        ("failed 400", (2500, 1500, 0, 0)),
    ],
    "refunds that come before their payment are applied when the payment comes": [
        ("pending 700 re_1, succeeded 700 re_2, pays", (2500, 1400, 0, 0))
    ],
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_disputes_and_refunds_at_the_provider_change_an_order_as_in_the_examples(shop: ShopContext, name: str) -> None:
    order = place(shop)
    for steps, expected in EXAMPLES[name]:
        for step in steps.split(", "):
            take_step(shop, order, step)
        now = get_order(shop, order.order_id)
        assert (now.paid, now.refunded, now.owed, now.over_refunded) == expected, steps
        assert now.status != "PENDING" or now.paid < now.total


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


def cancel_paid_order(shop: ShopContext) -> Order:
    """Return a cancelled order that was paid with pi_1."""
    order = place(shop)
    report_payment(shop, order)
    return advance_to_status(shop, get_order(shop, order.order_id), "CANCELLED")


def kept_events(shop: ShopContext, order_id: str) -> list[KeptEvent]:
    items = shop.table.query_all(ORDER_ITEM_COLLECTION, order_id=order_id)
    return [item for item in items if isinstance(item, KeptEvent)]


def archive_order_and_payment(shop: ShopContext, order: Order) -> Order:
    """Replace the order with its stub, and delete its payment, as the archive Lambda does."""
    archive_order(shop, order.order_id, to_stub=True)
    shop.table.batch_delete([PAYMENT.key(order_id=order.order_id, payment_id="pi_1")])
    return order


def test_a_dispute_of_an_archived_order_is_kept_beside_its_stub_and_goes_only_forward(shop: ShopContext) -> None:
    ended = archive_order_and_payment(shop, cancel_paid_order(shop))
    for outcome, status in (("opened", "OPEN"), ("opened", "OPEN"), ("lost", "LOST"), ("opened", "LOST")):
        assert dispute(shop, ended, outcome, payment_id="pi_1")["status"] == status
    (kept,) = kept_events(shop, ended.order_id)
    assert (kept.payment_id, kept.object_id, kept.status, kept.reason) == ("pi_1", "dp_1", "LOST", "fraudulent")
    stub = shop.table.get(ORDER_BY_ID, order_id=ended.order_id)
    assert isinstance(stub, ArchivedOrder), "the order stays archived"


@pytest.mark.parametrize(("kept", "late"), [([], "opened"), (["opened"], "won")])
def test_a_late_event_of_an_archived_order_does_not_replace_one_that_is_kept_meanwhile(
    shop: TappedShop, kept: list[str], late: str
) -> None:
    ended = archive_order_and_payment(shop, cancel_paid_order(shop))
    for outcome in kept:
        dispute(shop, ended, outcome, payment_id="pi_1")
    shop.meanwhile(lambda rival: dispute(rival, ended, "lost", payment_id="pi_1"))
    assert dispute(shop, ended, late, payment_id="pi_1")["status"] == "LOST"
    assert [event.status for event in kept_events(shop, ended.order_id)] == ["LOST"]


@pytest.mark.parametrize("earlier", [0, 1])
def test_a_dispute_just_before_its_payment_is_recorded_is_of_the_payment(shop: TappedShop, earlier: int) -> None:
    """`earlier`: how many other disputes of the payment were kept before."""
    order = place(shop)
    for number in range(earlier):
        dispute(shop, order, "opened", number=2 + number, payment_id="pi_1")
    shop.meanwhile(lambda rival: report_payment(rival, order))
    dispute(shop, order, "opened", payment_id="pi_1")
    assert len(statuses(order_money.payments(shop, order.order_id)[0])) == 1 + earlier
    assert list(payments.list_unmatched_payments(shop)) == []


def test_a_dispute_just_before_its_order_is_restored_is_moved_to_the_payment(shop: TappedShop) -> None:
    """The restore replaces the stub between the command's read and its write, so the command is decided again."""
    ended = cancel_paid_order(shop)
    before = shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=ended.order_id)
    archive_order_and_payment(shop, ended)

    def restore() -> None:
        for image in before:
            shop.rival.table.client.put_item(TableName=shop.rival.table.name, Item=image)

    shop.wire.run_before_call("TransactWriteItems", restore)
    assert dispute(shop, ended, "opened", payment_id="pi_1")["status"] in ("DISPUTED", "REFUNDED")
    assert kept_events(shop, ended.order_id) == []
    assert statuses(order_money.payments(shop, ended.order_id)[0]) == {"dp_1": "OPEN"}


def test_a_dispute_is_not_told_to_an_order_that_is_being_archived(shop: ShopContext) -> None:
    ended = cancel_paid_order(shop)
    archive_order(shop, ended.order_id, to_stub=False)
    with pytest.raises(TableBusy):
        dispute(shop, ended, "opened")


@pytest.mark.parametrize("outcome", ["won", "lost"])
def test_the_end_of_a_dispute_and_the_end_of_its_order_agree_though_they_race(shop: TappedShop, outcome: str) -> None:
    order = place(shop)
    report_payment(shop, order)
    dispute(shop, order, "opened")
    shop.meanwhile(lambda rival: cancellation.cancel_order(rival, ANN, order.order_id))
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
        came_back(shop, order, refund.refund_id)
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
def came_back(shop: ShopContext, order: Order, refund_id: str) -> None:
    """Report that a refund failed after it had succeeded, so that the provider has the money again."""
    told = ProviderRefundEvent(
        "evt_r", order.order_id, refund_id, 1, "re_1", "failed", "charge_for_pending_refund_disputed"
    )
    record_refund(shop, told)


@pytest.mark.parametrize("fails", ["before it is opened", "while it is open", "after it is lost"])
def test_what_the_bank_has_taken_is_not_given_again_though_its_refund_failed(shop: ShopContext, fails: str) -> None:
    order = advance_to_status(shop, place(shop), "PAID")
    cancellation.cancel_order(shop, ANN, order.order_id)
    (refund,) = order_money.refunds(shop, order.order_id)
    process_refund(shop, FakeProvider(), order.order_id, refund.refund_id)
    for moment, outcome in (("before it is opened", "opened"), ("while it is open", "lost"), ("after it is lost", "")):
        if moment == fails:
            came_back(shop, order, refund.refund_id)
        if outcome:
            dispute(shop, order, outcome)
    (payment,) = order_money.payments(shop, order.order_id)
    assert (payment.status, payment.refunded) == ("REFUNDED", 0)
    for to in ("original", "credit"):
        with pytest.raises(WrongState) as refusal:
            refunds.retry_refund(shop, STAFF, order.order_id, refund.refund_id, to)
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


def test_a_refund_that_fails_just_as_the_dispute_is_won_is_tried_again(shop: TappedShop) -> None:
    order = advance_to_status(shop, place(shop), "PAID")
    cancellation.cancel_order(shop, ANN, order.order_id)
    (refund,) = order_money.refunds(shop, order.order_id)
    dispute(shop, order, "opened")
    shop.meanwhile(lambda rival: dispute(rival, order, "won"))
    process_refund(shop, FakeProvider(), order.order_id, refund.refund_id)
    assert [it.status for it in order_money.refunds(shop, order.order_id)] == ["SUCCEEDED"]


def test_money_that_matched_no_order_is_not_given_back_once_the_bank_has_taken_it(shop: ShopContext) -> None:
    order = place(shop)
    report_payment(shop, order, currency="USD")
    assert dispute(shop, order, "opened")["status"] == "UNMATCHED"
    assert dispute(shop, order, "lost")["status"] == "REFUNDED"
    with pytest.raises(WrongState):
        refunds.refund_payment(shop, STAFF, "back", order.order_id, "pi_1")
    assert money_of(get_order(shop, order.order_id)) == (0, 0, 0)
