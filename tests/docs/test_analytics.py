"""Tests the queries of docs/analytics.md, on objects that the archive Lambda wrote. Results are calculated by hand."""

import gzip
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from docs.generate import DOCS
from functions.dynamodb.keys import Instant
from functions.handlers import customer_erasure
from functions.model.archive_columns import archive_columns, archive_views
from functions.runtime import clients
from functions.shop import cancellation, customers, placing, products, returns
from functions.shop.erasure import erase_customer
from functions.shop.shop import Caller
from local.world.harness import ANN, HOME_ADDRESS, STAFF, WAREHOUSE, ShopHarness
from ops.commands.archive_query import open_archive
from ops.commands.export import export_list
from ops.commands.restore import LOCAL_SETTLE_TIME, RestoredOrder, make_archive_fetcher, restore_order
from proof.support.actors import set_shipping_prices
from proof.support.archiving import archived_objects, expire_everything, run_archive
from tests.support.saved import reused

BOB, CARL, DORA = Caller("bob"), Caller("carl"), Caller("dora")
Rows = list[tuple[Any, ...]]
QUERIES = {
    section.partition("\n")[0]: found[1]
    for section in (DOCS / "analytics.md").read_text(encoding="utf-8").split("\n## ")
    if (found := re.search(r"^```sql\n(.*?)^```", section, re.MULTILINE | re.DOTALL))
}
"""The queries of the page by the titles of their sections."""


# three months of a shop -----------------------------------------------------------------------------------------------
def go_to(harness: ShopHarness, day: str) -> None:
    harness.clock_offset = datetime.fromisoformat(f"{day}T09:00:00+00:00") - datetime.now(UTC)


def place(harness: ShopHarness, day: str, customer: Caller, **quantities: int) -> str:
    go_to(harness, day)
    wanted = {id: placing.RequestedLine(quantity) for id, quantity in quantities.items()}
    request = {"lines": quantities}
    return placing.place_order(harness.shop, customer, day, wanted, HOME_ADDRESS, request).order.order_id


def pay(harness: ShopHarness, order_id: str) -> None:
    harness.pay_order(order_id, f"evt_{order_id}", f"pi_{order_id}")


def buy(harness: ShopHarness, day: str, customer: Caller, **quantities: int) -> str:
    """Place, pay, send and deliver an order, all on one day."""
    order_id = place(harness, day, customer, **quantities)
    pay(harness, order_id)
    harness.process_all()
    harness.dispatch_order(order_id)
    harness.deliver_order(order_id)
    harness.process_all()
    return order_id


def open_shop(harness: ShopHarness) -> None:
    set_shipping_prices(harness.shop, EUR=490, CHF=0)
    go_to(harness, "2025-01-01")
    for customer in (ANN, BOB, CARL, DORA):
        customers.register_customer(harness.shop, customer, f"{customer.id}@example.com", customer.id.capitalize())
    products.create_product(harness.shop, STAFF, "mug", "Blue mug", 1250, "EUR", 1)
    products.create_product(harness.shop, STAFF, "pot", "Blue pot", 2000, "EUR", 1)
    products.create_product(harness.shop, STAFF, "Cup", "Blue cup", 900, "CHF", 1)
    for product_id in ("mug", "pot", "Cup"):
        products.receive_stock(harness.shop, STAFF, f"first {product_id}", product_id, 100)


def sell_and_archive(harness: ShopHarness) -> str:
    """Sell goods in three months of 2025, and archive all orders. Return the id of the first order."""
    open_shop(harness)
    first = buy(harness, "2025-01-10", ANN, mug=2, pot=1)  # 4500 + 490 for shipping
    buy(harness, "2025-01-20", BOB, mug=1)  # 1250 + 490
    buy(harness, "2025-02-05", ANN, Cup=1)  # 900 francs, without shipping
    go_to(harness, "2025-02-07")
    back = {"mug": returns.ReturnedGoods(1, restock=True)}
    returns.return_goods(harness.shop, WAREHOUSE, "back", first, back)  # refunds 1250
    harness.process_all()
    buy(harness, "2025-03-03", BOB, pot=3)  # 6000 + 490
    cancellation.cancel_order(harness.shop, CARL, place(harness, "2025-03-10", CARL, mug=1))  # not paid
    paid = place(harness, "2025-03-12", CARL, mug=1, pot=1)  # 3250 + 490, all refunded
    pay(harness, paid)
    cancellation.cancel_order(harness.shop, CARL, paid)
    harness.process_all()
    buy(harness, "2025-03-20", DORA, mug=1)  # 1250 + 490
    archive(harness)
    return first


