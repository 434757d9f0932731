"""Tests the diagnosis of an order: each state, reached through commands and Lambdas, has exactly its cause."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, get_args

import pytest

from functions.handlers import archive_worker, event_publisher, order_notification_worker
from functions.model.entities import OrderStatus
from functions.model.retention import MAIL_CLAIM_SECONDS, MAIL_DEFERRAL_DAYS, MAX_REPLAY_AGE_DAYS
from functions.model.states import CLOSED_STATUSES
from functions.shop import cancellation, customers, erasure, refunds, returns
from functions.shop.diagnosis import ACTIONS, CAUSES, Match, diagnose
from functions.shop.started_payments import start_payment
from local.world.harness import ANN, STAFF, ShopHarness
from local.world.payment_provider import REFUSED
from proof.support.actors import (
    WAREHOUSE,
    advance_to_status,
    create_stocked_product,
    get_order,
    report_dispute,
    report_external_refund,
    report_payment,
)
from proof.support.archiving import expire_everything, order_messages
from proof.support.client_faults import fail_calls
from tests.support.handlers import failed_ids

Build = Callable[[ShopHarness], str]
Step = Callable[[ShopHarness, str], object]
OUTSIDE = {"record_parked", "dead_letter", "address_suppressed"}


@pytest.fixture
def harness(harness: ShopHarness) -> ShopHarness:
    harness.open_shop()
    return harness


def after(start: Build, *steps: Step) -> Build:
    """Return a function that takes these steps with an order, and returns the order's id."""

    def build(harness: ShopHarness) -> str:
        order_id = start(harness)
        for step in steps:
            step(harness, order_id)
        return order_id

    return build


def wait(**time: float) -> Step:
    def step(harness: ShopHarness, _: str) -> None:
        harness.clock_offset += timedelta(**time)

    return step


def process(harness: ShopHarness, _: str, without: str = "") -> None:
    """Deliver all records and messages, except those of the function `without`."""
    harness.process_all(is_delivered=lambda function, record: function != without)


def answer(*behaviors: Any) -> Step:
    """Return a step that sets the provider's next answers."""
    return lambda harness, _: harness.provider.behaviors.extend(behaviors)


def decline(harness: ShopHarness, order_id: str) -> None:
    started = start_payment(harness.shop, harness.provider, ANN, order_id)
    order = get_order(harness.shop, order_id)
    report_payment(harness.shop, order, payment_id=started.payment_id, outcome="failed", reason="card_declined")


def dispute(outcome: Any) -> Step:
    return lambda harness, _: report_dispute(harness.shop, "pi_1", outcome)


def refund(harness: ShopHarness, order_id: str) -> None:
    refunds.refund_order(harness.shop, STAFF, "sorry", order_id, 100)


def take_back(harness: ShopHarness, order_id: str) -> None:
    returns.return_goods(harness.shop, WAREHOUSE, "back", order_id, {"mug": returns.ReturnedGoods(1, restock=True)})


def place_backordered(harness: ShopHarness) -> str:
    create_stocked_product(harness.shop, "jug", 0, backorder=True)
    return harness.place_order(jug=1)


def refuse_mail(code: str, status: int = 400) -> Build:
    """Return a function that places an order and answers the request for its mail with this error of SES."""

    def build(harness: ShopHarness) -> str:
        order_id = harness.place_order()
        event_publisher.handler({"Records": harness.new_records()}, None)
        with fail_calls("sesv2", "SendEmail", code, status=status):
            failed_ids(order_notification_worker, *harness.take_messages("order_notification"))
        return order_id

    return build


def choose_mails(**choices: bool) -> Step:
    return lambda harness, _: customers.update_settings(harness.shop, ANN, ANN.id, "notifications", choices)


def archive(harness: ShopHarness, _: str) -> None:
    assert failed_ids(archive_worker, *order_messages(expire_everything(harness))) == []


