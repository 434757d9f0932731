"""Tests the diagnosis of an order: each state, reached through commands and Lambdas, has exactly its cause."""

from collections.abc import Callable
from datetime import timedelta
from typing import get_args

import pytest

from functions.handlers import archive_worker, event_publisher, order_notification_worker
from functions.model.entities import OrderStatus
from functions.model.retention import MAIL_CLAIM_SECONDS
from functions.model.states import CLOSED_STATUSES
from functions.shop import cancellation, customers, refunds, returns
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
SITUATIONS: dict[str, Build] = {}
OUTSIDE = {"record_parked", "dead_letter", "address_suppressed"}


def situation(build: Build) -> Build:
    """Register a function that brings an order into the state of the cause with the function's name."""
    SITUATIONS[build.__name__] = build
    return build


def later(harness: ShopHarness, **wait: float) -> None:
    harness.clock_offset += timedelta(**wait)


def placed(harness: ShopHarness) -> str:
    order_id = harness.place_order()
    harness.process_all()
    return order_id


def fulfilled(harness: ShopHarness) -> str:
    order_id = placed(harness)
    harness.pay_order(order_id)
    harness.process_all()
    return order_id


def delivered(harness: ShopHarness) -> str:
    order_id = fulfilled(harness)
    harness.dispatch_order(order_id)
    harness.deliver_order(order_id)
    harness.process_all()
    return order_id


def archived(harness: ShopHarness) -> str:
    order_id = delivered(harness)
    assert failed_ids(archive_worker, *order_messages(expire_everything(harness))) == []
    return order_id


def causes(harness: ShopHarness, order_id: str) -> list[str]:
    return [one.name for one in diagnose(harness.shop, order_id).causes]


# payments -------------------------------------------------------------------------------------------------------------
@situation
def payment_unfinished(harness: ShopHarness) -> str:
    order_id = placed(harness)
    start_payment(harness.shop, harness.provider, ANN, order_id)
    later(harness, minutes=6)
    return order_id


@situation
def payment_failed(harness: ShopHarness) -> str:
    order_id = placed(harness)
    started = start_payment(harness.shop, harness.provider, ANN, order_id)
    order = get_order(harness.shop, order_id)
    report_payment(harness.shop, order, payment_id=started.payment_id, outcome="failed", reason="card_declined")
    later(harness, minutes=6)
    return order_id


@situation
def lapse_due(harness: ShopHarness) -> str:
    order_id = placed(harness)
    later(harness, minutes=36)
    return order_id


@situation
def payment_unmatched(harness: ShopHarness) -> str:
    order_id = placed(harness)
    report_payment(harness.shop, get_order(harness.shop, order_id), currency="USD")
    return order_id


@situation
def kept_event_unmatched(harness: ShopHarness) -> str:
    order_id = placed(harness)
    report_dispute(harness.shop, "pi_early", "opened", order_id=order_id)
    return order_id


@situation
def kept_event_archived(harness: ShopHarness) -> str:
    order_id = archived(harness)
    report_dispute(harness.shop, "pi_1", "opened")
    return order_id


@situation
def dispute_open(harness: ShopHarness) -> str:
    order_id = fulfilled(harness)
    report_dispute(harness.shop, "pi_1", "opened")
    return order_id


@situation
def money_undocumented(harness: ShopHarness) -> str:
    order_id = fulfilled(harness)
    report_external_refund(harness.shop, "pi_1", 100)
    return order_id


# refunds --------------------------------------------------------------------------------------------------------------
@situation
def refund_late(harness: ShopHarness) -> str:
    order_id = fulfilled(harness)
    harness.provider.behaviors.extend(["unavailable"] * 9)
    refunds.refund_order(harness.shop, STAFF, "sorry", order_id, 100)
    harness.process_all(is_delivered=lambda function, record: function != "refund")
    later(harness, minutes=6)
    return order_id


@situation
def refund_pending(harness: ShopHarness) -> str:
    order_id = fulfilled(harness)
    harness.provider.behaviors.append("pending")
    refunds.refund_order(harness.shop, STAFF, "sorry", order_id, 100)
    harness.process_all()
    return order_id


@situation
def refund_failed(harness: ShopHarness) -> str:
    order_id = fulfilled(harness)
    harness.provider.behaviors.append(REFUSED)
    refunds.refund_order(harness.shop, STAFF, "sorry", order_id, 100)
    harness.process_all()
    return order_id


# fulfilment and the warehouse -----------------------------------------------------------------------------------------
@situation
def fulfilment_late(harness: ShopHarness) -> str:
    order_id = placed(harness)
    harness.pay_order(order_id)
    harness.process_all(is_delivered=lambda function, record: function != "fulfilment")
    later(harness, minutes=6)
    return order_id


@situation
def credit_note_late(harness: ShopHarness) -> str:
    order_id = delivered(harness)
    returns.return_goods(harness.shop, WAREHOUSE, "back", order_id, {"mug": returns.ReturnedGoods(1, restock=True)})
    harness.process_all(is_delivered=lambda function, record: function != "fulfilment")
    later(harness, minutes=6)
    return order_id


@situation
def warehouse_silent(harness: ShopHarness) -> str:
    order_id = fulfilled(harness)
    later(harness, days=3)
    return order_id


@situation
def goods_backordered(harness: ShopHarness) -> str:
    create_stocked_product(harness.shop, "jug", 0, backorder=True)
    order_id = harness.place_order(jug=1)
    harness.pay_order(order_id)
    harness.process_all()
    return order_id


