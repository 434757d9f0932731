"""Items that the previous version of the code stored: what they do to this version, and how migrations change them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from functions.dynamodb.codec import Image, build_decoder, entity
from functions.dynamodb.errors import Unreadable
from functions.dynamodb.writes import put_if_absent, update
from functions.handlers import copies_reader
from functions.model import table as t
from functions.model.entities import ArchivedOrder, OrderLine, TimelineEvent
from functions.model.errors import DiscountNotValid
from functions.model.patterns import ORDER_ITEM_COLLECTION
from functions.model.table import ORDER, TIMELINE_EVENT
from functions.model.timelines import OrderEvent, merge_timeline
from functions.runtime import clients
from functions.shop import cancellation, discounts, orders, placing, refunds, returns
from functions.shop.data_export import export_customer
from ops.commands.drift import DriftCheck
from ops.commands.migrate import PlannedMigration, load_migrations, load_state, plan_migrations, run_migration
from ops.commands.restore import SETTLE_TIME, make_archive_fetcher, restore_order
from ops.item_codec import decode_item
from ops.migration import Migration
from ops.repair.order_history import change_ids
from tests.support.archiving import archived_objects, create_delivered_order, order_partition
from tests.support.harness import ANN, HOME_ADDRESS, READERS, STAFF, WAREHOUSE, ShopHarness
from tests.support.samples import SAMPLES, moment


def everything(harness: ShopHarness) -> list[Image]:
    found = harness.shop.table.client.scan(TableName=harness.shop.table.name, ConsistentRead=True)["Items"]
    return [image for image in found if image["type"]["S"] != "Sweep"]


def contents(harness: ShopHarness) -> dict[tuple[str, str], Image]:
    """Return all items by key. Left out are versions of snapshots and marks, because they depend on when these were
    written, and timelines, because no migration changes them."""
    snapshots = {row.type for row in t.ROWS if row.kind == "snapshot"}
    return {
        (image["PK"]["S"], image["SK"]["S"]): {
            name: value
            for name, value in image.items()
            if name not in ("version", "as_of") or image["type"]["S"] not in {*snapshots, "Contribution"}
            if name != "timeline"
        }
        for image in everything(harness)
        if image["type"]["S"] != "TimelineEvent"
    }


def put(harness: ShopHarness, image: Image) -> None:
    harness.shop.table.client.put_item(TableName=harness.shop.table.name, Item={**image})


def as_the_previous_version_stored_it(harness: ShopHarness) -> None:
    """Replace the copies of this version with those of the previous version."""
    for image in everything(harness):
        key = {"PK": image["PK"], "SK": image["SK"]}
        match image["type"]["S"]:
            case "Sale":
                line = {name: value for name, value in image.items() if name not in ("ttl", "shard")}
                bought = f"{image['placed_at']['S']}#{image['order_id']['S']}"
                keys = {
                    "PK": f"ORDER#{image['order_id']['S']}",
                    "SK": f"LINE#{image['product_id']['S']}",
                    "GSI1PK": f"CUSTOMER#{image['customer_id']['S']}",
                    "GSI1SK": f"BOUGHT#{bought}#{image['product_id']['S']}",
                    "GSI3PK": f"PRODUCT#{image['product_id']['S']}",
                    "GSI3SK": f"SALE#{bought}",
                    "type": "OrderLine",
                }
                put(harness, line | {name: {"S": value} for name, value in keys.items()})
                harness.shop.table.batch_delete([key])
            case "OrderNumber":
                harness.shop.table.batch_delete([key])
            case "OrderSummary":
                put(harness, {name: value for name, value in image.items() if name != "lines"})
            case "Order":
                put(harness, {name: value for name, value in image.items() if name != "timeline"})
                for entry in timeline_items(image):
                    put(harness, entry)
            case "ArchivedOrder":
                put(harness, {**image, **number_keys(image)})

    for image in everything(harness):
        put(harness, with_former_names(image))


FORMER_TYPES = {"Contribution": "Counted", "RedemptionPool": "Redemptions"}
FORMER_NAMES = {"source_type": "of", "archived_versions": "away", "event_at": "at", "cooldown_until": "until"}
FORMER_STATUSES = {"SENDING": "TELLING", "SENT": "TOLD"}


def with_former_names(image: Image) -> Image:
    """Return an item under the names of its type, its attributes and its status in the previous version."""
    kind = image["type"]["S"]
    former = {FORMER_NAMES.get(name, name): value for name, value in image.items()}
    former["type"] = {"S": FORMER_TYPES.get(kind, kind)}
    if kind == "Campaign":
        former["status"] = {"S": FORMER_STATUSES.get(image["status"]["S"], image["status"]["S"])}
    return former


def rename_back(harness: ShopHarness) -> None:
    """Give all items the names of the previous version, and nothing else of it."""
    for image in everything(harness):
        put(harness, with_former_names(image))
    harness.new_records()


def timeline_items(image: Image) -> Iterator[dict[str, Any]]:
    """Yield the entries of an order's timeline as items of their own."""
    order = ORDER.decode(image)
    ids = {version: id for id, version in change_ids(ORDER, order).items()}
    for one in merge_timeline([order]):
        event = TimelineEvent(
            order_id=order.order_id,
            at=one.at,
            change_id=ids[one.version],
            event=one.event,
            status=one.status,
            version=one.version,
        )
        yield {**TIMELINE_EVENT.encode(event), **(number_keys(image) if one.version == 1 else {})}


