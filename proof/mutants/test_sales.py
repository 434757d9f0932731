"""Sales and purchases: the copies of an order's lines, how long they are kept, and in which lists they are."""

from datetime import datetime
from typing import Any
from unittest import mock

from functions.model import copies, entities
from functions.model.entities import Shards
from functions.runtime import clients
from functions.shop import cancellation, placing, sales
from functions.shop.lists import ListRequest
from local.world.harness import ANN, STAFF, ShopHarness
from ops.commands.drift import DriftCheck
from ops.commands.restore import make_archive_fetcher, restore_order
from ops.repair import copy_checks
from proof.mutants.edits import detects, edit_code
from proof.mutants.items import number, stored_items, text
from proof.support.archiving import create_delivered_order

DAY = 24 * 60 * 60


def seconds(image: dict[str, Any], name: str) -> float:
    return datetime.fromisoformat(text(image, name)).timestamp()


def sold(harness: ShopHarness, product_id: str = "mug") -> list[tuple[str, int, int]]:
    """Return the order, pieces and returned pieces of each sale in the list of a product, newest first."""
    page = sales.list_sales_of_product(harness.shop, ListRequest(STAFF, 50), product_id)
    return [(sale.order_id, sale.quantity, sale.returned) for sale in page.items]


def assert_sales_last_400_days(harness: ShopHarness) -> None:
    found = stored_items(harness, "Sale")
    assert sorted(text(sale, "product_id") for sale in found) == ["mug", "pot"]
    for sale in found:
        assert number(sale, "ttl") == int(seconds(sale, "placed_at")) + 400 * DAY


# how long sales are kept ----------------------------------------------------------------------------------------------
@detects(
    "a later write moves the end of a sale",
    edit_code(copies.sales_of_order, ("fromisoformat(order.placed_at)", "fromisoformat(order.updated_at)")),
)
@detects(
    "a restore moves the end of a sale",
    edit_code(
        copies.sales_of_order,
        ("fromisoformat(order.placed_at)", "fromisoformat(order.restored_at or order.placed_at)"),
    ),
)
def test_a_restored_order_has_the_sales_that_it_had_before(harness: ShopHarness) -> None:
    harness.open_shop(available=10)
    order_id = harness.place_order(mug=2, pot=1)
    harness.pay_order(order_id)
    harness.process_all()
    harness.advance_days(1)  # the later writes are of another second than the order
    harness.dispatch_order(order_id)
    harness.deliver_order(order_id)
    harness.process_all()
    harness.advance_days(395)
    harness.process_all()
    harness.advance_days(1)
    restore_order(harness.shop, make_archive_fetcher(clients.client("s3"), "archive"), order_id)
    harness.process_all()
    assert_sales_last_400_days(harness)
    assert sold(harness) == [(order_id, 2, 0)]


# the list of a product's sales ----------------------------------------------------------------------------------------
@detects(
    "an order does not keep its number of shards",
    edit_code(placing._build_order, ("sales_shards=SALE_SHARDS.written if SALE_SHARDS.written > 1 else None,", "")),
)
def test_an_order_keeps_the_shard_of_its_sales_while_the_number_of_shards_changes(harness: ShopHarness) -> None:
    """With four shards, five of these orders are in another shard than with one shard."""
    harness.open_shop(available=100)
    four = Shards(read=4, written=4)
    with mock.patch.object(placing, "SALE_SHARDS", four), mock.patch.object(entities, "SALE_SHARDS", four):
        ids = [harness.place_order(f"key-{one}", mug=2) for one in range(6)]
        for order_id in ids[:3]:
            harness.pay_order(order_id, f"evt-{order_id}", f"pi-{order_id}")
        harness.process_all(("copies_reader",))
    for order_id in ids[3:]:
        harness.pay_order(order_id, f"evt-{order_id}", f"pi-{order_id}")
    for order_id in ids[:3]:
        cancellation.cancel_order(harness.shop, ANN, order_id)
    harness.process_all(("copies_reader",))
    found = stored_items(harness, "Sale")
    assert sorted(text(sale, "order_id") for sale in found) == sorted(ids), "each order has one sale"
    assert len({sale["PK"]["S"] for sale in found}) > 1
    assert {text(sale, "order_id") for sale in found if not number(sale, "quantity")} == set(ids[:3])


# drift ----------------------------------------------------------------------------------------------------------------
@detects(
    "drift deletes the sales of archived orders",
    edit_code(copy_checks.find_orphaned_snapshot, ("isinstance(item, ArchivedOrder) and", "False and")),
)
@detects(
    "drift leaves each sale of an archived order",
    edit_code(copy_checks.find_orphaned_snapshot, ('("customer_id", "placed_at", "currency")', "()")),
)
def test_drift_leaves_the_sales_of_archived_orders_and_finds_those_of_no_order(harness: ShopHarness) -> None:
    order_id = create_delivered_order(harness)
    harness.advance_days(396)
    harness.process_all()
    (mug,) = [sale for sale in stored_items(harness, "Sale") if text(sale, "product_id") == "mug"]
    table = harness.shop.table
    foreign = {**mug, "PK": {"S": "SALES#jug#0"}, "product_id": {"S": "jug"}, "customer_id": {"S": "bob"}}
    table.client.put_item(TableName=table.name, Item=foreign)
    check = DriftCheck(harness.shop, pause_seconds=0.01)
    check.check_all()
    assert list(check.discrepancies) == [("SALES#jug#0", mug["SK"]["S"])]
    for fault in check.discrepancies.values():
        fault.repair(harness.shop)
    assert (sold(harness), sold(harness, "pot")) == ([(order_id, 2, 0)], [(order_id, 1, 0)])
    assert len(stored_items(harness, "Sale")) == 2
