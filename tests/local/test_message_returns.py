"""Tests that messages become visible again within seconds after their invocation was killed, but not while it runs."""

import copy
import time
from collections.abc import Callable
from typing import Any

import pytest
from ministack.services import lambda_svc, sqs  # type: ignore[import-untyped]

from functions.model.retries import retry_delay_seconds
from local.laptop.message_returns import return_messages
from local.laptop.queues import OLDEST_SECONDS, RETURNING, RETURNS_AT

VISIBILITY_SECONDS = 360
URL = "http://localhost/queue"


class Mapping:
    """A queue with the messages "1" and "2", and its event source mapping. `function` handles each invocation."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.function: Callable[[list[dict[str, Any]]], object] = lambda batch: None
        attributes = {"VisibilityTimeout": str(VISIBILITY_SECONDS)}
        self.queue: dict[str, Any] = {"is_fifo": False, "attributes": attributes, "messages": []}
        for id in "12":
            sent = {"id": id, "body": "", "sent_at": self.now, "visible_at": self.now}
            self.queue["messages"].append(sent | {"receive_count": 0, "receipt_handle": None})

    def deliver(self) -> list[str]:
        """Invoke the function with the visible messages, and return their ids."""
        batch = sqs._receive_messages_for_esm(URL, 10)
        event = {"Records": [{"receiptHandle": message["receipt_handle"]} for message in batch]}
        lambda_svc._run_sqs_batch({}, {}, event, batch, URL, "queue")
        return [message["id"] for message in batch]

    def change_visibility(self, message: dict[str, Any], seconds: int) -> None:
        sqs._act_change_visibility({"ReceiptHandle": message["receipt_handle"], "VisibilityTimeout": seconds}, URL)

    def returning(self) -> tuple[int, float]:
        sqs._refresh_counts(self.queue)
        return int(self.queue["attributes"][RETURNING]), float(self.queue["attributes"][RETURNS_AT])


@pytest.fixture
def mapping(monkeypatch: pytest.MonkeyPatch) -> Mapping:
    there = Mapping()
    monkeypatch.setattr(time, "time", lambda: there.now)
    monkeypatch.setattr(sqs, "_get_q", lambda *_: there.queue)
    monkeypatch.setattr(lambda_svc, "_run_sqs_batch", lambda mapping, function, event, batch, *_: there.function(batch))
    for name in ("_receive_messages_for_esm", "_refresh_counts", "load_persisted_state"):
        monkeypatch.setattr(sqs, name, getattr(sqs, name))
    return_messages()
    return there


def test_messages_of_a_killed_invocation_return_after_the_delay_of_a_failed_delivery(mapping: Mapping) -> None:
    for attempt in (1, 2):
        assert mapping.deliver() == ["1", "2"]
        back = mapping.now + retry_delay_seconds(attempt)
        assert mapping.returning() == (2, back)
        mapping.now = back - 1
        assert mapping.deliver() == []
        mapping.now = back
    assert mapping.deliver() == ["1", "2"]


def test_no_message_is_delivered_again_while_its_invocation_runs(mapping: Mapping) -> None:
    def run(batch: list[dict[str, Any]]) -> None:
        mapping.function = lambda batch: None
        mapping.now += VISIBILITY_SECONDS - 1
        assert mapping.deliver() == []
        assert mapping.returning() == (0, 0)

    mapping.function = run
    assert mapping.deliver() == ["1", "2"]


def test_the_age_of_a_queue_is_that_of_its_oldest_message_that_was_not_received_yet(mapping: Mapping) -> None:
    def age() -> float:
        sqs._refresh_counts(mapping.queue)
        return float(mapping.queue["attributes"][OLDEST_SECONDS])

    mapping.now += 7
    assert age() == 7
    mapping.deliver()
    mapping.now += retry_delay_seconds(1)
    assert age() == 0, "both messages were received, and failed"


def test_an_invocation_that_ends_late_returns_no_message_of_its_successor(mapping: Mapping) -> None:
    def outlive_the_timeout(batch: list[dict[str, Any]]) -> None:
        mapping.now += VISIBILITY_SECONDS
        sqs._receive_messages_for_esm(URL, 10)

    mapping.function = outlive_the_timeout
    mapping.deliver()
    mapping.now += VISIBILITY_SECONDS - 1
    assert mapping.deliver() == []


def test_a_message_keeps_the_visibility_timeout_that_its_function_has_set(mapping: Mapping) -> None:
    mapping.function = lambda batch: mapping.change_visibility(batch[0], 600)
    mapping.deliver()
    mapping.function = lambda batch: None
    mapping.now += retry_delay_seconds(1)
    assert mapping.deliver() == ["2"]
    mapping.now += 600
    assert "1" in mapping.deliver()


def test_after_the_local_aws_was_killed_the_messages_of_its_invocations_are_visible_at_once(mapping: Mapping) -> None:
    saved: list[Any] = []

    def save(batch: list[dict[str, Any]]) -> None:
        mapping.change_visibility(batch[0], 600)
        saved.append(copy.deepcopy(mapping.queue))

    mapping.function = save
    mapping.deliver()
    queues = sqs.AccountRegionScopedDict()
    queues[URL] = mapping.queue = saved[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqs, "_queues", queues)
        sqs.load_persisted_state({})
    assert mapping.deliver() == ["2"]
