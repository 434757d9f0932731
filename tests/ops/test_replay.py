"""Tests `python -m ops replay`: it sends past events to a consumer, from the event archive or the table's state."""

import json
import shlex
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.events.models import ReplayState, events_backends

from functions.handlers import event_publisher
from functions.model.events import EVENT_SOURCE
from functions.model.retention import BUS_ARCHIVE_DAYS, MAX_REPLAY_AGE_DAYS
from functions.runtime import clients
from local.world.dynamodb_engine import REGION
from local.world.harness import ShopHarness
from ops.__main__ import main
from ops.commands import replay
from proof.support.client_faults import crash_at
from tests.ops.test_rebuild import delivered_in_part_returned, derived, is_as_the_reader_makes_it


@pytest.fixture(autouse=True)
def polls_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "POLL_SECONDS", 0.0)


@pytest.fixture
def archive(here: ShopHarness) -> Iterator[str]:
    """Create an archive of the event bus. Yield the ARN of the bus."""
    events = clients.client("events")
    bus_arn = events.describe_event_bus(Name="shop")["Arn"]
    pattern = json.dumps({"source": [EVENT_SOURCE]})
    events.create_archive(ArchiveName="all", EventSourceArn=bus_arn, EventPattern=pattern, RetentionDays=30)
    yield bus_arn
    events.delete_archive(ArchiveName="all")
    events_backends[DEFAULT_ACCOUNT_ID][REGION].replays.clear()


def told(harness: ShopHarness, queue: str) -> set[str]:
    """Return the types of the messages in a queue."""
    return {json.loads(message["body"])["detail"]["type"] for message in harness.take_messages(queue)}


# replays from the table -----------------------------------------------------------------------------------------------
def test_copies_are_rewritten_without_any_effect(here: ShopHarness, capsys: pytest.CaptureFixture[str]) -> None:
    delivered_in_part_returned(here)
    here.take_messages("warehouse")
    main(["replay", "--from-table", "--copies", "--dry-run"])
    would = capsys.readouterr().out
    assert "would be updated" in would
    assert derived(here) == []
    main(["replay", "--from-table", "--copies", "--units-per-second", "100000"])
    read = int(would.split()[0])
    and_its_own_rows = would.replace("would be ", "").replace(f"{read} items", f"{read + 2} items")
    assert capsys.readouterr().out == and_its_own_rows
    recovered = derived(here)
    assert all(told(here, name) == set() for name in here.queues)
    assert is_as_the_reader_makes_it(here, recovered, here.all_records)


def test_reactions_are_sent_only_to_the_named_rule_and_only_its_events(here: ShopHarness) -> None:
    """As docs/upgrades.md says, an older version of fulfilment must not get an order that this version fulfilled."""
    here.open_shop()
    fulfilled, waiting = here.place_order("one", mug=1), here.place_order("two", mug=1)
    here.pay_order(fulfilled, "evt_1", "pi_1")
    here.process_all()
    here.pay_order(waiting, "evt_2", "pi_2")
    event_publisher.handler({"Records": here.new_records()}, None)
    for queue in here.queues:
        here.take_messages(queue)  # purge the queue
    main(["replay", "--from-table", "--reactions", "--to", "fulfilment", "--units-per-second", "100000"])
    sent = [json.loads(message["body"])["detail"] for message in here.take_messages("fulfilment")]
    assert [(detail["type"], detail["data"]["order_id"]) for detail in sent] == [("OrderPaid", waiting)]
    assert all(told(here, name) == set() for name in here.queues)


def test_reactions_to_all_twice_and_killed_half_way_have_each_effect_once(here: ShopHarness) -> None:
    here.open_shop()
    orders = [here.place_order(key, mug=1) for key in ("one", "two")]
    for order_id in orders:
        here.pay_order(order_id, f"evt_{order_id}", f"pi_{order_id}")
    here.new_records()  # these records are lost
    arguments = ["replay", "--from-table", "--reactions", "--to-all", "--units-per-second", "100000"]
    with crash_at("events", "PutEvents", "after", 3):
        main(arguments)
    for _ in range(2):
        main(arguments)
        here.process_all()
    for order_id in orders:
        kinds = [image["type"]["S"] for image in here.partition(f"ORDER#{order_id}")]
        assert (kinds.count("Invoice"), kinds.count("Shipment")) == (1, 1)
    subjects = [mail.subject for mail in here.sent_mails()]
    assert len(subjects) == 2


def test_a_dry_run_of_reactions_publishes_nothing(here: ShopHarness, capsys: pytest.CaptureFixture[str]) -> None:
    here.open_shop()
    here.place_order("one", mug=1)
    main(["replay", "--from-table", "--reactions", "--to-all", "--dry-run"])
    assert "would be published" in capsys.readouterr().out
    assert all(told(here, name) == set() for name in here.queues)


def test_a_change_older_than_the_replay_limit_is_not_published(here: ShopHarness) -> None:
    here.open_shop()
    order_id = here.place_order("one", mug=1)
    here.pay_order(order_id)
    arguments = ["replay", "--from-table", "--reactions", "--to", "fulfilment", "--units-per-second", "100000"]
    here.clock_offset = timedelta(days=MAX_REPLAY_AGE_DAYS + 1)
    main(arguments)
    assert told(here, "fulfilment") == set()
    here.clock_offset = timedelta(days=MAX_REPLAY_AGE_DAYS - 1)
    main(arguments)
    assert told(here, "fulfilment") == {"OrderPaid"}


