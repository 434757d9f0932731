"""Migrations and repairs: they write what is missing, never over a later change, and resume after a kill."""

from datetime import timedelta
from typing import Any
from unittest import mock

from functions.model.entities import Follow
from functions.model.table import ARCHIVED_ORDER, FOLLOW, ORDER, REVIEW
from functions.shop.fulfilment import fulfil_order
from local.world.harness import READERS, ShopHarness
from ops.commands.migrate import load_state, plan_migrations, run_migration
from ops.migration import delete_items, rederive_copies, rekey_items
from ops.scan import sweep
from proof.mutants.items import number, stored_items, stored_order, text
from proof.support.archiving import create_delivered_order, order_messages, run_archive
from proof.support.client_faults import crash_at
from proof.support.samples import SAMPLES, moment

Image = dict[str, Any]
MIGRATIONS = {
    "0001": rederive_copies(ORDER, "orders have sales"),
    "0002": rederive_copies(ARCHIVED_ORDER, "archived orders can be found by their number"),
    "0003": delete_items(FOLLOW, "follows are deleted"),
    "0004": rekey_items(ARCHIVED_ORDER, "archived orders have no index keys"),
    "0005": rekey_items(REVIEW, "reviews have other index keys"),
}


def migrate(harness: ShopHarness) -> int:
    """Apply all migrations that are not applied. Return how many items could not be migrated."""
    todo = plan_migrations(MIGRATIONS, load_state(harness.shop, MIGRATIONS), "up")
    return sum(run_migration(harness.shop, planned, by="ann@desk").passed_over for planned in todo)


def delete(harness: ShopHarness, image: Image) -> None:
    table = harness.shop.table
    table.client.delete_item(TableName=table.name, Key={"PK": image["PK"], "SK": image["SK"]})


def put(harness: ShopHarness, image: Image) -> None:
    harness.shop.table.client.put_item(TableName=harness.shop.table.name, Item=image)


def delete_copies(harness: ShopHarness, *types: str) -> None:
    for name in types:
        for image in stored_items(harness, name):
            delete(harness, image)


def put_follows(harness: ShopHarness, *product_ids: str) -> None:
    for product_id in product_ids:
        put(harness, {**FOLLOW.encode(Follow(customer_id="ann", product_id=product_id, created_at=moment()))})


# missing items that migrations write ----------------------------------------------------------------------------------
def test_the_migrations_write_missing_sales_numbers_and_lines_of_summaries(harness: ShopHarness) -> None:
    create_delivered_order(harness)
    copies = [stored_items(harness, name) for name in ("Sale", "OrderNumber", "OrderSummary")]
    delete_copies(harness, "Sale", "OrderNumber")
    (summary,) = copies[2]
    put(harness, {name: value for name, value in summary.items() if name != "lines"})
    put_follows(harness, "mug")
    assert migrate(harness) == 0
    for name, before in zip(("Sale", "OrderNumber", "OrderSummary"), copies, strict=True):
        now = stored_items(harness, name)
        places = [sorted(f"{one['PK']['S']} / {one['SK']['S']}" for one in images) for images in (before, now)]
        assert places[0] == places[1]
    (again,) = stored_items(harness, "OrderSummary")
    assert again == summary
    assert stored_items(harness, "Follow") == []


def test_a_summary_that_is_behind_gets_the_version_of_its_order_so_that_the_archive_can_begin(
    harness: ShopHarness,
) -> None:
    create_delivered_order(harness)
    (summary,) = stored_items(harness, "OrderSummary")
    put(harness, {**summary, "version": {"N": "4"}})
    assert migrate(harness) == 0
    assert stored_items(harness, "OrderSummary") == [summary]


# changes that migrations must not overwrite ---------------------------------------------------------------------------


def test_a_migration_creates_no_item_that_was_deleted_at_the_same_time(harness: ShopHarness) -> None:
    image: Image = {**REVIEW.encode(SAMPLES[REVIEW]), "GSI1PK": {"S": "an older key"}}
    put(harness, image)
    updates = []

    def look(params: dict[str, Any], **_: Any) -> None:
        if params["Key"] == {"PK": image["PK"], "SK": image["SK"]}:
            updates.append(params)
            delete(harness, image)

    events: Any = harness.shop.table.client.meta.events
    events.register_first("provide-client-params.dynamodb.UpdateItem", look)
    try:
        migrate(harness)
    finally:
        events.unregister("provide-client-params.dynamodb.UpdateItem", look)
    assert len(updates) == 1
    assert image["SK"] not in [found["SK"] for found in harness.partition(image["PK"]["S"])]


def test_the_archive_waits_for_a_repair_that_died_before_it_wrote_all_copies(harness: ShopHarness) -> None:
    """The stream reader lost all records after the order was placed. The repair writes the summary last."""
    harness.open_shop()
    order_id = harness.place_order(mug=2, pot=1)
    harness.process_all(("copies_reader",))
    harness.pay_order(order_id)
    fulfil_order(harness.shop, order_id)
    harness.dispatch_order(order_id)
    harness.deliver_order(order_id)
    harness.process_all(("event_publisher",))
    with crash_at("dynamodb", "TransactWriteItems", "after", 2):
        migrate(harness)
    harness.advance_days(396)
    READERS["event_publisher"].handler({"Records": harness.new_records()}, None)
    messages = order_messages(harness.take_messages("archive"))
    assert len(run_archive(*messages)) == 1
    assert text(stored_order(harness, order_id), "type") == "Order"
    harness.clock_offset += timedelta(minutes=2)
    assert migrate(harness) == 0
    assert run_archive(*messages) == []
    assert sorted(text(sale, "product_id") for sale in stored_items(harness, "Sale")) == ["mug", "pot"]


# interruptions --------------------------------------------------------------------------------------------------------
def test_a_migration_that_was_killed_is_not_applied_and_migrates_the_rest_when_it_is_run_again(
    harness: ShopHarness,
) -> None:
    """Each page of the scan has two items. The run dies before it has deleted the second item of a page."""
    put_follows(harness, "a", "b", "c", "d", "e", "f")
    with mock.patch.object(sweep, "PAGE_SIZE", 2):
        with crash_at("dynamodb", "BatchWriteItem", "before", 4):
            migrate(harness)
        left = {text(image, "product_id") for image in stored_items(harness, "Follow")}
        assert len(left) == 3
        todo = plan_migrations(MIGRATIONS, load_state(harness.shop, MIGRATIONS), "up")
        assert [planned.version for planned in todo][:1] == ["0003"]
        harness.clock_offset += timedelta(minutes=2)
        assert migrate(harness) == 0
    assert stored_items(harness, "Follow") == []


def test_migrations_run_in_the_order_of_their_versions(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=2)
    harness.pay_order(order_id)
    harness.process_all(("copies_reader",))
    delete_copies(harness, "Sale")
    put_follows(harness, "mug")
    with crash_at("dynamodb", "BatchWriteItem", "before"):
        migrate(harness)
    assert [number(sale, "quantity") for sale in stored_items(harness, "Sale")] == [2]
