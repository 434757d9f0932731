"""Recovery: work that readers missed is done from a stored record, or from the state alone."""

import itertools
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from functions.dynamodb.errors import Permanent
from functions.handlers import copies_reader, event_publisher
from functions.model import changes, events
from functions.model.entities import ArchivedOrder, Order
from functions.model.patterns import ORDER_BY_ID
from functions.model.states import ORDER_TRANSITIONS, Transition
from functions.model.table import ORDER
from functions.runtime import clients
from functions.shop import cancellation, erasure, returns
from local.expiry import expire_until
from ops.commands.drift import DriftCheck
from ops.commands.restore import SETTLE_TIME, make_archive_fetcher, restore_order
from ops.repair import rebuild
from ops.repair.order_history import LoggedFacts, find_likely_path, past_change
from ops.repair.rebuild import make_publisher, rebuild_copies, redrive_record, republish_events
from tests.support.client_faults import crash_at
from tests.support.harness import ANN, STAFF, ShopHarness
from tests.support.samples import order as sample
from tests.support.saved import reused
from tests.support.scale import many

Details = list[Mapping[str, Any]]
STREAM_IS_GONE = timedelta(hours=25, minutes=1)
LOGS = ("Activity", "TimelineEvent")
IN_TABLE = [move for move in ORDER_TRANSITIONS if move.command != "archive"]


def order_of(harness: ShopHarness, order_id: str) -> Order:
    return cast(Order, harness.shop.table.get(ORDER_BY_ID, order_id=order_id))


@reused
def delivered_in_part_returned(harness: ShopHarness) -> str:
    """An order that has been through seven states, while only its workers read the stream."""
    harness.open_shop()
    order_id = harness.place_order("one", mug=2, pot=1)
    harness.pay_order(order_id)
    harness.process_all(readers=("relay",))
    harness.dispatch_order(order_id)
    harness.deliver_order(order_id)
    returns.return_goods(harness.shop, STAFF, "back", order_id, {"mug": returns.ReturnedGoods(1, restock=True)})
    harness.process_all(readers=("relay",))
    return order_id


def derived(harness: ShopHarness) -> list[dict[str, Any]]:
    """Every copy in the table."""
    kinds = {"OrderSummary", "Sale", "TimelineEvent", "Activity"}
    images = harness.shop.table.client.scan(TableName=harness.shop.table.name, ConsistentRead=True)["Items"]
    found = [image for image in images if image["type"]["S"] in kinds]
    return sorted(found, key=lambda image: [str(image.get(name)) for name in ("type", "version", "change_id", "PK")])