def test_an_unreadable_item_is_named_and_exits_with_1(here: ShopHarness, capsys: pytest.CaptureFixture[str]) -> None:
    here.open_shop()
    order_id = here.place_order("one", mug=1)
    image = next(one for one in here.partition(f"ORDER#{order_id}") if one["SK"] == {"S": "ORDER"})
    here.shop.table.client.put_item(TableName=here.shop.table.name, Item=image | {"lines": {"S": "no"}})
    with pytest.raises(SystemExit, match="1 items were skipped"):
        main(["replay", "--from-table", "--copies", "--units-per-second", "100000"])
    assert f"ORDER#{order_id} / ORDER" in capsys.readouterr().out


def test_a_rule_that_chooses_by_more_or_goes_elsewhere_is_not_guessed_at(
    here: ShopHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    events = clients.client("events")
    rich = json.dumps({"source": [EVENT_SOURCE], "detail": {"data": {"total": [{"numeric": [">", 1]}]}}})
    events.put_rule(Name="rich", EventBusName="shop", EventPattern=rich)
    events.put_rule(Name="hook", EventBusName="shop", EventPattern=json.dumps({"source": [EVENT_SOURCE]}))
    begins = json.dumps({"source": [EVENT_SOURCE], "detail-type": [{"prefix": "Order"}]})
    events.put_rule(Name="begins", EventBusName="shop", EventPattern=begins)
    arn = "arn:aws:lambda:eu-central-1:123456789012:function:hook"
    events.put_targets(Rule="hook", EventBusName="shop", Targets=[{"Id": "1", "Arn": arn}])
    try:
        for name, why in {
            "rich": "also filters by detail",
            "begins": "does not only compare whole values",
            "hook": "which is not an SQS queue",
            "none": "No rules match",
        }.items():
            with pytest.raises(SystemExit) as ended:
                main(["replay", "--from-table", "--reactions", "--to", name])
            assert ended.value.code == 2
            assert why in capsys.readouterr().err
    finally:
        events.remove_targets(Rule="hook", EventBusName="shop", Ids=["1"])
        for name in ("rich", "hook", "begins"):
            events.delete_rule(Name=name, EventBusName="shop")


# replays from the event archive ---------------------------------------------------------------------------------------
def test_the_archive_plays_to_the_named_rule_and_the_same_again_is_the_same_replay(
    here: ShopHarness, archive: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["replay", "--from-event-archive", "--stack", "any", "--to", "fulfilment"]
    span = ["--since", here.shop.now_instant(), "--until", "2099-01-01T00:00Z"]
    main([*arguments, *span, "--dry-run"])
    assert capsys.readouterr().out.startswith("Would replay: ")
    assert clients.client("events").list_replays()["Replays"] == []
    main([*arguments, *span])
    assert capsys.readouterr().out.endswith("Completed.\n")
    main([*arguments, *span])
    assert capsys.readouterr().out.startswith("Already replayed: ")
    (one,) = clients.client("events").list_replays()["Replays"]
    found = clients.client("events").describe_replay(ReplayName=one["ReplayName"])
    rule = clients.client("events").describe_rule(Name="fulfilment", EventBusName="shop")["Arn"]
    assert found["Destination"] == {"Arn": archive, "FilterArns": [rule]}


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED"])
def test_each_archive_replay_gets_a_new_name(
    here: ShopHarness, archive: str, state: str, capsys: pytest.CaptureFixture[str]
) -> None:
    since = here.shop.now_instant()
    arguments = ["replay", "--from-event-archive", "--to-all", "--since", since, "--until", "2099-01-01"]
    names: list[str] = []
    for _ in range(3):
        main(arguments)
        assert capsys.readouterr().out.endswith("Completed.\n")
        new = {one["ReplayName"] for one in clients.client("events").list_replays()["Replays"]} - {*names}
        names += new
        events_backends[DEFAULT_ACCOUNT_ID][REGION].replays[names[-1]].state = ReplayState(state)
    assert names[1:] == [f"{names[0]}.2", f"{names[0]}.3"]


def test_the_printed_command_resumes_the_same_replay_at_any_time(
    here: ShopHarness, archive: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["replay", "--from-event-archive", "--stack", "any", "--to", "fulfilment", "--since", "1h"])
    again = next(line for line in capsys.readouterr().out.splitlines() if " -m ops replay " in line)
    here.clock_offset += timedelta(minutes=10)
    main(shlex.split(again)[3:])
    assert capsys.readouterr().out.startswith("Already replayed: ")
    assert len(clients.client("events").list_replays()["Replays"]) == 1


def test_a_range_outside_the_archive_is_rejected(here: ShopHarness, archive: str, capsys: Any) -> None:
    for since, why in (
        (f"{BUS_ARCHIVE_DAYS + 1}d", "The archive keeps events for 30 days"),
        ("0m", "--since must be before --until"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["replay", "--from-event-archive", "--to-all", "--since", since])
        assert ended.value.code == 2
        assert why in capsys.readouterr().err


def test_a_bus_without_an_archive_says_so(here: ShopHarness, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["replay", "--from-event-archive", "--to-all", "--since", "1d"])
    assert ended.value.code == 2
    assert "has no archive" in capsys.readouterr().err
