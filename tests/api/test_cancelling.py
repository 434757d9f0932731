"""Tests over the API that customers and the warehouse cancel orders and change their delivery addresses."""

from functions.shop.fulfilment import fulfil_order
from proof.support.http_client import ANN, HOME_ADDRESS, NO_MORE_PARTS, STAFF, WAREHOUSE, ApiHarness
from tests.api.conftest import place_fulfilling, place_paid

ELSEWHERE = {**HOME_ADDRESS, "street": "2 Oak Lane", "city": "Graz", "postcode": "8010"}


# cancellation ---------------------------------------------------------------------------------------------------------
def test_a_paid_order_is_cancelled_and_its_money_goes_back(api: ApiHarness) -> None:
    order_id = place_paid(api)
    for token in (ANN, ANN, STAFF):
        cancelled = api.call("POST", f"/orders/{order_id}/cancel", token)
        assert (cancelled.status, cancelled.body["status"]) == (200, "CANCELLED")
        assert (cancelled.body["paid"], cancelled.body["refunded"], cancelled.body["due"]) == (2500, 2500, 0)
    (refund,) = api.call("GET", f"/orders/{order_id}/whole", ANN).body["refunds"]
    assert (refund["amount"], refund["why"], refund["status"]) == (2500, "CANCELLED", "REQUESTED")


def test_the_warehouse_stops_a_shipment_on_request_or_refuses(api: ApiHarness) -> None:
    order_id = place_fulfilling(api)
    for answer, status in (("refused", "FULFILLING"), ("agreed", "CANCELLED")):
        asked = api.call("POST", f"/orders/{order_id}/cancel", ANN)
        assert (asked.status, asked.body["status"], asked.body["refunded"]) == (200, "CANCEL_REQUESTED", 0)
        for token in (WAREHOUSE, WAREHOUSE, STAFF):
            answered = api.call("POST", f"/orders/{order_id}/cancel/{answer}", token)
            assert (answered.status, answered.body) == (200, {"order_id": order_id, "status": status})
    late = api.call("POST", f"/orders/{order_id}/cancel/refused", WAREHOUSE)
    assert (late.status, late.problem_type, late.body["state"]) == (409, "wrong-state", "CANCELLED")


# changes of the delivery address --------------------------------------------------------------------------------------
def test_the_address_of_an_order_can_change_until_the_warehouse_has_it(api: ApiHarness) -> None:
    order_id, shown = place_paid(api), {**ELSEWHERE, **NO_MORE_PARTS}
    for token in (ANN, ANN, STAFF):
        moved = api.call("PATCH", f"/orders/{order_id}/address", token, ELSEWHERE)
        assert (moved.status, moved.body["address"], moved.body["version"]) == (200, shown, 3)
    fulfil_order(api.shop, order_id)
    assert api.call("GET", f"/orders/{order_id}/parcel", WAREHOUSE).body["address"] == shown
    late = api.call("PATCH", f"/orders/{order_id}/address", ANN, HOME_ADDRESS)
    assert (late.status, late.problem_type, late.body["command"]) == (409, "wrong-state", "change_address")
