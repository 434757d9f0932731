"""Tests over the API that customers and the warehouse cancel orders and change their delivery addresses."""

from typing import Any

import pytest

from functions.shop.fulfilment import fulfil_order
from proof.support.http_client import ANN, BOB, HOME_ADDRESS, STAFF, WAREHOUSE, ApiHarness

ELSEWHERE = {**HOME_ADDRESS, "street": "2 Oak Lane", "city": "Graz", "postcode": "8010"}


def paid(api: ApiHarness, key: str = "key-1", **quantities: int) -> str:
    order_id = str(api.place_order(key, ANN, **quantities).body["order_id"])
    api.pay(order_id, event_id=f"evt_{key}", payment_id=f"pi_{key}")
    return order_id


def fulfilling(api: ApiHarness, key: str = "key-1", **quantities: int) -> str:
    order_id = paid(api, key, **quantities)
    assert fulfil_order(api.shop, order_id)
    return order_id


# cancellation ---------------------------------------------------------------------------------------------------------
def test_a_paid_order_is_cancelled_and_its_money_goes_back(api: ApiHarness) -> None:
    order_id = paid(api)
    for token in (ANN, ANN, STAFF):
        cancelled = api.call("POST", f"/orders/{order_id}/cancel", token)
        assert (cancelled.status, cancelled.body["status"]) == (200, "CANCELLED")
        assert (cancelled.body["paid"], cancelled.body["refunded"], cancelled.body["due"]) == (2500, 2500, 0)
    (refund,) = api.call("GET", f"/orders/{order_id}/whole", ANN).body["refunds"]
    assert (refund["amount"], refund["why"], refund["status"]) == (2500, "CANCELLED", "REQUESTED")
    assert api.call("GET", "/products/mug/stock").body["available"] == 10


def test_the_warehouse_stops_a_shipment_on_request(api: ApiHarness) -> None:
    order_id = fulfilling(api)
    asked = api.call("POST", f"/orders/{order_id}/cancel", ANN)
    assert (asked.status, asked.body["status"], asked.body["refunded"]) == (200, "CANCEL_REQUESTED", 0)
    for token in (WAREHOUSE, WAREHOUSE, STAFF):
        agreed = api.call("POST", f"/orders/{order_id}/cancel/agreed", token)
        assert (agreed.status, agreed.body) == (200, {"order_id": order_id, "status": "CANCELLED"})
    whole = api.call("GET", f"/orders/{order_id}/whole", ANN).body
    assert [shipment["status"] for shipment in whole["shipments"]] == ["CANCELLED"]
    assert (whole["order"]["refunded"], len(whole["refunds"])) == (2500, 1)


def test_the_warehouse_rejects_a_stop_of_a_packed_shipment(api: ApiHarness) -> None:
    order_id = fulfilling(api)
    api.call("POST", f"/orders/{order_id}/cancel", ANN)
    for _ in range(2):
        refused = api.call("POST", f"/orders/{order_id}/cancel/refused", WAREHOUSE)
        assert (refused.status, refused.body) == (200, {"order_id": order_id, "status": "FULFILLING"})
    path = f"/orders/{order_id}/shipments/{order_id}-1/dispatched"
    assert api.call("POST", path, WAREHOUSE, {"carrier": "DHL", "tracking_number": "1"}).status == 200
    late = api.call("POST", f"/orders/{order_id}/cancel", ANN)
    assert (late.status, late.problem_type, late.body["state"]) == (409, "wrong-state", "SHIPPED")