def timeline(harness: ShopHarness, order_id: str) -> list[OrderEvent]:
    return merge_timeline(harness.shop.table.query_all(ORDER_ITEM_COLLECTION, order_id=order_id))


def number_keys(image: Image) -> dict[str, Any]:
    id = image["order_id"]["S"]
    return {"GSI1PK": {"S": f"NUMBER#{id[:8]}"}, "GSI1SK": {"S": f"ORDER#{id}"}}


def migrate(harness: ShopHarness) -> None:
    for version, migration in load_migrations().items():
        run_migration(harness.shop, PlannedMigration(version=version, migration=migration, task="up"), by="ann@desk")


def drift(harness: ShopHarness) -> list[str]:
    check = DriftCheck(harness.shop, pause_seconds=0.01)
    check.check_all()
    assert not check.sweep_result.unreadable
    return sorted(fault.kind for fault in check.discrepancies.values())


def place_with_code(harness: ShopHarness, key: str) -> str:
    """Place an order with the code TWICE, which two orders may use."""
    if not harness.partition("DISCOUNT#TWICE"):
        discounts.create_discount(harness.shop, STAFF, "TWICE", 20, limit=2)
    wanted = {"mug": placing.RequestedLine(1)}
    placed = placing.place_order(harness.shop, ANN, key, wanted, HOME_ADDRESS, {"key": key}, discount_code="TWICE")
    return placed.order.order_id


def pool(harness: ShopHarness) -> tuple[str, str]:
    """Return the type of the item that counts the uses of the code, and the uses that are left."""
    (found,) = [image for image in harness.partition("DISCOUNT#TWICE") if image["SK"]["S"] == "REDEMPTIONS#000"]
    return found["type"]["S"], found["left"]["N"]


def archive(harness: ShopHarness) -> None:
    harness.advance_days(days=396)
    harness.process_all()


def restore(harness: ShopHarness, order_id: str) -> None:
    harness.clock_offset += SETTLE_TIME
    restore_order(harness.shop, make_archive_fetcher(clients.client("s3"), "archive"), order_id)
    harness.process_all()


