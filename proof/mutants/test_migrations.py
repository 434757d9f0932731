"""Migrations and repairs write what is missing, and the archive waits until they have written all copies."""

from datetime import timedelta
from typing import Any

from functions.model.entities import Follow
from functions.model.table import ARCHIVED_ORDER, FOLLOW, ORDER, REVIEW
from functions.shop.fulfilment import fulfil_order
from local.world.harness import READERS, ShopHarness
from ops.commands import migrate
from ops.commands.migrate import load_state, plan_migrations, run_migration
from ops.migration import delete_items, rederive_copies, rekey_items
from ops.repair import copy_checks
from proof.mutants.edits import detects, edit_code
from proof.mutants.items import stored_items, stored_order, text
from proof.support.archiving import create_delivered_order, order_messages, run_archive
from proof.support.client_faults import crash_at
from proof.support.samples import moment

Image = dict[str, Any]
MIGRATIONS = {
    "0001": rederive_copies(ORDER, "orders have sales"),
    "0002": rederive_copies(ARCHIVED_ORDER, "archived orders can be found by their number"),
    "0003": delete_items(FOLLOW, "follows are deleted"),
    "0004": rekey_items(ARCHIVED_ORDER, "archived orders have no index keys"),
    "0005": rekey_items(REVIEW, "reviews have other index keys"),
}


def apply_migrations(harness: ShopHarness) -> int:
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
@detects(
    "migrations delete no items",
    edit_code(migrate.build_migration_action, ("if not dry:\n                shop", "if dry:\n                shop")),
)
def test_the_migrations_write_missing_sales_numbers_and_lines_of_summaries(harness: ShopHarness) -> None:
    create_delivered_order(harness)
    copies = [stored_items(harness, name) for name in ("Sale", "OrderNumber", "OrderSummary")]
    delete_copies(harness, "Sale", "OrderNumber")
    (summary,) = copies[2]
    put(harness, {name: value for name, value in summary.items() if name != "lines"})
    put_follows(harness, "mug")
    assert apply_migrations(harness) == 0
    for name, before in zip(("Sale", "OrderNumber", "OrderSummary"), copies, strict=True):
        now = stored_items(harness, name)
        places = [sorted(f"{one['PK']['S']} / {one['SK']['S']}" for one in images) for images in (before, now)]
        assert places[0] == places[1]
    (again,) = stored_items(harness, "OrderSummary")
    assert again == summary
    assert stored_items(harness, "Follow") == []


@detects(
    "a repair takes a summary of an earlier version for right",
    edit_code(copy_checks._expected_snapshots, ("item.version if copies.is_last(row, into) else 1", "1")),
)
def test_a_summary_that_is_behind_gets_the_version_of_its_order_so_that_the_archive_can_begin(
    harness: ShopHarness,
) -> None:
    create_delivered_order(harness)
    (summary,) = stored_items(harness, "OrderSummary")
    put(harness, {**summary, "version": {"N": "4"}})
    assert apply_migrations(harness) == 0
    assert stored_items(harness, "OrderSummary") == [summary]


# changes that migrations must not overwrite ---------------------------------------------------------------------------
@detects(
    "a repair writes the summary first",
    edit_code(
        copy_checks._compare_copies,
        ("copies.is_last(row, one[1][0])", "not copies.is_last(row, one[1][0])"),
    ),
)
def test_the_archive_waits_for_a_repair_that_died_before_it_wrote_all_copies(harness: ShopHarness) -> None:
    """The stream reader lost all records of the order after it was placed. The repair writes the summary last."""
    harness.open_shop()
    order_id = harness.place_order(mug=2, pot=1)
    harness.process_all(("copies_reader",))
    harness.pay_order(order_id)
    fulfil_order(harness.shop, order_id)
    harness.dispatch_order(order_id)
    harness.deliver_order(order_id)
    harness.process_all(("event_publisher",))
    payments = [one for one in harness.all_records if one["dynamodb"]["Keys"]["SK"]["S"].startswith("PAYMENT#")]
    READERS["copies_reader"].handler({"Records": payments}, None)
    with crash_at("dynamodb", "TransactWriteItems", "after", 2):
        apply_migrations(harness)
    harness.advance_days(396)
    READERS["event_publisher"].handler({"Records": harness.new_records()}, None)
    messages = order_messages(harness.take_messages("archive"))
    assert len(run_archive(*messages)) == 1
    assert text(stored_order(harness, order_id), "type") == "Order"
    harness.clock_offset += timedelta(minutes=2)
    assert apply_migrations(harness) == 0
    assert run_archive(*messages) == []
    assert sorted(text(sale, "product_id") for sale in stored_items(harness, "Sale")) == ["mug", "pot"]