def archive(harness: ShopHarness) -> None:
    assert run_archive(*expire_everything(harness)) == []


sold = reused(sell_and_archive)


@pytest.fixture
def first(harness: ShopHarness) -> str:
    return sold(harness)


def write_objects(folder: Path, objects: Mapping[str, bytes]) -> None:
    for key, body in objects.items():
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_bytes(body)


def run_query(harness: ShopHarness, folder: Path, text: str) -> Rows:
    """Return the result of a query over all objects of the archive. `folder`: an empty folder for their copy."""
    write_objects(folder, harness.objects("archive"))
    return open_archive(folder).execute(text).fetchall()


# the queries ----------------------------------------------------------------------------------------------------------
REVENUE = [
    ("2025-01", "EUR", 2, 4990 + 1740, 1250, 4990 + 1740 - 1250),
    ("2025-02", "CHF", 1, 900, 0, 900),
    ("2025-03", "EUR", 3, 6490 + 3740 + 1740, 3740, 6490 + 1740),
]
RESULTS: dict[str, Rows] = {
    "Revenue by month": REVENUE,
    "Return rate by product": [("mug", 4, 1, 25.0), ("Cup", 1, 0, 0.0), ("pot", 4, 0, 0.0)],
    "Cohorts": [  # Ann and Bob began in January. Ann bought again in February, and Bob in March.
        ("2025-01", 0, 2, 2),
        ("2025-01", 1, 1, 1),
        ("2025-01", 2, 1, 1),
        ("2025-03", 0, 1, 1),
    ],
    "Activity": [
        *(("2025-01", f"Order{what}", 2) for what in ("Delivered", "Fulfilling", "Paid", "Placed", "Shipped")),
        *(("2025-02", f"Order{what}", 1) for what in ("Delivered", "Fulfilling", "Paid", "PartlyReturned", "Placed")),
        ("2025-02", "OrderShipped", 1),
        *(("2025-03", f"Order{what}", 2) for what in ("Cancelled", "Delivered", "Fulfilling")),
        ("2025-03", "OrderPaid", 3),
        ("2025-03", "OrderPlaced", 4),
        ("2025-03", "OrderShipped", 2),
    ],
}


@pytest.mark.parametrize("title", RESULTS)
def test_a_query_of_the_page_has_the_result_of_what_was_sold(
    harness: ShopHarness, first: str, tmp_path: Path, title: str
) -> None:
    assert run_query(harness, tmp_path, QUERIES[title]) == RESULTS[title]


def test_a_query_counts_the_exported_live_orders_beside_the_archived_ones(
    harness: ShopHarness, first: str, tmp_path: Path
) -> None:
    pay(harness, place(harness, "2025-03-25", DORA, mug=1))  # 1250 + 490, and in no archive object
    harness.process_all()
    start, end = Instant("2025-01-01T00:00:00.000Z"), Instant("2026-01-01T00:00:00.000Z")
    export_list(harness.shop, "orders", start, end, tmp_path)
    write_objects(tmp_path / "archive", harness.objects("archive"))
    archive_and_live = open_archive(tmp_path / "archive", tmp_path / "orders.ndjson")
    (*earlier, (month, currency, orders, paid, refunded, kept)) = REVENUE
    expected = [*earlier, (month, currency, orders + 1, paid + 1740, refunded, kept + 1740)]
    assert archive_and_live.execute(QUERIES["Revenue by month"]).fetchall() == expected