def test_the_migrations_change_the_items_of_the_previous_version_into_those_of_this_version(
    harness: ShopHarness,
) -> None:
    create_delivered_order(harness)
    place_with_code(harness, "open")
    harness.shop.table.write(put_if_absent(t.CAMPAIGN, SAMPLES[t.CAMPAIGN]))
    harness.process_all()
    right = contents(harness)
    as_the_previous_version_stored_it(harness)
    older = {image["type"]["S"] for image in everything(harness)}
    assert {"OrderLine", "TimelineEvent", "Counted", "Redemptions"} <= older
    assert not {"Sale", "OrderNumber", "Contribution", "RedemptionPool"} & older
    harness.new_records()
    migrate(harness)
    assert contents(harness) == right
    migrate(harness)
    assert contents(harness) == right, "a second run changes nothing"
    harness.process_all()
    assert (contents(harness), drift(harness)) == (right, []), "no reader repeats anything for a migration"


def test_all_migrations_run_on_a_table_on_which_the_previous_version_ran_its_own(harness: ShopHarness) -> None:
    nothing = Migration(description="of the previous version", item_types=("Order",))
    for version in ("0001", "0002", "0003"):
        run_migration(harness.shop, PlannedMigration(version=version, migration=nothing, task="up"), by="ann@desk")
    known = load_migrations()
    planned = plan_migrations(known, load_state(harness.shop, known), "up")
    assert [one.version for one in planned] == [version for version in known if version != "0001"]


def test_an_archived_order_of_the_previous_version_is_found_by_its_number_after_the_migrations(
    harness: ShopHarness,
) -> None:
    order_id = create_delivered_order(harness)
    archive(harness)
    right = contents(harness)
    as_the_previous_version_stored_it(harness)
    harness.shop.table.batch_delete(
        [{"PK": one["PK"], "SK": one["SK"]} for one in everything(harness) if one["type"]["S"] == "OrderLine"]
    )
    migrate(harness)
    assert contents(harness) == {key: image for key, image in right.items() if image["type"]["S"] != "Sale"}
    (found,) = orders.list_orders_by_number(harness.shop, STAFF, order_id[:8], 10, None).items
    assert isinstance(found, ArchivedOrder)
    assert drift(harness) == []


def test_drift_repairs_what_a_migration_would_write(harness: ShopHarness) -> None:
    create_delivered_order(harness)
    as_the_previous_version_stored_it(harness)
    assert drift(harness) == [*["snapshot missing"] * 3, "snapshot wrong"]


def test_an_order_with_copies_of_both_versions_is_shown_exported_archived_and_restored(harness: ShopHarness) -> None:
    order_id = create_delivered_order(harness)
    events = timeline(harness, order_id)
    as_the_previous_version_stored_it(harness)
    assert timeline(harness, order_id) == events
    items = list(harness.shop.table.query_all(ORDER_ITEM_COLLECTION, order_id=order_id))
    assert not [item for item in items if isinstance(item, OrderLine)]
    exported = export_customer(harness.shop, ANN, ANN.id, 100, None, lambda _: [])
    assert not [item for item in exported.items if item.type == "OrderLine"]
    archive(harness)
    (body,) = archived_objects(harness, "orders/").values()
    assert body.count(b'"OrderLine"') == 2
    assert {image["type"]["S"] for image in order_partition(harness, order_id)} == {"ArchivedOrder", "Invoice"}
    restore(harness, order_id)
    restored = order_partition(harness, order_id)
    assert not [image for image in restored if image["type"]["S"] == "OrderLine"]
    assert not [image for image in restored if image["type"]["S"] == "TimelineEvent" and "GSI1PK" in image]
    assert [event.event for event in timeline(harness, order_id)] == [*(one.event for one in events), "OrderRestored"]
    migrate(harness)
    assert drift(harness) == []


def test_the_migrations_leave_the_timeline_of_an_order_in_items_of_its_own(harness: ShopHarness) -> None:
    order_id = create_delivered_order(harness)
    events = timeline(harness, order_id)
    as_the_previous_version_stored_it(harness)
    migrate(harness)
    entries = [image for image in order_partition(harness, order_id) if image["type"]["S"] == "TimelineEvent"]
    assert len(entries) == len(events)
    assert not [image for image in entries if "GSI1PK" in image]
    assert timeline(harness, order_id) == events
    assert drift(harness) == []


