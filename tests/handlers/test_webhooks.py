"""Tests the way of an event to webhooks: from the stream through the outbox and the bus to the worker, and retries."""

import threading
from datetime import timedelta

import pytest

from functions.adapters import webhook_sender
from functions.adapters.event_bus import make_publisher
from functions.handlers import event_publisher, webhook_retries, webhook_worker
from functions.runtime import clients
from functions.shop.republishing import republish_order
from functions.shop.webhook_deliveries import Answer, Message
from functions.shop.webhooks import create_webhook
from local.world.harness import STAFF, ShopHarness
from proof.support.client_faults import fail_calls
from proof.support.lambda_context import FakeContext
from tests.support.handlers import published

TYPES = {"OrderPlaced", "OrderPaid", "OrderFulfilling", "PaymentCaptured", "InvoiceIssued", "ShipmentRequested"}


class Endpoints:
    """The addresses of webhooks. `down`: those that answer 500. `got`: the events of each one, in order."""

    def __init__(self) -> None:
        self.down: set[str] = set()
        self.got: list[Message] = []

    def send(self, message: Message, test_host: str) -> Answer:
        assert test_host == "127.0.0.1"
        if message.url in self.down:
            return Answer(500, None, 1)
        self.got.append(message)
        return Answer(200, None, 1)

    def ids(self, url: str) -> list[str]:
        return [message.event_id for message in self.got if message.url == url]


@pytest.fixture
def endpoints(monkeypatch: pytest.MonkeyPatch) -> Endpoints:
    made = Endpoints()
    monkeypatch.setattr(webhook_sender, "send", made.send)
    return made


def subscribe(harness: ShopHarness, url: str, *events: str) -> str:
    harness.process_all()
    made = create_webhook(harness.shop, STAFF, url, url, events, {}).result
    harness.clock_offset += timedelta(minutes=1)
    return str(made["webhook_id"])


def pay_an_order(harness: ShopHarness, key: str = "one") -> str:
    order_id = harness.place_order(key, mug=1)
    harness.pay_order(order_id)
    harness.process_all()
    return order_id


def retry(harness: ShopHarness, minutes: float = 0) -> dict[str, int]:
    harness.clock_offset += timedelta(minutes=minutes)
    return webhook_retries.handler({}, FakeContext(120))


def test_an_event_that_cannot_be_stored_is_not_published_before_its_retry(
    harness: ShopHarness, endpoints: Endpoints
) -> None:
    harness.open_shop()
    subscribe(harness, "all")
    harness.place_order("one", mug=1)
    records = harness.new_records()
    with fail_calls("dynamodb", "PutItem", "ThrottlingException"):
        assert event_publisher.handler({"Records": records}, None)["batchItemFailures"]
    assert harness.take_messages("order_notification") == []
    assert event_publisher.handler({"Records": records}, None) == {"batchItemFailures": []}
    harness.process_all()
    assert len(endpoints.ids("all")) == 1


def test_a_broken_endpoint_delays_no_other_one_and_gets_its_events_later(
    harness: ShopHarness, endpoints: Endpoints
) -> None:
    harness.open_shop()
    subscribe(harness, "broken")
    subscribe(harness, "good")
    endpoints.down = {"broken"}
    pay_an_order(harness)
    assert len(endpoints.ids("good")) == len(TYPES)
    assert retry(harness, 2)["failed"] > 0
    endpoints.down = set()
    assert retry(harness, 60)["sent"] == len(TYPES)
    assert retry(harness, 60) == {"sent": 0, "failed": 0, "paused": 0}
    assert sorted(endpoints.ids("broken")) == sorted(endpoints.ids("good"))


def test_an_endpoint_that_answers_late_delays_no_other_one(
    harness: ShopHarness, endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    both_are_asked = threading.Barrier(2)

    def send(message: Message, test_host: str) -> Answer:
        both_are_asked.wait(10)
        return endpoints.send(message, test_host)

    harness.open_shop()
    for url in ("one", "two"):
        subscribe(harness, url, "OrderPlaced")
    monkeypatch.setattr(webhook_sender, "send", send)
    pay_an_order(harness)
    assert (len(endpoints.ids("one")), len(endpoints.ids("two"))) == (1, 1)


def test_without_time_the_messages_and_the_retries_wait(harness: ShopHarness, endpoints: Endpoints) -> None:
    harness.open_shop()
    subscribe(harness, "all")
    harness.place_order("one", mug=1)
    messages = published(harness, "webhook")
    assert len(webhook_worker.handler({"Records": messages}, FakeContext(19))["batchItemFailures"]) == len(messages) > 0
    assert endpoints.got == []
    assert webhook_worker.handler({"Records": messages}, FakeContext(120)) == {"batchItemFailures": []}
    assert len(endpoints.got) == 1


def test_what_staff_publish_again_is_sent_again_in_order(harness: ShopHarness, endpoints: Endpoints) -> None:
    harness.open_shop()
    subscribe(harness, "all", "OrderPlaced", "OrderPaid", "OrderFulfilling")
    order_id = pay_an_order(harness)
    first = endpoints.ids("all")
    endpoints.got.clear()
    publish = make_publisher(harness.shop.table.new_backoff, clients.client("events"), "shop")
    republish_order(harness.shop, STAFF, order_id, publish)
    harness.process_all()
    assert endpoints.ids("all") == first
