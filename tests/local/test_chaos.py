"""Tests each chaos switch, which breaks a part of the shop, with fakes of these parts."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from functions.model.changes import UnknownSchema, parse_change
from functions.model.table import ORDER
from local import chaos as module
from local.chaos import Chaos, mend_image, mend_record, poison_image
from local.laptop.http_server import InvalidField
from local.laptop.journal import Journal
from local.laptop.payment_provider import read_delay
from local.laptop.queues import StackQueue
from proof.support.samples import SAMPLES
from tests.support.waiting import eventually


class Queues:
    """A queue whose messages the test sets."""

    def __init__(self) -> None:
        self.by_name = {"refund": StackQueue("refund", "http://sqs/refund", "http://sqs/dead", "refunds", 3)}
        self.messages: list[dict[str, Any]] = []
        self.duplicated: list[dict[str, Any]] = []

    def receive(self, queue: StackQueue, visible_again_seconds: int) -> dict[str, Any] | None:
        if not self.messages:
            return None
        self.messages[0]["Attributes"]["ApproximateReceiveCount"] += 1
        return self.messages[0]

    def duplicate(self, queue: StackQueue, message: dict[str, Any]) -> None:
        self.duplicated.append(self.messages.pop(0))


class ShopContext:
    """A shop with one reader and one queue. `enabled`: for each switch of the queue's event source mapping, whether it
    was enabled."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.enabled: list[bool] = []
        self.killed: list[str] = []
        mappings = [{"UUID": "m", "EventSourceArn": "arn:aws:sqs:eu-west-1:1:refund"}]
        client = SimpleNamespace(
            list_event_source_mappings=lambda **_: {"EventSourceMappings": mappings},
            update_event_source_mapping=lambda **asked: self.enabled.append(asked["Enabled"]),
        )
        monkeypatch.setattr(module, "boto3", SimpleNamespace(client=lambda *_, **__: client))
        self.reader = SimpleNamespace(reader="copies_reader", disabled=False, fail_next=0, repeat_next=0)
        monkeypatch.setattr(module, "StreamPoller", SimpleNamespace)
        keeper: Any = SimpleNamespace(readers=[self.reader], restarts={"aws": 0}, kill=self.killed.append)
        for part in ("engine", "aws", "provider"):
            (folder / part).mkdir()
        running: Any = SimpleNamespace(
            aws=SimpleNamespace(client_options={}, directory=folder / "aws"),
            engine=SimpleNamespace(directory=folder / "engine"),
        )
        self.queues = Queues()
        queues: Any = self.queues
        self.journal = Journal(folder / "journal.sqlite")
        self.chaos = Chaos(running, keeper, queues, self.journal)

    def entries(self) -> list[dict[str, Any]]:
        return self.journal.entries_after(0)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShopContext:
    return ShopContext(tmp_path, monkeypatch)


def message() -> dict[str, Any]:
    event = {"detail": {"type": "RefundRequested", "data": {"order_id": "o1"}}}
    return {"MessageId": "m1", "Body": json.dumps(event), "Attributes": {"ApproximateReceiveCount": 0}}


def test_a_message_fails_as_often_as_requested_and_then_its_function_is_enabled(shop: ShopContext) -> None:
    shop.queues.messages = [message()]
    assert shop.chaos.run_switch({"switch": "fail", "of": "refund", "times": 2})["node"] == "refund"
    eventually(lambda: shop.chaos.fail_next["refund"] == 0 and shop.enabled[-1])
    assert [one["attempt"] for one in shop.entries() if one["kind"] == "failed"] == [1, 2]
    assert shop.queues.duplicated == []


def test_a_message_is_delivered_twice_and_then_its_function_is_enabled(shop: ShopContext) -> None:
    shop.chaos.run_switch({"switch": "twice", "of": "refund"})
    assert shop.enabled[-1] is False, "the function must not take the message"
    shop.queues.messages = [message(), message()]
    eventually(lambda: shop.enabled[-1])
    assert len(shop.queues.duplicated) == 1
    told = [one for one in shop.entries() if one.get("switch") == "twice"]
    assert [(one["text"], one["node"]) for one in told] == [
        ("refund gets the next message twice.", "refund"),
        ("refund gets RefundRequested twice", "refund"),
    ]
    assert (told[1]["order_id"], told[1]["deliveries"]) == ("o1", 2)


