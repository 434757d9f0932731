"""Orders: what is shown of them, to whom, in which lists; and cancelling."""

from typing import Any

import pytest

from functions.dynamodb.writes import put
from functions.model.entities import OPEN, ArchivedOrder
from functions.model.table import ARCHIVED_ORDER, ORDER
from functions.shop.shipments import request_shipment
from tests.api.asking import ANN, STAFF, WAREHOUSE, Api, answer_to, event, new_order


def placed(api: Api, key: str = "key-1", **quantities: int) -> str:
    return str(api.ask("POST", "/orders", ANN, new_order(**quantities), key=key).said["order_id"])


def archived(api: Api, order_id: str = "old") -> None:
    """What the archive leaves of one of Ann's orders."""
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
    api.shop.table.write(put(ARCHIVED_ORDER, stub))


def test_an_order_that_a_newer_version_wrote_is_shown_to_nobody_and_changed_by_nobody(api: Api) -> None:
    """A deployment that is taken back, or half-way: what is new in the order would be lost."""
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
        refused = api.ask(method, f"/orders/{order_id}{path}", ANN)
        assert (refused.status, refused.problem) == (500, "unreadable")
    assert table.client.get_item(TableName=table.name, Key=key)["Item"] == before


def test_lines_are_shown_by_product(api: Api) -> None:
    id = placed(api, pot=3, mug=2)
    lines = api.ask("GET", f"/orders/{id}/lines", ANN).said
    assert [(line["product_id"], line["quantity"]) for line in lines["items"]] == [("mug", 2), ("pot", 3)]
    assert lines["cursor"] is None


def test_staff_ask_who_placed_an_order(api: Api) -> None:
    id = placed(api)
    assert api.ask("GET", f"/orders/{id}/customer", STAFF).said == {"order_id": id, "customer_id": ANN.sub}


def test_the_whole_order_comes_in_one_query_by_kind(api: Api) -> None:
    id = placed(api)
    api.pay(id)
    with api.requests() as sent:
        whole = api.ask("GET", f"/orders/{id}/whole", ANN).said
    assert sent == ["GetItem", "Query"]  # whose it is, then all of it
    assert whole["order"]["status"] == "PAID"
    assert [(paid["payment_id"], paid["amount"]) for paid in whole["payments"]] == [("pi_1", 2500)]
    assert (whole["shipments"], whole["invoices"], whole["ends_at"], whole["cursor"]) == ([], [], None, None)


def test_the_whole_order_goes_on_over_pages(api: Api) -> None:
    id = placed(api)
    for number in range(5):
        api.pay(id, event_id=f"evt_{number}", payment_id=f"pi_{number}", failed=True)
    seen: list[str] = []
    orders = 0
    asked: dict[str, Any] = {}
    while True:
        page = api.ask("GET", f"/orders/{id}/whole", ANN, limit=2, **asked).said
        seen += [payment["payment_id"] for payment in page["payments"]]
        orders += page["order"] is not None
        if page["cursor"] is None:
            break
        asked = {"cursor": page["cursor"]}
    assert (orders, seen) == (1, [f"pi_{number}" for number in range(5)])


def test_a_closed_order_says_when_it_ends(api: Api) -> None:
    id = placed(api)
    api.ask("POST", f"/orders/{id}/cancel", ANN)
    assert api.ask("GET", f"/orders/{id}/whole", ANN).said["ends_at"] > api.shop.instant()


def test_an_archived_order_is_shown_by_what_stays_of_it(api: Api) -> None:
    archived(api)
    shown = api.ask("GET", "/orders/old", ANN).said
    assert (shown["archived"], shown["status"], shown["total"], shown["lines"]) == (True, "DELIVERED", 5, None)
    assert "object_key" not in shown
    lines = api.ask("GET", "/orders/old/lines", ANN)
    assert (lines.status, lines.problem, lines.said["state"]) == (409, "wrong-state", "ARCHIVED")
    assert api.ask("POST", "/orders/old/cancel", ANN).problem == "wrong-state"
    assert api.ask("GET", "/orders/old/whole", ANN).said["order"]["archived"] is True
    api.pay("old")
    (late,) = api.ask("GET", "/orders/old/whole", ANN).said["payments"]
    assert (late["status"], late["reason"]) == ("UNMATCHED", "the order is archived")


# cancelling -----------------------------------------------------------------------------------------------------------
def test_an_order_is_cancelled_and_its_goods_are_free_again(api: Api) -> None:
    id = placed(api, mug=4)
    assert api.ask("POST", f"/orders/{id}/cancel", ANN).said["status"] == "CANCELLED"
    assert api.ask("GET", "/products/mug/stock").said["available"] == 10
    assert api.ask("POST", f"/orders/{id}/cancel", ANN).said["status"] == "CANCELLED"
    assert api.ask("GET", "/products/mug/stock").said["available"] == 10
    assert api.ask("GET", "/orders", STAFF, status="PENDING").said["items"] == []


