"""Rehearses docs/runbooks/restore-table.md: all items are copied into a new table without a stream and without TTL, and
the page's commands run. The shop on the new table loses nothing that the table has, and does nothing twice.
"""

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from docs.generate import DOCS
from functions.model.entities import ArchivedOrder
from functions.model.errors import NotFound
from functions.model.patterns import INVOICE_SERIES_BY_NAME
from functions.model.table import create_table_request
from functions.shop import cancellation, orders, refunds
from functions.shop.invoices import get_invoice_of_order
from local.laptop import shop_client
from local.world.harness import ANN, STAFF, WORKERS, ShopHarness
from local.world.harness import run_shop as opened
from ops.__main__ import main
from ops.commands.drift import DriftCheck
from proof.support.operator_shop import fake_running_shop

PAGE = DOCS / "runbooks" / "restore-table.md"
COMMANDS = [
    line
    for block in re.findall(r"```restore\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for line in block.strip().splitlines()
]
STREAM, LAST, REPLAY = "stream-specification", "update-item", "python -m ops"
TIME_TO_LIVE = "update-time-to-live"


@dataclass
class Restoring:
    """A shop with a damaged table, and its restored copy."""

    old: ShopHarness
    queues: dict[str, str]
    monkeypatch: pytest.MonkeyPatch
    ending: ExitStack = field(default_factory=ExitStack)

    @property
    def name(self) -> str:
        return f"restored-{self.old.shop.table.name}"

    def remember(self) -> None:
        """Copy all items and indexes, but no other settings, into a new table, as a restore to this moment would."""
        client = self.old.engine.dynamodb()
        request = create_table_request(self.name)
        client.create_table(**{key: value for key, value in request.items() if key != "StreamSpecification"})
        pages = client.get_paginator("scan").paginate(TableName=self.old.shop.table.name, ConsistentRead=True)
        for item in (item for page in pages for item in page["Items"]):
            client.put_item(TableName=self.name, Item=item)

    def take(self) -> ShopHarness:
        """Return the shop on the restored table, with the queues and the payment provider of the old shop."""
        harness = self.ending.enter_context(opened(self.old.engine, self.queues, self.name, self.monkeypatch))
        harness.provider, harness.clock_offset = self.old.provider, self.old.clock_offset
        here = fake_running_shop(harness.engine, self.name)
        self.monkeypatch.setattr(shop_client, "find", lambda _: here)
        return harness

    def run(self, *but: str) -> None:
        """Run the page's commands in their order. `but`: leave out the commands that contain one of these texts."""
        for line in COMMANDS:
            if not any(part in line for part in but):
                self.command(line)

    def command(self, line: str) -> None:
        client = self.old.engine.dynamodb()
        year = self.old.shop.now_instant()[:4]
        series = self.old.shop.table.get(INVOICE_SERIES_BY_NAME, series=year)
        arn = client.describe_table(TableName=self.name)["Table"]["TableArn"]
        known = {"RESTORED_ARN": arn, "RESTORED": self.name, "YEAR": year, "LAST": str(series.last if series else 0)}
        for variable, value in known.items():
            line = line.replace(f"${variable}", value)
        program, *words = shlex.split(line.replace(" --stack $STACK", ""))
        if program == "python":
            main([*words[2:], "--local"])
        else:
            call(client, *words[1:])


def call(client: Any, operation: str, *options: str) -> None:
    """Run a command of `aws dynamodb` with this client."""
    given: dict[str, Any] = {}
    for option, text in zip(options, [*options[1:], "--"], strict=True):
        if option.startswith("--"):
            name = "".join(part.capitalize() for part in option.removeprefix("--").split("-"))
            given[name] = True if text.startswith("--") else json.loads(text) if text[0] in "{[" else text
    getattr(client, operation.replace("-", "_"))(**given)


@pytest.fixture
def restoring(
    harness: ShopHarness, surroundings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Restoring]:
    found = Restoring(harness, surroundings, monkeypatch)
    with found.ending:
        yield found


def close_an_order(restoring: Restoring) -> str:
    """Cancel an order, and restore the table after that. Return the order's id."""
    old = restoring.old
    old.open_shop()
    closed = old.place_order("closed", mug=1)
    cancellation.cancel_order(old.shop, ANN, closed)
    old.process_all()
    restoring.remember()
    return closed


def told_of(harness: ShopHarness, order_id: str) -> list[str]:
    """Return the subjects of the mails about an order."""
    return [mail.subject for mail in harness.sent_mails() if order_id[:8].upper() in mail.subject]


def test_the_page_has_a_command_for_everything_that_a_restore_leaves_out() -> None:
    for part in (STREAM, "deletion-protection", "tag-resource", LAST, TIME_TO_LIVE, REPLAY):
        assert [line for line in COMMANDS if part in line], part
    order = [next(n for n, line in enumerate(COMMANDS) if part in line) for part in (STREAM, TIME_TO_LIVE, REPLAY)]
    assert order == sorted(order), "items that expire before the stream exists are in no record"
    assert "point-in-time-recovery-specification" in PAGE.read_text()


def test_after_a_restore_nothing_that_was_there_is_lost_and_nothing_is_done_twice(restoring: Restoring) -> None:
    old = restoring.old
    old.open_shop(available=20)
    done, half, closed, back = (old.place_order(key, mug=1) for key in ("done", "half", "closed", "back"))
    old.process_all()
    old.pay_order(done, "evt_1", "pi_1")
    old.pay_order(back, "evt_2", "pi_2")
    cancellation.cancel_order(old.shop, ANN, closed)
    old.process_all()
    asked_before = shipments_asked_for(old)
    kept = get_invoice_of_order(old.shop, ANN, done).invoice_id
    old.pay_order(half, "evt_3", "pi_3")  # the record of this payment is not published before the restore
    refunds.refund_order(old.shop, STAFF, "sorry", back, 100)  # the record of this refund is not published either
    restoring.remember()

    old.process_all()  # fulfils the order `half`, makes the refund, and sends mails
    lost = old.place_order("lost", mug=1)
    old.pay_order(lost, "evt_4", "pi_4")
    given_before = [refund["id"] for refund in old.provider.refunds]
    assert len(given_before) == 1
    WORKERS["fulfilment"].handler({"Records": paid_messages(old)}, None)
    numbers = {get_invoice_of_order(old.shop, ANN, id).invoice_id for id in (half, lost)}
    waiting = paid_messages(old, again=True)

    harness = restoring.take()
    restoring.run()
    harness.process_all()

    assert [refund["id"] for refund in harness.provider.refunds] == given_before
    assert get_invoice_of_order(harness.shop, ANN, done).invoice_id == kept
    assert get_invoice_of_order(harness.shop, ANN, half).invoice_id > max(numbers), "no invoice number is used twice"
    assert told_of(harness, done) == []
    assert len(told_of(harness, half)) == len(set(told_of(harness, half))) == 1
    asked = shipments_asked_for(harness)
    assert asked.items() >= asked_before.items(), "the warehouse may get a request again, with the id that it knows"
    assert asked.keys() == {done, back, half}
    with pytest.raises(NotFound):
        orders.get_order(harness.shop, ANN, lost)
    WORKERS["fulfilment"].handler({"Records": waiting}, None)
    harness.process_all()
    with pytest.raises(NotFound):
        get_invoice_of_order(harness.shop, ANN, lost)
    drift = DriftCheck(harness.shop, pause_seconds=0)
    drift.check_all()
    assert not drift.sweep_result.changed


def shipments_asked_for(harness: ShopHarness) -> dict[str, str]:
    """Return the ids of the shipments that were requested from the warehouse, by order."""
    events = [json.loads(message["body"])["detail"] for message in harness.take_messages("warehouse")]
    assert {event["type"] for event in events} == {"ShipmentRequested"}
    assert len(events) == len({event["data"]["order_id"] for event in events})
    return {event["data"]["order_id"]: event["id"] for event in events}


def paid_messages(harness: ShopHarness, *, again: bool = False) -> list[dict[str, Any]]:
    """Publish the events of new records, and return the messages of fulfilment. `again`: publish all records."""
    from local.world.harness import READERS  # noqa: PLC0415

    records = harness.all_records if again else harness.new_records()
    READERS["event_publisher"].handler({"Records": records}, None)
    return harness.take_messages("fulfilment")


def test_a_restored_shop_continues_and_archives_closed_orders(restoring: Restoring) -> None:
    closed = close_an_order(restoring)
    harness = restoring.take()
    restoring.run(LAST)
    harness.process_all()
    new = harness.place_order("new", mug=1)
    harness.pay_order(new)
    harness.process_all()
    assert get_invoice_of_order(harness.shop, ANN, new).invoice_id.endswith("-00000001")
    assert len(told_of(harness, new)) == 2
    harness.advance_days(days=400)
    harness.process_all()
    assert isinstance(orders.get_order(harness.shop, ANN, closed), ArchivedOrder)


def test_an_item_that_expired_before_the_stream_existed_is_archived_too(restoring: Restoring) -> None:
    closed = close_an_order(restoring)
    harness = restoring.take()
    restoring.command(next(line for line in COMMANDS if TIME_TO_LIVE in line))
    harness.advance_days(days=400)
    restoring.run(LAST, TIME_TO_LIVE)
    harness.process_all()
    assert isinstance(orders.get_order(harness.shop, ANN, closed), ArchivedOrder)
