"""Tests the event publisher with records of a real stream: its calls to the bus, and how it handles rejections."""

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from functions.adapters.event_bus import MAX_ENTRIES_PER_CALL, make_publisher
from functions.dynamodb.stream_batch import item_key_of
from functions.handlers import event_publisher
from functions.model import changes, events
from functions.model.retention import MAX_REPLAY_AGE_DAYS
from functions.model.table import ROWS_BY_TYPE
from functions.runtime import clients
from functions.shop import cancellation
from functions.shop.republishing import republish_order
from local.world.harness import ANN, STAFF, ShopHarness
from proof.support.client_faults import crash_at
from proof.support.examples import many

Record = dict[str, Any]
Entry = dict[str, Any]


class Bus:
    """A bus that answers each entry with the result of `refuse`: an error code, or None if it accepts the entry."""

    def __init__(self, refuse: Callable[[Entry], str | None] = lambda entry: None) -> None:
        self.refuse = refuse
        self.calls: list[list[dict[str, Any]]] = []
        self.taken: list[dict[str, Any]] = []

    def put_events(self, Entries: Sequence[Entry]) -> dict[str, Any]:  # noqa: N803  the client's own spelling
        codes = [self.refuse(entry) for entry in Entries]
        told = [json.loads(entry["Detail"]) for entry in Entries]
        self.calls.append(told)
        self.taken += [detail for detail, code in zip(told, codes, strict=True) if not code]
        return {
            "FailedEntryCount": len(codes) - codes.count(None),
            "Entries": [{"ErrorCode": code, "ErrorMessage": "no"} if code else {"EventId": "1"} for code in codes],
        }


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Bus:
    """The bus to which the event publisher sends. It accepts all entries until a test sets `refuse`."""
    made, real = Bus(), clients.client
    monkeypatch.setattr(clients, "client", lambda service: made if service == "events" else real(service))
    return made


def handle(records: Sequence[Record]) -> list[str]:
    """Run the event publisher. Return the sequence numbers of the records that Lambda sends again."""
    answer = event_publisher.handler({"Records": records}, None)
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def numbers(*records: Record) -> list[str]:
    return [record["dynamodb"]["SequenceNumber"] for record in records]


def type_of(record: Record) -> str:
    return str((record["dynamodb"].get("NewImage") or record["dynamodb"]["OldImage"])["type"]["S"])


def ids(records: Sequence[Record]) -> dict[str, Record]:
    """Return the records that have an event, by the event's id, in order."""
    read = [(changes.parse_change(record), record) for record in records]
    return {change.id: record for change, record in read if change and events.build_event_detail(change)}


@pytest.fixture
def busy(harness: ShopHarness) -> list[Record]:
    """The records of a dozen orders, each placed and then cancelled."""
    harness.open_shop(available=50)
    placed = [harness.place_order(f"key-{number}", mug=1) for number in range(12)]
    for order_id in placed:
        cancellation.cancel_order(harness.shop, ANN, order_id)
    return without_stock(harness.new_records())


def without_stock(records: Sequence[Record]) -> list[Record]:
    """Leave out the records of stock. Lambda's filter keeps most of these records from the event publisher."""
    return [record for record in records if type_of(record) != "Stock"]


# publishing -----------------------------------------------------------------------------------------------------------
def test_every_event_is_published_once_in_calls_of_ten_with_one_record_of_an_item_at_most(
    busy: list[Record], bus: Bus
) -> None:
    assert handle(busy) == []
    records = ids(busy)
    assert [detail["id"] for detail in bus.taken] == list(records)
    assert len(records) == 1 + 12 + 12
    assert max(map(len, bus.calls)) == 10
    for call in bus.calls:
        items = [item_key_of(records[detail["id"]]) for detail in call]
        assert len(items) == len(set(items))