def test_the_next_batch_of_a_reader_is_delivered_twice_or_fails(shop: ShopContext) -> None:
    assert shop.chaos.run_switch({"switch": "twice", "of": "copies_reader"})["node"] == "copies_reader"
    assert shop.reader.repeat_next == 1
    shop.chaos.run_switch({"switch": "fail", "of": "copies_reader", "times": 4})
    assert shop.reader.fail_next == 4


def test_a_stopped_reader_is_logged_with_its_node(shop: ShopContext) -> None:
    shop.chaos.run_switch({"switch": "reader", "name": "copies_reader", "running": False})
    assert shop.reader.disabled
    [entry] = shop.entries()
    assert (entry["node"], entry["switch"], entry["running"]) == ("copies_reader", "reader", False)


def test_both_processes_are_killed_together(shop: ShopContext) -> None:
    shop.chaos.run_switch({"switch": "kill", "process": "everything"})
    assert shop.killed == ["dynamodb", "aws"]


def test_the_faults_of_mails_and_provider_last_until_they_are_ended(shop: ShopContext) -> None:
    assert shop.chaos.faults() == {"mail": None, "provider": 0, "delivery": None}
    shop.chaos.run_switch({"switch": "slow", "seconds": 12})
    shop.chaos.run_switch({"switch": "mails", "refuse": "rate"})
    assert shop.chaos.faults() == {"mail": "rate", "provider": 12, "delivery": None}
    shop.chaos.run_switch({"switch": "slow", "seconds": 0})
    shop.chaos.run_switch({"switch": "mails", "refuse": "none"})
    assert shop.chaos.faults() == {"mail": None, "provider": 0, "delivery": None}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"switch": "slow", "seconds": 61}, "seconds"),
        ({"switch": "slow", "seconds": True}, "seconds"),
        ({"switch": "delivery", "mode": "never"}, "mode"),
        ({"switch": "twice", "of": "warehouse"}, "of"),
        ({"switch": "kill", "process": "page"}, "process"),
        ({"switch": "open"}, "switch"),
        ({"switch": "fail", "of": "copies_reader", "times": 0}, "times"),
        ({"switch": "fail", "of": "copies_reader", "times": "3"}, "times"),
        ({"switch": "reader", "name": "nobody", "running": False}, "name"),
        ({"switch": "reader", "name": "copies_reader", "running": 0}, "running"),
        ({"switch": "advance", "by": "soon"}, "by"),
        ({"switch": "mails", "refuse": "1"}, "refuse"),
    ],
)
def test_an_invalid_value_is_rejected_by_its_field(shop: ShopContext, body: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidField) as rejected:
        shop.chaos.run_switch(body)
    assert rejected.value.field == field
    assert shop.entries() == []


def test_a_delay_is_read_from_a_file_and_limited(tmp_path: Path) -> None:
    file = tmp_path / "slow"
    assert read_delay(file) == 0
    for text, seconds in (("2.5", 2.5), ("900", 60), ("soon", 0)):
        file.write_text(text)
        assert read_delay(file) == seconds


def test_a_poisoned_record_is_unreadable_until_it_is_mended() -> None:
    image = ORDER.encode(SAMPLES[ORDER])
    poisoned = poison_image(image)
    record = {"eventName": "MODIFY", "dynamodb": {"Keys": {}, "OldImage": image, "NewImage": poisoned}}
    with pytest.raises(UnknownSchema):
        parse_change(record)
    change = parse_change(mend_record(record))
    assert change is not None
    assert (change.name, change.version) == ("OrderAddressChanged", change.before.version + 1)
    repair = {"eventName": "MODIFY", "dynamodb": {"Keys": {}, "OldImage": poisoned, "NewImage": mend_image(poisoned)}}
    assert parse_change(repair) is None, "the repair causes no change event, so it is not parked again"
    with pytest.raises(ValueError, match="not poisoned"):
        mend_record(mend_record(record))