def test_the_rest_of_an_order_that_was_sent_in_part_is_cancelled(api: ApiHarness) -> None:
    order_id = fulfilling(api, mug=2, pot=1)
    path = f"/orders/{order_id}/shipments/{order_id}-1"
    part = {"carrier": "dhl", "tracking_number": "1", "quantities": {"mug": 1}}
    assert api.call("POST", f"{path}/dispatched", WAREHOUSE, part).status == 200
    for _ in range(2):
        asked = api.call("POST", f"/orders/{order_id}/cancel", ANN)
        assert (asked.status, asked.body["status"]) == (200, "CUT_REQUESTED")
    (waiting,) = api.call("GET", "/orders", STAFF, status="CUT_REQUESTED").body["items"]
    assert waiting["order_id"] == order_id
    refused = api.call("POST", f"/orders/{order_id}/cancel/refused", WAREHOUSE)
    assert (refused.status, refused.body) == (200, {"order_id": order_id, "status": "PARTIALLY_SHIPPED"})
    api.call("POST", f"/orders/{order_id}/cancel", ANN)
    for token in (WAREHOUSE, WAREHOUSE, STAFF):
        agreed = api.call("POST", f"/orders/{order_id}/cancel/agreed", token)
        assert (agreed.status, agreed.body) == (200, {"order_id": order_id, "status": "SHIPPED"})
    whole = api.call("GET", f"/orders/{order_id}/whole", ANN).body
    lines = [
        tuple(line[of] for of in ("product_id", "quantity", "shipped", "dropped")) for line in whole["order"]["lines"]
    ]
    assert lines == [("mug", 2, 1, 1), ("pot", 1, 0, 1)]
    assert (whole["order"]["refunded"], [refund["why"] for refund in whole["refunds"]]) == (2500, ["CUT_SHORT"])
    assert api.call("GET", "/products/mug/stock").body["available"] == 9
    assert api.call("POST", f"{path}/delivered", WAREHOUSE).status == 200
    assert api.call("GET", f"/orders/{order_id}", ANN).body["status"] == "DELIVERED"


@pytest.mark.parametrize("answer", ["agreed", "refused"])
def test_only_the_warehouse_and_staff_may_answer_stop_requests(api: ApiHarness, answer: str) -> None:
    order_id = fulfilling(api)
    api.call("POST", f"/orders/{order_id}/cancel", ANN)
    before = api.table_images()
    for token in (ANN, BOB):
        refused = api.call("POST", f"/orders/{order_id}/cancel/{answer}", token)
        assert (refused.status, refused.problem_type) == (403, "not-allowed")
    assert api.call("POST", f"/orders/other/cancel/{answer}", WAREHOUSE).problem_type == "not-found"
    assert api.table_images() == before


@pytest.mark.parametrize("answer", ["agreed", "refused"])
def test_a_shipment_without_a_stop_request_is_not_stopped(api: ApiHarness, answer: str) -> None:
    order_id = paid(api)
    refused = api.call("POST", f"/orders/{order_id}/cancel/{answer}", WAREHOUSE)
    assert (refused.status, refused.problem_type, refused.body["state"]) == (409, "wrong-state", "PAID")


def test_an_order_of_another_customer_cannot_be_cancelled(api: ApiHarness) -> None:
    order_id = paid(api)
    for token in (BOB, WAREHOUSE):
        assert api.call("POST", f"/orders/{order_id}/cancel", token).problem_type == "not-found"


# changes of the delivery address --------------------------------------------------------------------------------------
def test_the_address_of_an_order_can_change_until_the_warehouse_has_it(api: ApiHarness) -> None:
    order_id = paid(api)
    for token in (ANN, ANN, STAFF):
        moved = api.call("PATCH", f"/orders/{order_id}/address", token, ELSEWHERE)
        assert (moved.status, moved.body["address"], moved.body["version"]) == (200, ELSEWHERE, 3)
    fulfil_order(api.shop, order_id)
    assert api.call("GET", f"/orders/{order_id}/parcel", WAREHOUSE).body["address"] == ELSEWHERE
    late = api.call("PATCH", f"/orders/{order_id}/address", ANN, HOME_ADDRESS)
    assert (late.status, late.problem_type, late.body["command"]) == (409, "wrong-state", "change_address")


def test_the_address_of_another_customers_order_cannot_change(api: ApiHarness) -> None:
    order_id = paid(api)
    for token in (BOB, WAREHOUSE):
        assert api.call("PATCH", f"/orders/{order_id}/address", token, ELSEWHERE).problem_type == "not-found"


@pytest.mark.parametrize(
    ("changed", "field"),
    [({"country": "XX"}, "country"), ({"street": ""}, "street"), ({"city": None}, "city"), ({"zip": "1"}, "zip")],
)
def test_a_new_address_has_the_rules_of_a_new_order(api: ApiHarness, changed: dict[str, Any], field: str) -> None:
    order_id = paid(api)
    before = api.table_images()
    assert list(api.call("PATCH", f"/orders/{order_id}/address", ANN, {**ELSEWHERE, **changed}).field_errors) == [field]
    assert api.table_images() == before
