"""Tests orders: their fields by kind of user, their lists, and their cancellation."""

from typing import Any

import pytest

from functions.dynamodb.writes import put_if_absent
from functions.model.copies import number_of_order
from functions.model.entities import OPEN_STATUSES, ArchivedOrder, Order
from functions.model.patterns import ORDER_BY_ID
from functions.model.table import ARCHIVED_ORDER, ORDER, ORDER_NUMBER
from functions.shop.fulfilment import fulfil_order
from proof.support.http_client import ANN, BOB, STAFF, WAREHOUSE, ApiHarness, Token, http_event, invoke_api, order_body


def placed(api: ApiHarness, key: str = "key-1", **quantities: int) -> str:
    return str(api.call("POST", "/orders", ANN, order_body(**quantities), key=key).body["order_id"])


def archived(api: ApiHarness, order_id: str = "old") -> None:
    """Archive one of Ann's orders, and return its stub."""
    at: Any = "2025-11-21T09:30:00.000Z"
    stub = ArchivedOrder(
        order_id=order_id,
        customer_id=ANN.sub,
        status="DELIVERED",
        placed_at=at,
        updated_at=at,
        currency="EUR",
        total=5,
        fingerprint="1:x",
        object_key="orders/x",
        sha256="x",
        version=7,
    )
    api.shop.table.write(put_if_absent(ARCHIVED_ORDER, stub))


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


def test_lines_are_shown_by_product(api: ApiHarness) -> None:
    id = placed(api, pot=3, mug=2)
    lines = api.call("GET", f"/orders/{id}/lines", ANN).body
    assert [(line["product_id"], line["quantity"]) for line in lines["items"]] == [("mug", 2), ("pot", 3)]
    assert lines["cursor"] is None


def test_staff_can_read_the_customer_of_an_order(api: ApiHarness) -> None:
    id = placed(api)
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


def test_the_whole_order_goes_on_over_pages(api: ApiHarness) -> None:
    id = placed(api)
    for number in range(5):
        api.pay(id, event_id=f"evt_{number}", payment_id=f"pi_{number}", failed=True)
    seen: list[str] = []
    orders = 0
    asked: dict[str, Any] = {}
    while True:
        page = api.call("GET", f"/orders/{id}/whole", ANN, limit=2, **asked).body
        seen += [payment["payment_id"] for payment in page["payments"]]
        orders += page["order"] is not None
        if page["cursor"] is None:
            break
        asked = {"cursor": page["cursor"]}
    assert (orders, seen) == (1, [f"pi_{number}" for number in range(5)])


def test_the_first_page_of_a_whole_order_contains_the_order_at_every_limit(api: ApiHarness) -> None:
    id = placed(api)
    api.pay(id)
    fulfilment = fulfil_order(api.shop, id)
    assert fulfilment is not None
    first = api.call("GET", f"/orders/{id}/whole", ANN, limit=1).body
    assert first["order"]["order_id"] == id
    assert [invoice["invoice_id"] for invoice in first["invoices"]] == [fulfilment.invoice_id], "which comes before it"
    second = api.call("GET", f"/orders/{id}/whole", ANN, cursor=first["cursor"]).body
    assert (second["order"], len(second["payments"])) == (None, 1)


def test_a_closed_order_says_when_it_ends(api: ApiHarness) -> None:
    id = placed(api)
    api.call("POST", f"/orders/{id}/cancel", ANN)
    assert api.call("GET", f"/orders/{id}/whole", ANN).body["ends_at"] > api.shop.now_instant()


def test_an_archived_order_is_shown_from_its_stub(api: ApiHarness) -> None:
    archived(api)
    shown = api.call("GET", "/orders/old", ANN).body
    assert (shown["archived"], shown["status"], shown["total"], shown["lines"]) == (True, "DELIVERED", 5, None)
    assert "object_key" not in shown
    lines = api.call("GET", "/orders/old/lines", ANN)
    assert (lines.status, lines.problem_type, lines.body["state"]) == (409, "wrong-state", "ARCHIVED")
    assert api.call("POST", "/orders/old/cancel", ANN).problem_type == "wrong-state"
    assert api.call("GET", "/orders/old/whole", ANN).body["order"]["archived"] is True
    api.pay("old")
    (late,) = api.call("GET", "/orders/old/whole", ANN).body["payments"]
    assert (late["status"], late["reason"]) == ("UNMATCHED", "the order is archived")


# cancellation ---------------------------------------------------------------------------------------------------------
def test_an_order_is_cancelled_and_its_goods_are_free_again(api: ApiHarness) -> None:
    id = placed(api, mug=4)
    assert api.call("POST", f"/orders/{id}/cancel", ANN).body["status"] == "CANCELLED"
    assert api.call("GET", "/products/mug/stock").body["available"] == 10
    assert api.call("POST", f"/orders/{id}/cancel", ANN).body["status"] == "CANCELLED"
    assert api.call("GET", "/products/mug/stock").body["available"] == 10
    assert api.call("GET", "/orders", STAFF, status="PENDING").body["items"] == []