def cancel_and_archive(harness: ShopHarness, order_id: str) -> None:
    cancellation.cancel_order(replace(harness.shop, closed_order_days=1), ANN, order_id)
    assert failed_ids(archive_worker, *order_messages(expire_everything(harness, days=2))) == []
    assert diagnose(harness.shop, order_id).next_step.name == "archived"


def erase(harness: ShopHarness, _: str) -> None:
    erasure.erase_customer(harness.shop, ANN, ANN.id)


def fail_to_archive(harness: ShopHarness, _: str) -> None:
    messages = order_messages(expire_everything(harness))
    with fail_calls("s3", "PutObject", "SlowDown"):
        assert failed_ids(archive_worker, *messages)


placed = after(ShopHarness.place_order, process)
fulfilled = after(placed, ShopHarness.pay_order, process)
delivered = after(fulfilled, ShopHarness.dispatch_order, ShopHarness.deliver_order, process)
archived = after(delivered, archive)
no_fulfilment, no_mail, no_refund = (
    partial(process, without=name) for name in ("fulfilment", "order_notification", "refund")
)

SITUATIONS: dict[str, Build] = {
    # how an order comes into the state of each cause
    "payment_unfinished": after(
        placed, lambda harness, id: start_payment(harness.shop, harness.provider, ANN, id), wait(minutes=6)
    ),
    "payment_failed": after(placed, decline, wait(minutes=6)),
    "lapse_due": after(placed, wait(minutes=36)),
    "payment_unmatched": after(
        placed, lambda harness, id: report_payment(harness.shop, get_order(harness.shop, id), currency="USD")
    ),
    "kept_event_unmatched": after(
        placed, lambda harness, id: report_dispute(harness.shop, "pi_early", "opened", order_id=id)
    ),
    "kept_event_archived": after(archived, dispute("opened")),
    "dispute_open": after(fulfilled, dispute("opened")),
    "money_undocumented": after(fulfilled, lambda harness, _: report_external_refund(harness.shop, "pi_1", 100)),
    "refund_late": after(fulfilled, answer(*["unavailable"] * 9), refund, no_refund, wait(minutes=6)),
    "refund_pending": after(fulfilled, answer("pending"), refund, process),
    "refund_failed": after(fulfilled, answer(REFUSED), refund, process),
    "fulfilment_late": after(placed, ShopHarness.pay_order, no_fulfilment, wait(minutes=6)),
    "credit_note_late": after(delivered, take_back, no_fulfilment, wait(minutes=6)),
    "warehouse_silent": after(fulfilled, wait(days=3)),
    "goods_backordered": after(place_backordered, ShopHarness.pay_order, process),
    "cancellation_unanswered": after(
        fulfilled, lambda harness, id: cancellation.cancel_order(harness.shop, ANN, id), process, wait(days=1)
    ),
    "mail_failed": after(refuse_mail("InternalFailure", 500), wait(seconds=MAIL_CLAIM_SECONDS)),
    "mail_deferred": refuse_mail("SendingPausedException"),
    "mail_missing": after(ShopHarness.place_order, no_mail, wait(minutes=6)),
    "mail_switched_off": after(delivered, choose_mails(refunds=False), take_back, process),
    "archive_waiting": after(delivered, lambda harness, _: expire_everything(harness)),
    "archive_late": after(delivered, fail_to_archive, wait(minutes=6)),
    "archive_postponed": after(delivered, dispute("opened"), process, archive, dispute("won")),
}


def causes(harness: ShopHarness, order_id: str) -> list[str]:
    return [one.name for one in diagnose(harness.shop, order_id).causes]


# the tests ------------------------------------------------------------------------------------------------------------
def test_each_cause_that_the_table_shows_has_a_situation() -> None:
    assert {*SITUATIONS} | OUTSIDE == {cause.name for cause in CAUSES}
    assert {cause.action for cause in CAUSES} <= {*ACTIONS}


@pytest.mark.parametrize("name", SITUATIONS)
def test_an_order_in_trouble_shows_exactly_its_cause(harness: ShopHarness, name: str) -> None:
    order_id = SITUATIONS[name](harness)
    (found,) = diagnose(harness.shop, order_id).causes
    assert found.name == name
    assert found.since <= harness.shop.now_instant()
    assert found.text
    assert found.advice


