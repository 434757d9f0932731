"""The route of an order's diagnosis translates what the shop found. tests/shop/test_diagnosis.py tests the causes."""

from proof.support.actors import report_external_refund
from proof.support.http_client import STAFF, ApiHarness


def test_staff_read_what_an_order_waits_for(api: ApiHarness) -> None:
    order_id = api.place_order().body["order_id"]
    path = f"/orders/{order_id}/diagnosis"
    found = api.call("GET", path, STAFF).body
    assert (found["order_id"], found["status"], found["causes"]) == (order_id, "PENDING", [])
    assert found["next_step"]["name"] == "pending"
    assert found["next_step"]["next_at"] > found["checked_at"]
    api.pay(order_id)
    report_external_refund(api.shop, "pi_1", 1, status="pending")
    (cause,) = api.call("GET", path, STAFF).body["causes"]
    assert {name: cause[name] for name in ("name", "subject", "next_at", "action", "advice")} == {
        "name": "refund_pending",
        "subject": "pi_1-re_1",
        "next_at": None,
        "action": "wait",
        "advice": "Wait: the shop goes on by itself.",
    }