def test_an_order_that_is_paid_for_is_cancelled_and_its_money_goes_back(api: Api) -> None:
    id = placed(api)
    api.pay(id)
    cancelled = api.ask("POST", f"/orders/{id}/cancel", ANN).said
    assert [cancelled[name] for name in ("status", "paid", "refunded", "due")] == ["CANCELLED", 2500, 2500, 0]
    assert api.ask("POST", f"/orders/{id}/cancel", ANN).said == cancelled


def test_an_order_that_is_on_its_way_is_not_cancelled(api: Api) -> None:
    id = placed(api)
    api.pay(id)
    request_shipment(api.shop, id)
    sent = {"carrier": "DHL", "tracking_number": "42"}
    assert api.ask("POST", f"/orders/{id}/shipments/{id}-1/dispatched", WAREHOUSE, sent).status == 200
    refused = api.ask("POST", f"/orders/{id}/cancel", ANN)
    assert (refused.status, refused.problem) == (409, "wrong-state")
    assert {name: refused.said[name] for name in ("what", "state", "command")} == {
        "what": "order",
        "state": "SHIPPED",
        "command": "cancel",
    }


def test_cancelling_takes_no_fields(api: Api) -> None:
    id = placed(api)
    assert api.ask("POST", f"/orders/{id}/cancel", ANN, {"refund": True}).wrong == {"refund": "is not known here"}
    assert api.ask("POST", f"/orders/{id}/cancel", ANN, {}).status == 200


# lists ----------------------------------------------------------------------------------------------------------------
def test_staff_list_orders_by_state_oldest_or_newest_first(api: Api) -> None:
    ids = [placed(api, f"key-{number}", mug=1) for number in range(3)]

    def listed(**asked: Any) -> list[str]:
        return [
            order["order_id"] for order in api.ask("GET", "/orders", STAFF, status="PENDING", **asked).said["items"]
        ]

    by_time = sorted(ids, key=lambda id: (api.ask("GET", f"/orders/{id}", ANN).said["placed_at"], id))
    assert listed(order="oldest") == by_time
    assert listed(order="newest") == listed() == by_time[::-1]
    api.pay(ids[0])
    assert set(listed()) == set(ids[1:])
    assert [o["order_id"] for o in api.ask("GET", "/orders", STAFF, status="PAID").said["items"]] == [ids[0]]


@pytest.mark.parametrize("order", ["oldest", "newest"])
def test_a_list_over_shards_is_cut_into_pages_that_miss_and_repeat_nothing(api: Api, order: str) -> None:
    ids = {placed(api, f"key-{number}", mug=1) for number in range(10)}
    seen: list[str] = []
    asked: dict[str, Any] = {}
    while True:
        page = api.ask("GET", "/orders", STAFF, status="PENDING", order=order, limit=3, **asked).said
        seen += [one["order_id"] for one in page["items"]]
        if page["cursor"] is None:
            break
        asked = {"cursor": page["cursor"]}
    assert len(seen) == 10
    assert set(seen) == ids


def test_orders_by_state_are_shown_by_half_open_ranges(api: Api) -> None:
    at = api.ask("GET", f"/orders/{placed(api)}", ANN).said["placed_at"]

    def count(**asked: Any) -> int:
        return len(api.ask("GET", "/orders", STAFF, status="PENDING", **asked).said["items"])

    assert count(from_=at) == 1
    assert count(to=at) == 0
    assert count(from_=at[:10]) == 1
    assert count(to=at[:10]) == 0


def test_states_that_nobody_waits_in_have_no_list(api: Api) -> None:
    for status in ("CANCELLED", "DELIVERED", "pending", "", "#"):
        assert list(api.ask("GET", "/orders", STAFF, status=status).wrong) == ["status"]
    for status in OPEN:
        assert api.ask("GET", "/orders", STAFF, status=status).status == 200


@pytest.mark.parametrize("asked", [{"from_": "2026-11-21"}, {"to": "2026-11-21"}, {"order": "oldest"}])
def test_a_range_without_a_state_is_malformed(api: Api, asked: dict[str, str]) -> None:
    assert list(api.ask("GET", "/orders", ANN, **asked).wrong) == ["status"]


def test_a_misspelled_filter_is_refused_and_not_passed_over(api: Api) -> None:
    assert api.ask("GET", "/orders", STAFF, stauts="PENDING").wrong == {"stauts": "is not known here"}


def test_a_filter_that_is_sent_twice_is_malformed(api: Api) -> None:
    twice = answer_to(event("GET", "/orders", token=ANN, query="limit=1&limit=2"))
    assert list(twice.wrong) == ["limit"]
