"""Tests a customer's export: it has all items of the customer, page by page, for this customer and staff only."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from functions.model import personal_data
from functions.model import table as t
from functions.shop import data_export
from functions.shop.customers import register_customer
from functions.shop.shop import Caller
from proof.support.http_client import ANN, BOB, STAFF, WAREHOUSE, ApiHarness, Token
from proof.support.samples import SAMPLES

PATH = "/customers/ann/export"


def pages(api: ApiHarness, token: Token, path: str = PATH, **query: Any) -> Iterator[list[Any]]:
    cursor: dict[str, Any] = {}
    while cursor != {"cursor": None}:
        said = api.call("GET", path, token, **query, **cursor)
        assert said.status == 200
        yield said.body["items"]
        cursor = {"cursor": said.body["cursor"]}


def everything_owned() -> dict[str, Any]:
    """Return a sample item of Ann for each item type that belongs to a customer, by type."""
    replaced = {row.replaces for row in t.ROWS}
    return {row.type: SAMPLES[row] for row in personal_data.owned_rows() if row.replaces is None or row in replaced}


def put(api: ApiHarness, items: dict[str, Any]) -> None:
    for type_name, item in items.items():
        image = t.ROWS_BY_TYPE[type_name].encode(item)
        api.shop.table.client.put_item(TableName=api.shop.table.name, Item=image)


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_every_item_of_a_row_that_belongs_to_a_customer_is_exported_once_with_all_its_fields(
    bare: ApiHarness, limit: int
) -> None:
    put(bare, everything_owned())
    others = (t.DISCOUNT, t.PRODUCT)
    put(bare, {row.type: SAMPLES[row] for row in others})
    found = [item for page in pages(bare, ANN, limit=limit) for item in page]
    assert sorted(item["type"] for item in found) == sorted(everything_owned())
    for item in found:
        sample = everything_owned()[item["type"]]
        assert item["data"] == data_export.to_json({name: getattr(sample, name) for name in item["data"]}) or item[
            "type"
        ] in ("Order", "EarlierTimeline", "OrderSummary", "Invoice")
        assert item["data"].keys() == t.ROWS_BY_TYPE[item["type"]].fields.keys()
    (order,) = [item["data"] for item in found if item["type"] == "Order"]
    assert order["address"]["street"] == "1 Elm Row"


@pytest.mark.parametrize("limit", [1, 2, 100])
@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_an_export_has_all_orders_accounts_and_other_items_of_a_kind(bare: ApiHarness, number: int, limit: int) -> None:
    varied = {
        "order_id": (t.ORDER, t.ORDER_SUMMARY, t.PAYMENT),
        "account_id": (t.ACCOUNT, t.ENTRY),
        "product_id": (t.REVIEW, t.FOLLOW),
    }
    for n in range(number):
        for field, rows in varied.items():
            put(bare, {row.type: replace(SAMPLES[row], **{field: f"id-{n}"}) for row in rows})
    fields = {row.type: field for field, rows in varied.items() for row in rows}
    found = [item for page in pages(bare, ANN, limit=limit) for item in page]
    exported = sorted((item["type"], item["data"][fields[item["type"]]]) for item in found)
    assert exported == sorted((type_name, f"id-{n}") for type_name in fields for n in range(number))


def test_another_customer_and_the_warehouse_see_nothing_and_staff_see_the_same(bare: ApiHarness) -> None:
    put(bare, everything_owned())
    own = [*pages(bare, ANN, "/customers/me/export")]
    assert own == [*pages(bare, STAFF)]
    for token in (BOB, WAREHOUSE):
        refused = bare.call("GET", PATH, token)
        assert (refused.status, refused.body["type"].rpartition("#")[2]) == (404, "not-found")
    assert bare.call("GET", PATH, None).status == 401


def test_no_page_comes_near_the_limit_of_an_answer(bare: ApiHarness) -> None:
    note = "\u6f22" * 100_000  # each character takes 3 bytes in the table, and 6 in JSON
    register_customer(bare.shop, Caller("ann"), "ann@example.com", "Ann")
    for number in range(20):
        put(bare, {"Review": replace(SAMPLES[t.REVIEW], product_id=f"p{number:02}", text=note)})
    sizes, found = [], 0
    for page in pages(bare, ANN):
        sizes.append(len(json.dumps(page)))
        found += sum(item["type"] == "Review" for item in page)
    assert found == 20
    assert max(sizes) < 5_000_000
