"""Tests over the API that the warehouse stops a shipment on request, or refuses."""

from proof.support.http_client import ANN, STAFF, WAREHOUSE, ApiHarness
from tests.api.conftest import place_fulfilling


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
