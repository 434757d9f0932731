"""Tests over the API that customers and the warehouse cancel orders and change their delivery addresses."""

from typing import Any

import pytest

from functions.shop.fulfilment import fulfil_order
from proof.support.http_client import ANN, HOME_ADDRESS, NO_MORE_PARTS, STAFF, WAREHOUSE, ApiHarness

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


def test_the_warehouse_stops_a_shipment_on_request_or_refuses(api: ApiHarness) -> None:
    order_id = fulfilling(api)
    for answer, status in (("refused", "FULFILLING"), ("agreed", "CANCELLED")):
        asked = api.call("POST", f"/orders/{order_id}/cancel", ANN)
        assert (asked.status, asked.body["status"], asked.body["refunded"]) == (200, "CANCEL_REQUESTED", 0)
        for token in (WAREHOUSE, WAREHOUSE, STAFF):
            answered = api.call("POST", f"/orders/{order_id}/cancel/{answer}", token)
            assert (answered.status, answered.body) == (200, {"order_id": order_id, "status": status})
    late = api.call("POST", f"/orders/{order_id}/cancel/refused", WAREHOUSE)
    assert (late.status, late.problem_type, late.body["state"]) == (409, "wrong-state", "CANCELLED")


def test_the_rest_of_an_order_that_was_sent_in_part_is_cancelled(api: ApiHarness) -> None:
    order_id = fulfilling(api, mug=2, pot=1)
    part = {"carrier": "dhl", "tracking_number": "1", "quantities": {"mug": 1}}
    assert api.call("POST", f"/orders/{order_id}/shipments/{order_id}-1/dispatched", WAREHOUSE, part).status == 200
    asked = api.call("POST", f"/orders/{order_id}/cancel", ANN)
    assert (asked.status, asked.body["status"]) == (200, "CUT_REQUESTED")
    agreed = api.call("POST", f"/orders/{order_id}/cancel/agreed", WAREHOUSE)
    assert (agreed.status, agreed.body) == (200, {"order_id": order_id, "status": "SHIPPED"})
    lines = api.call("GET", f"/orders/{order_id}", ANN).body["lines"]
    shown = [tuple(line[of] for of in ("product_id", "quantity", "shipped", "dropped")) for line in lines]
    assert shown == [("mug", 2, 1, 1), ("pot", 1, 0, 1)]


def test_cancelling_takes_no_fields(api: ApiHarness) -> None:
    order_id = paid(api)
    assert list(api.call("POST", f"/orders/{order_id}/cancel", ANN, {"refund": True}).field_errors) == ["refund"]
    assert api.call("POST", f"/orders/{order_id}/cancel", ANN, {}).status == 200


# changes of the delivery address --------------------------------------------------------------------------------------
def test_the_address_of_an_order_can_change_until_the_warehouse_has_it(api: ApiHarness) -> None:
    order_id, shown = paid(api), {**ELSEWHERE, **NO_MORE_PARTS}
    for token in (ANN, ANN, STAFF):
        moved = api.call("PATCH", f"/orders/{order_id}/address", token, ELSEWHERE)
        assert (moved.status, moved.body["address"], moved.body["version"]) == (200, shown, 3)
    fulfil_order(api.shop, order_id)
    assert api.call("GET", f"/orders/{order_id}/parcel", WAREHOUSE).body["address"] == shown
    late = api.call("PATCH", f"/orders/{order_id}/address", ANN, HOME_ADDRESS)
    assert (late.status, late.problem_type, late.body["command"]) == (409, "wrong-state", "change_address")


@pytest.mark.parametrize(
    ("changed", "field"),
    [({"country": "XX"}, "country"), ({"street": ""}, "street"), ({"city": None}, "city"), ({"zip": "1"}, "zip")],
)
def test_a_new_address_has_the_rules_of_a_new_order(api: ApiHarness, changed: dict[str, Any], field: str) -> None:
    order_id = paid(api)
    before = api.table_images()
    assert list(api.call("PATCH", f"/orders/{order_id}/address", ANN, {**ELSEWHERE, **changed}).field_errors) == [field]
    assert api.table_images() == before
