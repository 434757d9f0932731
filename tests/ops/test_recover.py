"""Recovery: what readers could not do is made good, by a record that was kept, or by the state alone."""

import itertools
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from functions.dynamodb.stream_batch import Permanent
from functions.handlers import copies_reader, event_publisher
from functions.model import changes, events
from functions.model.entities import Order
from functions.model.patterns import ORDER_BY_ID
from functions.model.states import ORDER_TRANSITIONS, Transition
from functions.model.table import ORDER
from functions.runtime import clients
from functions.shop import cancellation, erasure, returns
from local.expiry import expire_until
from ops.repair import rebuild
from ops.repair.order_history import LoggedFacts, find_likely_path, past_change
from ops.repair.rebuild import make_publisher, rebuild_copies, redrive_record, republish_events
from tests.functions.faults import crash_at
from tests.model.samples import order as sample
from tests.shopfloor import ANN, STAFF, ShopHarness
from tests.support.saved import reused
from tests.support.scale import many

Details = list[Mapping[str, Any]]
IN_TABLE = [move for move in ORDER_TRANSITIONS if move.command != "archive"]


def order_of(floor: ShopHarness, order_id: str) -> Order:
    return cast(Order, floor.shop.table.get(ORDER_BY_ID, order_id=order_id))


@reused
def delivered_in_part_returned(floor: ShopHarness) -> str:
    """An order that has been through seven states. Nobody reads the stream meanwhile but its workers."""
    floor.open_shop()
    order_id = floor.place_order("one", mug=2, pot=1)
    floor.pay_order(order_id)
    floor.process_all(readers=("relay",))
    floor.dispatch_order(order_id)
    floor.deliver_order(order_id)
    returns.return_goods(floor.shop, STAFF, "back", order_id, {"mug": returns.ReturnedGoods(1, restock=True)})
    floor.process_all(readers=("relay",))
    return order_id


def derived(floor: ShopHarness) -> list[dict[str, Any]]:
    """Every copy in the table."""
    kinds = {"OrderSummary", "OrderLine", "TimelineEvent", "Activity"}
    images = floor.shop.table.client.scan(TableName=floor.shop.table.name, ConsistentRead=True)["Items"]
    found = [image for image in images if image["type"]["S"] in kinds]
    return sorted(found, key=lambda image: [str(image.get(name)) for name in ("type", "version", "change_id", "PK")])