def test_each_view_has_its_columns_and_a_row_for_each_archived_item(
    harness: ShopHarness, first: str, tmp_path: Path
) -> None:
    write_objects(tmp_path, harness.objects("archive"))
    archive_objects = open_archive(tmp_path)
    rows = {}
    for name, view in archive_views().items():
        found = archive_objects.execute(f"SELECT * FROM {name}")  # noqa: S608
        assert {column[0]: str(column[1]).lower() for column in found.description or ()} == view.columns
        rows[name] = len(found.fetchall())
    assert rows == {"order_facts": 7, "invoice_facts": 6, "payment_facts": 6, "refund_facts": 2, "line_facts": 9}


def test_each_query_of_the_page_is_tested() -> None:
    assert QUERIES.keys() == RESULTS.keys()


def test_an_order_that_was_restored_and_archived_again_counts_once(
    harness: ShopHarness, first: str, tmp_path: Path
) -> None:
    fetch = make_archive_fetcher(clients.client("s3"), "archive")
    assert isinstance(restore_order(harness.shop, fetch, first, settles=LOCAL_SETTLE_TIME), RestoredOrder)
    harness.process_all()
    archive(harness)
    assert sum(first in key for key in archived_objects(harness, "orders/")) == 2
    assert run_query(harness, tmp_path, QUERIES["Revenue by month"]) == REVENUE


# the objects ----------------------------------------------------------------------------------------------------------
KEYS_OF_ITEMS = {"PK", "SK", "GSI1PK", "GSI1SK", "GSI2PK", "GSI2SK", "GSI3PK", "GSI3SK", "schema"}


def test_each_attribute_of_the_archive_has_a_column_of_its_type(harness: ShopHarness, first: str) -> None:
    columns: Any = archive_columns()
    missing: set[str] = set()
    for key, body in harness.objects("archive").items():
        if key.startswith("orders/"):
            whole = json.loads(body)
            assert whole.keys() == columns["orders"].keys()
            for item in whole["items"]:
                missing |= without_column(item, columns["orders"]["items"][1], item["type"]["S"])
        else:
            for line in gzip.decompress(body).splitlines():
                missing |= without_column(json.loads(line), columns["activity"], "Activity")
    assert not missing


def without_column(value: Any, kind: Any, path: str) -> set[str]:
    """Return the paths in a JSON value that its column's type does not have."""
    match kind:
        case str():
            return set() if isinstance(value, bool if kind == "boolean" else str) else {path}
        case ("array", inner):
            return {one for part in value for one in without_column(part, inner, f"{path}[]")}
        case ("map", inner):
            return {one for part in value.values() for one in without_column(part, inner, f"{path}{{}}")}
    return {
        one
        for name, part in value.items()
        if name not in KEYS_OF_ITEMS and name != "NULL"
        for one in (without_column(part, kind[name], f"{path}.{name}") if name in kind else {f"{path}.{name}"})
    }


def test_names_of_columns_differ_by_more_than_case() -> None:
    def check(kind: Any) -> None:
        if isinstance(kind, Mapping):
            assert len({name.lower() for name in kind}) == len(kind), "Athena writes them in lower case"
            for part in kind.values():
                check(part)
        elif isinstance(kind, tuple):
            check(kind[1])

    check(archive_columns())


# personal data --------------------------------------------------------------------------------------------------------
NAMES = """
SELECT DISTINCT items[i].type.s, COALESCE(items[i].address.m.name.s, items[i].customer_name.s)
FROM orders CROSS JOIN UNNEST(sequence(1, cardinality(items))) AS numbers (i)
WHERE items[i].customer_id.s = 'ann' AND items[i].type.s IN ('Order', 'Invoice')
ORDER BY 1
"""


def test_after_an_erasure_only_invoices_have_the_name_in_the_archive(
    harness: ShopHarness, first: str, tmp_path: Path
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    assert run_query(harness, before, NAMES) == [("Invoice", "Ann Ash"), ("Order", "Ann Ash")]
    erase_customer(harness.shop, ANN, ANN.id)
    customer_erasure.handler({"time": (harness.now() + timedelta(hours=1)).isoformat()}, None)
    assert run_query(harness, after, NAMES) == [("Invoice", "Ann Ash"), ("Order", None)]
    assert run_query(harness, after, QUERIES["Revenue by month"]) == REVENUE, "amounts stay"
