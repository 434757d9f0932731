"""Numbers in sort keys have leading zeros, so more than nine items are sorted correctly, too."""

from dataclasses import replace
from typing import Any

from functions.model import table as t
from functions.shop import discounts, products
from functions.shop.shop import Caller
from proof.support.actors import get_stock
from proof.support.http_client import ANN, STAFF, ApiHarness
from proof.support.samples import SAMPLES

SHOPKEEPER = Caller(STAFF.sub, frozenset(STAFF.groups))


def test_a_ledger_is_shown_in_the_order_of_its_movements_beyond_the_ninth_and_the_ninety_ninth(
    api: ApiHarness,
) -> None:
    entry = SAMPLES[t.ENTRY]
    account = replace(SAMPLES[t.ACCOUNT], customer_id=ANN.sub)
    for image in [t.ACCOUNT.encode(account), *(t.ENTRY.encode(replace(entry, version=n)) for n in range(1, 102))]:
        api.shop.table.client.put_item(TableName=api.shop.table.name, Item=image)
    seen: list[int] = []
    cursor: dict[str, Any] = {}
    while cursor != {"cursor": None}:
        said = api.call("GET", "/accounts/a1/entries", ANN, limit=8, **cursor).body
        seen += [one["version"] for one in said["items"]]
        cursor = {"cursor": said["cursor"]}
    assert seen == list(range(101, 0, -1))


def test_the_parts_of_a_stock_and_of_a_discount_come_in_their_order_beyond_the_ninth(api: ApiHarness) -> None:
    products.create_product(api.shop, SHOPKEEPER, "cup", "Cup", 100, "EUR", 12)
    products.receive_stock(api.shop, SHOPKEEPER, "first", "cup", 24)
    assert [part.part for part in get_stock(api.shop, "cup")] == list(range(12))
    discounts.create_discount(api.shop, SHOPKEEPER, "many", 1000, limit=24, parts=12)
    lying = [image["part"]["N"] for image in api.table_images() if image["type"]["S"] == "RedemptionPool"]
    assert lying == [str(part) for part in range(12)]


def test_invoices_of_one_instant_come_by_their_numbers_beyond_the_ninth(api: ApiHarness) -> None:
    for number in range(12):
        invoice = replace(SAMPLES[t.INVOICE], order_id=f"o{number}", invoice_id=f"2026-{number:08}")
        api.shop.table.client.put_item(TableName=api.shop.table.name, Item=t.INVOICE.encode(invoice))
    found = api.call("GET", "/customers/me/invoices", ANN).body["items"]
    assert [one["invoice_id"] for one in found] == [f"2026-{number:08}" for number in range(11, -1, -1)]