def test_records_of_copies_cause_no_event(harness: ShopHarness, bus: Bus) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=1)
    harness.pay_order(order_id)
    harness.process_all()
    derived = [record for record in harness.all_records if ROWS_BY_TYPE[type_of(record)].kind in ("snapshot", "log")]
    assert {type_of(record) for record in derived} == {"OrderSummary", "OrderNumber", "FeedEntry", "Sale", "Activity"}
    bus.calls.clear()
    assert handle(derived) == []
    assert bus.calls == []


# joined events --------------------------------------------------------------------------------------------------------
@pytest.fixture
def expired(harness: ShopHarness) -> list[Record]:
    """The records of 24 activity entries of one day that DynamoDB deleted because of their ttl."""
    harness.clock_offset = timedelta(hours=12 - datetime.now(UTC).hour)
    harness.open_shop(available=50)
    for number in range(12):
        cancellation.cancel_order(harness.shop, ANN, harness.place_order(f"key-{number}", mug=1))
    harness.process_all()
    harness.advance_days(91)
    found = [record for record in harness.new_records() if type_of(record) == "Activity"]
    assert len(found) == 24
    return found


def test_activity_entries_that_expire_together_are_events_of_twenty(expired: list[Record], bus: Bus) -> None:
    assert handle(expired) == []
    assert [len(detail["images"]) for detail in bus.taken] == [20, 4]
    assert [image for detail in bus.taken for image in detail["images"]] == [
        record["dynamodb"]["OldImage"] for record in expired
    ]
    assert len({detail["id"] for detail in bus.taken}) == len(bus.taken)
    for detail in bus.taken:
        assert {image["at"]["S"][:10] for image in detail["images"]} == {detail["data"]["at"][:10]}


@pytest.mark.parametrize("code", ["ThrottlingException", "MalformedDetail"])
def test_if_a_joined_event_is_rejected_each_of_its_records_is_sent_again_or_parked(
    harness: ShopHarness, expired: list[Record], bus: Bus, code: str
) -> None:
    bus.refuse = lambda entry: code if len(json.loads(entry["Detail"])["images"]) == 20 else None
    first, parked = expired[:20], code == "MalformedDetail"
    assert handle(expired) == ([] if parked else numbers(*first))
    assert len(harness.objects("failures")) == (20 if parked else 0)
    bus.refuse = lambda entry: None
    handle(first)
    published = [image for detail in bus.taken for image in detail["images"]]
    assert sorted(image["change_id"]["S"] for image in published) == sorted(
        record["dynamodb"]["OldImage"]["change_id"]["S"] for record in expired
    )


def test_joined_events_of_full_size_fit_into_one_call() -> None:
    largest = 1_200  # bytes of an image with a customer id of 128 characters, as JSON
    assert MAX_ENTRIES_PER_CALL * event_publisher.MAX_JOINED_EVENTS * largest < 256 * 1024


# rejected entries -----------------------------------------------------------------------------------------------------
def test_only_rejected_entries_and_later_entries_of_their_items_are_sent_again(busy: list[Record], bus: Bus) -> None:
    records = ids(busy)
    placed, cancelled = [
        [id for id, record in records.items() if type_of(record) == "Order" and record["eventName"] == name]
        for name in ("INSERT", "MODIFY")
    ]
    refused = {placed[2], placed[7], cancelled[4]}
    bus.refuse = lambda entry: "ThrottlingException" if json.loads(entry["Detail"])["id"] in refused else None
    waits = [placed[2], placed[7], cancelled[2], cancelled[4], cancelled[7]]
    assert handle(busy) == numbers(*(records[id] for id in waits))
    assert [detail["id"] for detail in bus.taken] == [id for id in records if id not in waits]
    bus.refuse = lambda entry: None
    bus.taken.clear()
    start = busy.index(records[placed[2]])
    assert handle(busy[start:]) == []
    assert [detail["id"] for detail in bus.taken] == list(ids(busy[start:]))