def test_two_causes_at_once_show_both(harness: ShopHarness) -> None:
    order_id = SITUATIONS["dispute_open"](harness)
    harness.clock_offset += timedelta(days=3)
    assert causes(harness, order_id) == ["warehouse_silent", "dispute_open"]


@pytest.mark.parametrize("status", get_args(OrderStatus))
def test_a_healthy_order_shows_no_cause_and_what_comes_next(harness: ShopHarness, status: str) -> None:
    order = get_order(harness.shop, harness.place_order())
    advance_to_status(harness.shop, order, status)
    found = diagnose(harness.shop, order.order_id)
    assert found.causes == []
    assert (found.status, found.next_step.name) == (status, status.lower())
    assert bool(found.next_step.next_at) == (status in ("PENDING", *CLOSED_STATUSES))


def test_a_cause_has_its_item_its_reason_and_the_deadline(harness: ShopHarness) -> None:
    (found,) = diagnose(harness.shop, SITUATIONS["payment_failed"](harness)).causes
    assert (found.subject, found.reason, found.action) == ("pi_1", "card_declined", "ask_customer")
    assert (
        found.next_at == diagnose(harness.shop, harness.place_order()).next_step.next_at
    )  # the same key, so the same order


def test_another_payment_that_was_started_hides_a_failed_one(harness: ShopHarness) -> None:
    order_id = placed(harness)
    report_payment(harness.shop, get_order(harness.shop, order_id), payment_id="pi_old", outcome="failed")
    harness.clock_offset += timedelta(seconds=1)
    start_payment(harness.shop, harness.provider, ANN, order_id)
    assert causes(harness, order_id) == []


def test_a_choice_that_changed_after_the_event_explains_a_missing_mail(harness: ShopHarness) -> None:
    order_id = SITUATIONS["mail_missing"](harness)
    for email in (False, True):
        customers.update_settings(harness.shop, ANN, ANN.id, "notifications", {"email": email})
        assert causes(harness, order_id) == ["mail_switched_off"]


@pytest.mark.parametrize("name", ["mail_deferred", "mail_failed"])
def test_a_choice_explains_a_mail_that_was_begun_only_while_it_is_off(harness: ShopHarness, name: str) -> None:
    order_id = SITUATIONS[name](harness)
    for email, expected in ((False, "mail_switched_off"), (True, name)):
        customers.update_settings(harness.shop, ANN, ANN.id, "notifications", {"email": email})
        assert causes(harness, order_id) == [expected]


def test_a_mail_that_was_deferred_for_too_long_has_failed(harness: ShopHarness) -> None:
    order_id = SITUATIONS["mail_deferred"](harness)
    for hours, expected in ((-1, "mail_deferred"), (2, "mail_failed")):
        harness.clock_offset += timedelta(days=MAIL_DEFERRAL_DAYS * (hours < 0), hours=hours)
        assert expected in causes(harness, order_id)


@pytest.mark.parametrize("name", ["mail_deferred", "mail_failed", "mail_missing"])
@pytest.mark.parametrize("step", [erase, cancel_and_archive, wait(days=MAX_REPLAY_AGE_DAYS + 1)])
def test_an_order_does_not_wait_for_a_mail_that_cannot_be_sent_any_more(
    harness: ShopHarness, name: str, step: Step
) -> None:
    order_id = SITUATIONS[name](harness)
    assert causes(harness, order_id) == [name]
    step(harness, order_id)
    assert not any(cause.startswith("mail_") for cause in causes(harness, order_id))


def test_what_operators_found_is_shown_with_the_rest(harness: ShopHarness) -> None:
    order_id = SITUATIONS["fulfilment_late"](harness)
    match = Match(harness.shop.now_instant(), "parked/1")
    found = diagnose(harness.shop, order_id, lambda customer: {"record_parked": [match]})
    assert [one.name for one in found.causes] == ["fulfilment_late", "record_parked"]
