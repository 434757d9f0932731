"""Tests the reaction to a paid order: one invoice with the next number and one shipment, under every failure."""

import json
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from functions.handlers import event_publisher, fulfilment_worker
from functions.handlers import order_notification_worker as notifications
from functions.shop import orders
from local.world.expiry import expire_until
from local.world.harness import STAFF, ShopHarness
from proof.support.client_faults import crash_at, fail_calls
from tests.support.handlers import failed_ids, published

Message = dict[str, Any]


@pytest.fixture
def paid(harness: ShopHarness) -> str:
    """Pay an order, whose event then waits in the queues. Return its id."""
    harness.open_shop(available=100)
    order_id = harness.place_order(mug=2, pot=1)
    harness.pay_order(order_id)
    event_publisher.handler({"Records": harness.new_records()}, None)
    return order_id


handle = partial(failed_ids, fulfilment_worker)


def of_type(harness: ShopHarness, order_id: str, name: str) -> list[dict[str, Any]]:
    return [image for image in harness.partition(f"ORDER#{order_id}") if image["type"]["S"] == name]


def is_fulfilled_once(harness: ShopHarness, order_id: str, number: int = 1) -> None:
    (invoice,) = of_type(harness, order_id, "Invoice")
    (shipment,) = of_type(harness, order_id, "Shipment")
    assert invoice["invoice_id"]["S"] == f"{invoice['issued_at']['S'][:4]}-{number:08}"
    assert {id: part["N"] for id, part in shipment["quantities"]["M"].items()} == {"mug": "2", "pot": "1"}
    order = orders.get_order(harness.shop, STAFF, order_id)
    assert (order.status, order.version) == ("FULFILLING", 3)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_at_the_write_leaves_nothing_half_done_and_nothing_twice(
    harness: ShopHarness, paid: str, when: Any
) -> None:
    (message,) = harness.take_messages("fulfilment")
    with crash_at("dynamodb", "TransactWriteItems", when, 1):
        handle(message)
    assert handle(message) == []
    is_fulfilled_once(harness, paid)


def test_a_temporary_failure_retries_only_its_own_message(harness: ShopHarness, paid: str) -> None:
    other = harness.place_order("two", mug=2, pot=1)
    harness.pay_order(other, "evt_2", "pi_2")
    first, second = published(harness, "fulfilment")
    with fail_calls("dynamodb", "TransactWriteItems", "InternalServerError", times=2):  # both orders, then only order 1
        assert handle(first, second) == [first["messageId"]]
    is_fulfilled_once(harness, other)
    assert handle(first) == []
    is_fulfilled_once(harness, paid, number=2)


def test_invoice_and_mail_are_separate_reactions_and_neither_waits_for_the_other(
    harness: ShopHarness, paid: str
) -> None:
    bills, mails = harness.take_messages("fulfilment"), harness.take_messages("order_notification")
    with fail_calls("dynamodb", "TransactWriteItems", "InternalServerError"):
        assert handle(*bills) == [message["messageId"] for message in bills]
        assert notifications.handler({"Records": mails}, None) == {"batchItemFailures": []}
    assert len(harness.sent_mails()) == 2
    assert of_type(harness, paid, "Invoice") == []
    with fail_calls("sesv2", "SendEmail", "TooManyRequestsException"):
        assert handle(*bills) == []
    is_fulfilled_once(harness, paid)


def test_each_effect_happens_once_though_every_record_and_every_message_is_delivered_twice(
    harness: ShopHarness,
) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=2, pot=1)
    harness.pay_order(order_id)
    harness.process_all(times=2)
    is_fulfilled_once(harness, order_id)
    harness.dispatch_order(order_id)
    harness.deliver_order(order_id)
    harness.process_all(times=2)
    subjects = [mail.subject for mail in harness.sent_mails()]
    assert len(subjects) == len(set(subjects)) == 4, "one mail each: placed, paid, shipped, delivered"
    asked = [json.loads(message["body"])["detail"]["id"] for message in harness.take_messages("warehouse")]
    assert (len(asked), len(set(asked))) == (2, 1), "the warehouse gets the event twice, with one id"
    expire_until(harness.engine, harness.shop.table.name, harness.now() + timedelta(days=396))
    harness.process_all(times=2)
    assert [image["type"]["S"] for image in harness.partition(f"ORDER#{order_id}")] == ["Invoice", "ArchivedOrder"]
    (name,) = (name for name in harness.objects("archive") if name.startswith("orders/"))
    assert name.endswith(f"/{order_id}/6.json")