def test_an_order_with_its_timeline_as_maps_keeps_its_entries(harness: ShopHarness) -> None:
    """An earlier version stored each entry as a map, also the first one."""
    order_id = create_delivered_order(harness)
    events = timeline(harness, order_id)
    (image,) = [image for image in order_partition(harness, order_id) if image["type"]["S"] == "Order"]
    entries = {
        str(one.version): {"M": {"at": {"S": one.at}, "event": {"S": one.event}, "status": {"S": one.status}}}
        for one in events
    }
    put(harness, {**image, "timeline": {"M": entries}})
    assert timeline(harness, order_id) == events
    refunds.refund_order(harness.shop, STAFF, "sorry", order_id, 100)
    harness.process_all()
    refunded = timeline(harness, order_id)
    assert [event.event for event in refunded] == [*(event.event for event in events), "OrderRefunded"]
    harness.advance_days(days=40)  # the refund is certain
    archive(harness)
    restore(harness, order_id)
    assert timeline(harness, order_id)[:-1] == refunded
    assert drift(harness) == []


def test_a_newer_reader_keeps_the_timeline_of_what_the_previous_version_changes(harness: ShopHarness) -> None:
    harness.open_shop(available=10)
    order_id = harness.place_order(mug=1)
    harness.pay_order(order_id)
    records = harness.new_records()
    for image in [one["dynamodb"].get("NewImage", {}) for one in records] + order_partition(harness, order_id):
        if image.get("type") == {"S": "Order"}:
            image.pop("timeline", None)
            put(harness, image)
    harness.new_records()
    for _ in range(2):
        assert copies_reader.handler({"Records": records}, None) == {"batchItemFailures": []}
    assert [(one.event, one.version) for one in timeline(harness, order_id)] == [("OrderPlaced", 1), ("OrderPaid", 2)]
    cancellation.cancel_order(harness.shop, ANN, order_id)
    harness.process_all()
    items = [image for image in order_partition(harness, order_id) if image["type"]["S"] == "TimelineEvent"]
    assert len(items) == 1, "this version keeps its own entries in the order"
    assert drift(harness) == []


def test_an_order_that_the_previous_version_changed_last_is_archived_and_restored_as_it_was(
    harness: ShopHarness,
) -> None:
    order_id = create_delivered_order(harness)
    (before,) = [image for image in order_partition(harness, order_id) if image["type"]["S"] == "Order"]
    entries = {
        version: entry for version, entry in before["timeline"]["M"].items() if version != before["version"]["N"]
    }
    put(harness, {**before, "timeline": {"M": entries}})
    archive(harness)
    restore(harness, order_id)
    (after,) = [image for image in order_partition(harness, order_id) if image["type"]["S"] == "Order"]
    assert {name: after[name] for name in ("status", "updated_at", "lines")} == {
        name: before[name] for name in ("status", "updated_at", "lines")
    }
    names = [event.event for event in timeline(harness, order_id)]
    assert names == ["OrderPlaced", "OrderPaid", "OrderFulfilling", "OrderShipped", "OrderChanged", "OrderRestored"]