@pytest.mark.thorough
def test_rejections_by_the_bus_lose_no_event_and_keep_the_order_per_item(busy: list[Record], bus: Bus) -> None:
    records = ids(busy)

    @settings(max_examples=many(40, 10))
    @given(some.data())
    def any_refusals(data: some.DataObject) -> None:
        moods = some.sampled_from([None, None, "InternalFailure"])
        bus.refuse = lambda entry: data.draw(moods)
        bus.taken.clear()
        left = busy
        for _ in range(5):
            if not (waiting := handle(left)):
                break
            left = left[numbers(*left).index(waiting[0]) :]
        bus.refuse = lambda entry: None
        assert handle(left) == []
        assert {detail["id"] for detail in bus.taken} == set(records)
        versions: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for detail in bus.taken:
            versions[item_key_of(records[detail["id"]])].append(detail["version"])
        for seen in versions.values():
            firsts = list(dict.fromkeys(seen))
            assert firsts == sorted(firsts), "a later change was published before an earlier one"

    any_refusals()


def test_an_entry_that_is_rejected_permanently_is_parked_and_blocks_no_other(
    harness: ShopHarness, busy: list[Record], bus: Bus
) -> None:
    records = ids(busy)
    placed = [id for id, record in records.items() if type_of(record) == "Order" and record["eventName"] == "INSERT"]
    bus.refuse = lambda entry: "MalformedDetail" if json.loads(entry["Detail"])["id"] == placed[3] else None
    assert handle(busy) == []
    assert [detail["id"] for detail in bus.taken] == [id for id in records if id != placed[3]]
    (parked,) = harness.objects("failures").values()
    assert json.loads(parked) == {
        "reader": "event_publisher",
        "reason": "Permanent: MalformedDetail",
        "record": records[placed[3]],
    }


def test_when_a_whole_call_fails_its_records_are_sent_again_and_those_of_other_calls_are_not(
    busy: list[Record], bus: Bus
) -> None:
    told = list(ids(busy).values())
    publish, calls = bus.put_events, iter(range(10))

    def broken_once(Entries: Sequence[Entry]) -> dict[str, Any]:  # noqa: N803
        if next(calls) == 0:
            raise ConnectionError("the bus is away")
        return publish(Entries)

    bus.put_events = broken_once  # type: ignore[method-assign]
    customer, placed = told[0], told[1:13]
    cancelled = told[13:]
    assert handle(busy) == numbers(customer, *placed[:9], *cancelled[:9])
    assert [detail["id"] for detail in bus.taken] == list(ids([*placed[9:], *cancelled[9:]]))


def test_a_relay_that_dies_after_publishing_publishes_the_same_events_again_and_no_effect_happens_twice(
    harness: ShopHarness,
) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=1)
    harness.pay_order(order_id)
    records = harness.new_records()
    with crash_at("events", "PutEvents", call=2):
        handle(records)
    assert handle(records) == []
    harness.process_all()
    assert len(harness.sent_mails()) == 2, "mails about the placed and the paid order"
    types = [image["type"]["S"] for image in harness.partition(f"ORDER#{order_id}")]
    assert (types.count("Invoice"), types.count("Shipment")) == (1, 1)


# events that staff publish again --------------------------------------------------------------------------------------
def republish(harness: ShopHarness, order_id: str) -> int:
    publish = make_publisher(harness.shop.table.new_backoff, clients.client("events"), "shop")
    return republish_order(harness.shop, STAFF, order_id, publish)


def subjects(harness: ShopHarness) -> list[str]:
    harness.process_all()
    return sorted(mail.subject.split()[0] for mail in harness.sent_mails())


def test_what_lost_events_should_have_done_is_done_once(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order("one", mug=1)
    harness.pay_order(order_id)
    harness.new_records()  # these records are lost
    assert subjects(harness) == []
    assert republish(harness, order_id) == 3, "two of the order, and one of its payment"
    sent = subjects(harness)
    assert len(sent) == 2, "order placed, and order paid"
    assert republish(harness, order_id) > 3
    assert subjects(harness) == sent


def test_old_events_are_not_published_again(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order("one", mug=1)
    harness.clock_offset = timedelta(days=MAX_REPLAY_AGE_DAYS, hours=1)
    assert republish(harness, order_id) == 0
