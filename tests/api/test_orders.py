"""Tests what the API shows of orders: their fields, their items and their lists."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.adapters import object_store
from functions.dynamodb.writes import put_if_absent
from functions.model.copies import number_of_order
from functions.model.entities import OPEN_STATUSES, ArchivedOrder, Order
from functions.model.patterns import ORDER_BY_ID
from functions.model.table import ARCHIVED_ORDER, ORDER, ORDER_NUMBER
from functions.shop.fulfilment import fulfil_order
from proof.support.actors import archive_with_object
from proof.support.http_client import ANN, BOB, STAFF, ApiHarness, Token, http_event, invoke_api, order_body
from proof.support.samples import archived_order


def placed(api: ApiHarness, key: str = "key-1", **quantities: int) -> str:
    return str(api.call("POST", "/orders", ANN, order_body(**quantities), key=key).body["order_id"])


def archived(api: ApiHarness, order_id: str = "old") -> None:
    """Write the stub of an archived order of Ann."""
    api.shop.table.write(put_if_absent(ARCHIVED_ORDER, archived_order(order_id=order_id)))


ARCHIVED_PATHS = ("", "/whole", "/lines", "/payments", "/refunds", "/returns", "/shipments")


def test_a_quote_shows_the_total_that_the_order_then_has(api: ApiHarness) -> None:
    basket = order_body(mug=2)
    quote = api.call("POST", "/orders/quote", ANN, basket)
    assert (quote.status, quote.body["goods"], quote.body["total"], quote.body["discount"]) == (200, 2500, 2500, None)
    assert [(one["product_id"], one["backordered"]) for one in quote.body["lines"]] == [("mug", 0)]
    refused = api.call("POST", "/orders", ANN, {**basket, "expected_total": 2499}, key="k")
    assert (refused.problem_type, refused.body["total"]) == ("total-changed", 2500)
    free = api.call("POST", "/orders", ANN, {**basket, "expected_total": 0}, key="k")
    assert free.problem_type == "total-changed", "an order may be free"
    assert api.call("POST", "/orders", ANN, {**basket, "expected_total": 2500}, key="k").status == 201


def test_an_order_of_a_newer_schema_cannot_be_read_or_changed(api: ApiHarness) -> None:
    """During a rollback or a deploy, older code must not remove new attributes of an order."""
    order_id = placed(api)
    table = api.shop.table
    key = ORDER.key(order_id=order_id)
    table.client.update_item(
        TableName=table.name,
        Key=key,
        UpdateExpression="SET #schema = :newer",
        ExpressionAttributeNames={"#schema": "schema"},
        ExpressionAttributeValues={":newer": {"N": str(ORDER.schema + 1)}},
    )
    before = table.client.get_item(TableName=table.name, Key=key)["Item"]
    for method, path in (("GET", ""), ("GET", "/whole"), ("GET", "/lines"), ("POST", "/cancel")):
        refused = api.call(method, f"/orders/{order_id}{path}", ANN)
        assert (refused.status, refused.problem_type) == (500, "unreadable")
    assert table.client.get_item(TableName=table.name, Key=key)["Item"] == before


def test_an_order_shows_its_lines_by_product_and_staff_its_customer(api: ApiHarness) -> None:
    id = placed(api, pot=3, mug=2)
    lines = api.call("GET", f"/orders/{id}/lines", ANN).body
    assert [(line["product_id"], line["quantity"]) for line in lines["items"]] == [("mug", 2), ("pot", 3)]
    assert lines["cursor"] is None
    assert api.call("GET", f"/orders/{id}/customer", STAFF).body == {"order_id": id, "customer_id": ANN.sub}


def test_the_whole_order_comes_in_one_query_by_kind(api: ApiHarness) -> None:
    id = placed(api)
    api.pay(id)
    with api.record_requests() as sent:
        whole = api.call("GET", f"/orders/{id}/whole", ANN).body
    assert sent == ["GetItem", "Query"]  # the first reads the order's owner, the second all items of the order
    assert whole["order"]["status"] == "PAID"
    assert [(paid["payment_id"], paid["amount"]) for paid in whole["payments"]] == [("pi_1", 2500)]
    assert (whole["shipments"], whole["invoices"], whole["ends_at"], whole["cursor"]) == ([], [], None, None)
    api.call("POST", f"/orders/{id}/cancel", ANN)
    assert api.call("GET", f"/orders/{id}/whole", ANN).body["ends_at"] > api.shop.now_instant()


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_the_first_page_of_a_whole_order_contains_the_order_at_every_limit(api: ApiHarness, limit: int) -> None:
    id = placed(api)
    api.pay(id)
    fulfilment = fulfil_order(api.shop, id)
    assert fulfilment is not None
    pages = list(pages_of(api, f"/orders/{id}/whole", ANN, limit=limit))
    assert [page["order"] and page["order"]["order_id"] for page in pages] == [id] + [None] * (len(pages) - 1)
    assert [it["invoice_id"] for it in pages[0]["invoices"]] == [fulfilment.invoice_id], "which comes before the order"
    assert [it["payment_id"] for page in pages for it in page["payments"]] == ["pi_1"]
    assert [it["shipment_id"] for page in pages for it in page["shipments"]] == [f"{id}-1"]


def pages_of(api: ApiHarness, path: str, token: Token, **query: Any) -> Iterator[Any]:
    """Yield all pages of a list."""
    cursor: dict[str, str] = {}
    while True:
        page = api.call("GET", path, token, **query, **cursor).body
        yield page
        if page["cursor"] is None:
            return
        cursor = {"cursor": page["cursor"]}


def test_an_archived_order_is_shown_as_before_with_a_mark(api: ApiHarness) -> None:
    id = placed(api)
    api.pay(id)
    api.call("POST", f"/orders/{id}/cancel", ANN)
    before = {path: api.call("GET", f"/orders/{id}{path}", ANN).body for path in ARCHIVED_PATHS}
    images = archive_with_object(api.shop, id).read_archive("orders/x.json")
    object_store.put("archive", "orders/x.json", json.dumps({"items": images}).encode(), "application/json")
    stub = api.shop.table.get(ORDER_BY_ID, order_id=id)
    assert isinstance(stub, ArchivedOrder)
    mark = {"archived": True, "archived_at": stub.archived_at, "version": stub.version}
    before[""] |= mark
    before["/whole"] |= {"order": before[""], "ends_at": None}
    assert {path: api.call("GET", f"/orders/{id}{path}", ANN).body for path in ARCHIVED_PATHS} == before


@pytest.mark.parametrize(
    ("code", "problem", "what"),
    [
        ("NoSuchKey", "archive-unavailable", "is missing"), ("AccessDenied", "archive-unavailable", "is missing"),
        ("InvalidObjectState", "archive-unavailable", "storage class"), ("SlowDown", "unreachable", "safe to repeat"),
    ],
)  # fmt: skip
def test_an_archived_order_without_a_readable_object_says_what_to_do(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch, code: str, problem: str, what: str
) -> None:
    def refuse(bucket: str, key: str) -> bytes:
        response: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 503}}
        raise ClientError(response, "GetObject")

    archived(api)
    monkeypatch.setattr(object_store, "get", refuse)
    for path in ARCHIVED_PATHS:
        said = api.call("GET", f"/orders/old{path}", ANN)
        assert (said.status, said.problem_type) == (503, problem)
        assert what in said.body["detail"]


# lists ----------------------------------------------------------------------------------------------------------------
def test_staff_list_orders_by_state_page_by_page_oldest_or_newest_first(api: ApiHarness) -> None:
    said = [api.place_order(f"key-{number}", mug=1).body for number in range(10)]
    by_time = [one["order_id"] for one in sorted(said, key=lambda one: (one["placed_at"], one["order_id"]))]

    def listed(**asked: Any) -> list[str]:
        pages = pages_of(api, "/orders", STAFF, status="PENDING", limit=3, **asked)
        return [order["order_id"] for page in pages for order in page["items"]]

    assert listed(order="oldest") == by_time
    assert listed(order="newest") == listed() == by_time[::-1]


def test_staff_list_each_state_and_only_a_closed_one_counts_what_was_read(api: ApiHarness) -> None:
    with_copies(api, api.place_order().body["order_id"])
    for status in OPEN_STATUSES:
        assert "read" not in api.call("GET", "/orders", STAFF, status=status).body
    closed: dict[str, Any] = {"items": [], "cursor": None, "read": 1, "discarded": 1}
    assert api.call("GET", "/orders", STAFF, status="DELIVERED").body == closed


def test_staff_list_the_orders_of_all_customers_and_a_customer_lists_only_their_own(api: ApiHarness) -> None:
    order_id = api.place_order().body["order_id"]
    with_copies(api, order_id)
    for order in ({}, {"order": "oldest"}):
        (found,) = api.call("GET", "/orders", STAFF, **order).body["items"]
        assert (found["order_id"], found["status"], found["attention"]) == (order_id, "PENDING", [])
    assert api.call("GET", "/orders", BOB).body["items"] == []
    assert api.call("GET", "/orders", BOB, order="oldest").problem_type == "not-allowed"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("stauts=PENDING", "stauts"), ("limit=1&limit=2", "limit"),
        ("number=PUEW472M&status=PAID", "number"),
        ("number=PUEW472M&from=2026-01-01", "number"), ("number=PUEW472M&to=2026-01-01", "number"),
        ("number=PUEW472M&order=oldest", "number"), ("number=PUEW472M&phone=01234567", "number"),
        ("phone=01234567&status=PAID", "phone"),
    ],
)  # fmt: skip
def test_a_filter_that_makes_no_sense_is_named_and_not_ignored(api: ApiHarness, query: str, field: str) -> None:
    assert list(invoke_api(http_event("GET", "/orders", token=STAFF, query=query)).field_errors) == [field]


# orders by number -----------------------------------------------------------------------------------------------------
def with_copies(api: ApiHarness, order_id: str) -> str:
    """Write the item that finds the order by its number, as the stream's reader does. Return the order's number."""
    order = api.shop.table.get(ORDER_BY_ID, order_id=order_id)
    assert isinstance(order, Order)
    api.shop.table.write(put_if_absent(ORDER_NUMBER, next(number_of_order(order))))
    return order_id[:8].upper()


def found_by(api: ApiHarness, token: Token, number: str) -> list[tuple[str, bool]]:
    said = api.call("GET", "/orders", token, number=number)
    assert said.status == 200, said.text
    return [(order["order_id"], order["archived"]) for order in said.body["items"]]


def test_an_order_is_found_by_the_number_of_its_mails_and_by_its_id_in_any_case(api: ApiHarness) -> None:
    id = placed(api)
    assert found_by(api, STAFF, id.upper()) == [(id, False)], "by its id at once, before the stream has its number"
    number = with_copies(api, id)
    with api.record_requests() as sent:
        found_by(api, STAFF, number)
    assert sent == ["Query", "BatchGetItem"]
    for text in (number, number.lower(), number.capitalize(), id, id.upper()):
        assert found_by(api, STAFF, text) == found_by(api, ANN, text) == [(id, False)], text
        assert found_by(api, BOB, text) == [], "a customer finds no order of another customer"
    assert found_by(api, STAFF, "AAAAAAAA") == []
    assert found_by(api, STAFF, id[:12] + "zz") == [], "a mistyped id finds nothing"


def test_orders_with_the_same_number_are_all_found_and_an_archived_one_too(api: ApiHarness) -> None:
    id = placed(api)
    number = with_copies(api, id)
    twin = f"{id[:8]}-twin"
    archived(api, twin)
    (stub,) = api.shop.table.batch_get([ORDER.key(order_id=twin)], consistent=True)
    api.shop.table.write(put_if_absent(ORDER_NUMBER, next(number_of_order(stub))))
    assert sorted(found_by(api, STAFF, number)) == sorted([(id, False), (twin, True)])
    assert found_by(api, STAFF, twin) == [(twin, True)]