# former names ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("entries", "stored", "expected"),
    [
        ({1: "OrderPlaced PENDING", 2: "OrderPaid PAID"}, {}, {"reached": 2}),
        ({1: "OrderPlaced PENDING", 2: "OrderPartlyPaid PENDING"}, {}, {"reached": 1, "reached_at": "1"}),
        (
            {3: "OrderDelivered DELIVERED", 4: "OrderRefunded DELIVERED", 5: "OrderRestored DELIVERED"},
            {"reached": 1},
            {"reached": 3, "reached_at": "3"},
        ),
        ({5: "OrderDelivered DELIVERED"}, {"reached": 4, "reached_at": "4"}, {"reached": 5}),
        ({6: "OrderErased DELIVERED"}, {"reached": 5}, {"reached": 5, "reached_at": "delivered"}),
        ({6: "OrderRefunded RETURNED"}, {"reached": 5}, {"reached": 5}),
        ({}, {"reached": 1}, {"reached": 1}),
    ],
)
def test_an_order_gets_back_when_it_reached_its_status(
    entries: dict[int, str], stored: dict[str, Any], expected: dict[str, Any]
) -> None:
    names = ("at", "event", "status")
    timeline = {
        str(version): dict(zip(names, (str(version), *entry.split()), strict=True))
        for version, entry in entries.items()
    }
    status = [*entries.values()][-1].split()[1] if entries else "PENDING"
    order = replace(SAMPLES[t.ORDER], version=max(entries, default=1), status=status, timeline=None)
    order = replace(order, delivered_at="delivered")
    item = {**decode_item(ORDER.encode(order)), "timeline": timeline}
    down = load_migrations()["0010"].down({**item, **stored}) or {**item, **stored}
    assert down == {**item, **expected}


RENAMING = load_migrations()["0009"]


def rename(harness: ShopHarness, task: str) -> None:
    run_migration(harness.shop, PlannedMigration(version="0009", migration=RENAMING, task=task), by="ann@desk")


@contextmanager
def older_readers(harness: ShopHarness) -> Iterator[None]:
    """Let the handlers and the shop know no item type that the previous version does not know."""
    rows = {name: row for name, row in t.ROWS_BY_TYPE.items() if name not in FORMER_TYPES}
    now, harness.shop.table.rows = harness.shop.table.rows, rows
    with mock.patch.object(clients, "ROWS_BY_TYPE", rows):
        yield
    harness.shop.table.rows = now


def test_the_former_names_come_back_exactly_and_the_present_names_too(harness: ShopHarness) -> None:
    order_id = create_delivered_order(harness)
    place_with_code(harness, "open")
    harness.shop.table.write(put_if_absent(t.CAMPAIGN, SAMPLES[t.CAMPAIGN]))
    archive(harness)
    restore(harness, order_id)
    present = everything(harness)
    assert {"archived_versions"} <= {name for image in present for name in image}
    rename(harness, "down")
    assert everything(harness) == [with_former_names(image) for image in present]
    rename(harness, "down")
    assert everything(harness) == [with_former_names(image) for image in present], "a second run changes nothing"
    rename(harness, "up")
    assert everything(harness) == present
    assert drift(harness) == []


def test_a_code_is_redeemed_and_released_under_its_former_type(harness: ShopHarness) -> None:
    harness.open_shop()
    first = place_with_code(harness, "one")
    rename_back(harness)
    assert pool(harness) == ("Redemptions", "1")
    place_with_code(harness, "two")
    with pytest.raises(DiscountNotValid):
        place_with_code(harness, "three")
    assert pool(harness) == ("Redemptions", "0")
    cancellation.cancel_order(harness.shop, ANN, first)
    assert pool(harness) == ("Redemptions", "1")
    assert discounts.get_discount_usage(harness.shop, STAFF, "TWICE").left == 1


def test_an_amount_is_counted_once_under_both_names(harness: ShopHarness) -> None:
    order_id = create_delivered_order(harness)
    rename_back(harness)
    assert drift(harness) == []
    returns.return_goods(harness.shop, WAREHOUSE, "back", order_id, {"mug": returns.ReturnedGoods(1, restock=True)})
    harness.process_all(times=2)
    kinds = {image["type"]["S"] for image in everything(harness) if image["PK"]["S"].startswith("COUNTED#")}
    assert kinds == {"Counted", "Contribution"}, "the return's is new"
    assert drift(harness) == []
    rename(harness, "up")
    harness.process_all(times=2)
    assert drift(harness) == []


def test_drift_finds_a_wrong_amount_under_its_former_name(harness: ShopHarness) -> None:
    create_delivered_order(harness)
    rename_back(harness)
    (wrong,) = [image for image in everything(harness) if image["type"]["S"] == "Counted"]
    put(harness, {**wrong, "amounts": {"M": {}}})
    assert "contribution wrong" in drift(harness)


