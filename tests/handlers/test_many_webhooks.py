"""Tests one event for a thousand webhooks of which one does not answer, with the real limits of time and threads."""

import time
from functools import partial

import pytest

from functions.adapters import webhook_sender
from functions.handlers import webhook_worker
from functions.model.patterns import DELIVERIES_OF_WEBHOOK, WEBHOOKS
from functions.runtime import environment, subscriptions
from functions.shop import webhooks
from local.world.handlers import to_sqs_record
from local.world.harness import STAFF, ShopHarness
from tests.support.handlers import published
from tests.support.webhook_receiver import HERE, OK, Receiver, receiving

WEBHOOKS_COUNT = 1000
TIMEOUT_SECONDS = 120
"""The timeout of the worker, as in the stack."""


class RealTime:
    """The context of an invocation that starts now."""

    aws_request_id = "invocation-1"

    def __init__(self) -> None:
        self.started = time.monotonic()

    def get_remaining_time_in_millis(self) -> int:
        return int((self.started + TIMEOUT_SECONDS - time.monotonic()) * 1000)


def subscribe(harness: ShopHarness, receiver: Receiver, path: str) -> str:
    """Subscribe a path of a receiver to the events of new orders. Return the webhook's id."""
    url = f"http://{HERE}:{receiver.port}/{path}"
    return str(webhooks.create_webhook(harness.shop, STAFF, path, url, ["OrderPlaced"], {}).result["webhook_id"])


@pytest.mark.slow
def test_a_thousand_webhooks_get_an_event_although_one_does_not_answer(
    harness: ShopHarness, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WEBHOOK_TEST_HOST", HERE)
    environment.load_environment.cache_clear()
    subscriptions.read_webhooks.cache_clear()
    harness.open_shop()
    with receiving(lambda _: hanging.is_over.wait(60)) as hanging, receiving(OK) as receiver:
        broken = subscribe(harness, hanging, "hangs")
        paths = [f"{number}" for number in range(WEBHOOKS_COUNT - 1)]
        harness.shop.table.run_concurrently([partial(subscribe, harness, receiver, path) for path in paths])
        harness.clock_offset += 2 * webhooks.ACTIVE_AFTER
        harness.place_order(mug=1)
        waiting = [*map(to_sqs_record, published(harness, "webhook"))]
        durations: list[float] = []
        while waiting:
            context = RealTime()
            left = webhook_worker.handler({"Records": waiting}, context)["batchItemFailures"]
            durations.append(time.monotonic() - context.started)
            assert context.get_remaining_time_in_millis() > 0, "Lambda would have killed this invocation"
            waiting = [message for message in waiting if {"itemIdentifier": message["messageId"]} in left]
    with capsys.disabled():
        print(f"\n{WEBHOOKS_COUNT} webhooks: {[round(seconds, 1) for seconds in durations]} seconds")
    assert sorted(first for first, _, _ in receiver.requests) == sorted(f"POST /{path} HTTP/1.1" for path in paths)
    assert len(hanging.requests) == 1
    (attempt,) = harness.shop.table.query(DELIVERIES_OF_WEBHOOK, webhook_id=broken).items
    assert attempt.error == f"no answer within {webhook_sender.SEND_SECONDS} seconds"
    found = {webhook.webhook_id: webhook.failures for webhook in harness.shop.table.query_all(WEBHOOKS)}
    assert {id: failures for id, failures in found.items() if failures} == {broken: 1}
    assert len(found) == WEBHOOKS_COUNT