def shown(images: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What copies say, but for times, which the next change's stand for where there is no log, and for the version that
    a copy has not changed since."""
    told = ("type", "event", "status", "change_id", "customer_id", "product_id", "quantity", "returned", "total")
    return sorted(({name: image.get(name) for name in told} for image in images), key=str)


# by state -------------------------------------------------------------------------------------------------------------
def test_copies_that_were_never_made_are_made_as_the_reader_would_have_made_them(floor: ShopHarness) -> None:
    order_id = delivered_in_part_returned(floor)
    assert derived(floor) == []
    assert rebuild_copies(floor.shop).unreadable == {}
    recovered = derived(floor)

    for image in recovered:
        floor.shop.table.client.delete_item(TableName=floor.shop.table.name, Key={"PK": image["PK"], "SK": image["SK"]})
    assert copies_reader.handler({"Records": floor.all_records}, None) == {"batchItemFailures": []}
    made = derived(floor)

    assert shown(recovered) == shown(made)
    assert order_of(floor, order_id).version == sum(image["type"]["S"] == "TimelineEvent" for image in made)


def test_recovering_copies_again_or_where_they_are_all_there_changes_nothing(floor: ShopHarness) -> None:
    delivered_in_part_returned(floor)
    rebuild_copies(floor.shop)
    once = derived(floor)
    floor.new_records()
    rebuild_copies(floor.shop)
    assert derived(floor) == once
    assert floor.new_records() == []


def test_activity_that_was_written_before_its_reader_died_is_not_written_again(floor: ShopHarness) -> None:
    order_id = delivered_in_part_returned(floor)
    paid = next(one for one in floor.all_records if one["dynamodb"].get("NewImage", {}).get("status") == {"S": "PAID"})
    with crash_at("dynamodb", "PutItem", "after", 4):  # summary, two lines, activity; its timeline not any more
        copies_reader.handler({"Records": [paid]}, None)
    assert [image["type"]["S"] for image in derived(floor)] == ["Activity", "OrderLine", "OrderLine", "OrderSummary"]
    rebuild_copies(floor.shop)
    changed = Counter(image["change_id"]["S"] for image in derived(floor) if image["type"]["S"] == "Activity")
    assert set(changed.values()) == {1}
    assert len(changed) == order_of(floor, order_id).version


def test_a_record_that_comes_after_a_recovery_knows_better_when_it_was(floor: ShopHarness) -> None:
    delivered_in_part_returned(floor)
    rebuild_copies(floor.shop)
    made_up = {(image["type"]["S"], image["change_id"]["S"]): image["at"]["S"] for image in log_entries(floor)}
    for record in floor.all_records:
        redrive_record(floor.shop, lambda details: None, record)
    true = {(image["type"]["S"], image["change_id"]["S"]): image["at"]["S"] for image in log_entries(floor)}
    assert len(log_entries(floor)) == len(true), "each change is told once"
    assert true.keys() == made_up.keys()
    assert true != made_up
    floor.shop.table.batch_delete([{"PK": image["PK"], "SK": image["SK"]} for image in log_entries(floor)])
    copies_reader.handler({"Records": floor.all_records}, None)
    assert true == {(image["type"]["S"], image["change_id"]["S"]): image["at"]["S"] for image in log_entries(floor)}


def log_entries(floor: ShopHarness) -> list[dict[str, Any]]:
    return [image for image in derived(floor) if image["type"]["S"] in ("TimelineEvent", "Activity")]


def test_a_sale_that_is_none_any_more_is_brought_up_though_the_record_that_said_so_was_lost(floor: ShopHarness) -> None:
    floor.open_shop()
    order_id = floor.place_order("one", mug=1, pot=1)
    floor.pay_order(order_id)
    records = floor.new_records()
    assert copies_reader.handler({"Records": records}, None) == {"batchItemFailures": []}
    assert quantities(floor) == ["1", "1"]
    cancellation.cancel_order(floor.shop, ANN, order_id)
    floor.new_records()  # lost
    rebuild_copies(floor.shop)
    assert quantities(floor) == ["0", "0"]
    floor.new_records()
    rebuild_copies(floor.shop)
    assert floor.new_records() == [], "and is not written again"


def quantities(floor: ShopHarness) -> list[str]:
    """Of each line, how many are sold."""
    return [image["quantity"]["N"] for image in derived(floor) if image["type"]["S"] == "OrderLine"]


def test_who_asked_to_be_forgotten_is_told_of_again_until_all_of_it_is_done(floor: ShopHarness) -> None:
    """Found by the simulation: else an order that is on its way would bear the name for as long."""
    floor.open_shop()
    erased = erasure.erase_customer(floor.shop, ANN, ANN.id)
    (lost,) = [one for one in map(changes.parse_change, floor.new_records()) if one and one.name == "CustomerErased"]
    told: Details = []
    republish_events(floor.shop, told.extend)
    assert [one["id"] for one in told if one["type"] == "CustomerErased"] == [lost.id]
    assert erasure.finish_erasure(floor.shop, erased, floor.now() + 2 * erasure.SETTLE_PERIOD)
    told.clear()
    republish_events(floor.shop, told.extend)
    assert "CustomerErased" not in [one["type"] for one in told]


def test_a_state_whose_event_was_lost_is_told_under_the_id_that_the_relay_would_have_given_it(
    floor: ShopHarness,
) -> None:
    floor.open_shop()
    order_id = floor.place_order("one", mug=1)
    floor.pay_order(order_id)
    told: Details = []
    republish_events(floor.shop, told.extend)
    paid = [record for record in floor.new_records() if record["dynamodb"]["NewImage"].get("status") == {"S": "PAID"}]
    change = changes.parse_change(paid[-1])
    assert change is not None
    mine = [detail for detail in told if detail["data"].get("order_id") == order_id]
    assert events.build_event_detail(change) in mine
    assert "OrderPlaced" not in [detail["type"] for detail in mine], "it has gone on since"


def test_what_a_recovery_tells_sets_off_each_effect_once_however_often_it_is_told(floor: ShopHarness) -> None:
    floor.open_shop()
    order_id = floor.place_order("one", mug=1)
    floor.pay_order(order_id)
    publish = make_publisher(floor.shop, clients.client("events"), "shop")
    floor.new_records()  # lost
    for _ in range(3):
        republish_events(floor.shop, publish)
        floor.process_all()
    images = floor.partition(f"ORDER#{order_id}")
    assert [sum(image["type"]["S"] == kind for image in images) for kind in ("Invoice", "Shipment")] == [1, 1]
    subjects = [mail.subject for mail in floor.sent_mails()]
    assert subjects
    assert len(subjects) == len(set(subjects))


def test_a_closed_order_whose_end_went_unheard_is_archived_after_all(floor: ShopHarness) -> None:
    floor.open_shop()
    order_id = floor.place_order("one", mug=1)
    cancellation.cancel_order(floor.shop, ANN, order_id)
    floor.process_all()
    expire_until(floor.engine, floor.shop.table.name, floor.now() + timedelta(days=366))
    floor.new_records()  # the end of its marker, lost
    floor.clock_offset = timedelta(days=367)
    assert order_of(floor, order_id).status == "CANCELLED"
    republish_events(floor.shop, make_publisher(floor.shop, clients.client("events"), "shop"))
    floor.process_all()
    assert floor.shop.table.get(ORDER_BY_ID, order_id=order_id).object_key in floor.objects("archive")  # type: ignore[union-attr]


def test_what_is_older_than_anybody_remembers_is_not_told_again(floor: ShopHarness) -> None:
    floor.open_shop()
    floor.place_order("one", mug=1)
    floor.clock_offset = timedelta(days=400)
    told: Details = []
    republish_events(floor.shop, told.extend)
    assert told == []


def test_an_item_that_nobody_can_read_is_named_and_stops_no_other(floor: ShopHarness) -> None:
    floor.open_shop()
    broken, sound = floor.place_order("one", mug=1), floor.place_order("two", mug=1)
    key = {"PK": {"S": f"ORDER#{broken}"}, "SK": {"S": "ORDER"}}
    floor.shop.table.client.update_item(
        TableName=floor.shop.table.name,
        Key=key,
        UpdateExpression="SET #lines = :no",
        ExpressionAttributeNames={"#lines": "lines"},
        ExpressionAttributeValues={":no": {"S": "no"}},
    )
    assert rebuild_copies(floor.shop).unreadable.keys() == {f"ORDER#{broken} / ORDER"}
    assert {image["order_id"]["S"] for image in derived(floor)} == {sound}


def test_what_changes_between_the_look_and_the_writes_is_brought_up_as_it_is_then(
    floor: ShopHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    floor.open_shop()
    order_id = floor.place_order("one", mug=1)
    floor.pay_order(order_id)
    missing = rebuild._write_missing_copies
    cancelled: list[Any] = []

    def just_then(*arguments: Any) -> Any:
        found = missing(*arguments)
        if not cancelled:
            cancelled.append(cancellation.cancel_order(floor.shop, ANN, order_id))
        return found

    monkeypatch.setattr(rebuild, "_write_missing_copies", just_then)
    floor.new_records()  # lost
    found = rebuild_copies(floor.shop)
    assert found.lost == 1
    (summary,) = [image for image in derived(floor) if image["type"]["S"] == "OrderSummary"]
    assert summary["status"]["S"] == "CANCELLED"
    assert quantities(floor) == ["0"]


# by record ------------------------------------------------------------------------------------------------------------
def test_an_old_record_that_is_redriven_brings_its_entry_and_its_event_and_no_old_copy(floor: ShopHarness) -> None:
    floor.open_shop()
    order_id = floor.place_order("one", mug=1)
    (placed,) = [one for one in floor.new_records() if one["dynamodb"]["Keys"]["PK"]["S"] == f"ORDER#{order_id}"]
    floor.pay_order(order_id)
    floor.process_all()
    told: Details = []
    redrive_record(floor.shop, told.extend, placed)
    assert [detail["type"] for detail in told] == ["OrderPlaced"]
    (summary,) = [image for image in derived(floor) if image["type"]["S"] == "OrderSummary"]
    now = order_of(floor, order_id)
    assert (summary["status"]["S"], int(summary["version"]["N"])) == (now.status, now.version)
    timeline = [image["version"]["N"] for image in derived(floor) if image["type"]["S"] == "TimelineEvent"]
    assert timeline == [str(version) for version in range(1, now.version + 1)]


def test_a_record_of_an_archived_order_puts_nothing_into_its_partition_again(floor: ShopHarness) -> None:
    floor.open_shop()
    order_id = floor.place_order("one", mug=1)
    cancellation.cancel_order(floor.shop, ANN, order_id)
    records = floor.new_records()
    assert copies_reader.handler({"Records": records}, None) == event_publisher.handler({"Records": records}, None)
    expire_until(floor.engine, floor.shop.table.name, floor.now() + timedelta(days=366))
    floor.process_all()
    left = floor.partition(f"ORDER#{order_id}")
    assert [image["type"]["S"] for image in left] == ["ArchivedOrder"]
    for record in records:
        redrive_record(floor.shop, lambda _: None, record)
    assert floor.partition(f"ORDER#{order_id}") == left


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
def test_whatever_is_logged_of_a_life_the_rest_is_filled_with_a_way_that_could_have_been(
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
    assert true == guessed, "an id is the version's, whatever it was"


@settings(max_examples=many(60, 15))
@given(lives(), some.data())
def test_an_order_came_to_its_state_when_it_says_whatever_is_logged(
    life: list[tuple[str, str]], data: some.DataObject
) -> None:
    order = lived(life)
    known = data.draw(some.sets(some.integers(1, len(life))))
    assert find_likely_path(order, logged(life, known))[order.reached][1] == order.status


def test_a_state_that_no_way_leads_to_is_said_and_none_is_invented() -> None:
    order = lived([("OrderPlaced", "PENDING"), ("OrderDelivered", "DELIVERED")])
    with pytest.raises(Permanent, match="has no way of 2 versions to DELIVERED"):
        find_likely_path(order, {})
    assert ORDER.decode(ORDER.encode(order)) == order