def test_an_order_that_was_archived_twice_has_its_whole_timeline_under_both_names(harness: ShopHarness) -> None:
    order_id = create_delivered_order(harness)
    archive(harness)
    restore(harness, order_id)
    rename_back(harness)
    assert drift(harness) == []
    archive(harness)
    restore(harness, order_id)
    (order,) = [image for image in order_partition(harness, order_id) if image["type"]["S"] == "Order"]
    assert "away" not in order
    decoded = ORDER.decode(order)
    assert decoded.archived_versions == (6, 7, 9, 10)
    assert drift(harness) == []


def test_orders_are_placed_while_the_names_change(harness: ShopHarness) -> None:
    harness.open_shop()
    place_with_code(harness, "one")
    harness.process_all()
    rename_back(harness)
    waiting = [lambda: place_with_code(harness, "two")]

    def order_before_the_first_rename(params: dict[str, Any], **_: Any) -> None:
        if waiting and ":was1" in params.get("ExpressionAttributeValues", {}):
            waiting.pop()()

    events = harness.shop.table.client.meta.events
    events.register_first("provide-client-params.dynamodb.UpdateItem", order_before_the_first_rename)
    rename(harness, "up")
    events.unregister("provide-client-params.dynamodb.UpdateItem", order_before_the_first_rename)
    assert (waiting, pool(harness)) == ([], ("RedemptionPool", "0"))
    harness.process_all()
    assert drift(harness) == []


def test_older_code_redeems_a_code_of_the_new_type_and_answers_nothing_that_it_cannot_read(
    harness: ShopHarness,
) -> None:
    harness.open_shop()
    place_with_code(harness, "one")
    with older_readers(harness):
        place_with_code(harness, "two")
        assert pool(harness) == ("RedemptionPool", "0")
        with pytest.raises(Unreadable):
            place_with_code(harness, "three")
        assert pool(harness) == ("RedemptionPool", "0")


def test_an_older_reader_retries_a_change_whose_contribution_has_its_new_name_until_it_is_renamed_back(
    harness: ShopHarness,
) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=2)
    harness.pay_order(order_id)
    harness.process_all()
    cancellation.cancel_order(harness.shop, ANN, order_id)
    cancellation.agree_cancel(harness.shop, WAREHOUSE, order_id)
    records = harness.new_records()
    with older_readers(harness):
        assert READERS["copies_reader"].handler({"Records": records}, None)["batchItemFailures"]
    assert not harness.objects("failures")
    rename(harness, "down")
    for _ in range(2):
        assert READERS["copies_reader"].handler({"Records": records}, None) == {"batchItemFailures": []}
    assert drift(harness) == []
    (total,) = [image for image in harness.partition("PRODUCT#mug") if image["type"]["S"] == "BestSeller"]
    assert total["units"] == {"N": "0"}


@entity
class OlderCampaign:
    """A campaign as the previous version reads it."""

    product_id: str
    event: str
    event_id: str
    at: str
    status: str
    began_at: str
    until: int
    since: str | None = None
    after: str | None = None
    version: int = 1


def test_older_code_cannot_read_a_campaign_of_this_version_and_so_never_takes_it_for_ended() -> None:
    present = t.CAMPAIGN.encode(SAMPLES[t.CAMPAIGN])
    former = with_former_names(present)
    older = build_decoder(OlderCampaign)
    assert older(former).status == "TELLING"
    with pytest.raises(Unreadable):
        older(present)
    begun = t.CAMPAIGN.decode(former)
    again = replace(begun, event_id="c2", event_at=moment(1), cooldown_until=1, version=begun.version + 1)
    changed = update(t.CAMPAIGN, begun, again).request
    assert {"at", "until"} <= set(changed["ExpressionAttributeNames"].values()), (
        "a campaign that replaces it drops them"
    )