@situation
def cancellation_unanswered(harness: ShopHarness) -> str:
    order_id = fulfilled(harness)
    cancellation.cancel_order(harness.shop, ANN, order_id)
    harness.process_all()
    later(harness, days=1)
    return order_id


# mails ----------------------------------------------------------------------------------------------------------------
def send_mails(harness: ShopHarness, code: str, text: str = "no", status: int = 400) -> str:
    """Place an order and answer the request for its mail with an error of SES."""
    order_id = harness.place_order()
    event_publisher.handler({"Records": harness.new_records()}, None)
    with fail_calls("sesv2", "SendEmail", code, text, status=status):
        failed_ids(order_notification_worker, *harness.take_messages("order_notification"))
    return order_id


@situation
def mail_failed(harness: ShopHarness) -> str:
    order_id = send_mails(harness, "InternalFailure", status=500)
    later(harness, seconds=MAIL_CLAIM_SECONDS)
    return order_id


@situation
def mail_deferred(harness: ShopHarness) -> str:
    return send_mails(harness, "SendingPausedException")


@situation
def mail_missing(harness: ShopHarness) -> str:
    order_id = harness.place_order()
    harness.process_all(is_delivered=lambda function, record: function != "order_notification")
    later(harness, minutes=6)
    return order_id


@situation
def mail_switched_off(harness: ShopHarness) -> str:
    order_id = delivered(harness)
    customers.update_settings(harness.shop, ANN, ANN.id, "notifications", {"refunds": False})
    returns.return_goods(harness.shop, WAREHOUSE, "back", order_id, {"mug": returns.ReturnedGoods(2, restock=True)})
    harness.process_all()
    return order_id


# the archive ----------------------------------------------------------------------------------------------------------
@situation
def archive_waiting(harness: ShopHarness) -> str:
    order_id = delivered(harness)
    expire_everything(harness)
    return order_id


@situation
def archive_late(harness: ShopHarness) -> str:
    order_id = delivered(harness)
    messages = order_messages(expire_everything(harness))
    with fail_calls("s3", "PutObject", "SlowDown"):
        assert failed_ids(archive_worker, *messages)
    later(harness, minutes=6)
    return order_id


@situation
def archive_postponed(harness: ShopHarness) -> str:
    order_id = delivered(harness)
    report_dispute(harness.shop, "pi_1", "opened")
    harness.process_all()
    assert failed_ids(archive_worker, *order_messages(expire_everything(harness))) == []
    report_dispute(harness.shop, "pi_1", "won")
    return order_id


# the tests ------------------------------------------------------------------------------------------------------------
def test_each_cause_that_the_table_shows_has_a_situation() -> None:
    assert {*SITUATIONS} | OUTSIDE == {cause.name for cause in CAUSES}
    assert {cause.action for cause in CAUSES} <= {*ACTIONS}


@pytest.mark.parametrize("name", SITUATIONS)
def test_an_order_in_trouble_shows_exactly_its_cause(harness: ShopHarness, name: str) -> None:
    harness.open_shop()
    order_id = SITUATIONS[name](harness)
    (found,) = diagnose(harness.shop, order_id).causes
    assert found.name == name
    assert found.since <= harness.shop.now_instant()
    assert found.text
    assert found.advice


def test_two_causes_at_once_show_both(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = dispute_open(harness)
    later(harness, days=3)
    assert causes(harness, order_id) == ["warehouse_silent", "dispute_open"]


@pytest.mark.parametrize("status", get_args(OrderStatus))
def test_a_healthy_order_shows_no_cause_and_what_comes_next(harness: ShopHarness, status: str) -> None:
    harness.open_shop()
    order = get_order(harness.shop, harness.place_order())
    advance_to_status(harness.shop, order, status)
    found = diagnose(harness.shop, order.order_id)
    assert found.causes == []
    assert (found.status, found.next_step.name) == (status, status.lower())
    assert bool(found.next_step.next_at) == (status in ("PENDING", *CLOSED_STATUSES))


def test_an_archived_order_waits_for_nothing(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = archived(harness)
    found = diagnose(harness.shop, order_id)
    assert (found.causes, found.next_step.name) == ([], "archived")


def test_a_cause_has_its_item_its_reason_and_the_deadline(harness: ShopHarness) -> None:
    harness.open_shop()
    (found,) = diagnose(harness.shop, payment_failed(harness)).causes
    assert (found.subject, found.reason, found.action) == ("pi_1", "card_declined", "ask_customer")
    assert (
        found.next_at == diagnose(harness.shop, harness.place_order()).next_step.next_at
    )  # the same key, so the same order


def test_another_payment_that_was_started_hides_a_failed_one(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = placed(harness)
    report_payment(harness.shop, get_order(harness.shop, order_id), payment_id="pi_old", outcome="failed")
    later(harness, seconds=1)
    start_payment(harness.shop, harness.provider, ANN, order_id)
    assert causes(harness, order_id) == []


def test_a_choice_that_changed_after_the_event_explains_a_missing_mail(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = mail_missing(harness)
    for email in (False, True):
        customers.update_settings(harness.shop, ANN, ANN.id, "notifications", {"email": email})
        assert causes(harness, order_id) == ["mail_switched_off"]


def test_what_operators_found_is_shown_with_the_rest(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = fulfilment_late(harness)
    match = Match(harness.shop.now_instant(), "parked/1")
    found = diagnose(harness.shop, order_id, lambda customer: {"record_parked": [match]})
    assert [one.name for one in found.causes] == ["fulfilment_late", "record_parked"]