def test_an_order_that_is_paid_for_is_cancelled_and_its_money_goes_back(api: ApiHarness) -> None:
    id = placed(api)
    api.pay(id)
    cancelled = api.call("POST", f"/orders/{id}/cancel", ANN).body
    assert [cancelled[name] for name in ("status", "paid", "refunded", "due")] == ["CANCELLED", 2500, 2500, 0]
    assert api.call("POST", f"/orders/{id}/cancel", ANN).body == cancelled


def test_an_order_that_is_on_its_way_is_not_cancelled(api: ApiHarness) -> None:
    id = placed(api)
    api.pay(id)
    fulfil_order(api.shop, id)
    sent = {"carrier": "DHL", "tracking_number": "42"}
    assert api.call("POST", f"/orders/{id}/shipments/{id}-1/dispatched", WAREHOUSE, sent).status == 200
    refused = api.call("POST", f"/orders/{id}/cancel", ANN)
    assert (refused.status, refused.problem_type) == (409, "wrong-state")
    assert {name: refused.body[name] for name in ("what", "state", "command")} == {
        "what": "order",
        "state": "SHIPPED",
        "command": "cancel",
    }


def test_cancelling_takes_no_fields(api: ApiHarness) -> None:
    id = placed(api)
    assert api.call("POST", f"/orders/{id}/cancel", ANN, {"refund": True}).field_errors == {
        "refund": "is not a known parameter or field"
    }
    assert api.call("POST", f"/orders/{id}/cancel", ANN, {}).status == 200


# lists ----------------------------------------------------------------------------------------------------------------
def test_staff_list_orders_by_state_oldest_or_newest_first(api: ApiHarness) -> None:
    ids = [placed(api, f"key-{number}", mug=1) for number in range(3)]

    def listed(**asked: Any) -> list[str]:
        return [
            order["order_id"] for order in api.call("GET", "/orders", STAFF, status="PENDING", **asked).body["items"]
        ]

    by_time = sorted(ids, key=lambda id: (api.call("GET", f"/orders/{id}", ANN).body["placed_at"], id))
    assert listed(order="oldest") == by_time
    assert listed(order="newest") == listed() == by_time[::-1]
    api.pay(ids[0])
    assert set(listed()) == set(ids[1:])
    assert [o["order_id"] for o in api.call("GET", "/orders", STAFF, status="PAID").body["items"]] == [ids[0]]


@pytest.mark.parametrize("order", ["oldest", "newest"])
def test_a_list_over_shards_is_cut_into_pages_that_miss_and_repeat_nothing(api: ApiHarness, order: str) -> None:
    ids = {placed(api, f"key-{number}", mug=1) for number in range(10)}
    seen: list[str] = []
    asked: dict[str, Any] = {}
    while True:
        page = api.call("GET", "/orders", STAFF, status="PENDING", order=order, limit=3, **asked).body
        seen += [one["order_id"] for one in page["items"]]
        if page["cursor"] is None:
            break
        asked = {"cursor": page["cursor"]}
    assert len(seen) == 10
    assert set(seen) == ids


def test_orders_by_state_are_shown_by_half_open_ranges(api: ApiHarness) -> None:
    at = api.call("GET", f"/orders/{placed(api)}", ANN).body["placed_at"]

    def count(**asked: Any) -> int:
        return len(api.call("GET", "/orders", STAFF, status="PENDING", **asked).body["items"])

    assert count(from_=at) == 1
    assert count(to=at) == 0
    assert count(from_=at[:10]) == 1
    assert count(to=at[:10]) == 0


def test_only_open_states_have_a_list(api: ApiHarness) -> None:
    for status in ("CANCELLED", "DELIVERED", "pending", "", "#"):
        assert list(api.call("GET", "/orders", STAFF, status=status).field_errors) == ["status"]
    for status in OPEN_STATUSES:
        assert api.call("GET", "/orders", STAFF, status=status).status == 200


def test_an_order_of_the_list_without_a_state_is_malformed(api: ApiHarness) -> None:
    assert list(api.call("GET", "/orders", ANN, order="oldest").field_errors) == ["status"]


def test_a_misspelled_filter_is_rejected_and_not_ignored(api: ApiHarness) -> None:
    assert api.call("GET", "/orders", STAFF, stauts="PENDING").field_errors == {
        "stauts": "is not a known parameter or field"
    }


def test_a_filter_that_is_sent_twice_is_malformed(api: ApiHarness) -> None:
    twice = invoke_api(http_event("GET", "/orders", token=ANN, query="limit=1&limit=2"))
    assert list(twice.field_errors) == ["limit"]


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
    number = with_copies(api, id)
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


def test_an_order_is_found_by_one_query_and_one_read(api: ApiHarness) -> None:
    id = placed(api)
    number = with_copies(api, id)
    with api.record_requests() as sent:
        found_by(api, STAFF, number)
    assert sent == ["Query", "BatchGetItem"]


def test_a_number_excludes_other_filters(api: ApiHarness) -> None:
    for asked in ({"status": "PAID"}, {"from": "2026-01-01"}, {"order": "oldest"}):
        query: dict[str, Any] = {"number": "PUEW472M", **asked}
        assert list(api.call("GET", "/orders", STAFF, **query).field_errors) == ["number"]
    assert list(api.call("GET", "/orders", STAFF, number="a#b").field_errors) == ["number"]