def shown(images: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the attributes of copies that a rebuild must restore. Without a log, times are those of the next change,
    so they are left out, as is the version of a copy that has not changed since."""
    told = ("type", "event", "status", "change_id", "customer_id", "product_id", "quantity", "returned", "total")
    return sorted(({name: image.get(name) for name in told} for image in images), key=str)


# by state -------------------------------------------------------------------------------------------------------------
def test_a_time_is_guessed_only_when_the_record_that_knows_it_cannot_come_any_more(harness: ShopHarness) -> None:
    order_id = delivered_in_part_returned(harness)
    rebuild_copies(harness.shop)
    logged = {image["version"]["N"] for image in log_entries(harness)}
    assert 1 < len(logged) < order_of(harness, order_id).version
    assert copies_reader.handler({"Records": harness.all_records}, None) == {"batchItemFailures": []}
    assert len(log_entries(harness)) == 2 * order_of(harness, order_id).version
    harness.shop.table.batch_delete([{"PK": image["PK"], "SK": image["SK"]} for image in log_entries(harness)])
    harness.clock_offset += STREAM_IS_GONE
    rebuild_copies(harness.shop)
    assert len(log_entries(harness)) == 2 * order_of(harness, order_id).version


def test_copies_that_were_never_made_are_made_as_the_reader_would_have_made_them(harness: ShopHarness) -> None:
    order_id = delivered_in_part_returned(harness)
    assert derived(harness) == []
    harness.clock_offset += STREAM_IS_GONE
    assert rebuild_copies(harness.shop).unreadable == {}
    recovered = derived(harness)

    for image in recovered:
        harness.shop.table.client.delete_item(
            TableName=harness.shop.table.name, Key={"PK": image["PK"], "SK": image["SK"]}
        )
    assert copies_reader.handler({"Records": harness.all_records}, None) == {"batchItemFailures": []}
    made = derived(harness)

    assert shown(recovered) == shown(made)
    assert order_of(harness, order_id).version == sum(image["type"]["S"] == "TimelineEvent" for image in made)


def test_recovering_copies_again_or_where_they_are_all_there_changes_nothing(harness: ShopHarness) -> None:
    delivered_in_part_returned(harness)
    rebuild_copies(harness.shop)
    once = derived(harness)
    harness.new_records()
    rebuild_copies(harness.shop)
    assert derived(harness) == once
    assert harness.new_records() == []


def test_activity_that_was_written_before_its_reader_died_is_not_written_again(harness: ShopHarness) -> None:
    order_id = delivered_in_part_returned(harness)
    paid = next(
        one for one in harness.all_records if one["dynamodb"].get("NewImage", {}).get("status") == {"S": "PAID"}
    )
    with crash_at("dynamodb", "PutItem", "after", 4):  # summary, two sales, activity; its timeline not any more
        copies_reader.handler({"Records": [paid]}, None)
    assert [image["type"]["S"] for image in derived(harness)] == ["Activity", "OrderSummary", "Sale", "Sale"]
    harness.clock_offset += STREAM_IS_GONE
    rebuild_copies(harness.shop)
    changed = Counter(image["change_id"]["S"] for image in derived(harness) if image["type"]["S"] == "Activity")
    assert set(changed.values()) == {1}
    assert len(changed) == order_of(harness, order_id).version


def test_a_record_that_arrives_after_a_rebuild_corrects_the_estimated_time(harness: ShopHarness) -> None:
    delivered_in_part_returned(harness)
    harness.clock_offset += STREAM_IS_GONE
    rebuild_copies(harness.shop)
    made_up = {(image["type"]["S"], image["change_id"]["S"]): image["at"]["S"] for image in log_entries(harness)}
    for record in harness.all_records:
        redrive_record(harness.shop, lambda details: None, record)
    true = {(image["type"]["S"], image["change_id"]["S"]): image["at"]["S"] for image in log_entries(harness)}
    assert len(log_entries(harness)) == len(true), "each change has one entry"
    assert true.keys() == made_up.keys()
    assert true != made_up
    harness.shop.table.batch_delete([{"PK": image["PK"], "SK": image["SK"]} for image in log_entries(harness)])
    copies_reader.handler({"Records": harness.all_records}, None)
    assert true == {(image["type"]["S"], image["change_id"]["S"]): image["at"]["S"] for image in log_entries(harness)}


def test_a_redriven_record_replaces_an_estimated_time_that_is_earlier_than_its_own(harness: ShopHarness) -> None:
    order_id = placed_paid_and_fulfilling(harness, payment_clock_ahead=timedelta(seconds=2))
    harness.clock_offset += STREAM_IS_GONE
    rebuild_copies(harness.shop)
    redrive_all(harness)
    assert times_of_entries(harness)[order_of(harness, order_id).version] < times_of_entries(harness)[2]
    assert len(log_entries(harness)) == 2 * order_of(harness, order_id).version


def test_a_repair_finds_activity_that_a_later_clock_dates_before_the_order(harness: ShopHarness) -> None:
    order_id = placed_paid_and_fulfilling(harness, payment_clock_ahead=-timedelta(seconds=2))
    copies_reader.handler({"Records": harness.all_records}, None)
    timeline = [image for image in log_entries(harness) if image["type"]["S"] == "TimelineEvent"]
    harness.shop.table.batch_delete([{"PK": image["PK"], "SK": image["SK"]} for image in timeline])
    harness.clock_offset += STREAM_IS_GONE
    rebuild_copies(harness.shop)
    assert len(log_entries(harness)) == 2 * order_of(harness, order_id).version


def test_a_redrive_that_is_killed_between_two_writes_leaves_one_entry_for_each_change(harness: ShopHarness) -> None:
    order_id = placed_paid_and_fulfilling(harness)
    harness.clock_offset += STREAM_IS_GONE
    rebuild_copies(harness.shop)
    with crash_at("dynamodb", "TransactWriteItems"):
        redrive_all(harness)
    assert len(log_entries(harness)) == 2 * order_of(harness, order_id).version


def test_a_second_redrive_removes_an_estimated_entry_that_a_repair_wrote_after_the_first(harness: ShopHarness) -> None:
    order_id = placed_paid_and_fulfilling(harness)
    harness.clock_offset += STREAM_IS_GONE
    rebuild_copies(harness.shop)
    estimated = log_entries(harness)
    redrive_all(harness)
    recorded = log_entries(harness)
    for image in estimated:  # as if the writes of the repair came late
        harness.shop.table.client.put_item(TableName=harness.shop.table.name, Item=image)
    assert len(log_entries(harness)) > 2 * order_of(harness, order_id).version
    redrive_all(harness)
    assert log_entries(harness) == recorded


def test_a_redrive_after_a_restore_from_the_archive_replaces_estimated_activity(harness: ShopHarness) -> None:
    order_id = placed_paid_and_fulfilling(harness)
    harness.dispatch_order(order_id)
    harness.deliver_order(order_id)
    harness.process_all(readers=("relay",))
    lost = list(harness.all_records)
    harness.clock_offset += STREAM_IS_GONE
    rebuild_copies(harness.shop)
    archive_now(harness, order_id)
    harness.clock_offset += SETTLE_TIME
    restore_order(harness.shop, make_archive_fetcher(clients.client("s3"), "archive"), order_id)
    harness.process_all()
    for record in lost:
        redrive_record(harness.shop, lambda details: None, record)
    DriftCheck(harness.shop, repair=True, pause_seconds=0).check_all()
    times = {kind: [entry["at"] for entry in log_entries(harness) if entry["type"]["S"] == kind] for kind in LOGS}
    assert times["Activity"] == times["TimelineEvent"]
    assert len({str(at) for at in times["Activity"]}) == len(times["Activity"]), "no time is estimated any more"


def archive_now(harness: ShopHarness, order_id: str) -> None:
    """Let the expiry marker of a closed order expire, and no other item. So the order is archived."""
    now = {":now": {"N": str(int(harness.now().timestamp()))}}
    key = {"PK": {"S": f"ORDER#{order_id}"}, "SK": {"S": "EXPIRY"}}
    harness.shop.table.client.update_item(
        TableName=harness.shop.table.name,
        Key=key,
        UpdateExpression="SET #ttl = :now",
        ExpressionAttributeNames={"#ttl": "ttl"},
        ExpressionAttributeValues=now,
    )
    expire_until(harness.engine, harness.shop.table.name, harness.now() + timedelta(minutes=1))
    harness.process_all()
    assert isinstance(order_of(harness, order_id), ArchivedOrder)


def placed_paid_and_fulfilling(harness: ShopHarness, payment_clock_ahead: timedelta = timedelta()) -> str:
    """Place and pay an order, and let the worker begin to fulfil it. No Lambda writes copies. Return the order's id."""
    harness.open_shop()
    order_id = harness.place_order("one", mug=1)
    harness.clock_offset += payment_clock_ahead
    harness.pay_order(order_id)
    harness.clock_offset -= payment_clock_ahead
    harness.process_all(readers=("relay",))
    return order_id


def redrive_all(harness: ShopHarness) -> None:
    for record in harness.all_records:
        redrive_record(harness.shop, lambda details: None, record)


def times_of_entries(harness: ShopHarness) -> dict[int, str]:
    return {int(image["version"]["N"]): image["at"]["S"] for image in log_entries(harness)}


def log_entries(harness: ShopHarness) -> list[dict[str, Any]]:
    return [image for image in derived(harness) if image["type"]["S"] in LOGS]


def test_a_cancelled_sale_is_updated_although_its_record_was_lost(
    harness: ShopHarness,
) -> None:
    harness.open_shop()
    order_id = harness.place_order("one", mug=1, pot=1)
    harness.pay_order(order_id)
    records = harness.new_records()
    assert copies_reader.handler({"Records": records}, None) == {"batchItemFailures": []}
    assert quantities(harness) == ["1", "1"]
    cancellation.cancel_order(harness.shop, ANN, order_id)
    harness.new_records()  # lost
    rebuild_copies(harness.shop)
    assert quantities(harness) == ["0", "0"]
    harness.new_records()
    rebuild_copies(harness.shop)
    assert harness.new_records() == [], "and is not written again"


def quantities(harness: ShopHarness) -> list[str]:
    """Of each line, how many are sold."""
    return [image["quantity"]["N"] for image in derived(harness) if image["type"]["S"] == "Sale"]


def test_an_erasure_is_republished_until_it_is_finished(harness: ShopHarness) -> None:
    """Found by the simulation: else an order that is on its way would bear the name for as long."""
    harness.open_shop()
    erased = erasure.erase_customer(harness.shop, ANN, ANN.id)
    (lost,) = [one for one in map(changes.parse_change, harness.new_records()) if one and one.name == "CustomerErased"]
    told: Details = []
    republish_events(harness.shop, told.extend)
    assert [one["id"] for one in told if one["type"] == "CustomerErased"] == [lost.id]
    assert erasure.finish_erasure(harness.shop, erased, harness.now() + 2 * erasure.SETTLE_PERIOD)
    told.clear()
    republish_events(harness.shop, told.extend)
    assert "CustomerErased" not in [one["type"] for one in told]


def test_a_state_whose_event_was_lost_is_published_with_the_id_that_the_publisher_would_have_used(
    harness: ShopHarness,
) -> None:
    harness.open_shop()
    order_id = harness.place_order("one", mug=1)
    harness.pay_order(order_id)
    told: Details = []
    republish_events(harness.shop, told.extend)
    paid = [record for record in harness.new_records() if record["dynamodb"]["NewImage"].get("status") == {"S": "PAID"}]
    change = changes.parse_change(paid[-1])
    assert change is not None
    mine = [detail for detail in told if detail["data"].get("order_id") == order_id]
    assert events.build_event_detail(change) in mine
    assert "OrderPlaced" not in [detail["type"] for detail in mine], "it has gone on since"


def test_republished_events_cause_each_effect_once_at_every_repeat(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order("one", mug=1)
    harness.pay_order(order_id)
    publish = make_publisher(harness.shop, clients.client("events"), "shop")
    harness.new_records()  # lost
    for _ in range(3):
        republish_events(harness.shop, publish)
        harness.process_all()
    images = harness.partition(f"ORDER#{order_id}")
    assert [sum(image["type"]["S"] == kind for image in images) for kind in ("Invoice", "Shipment")] == [1, 1]
    subjects = [mail.subject for mail in harness.sent_mails()]
    assert subjects
    assert len(subjects) == len(set(subjects))


def test_a_closed_order_whose_expiry_record_was_lost_is_archived(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order("one", mug=1)
    cancellation.cancel_order(harness.shop, ANN, order_id)
    harness.process_all()
    expire_until(harness.engine, harness.shop.table.name, harness.now() + timedelta(days=366))
    harness.new_records()  # the end of its marker, lost
    harness.clock_offset = timedelta(days=367)
    assert order_of(harness, order_id).status == "CANCELLED"
    republish_events(harness.shop, make_publisher(harness.shop, clients.client("events"), "shop"))
    harness.process_all()
    assert harness.shop.table.get(ORDER_BY_ID, order_id=order_id).object_key in harness.objects("archive")  # type: ignore[union-attr]


def test_changes_older_than_the_effect_markers_are_not_republished(harness: ShopHarness) -> None:
    harness.open_shop()
    harness.place_order("one", mug=1)
    harness.clock_offset = timedelta(days=400)
    told: Details = []
    republish_events(harness.shop, told.extend)
    assert told == []


def test_an_unreadable_item_is_named_and_blocks_no_other(harness: ShopHarness) -> None:
    harness.open_shop()
    broken, sound = harness.place_order("one", mug=1), harness.place_order("two", mug=1)
    key = {"PK": {"S": f"ORDER#{broken}"}, "SK": {"S": "ORDER"}}
    harness.shop.table.client.update_item(
        TableName=harness.shop.table.name,
        Key=key,
        UpdateExpression="SET #lines = :no",
        ExpressionAttributeNames={"#lines": "lines"},
        ExpressionAttributeValues={":no": {"S": "no"}},
    )
    assert rebuild_copies(harness.shop).unreadable.keys() == {f"ORDER#{broken} / ORDER"}
    assert {image["order_id"]["S"] for image in derived(harness)} == {sound}


def test_an_item_that_changes_between_the_check_and_the_write_is_rebuilt_from_its_new_state(
    harness: ShopHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.open_shop()
    order_id = harness.place_order("one", mug=1)
    harness.pay_order(order_id)
    find = rebuild._find_rebuilt
    cancelled: list[Any] = []

    def just_then(*arguments: Any) -> Any:
        found = find(*arguments)
        if not cancelled:
            cancelled.append(cancellation.cancel_order(harness.shop, ANN, order_id))
        return found

    monkeypatch.setattr(rebuild, "_find_rebuilt", just_then)
    harness.new_records()  # lost
    found = rebuild_copies(harness.shop)
    assert found.lost == 1
    (summary,) = [image for image in derived(harness) if image["type"]["S"] == "OrderSummary"]
    assert summary["status"]["S"] == "CANCELLED"
    assert quantities(harness) == ["0"]


# by record ------------------------------------------------------------------------------------------------------------
def test_an_old_record_that_is_redriven_brings_its_entry_and_its_event_and_no_old_copy(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order("one", mug=1)
    (placed,) = [one for one in harness.new_records() if one["dynamodb"]["Keys"]["PK"]["S"] == f"ORDER#{order_id}"]
    harness.pay_order(order_id)
    harness.process_all()
    told: Details = []
    redrive_record(harness.shop, told.extend, placed)
    assert [detail["type"] for detail in told] == ["OrderPlaced"]
    (summary,) = [image for image in derived(harness) if image["type"]["S"] == "OrderSummary"]
    now = order_of(harness, order_id)
    assert (summary["status"]["S"], int(summary["version"]["N"])) == (now.status, now.version)
    timeline = [image["version"]["N"] for image in derived(harness) if image["type"]["S"] == "TimelineEvent"]
    assert timeline == [str(version) for version in range(1, now.version + 1)]


def test_a_record_of_an_archived_order_puts_nothing_into_its_partition_again(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order("one", mug=1)
    cancellation.cancel_order(harness.shop, ANN, order_id)
    records = harness.new_records()
    assert copies_reader.handler({"Records": records}, None) == event_publisher.handler({"Records": records}, None)
    expire_until(harness.engine, harness.shop.table.name, harness.now() + timedelta(days=366))
    harness.process_all()
    left = harness.partition(f"ORDER#{order_id}")
    assert [image["type"]["S"] for image in left] == ["ArchivedOrder"]
    for record in records:
        redrive_record(harness.shop, lambda _: None, record)
    assert harness.partition(f"ORDER#{order_id}") == left


# the way that an order has come ---------------------------------------------------------------------------------------
@some.composite
def lives(draw: some.DrawFn) -> list[tuple[str, str]]:
    """The changes of an order and the states they led to: any walk through the table of states."""
    status = "PENDING"
    life = [("OrderPlaced", status)]
    for _ in range(draw(some.integers(0, 11))):
        moves: list[Transition] = [move for move in IN_TABLE if status in move.before]
        if not moves:
            break
        move = draw(some.sampled_from(moves))
        status = move.status_after(status)
        life.append((move.change_name, status))
    return life


def lived(life: list[tuple[str, str]]) -> Order:
    reached = len(life)
    while reached > 1 and life[reached - 2][1] == life[-1][1]:
        reached -= 1
    return sample(status=life[-1][1], version=len(life), reached=reached)


def logged(life: list[tuple[str, str]], versions: set[int]) -> LoggedFacts:
    return {version: [*zip(("event", "status"), life[version - 1], strict=True)] for version in versions}


@settings(max_examples=many(150, 20))
@given(lives(), some.data())
def test_a_history_is_completed_to_a_possible_path_from_any_logged_versions(
    life: list[tuple[str, str]], data: some.DataObject
) -> None:
    order = lived(life)
    known = data.draw(some.sets(some.integers(1, len(life))))
    way = find_likely_path(order, logged(life, known))

    assert [*way] == list(range(1, len(life) + 1))
    assert way[len(life)][1] == order.status
    assert all(way[version] == life[version - 1] for version in known)
    for (_, before), (_, after) in itertools.pairwise(way.values()):
        assert any(before in move.before and move.status_after(before) == after for move in IN_TABLE), (before, after)
    true, guessed = (
        [past_change(order, version, order.updated_at, *one).id for version, one in told]
        for told in (enumerate(life, 1), way.items())
    )
    assert true == guessed, "an id depends on the version only"


@settings(max_examples=many(60, 15))
@given(lives(), some.data())
def test_a_completed_history_reaches_the_state_at_its_recorded_version(
    life: list[tuple[str, str]], data: some.DataObject
) -> None:
    order = lived(life)
    known = data.draw(some.sets(some.integers(1, len(life))))
    assert find_likely_path(order, logged(life, known))[order.reached][1] == order.status


def test_a_state_without_a_possible_path_is_reported_and_not_guessed() -> None:
    order = lived([("OrderPlaced", "PENDING"), ("OrderDelivered", "DELIVERED")])
    with pytest.raises(Permanent, match="no history of 2 versions leads to DELIVERED"):
        find_likely_path(order, {})
    assert ORDER.decode(ORDER.encode(order)) == order
