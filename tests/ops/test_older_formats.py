"""Items that the previous version of the code stored: what they do to this version, and how migrations change them."""

from collections.abc import Iterator
from typing import Any

from functions.dynamodb.codec import Image
from functions.model import table as t
from functions.model.entities import ArchivedOrder, OrderLine, TimelineEvent
from functions.model.patterns import ORDER_ITEM_COLLECTION
from functions.model.table import ORDER, TIMELINE_EVENT
from functions.model.timelines import OrderEvent, merge_timeline
from functions.runtime import clients
from functions.shop import orders
from functions.shop.data_export import export_customer
from ops.commands.drift import DriftCheck
from ops.commands.migrate import PlannedMigration, load_migrations, run_migration
from ops.commands.restore import SETTLE_TIME, make_archive_fetcher, restore_order
from ops.repair.order_history import change_ids
from tests.support.archiving import archived_objects, create_delivered_order, order_partition
from tests.support.harness import ANN, STAFF, ShopHarness


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
            if name not in ("version", "as_of") or image["type"]["S"] not in {*snapshots, "Counted"}
            if name != "timeline"
        }
        for image in everything(harness)
        if image["type"]["S"] != "TimelineEvent"
    }


def put(harness: ShopHarness, image: dict[str, Any]) -> None:
    harness.shop.table.client.put_item(TableName=harness.shop.table.name, Item=image)


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
    harness.place_order("open", mug=1)
    harness.process_all()
    right = contents(harness)
    as_the_previous_version_stored_it(harness)
    older = {image["type"]["S"] for image in everything(harness)}
    assert {"OrderLine", "TimelineEvent"} <= older
    assert not {"Sale", "OrderNumber"} & older
    harness.new_records()
    migrate(harness)
    assert contents(harness) == right
    migrate(harness)
    assert contents(harness) == right, "a second run changes nothing"
    harness.process_all()
    assert (contents(harness), drift(harness)) == (right, []), "no reader repeats anything for a migration"


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
