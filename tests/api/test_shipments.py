"""Tests what the API shows after an order is paid: shipments and sent mails."""

from dataclasses import replace

from functions.dynamodb.writes import put_if_absent
from functions.model.table import NOTIFICATION
from proof.support.http_client import ANN, STAFF, WAREHOUSE, ApiHarness
from proof.support.samples import SAMPLES
from tests.api.conftest import place_fulfilling

DHL = {"carrier": "DHL", "tracking_number": "JD0146 000034"}


def test_the_warehouse_sees_the_address_and_the_dispatched_and_the_backordered_pieces(api: ApiHarness) -> None:
    jug = {"product_id": "jug", "name": "Jug", "price": 900, "currency": "EUR", "backorder": True}
    api.call("POST", "/products", STAFF, jug)
    api.call("POST", "/products/jug/receipts", STAFF, {"quantity": 1}, key="jugs")
    order_id = place_fulfilling(api, mug=2, jug=3)
    path = f"/orders/{order_id}/shipments"
    (asked,) = api.call("GET", path, WAREHOUSE).body["items"]
    assert (asked["quantities"], asked["backordered"]) == ({"mug": 2, "jug": 3}, {"jug": 2})
    there = {"mug": 2, "jug": 1}
    api.call("POST", f"{path}/{order_id}-1/dispatched", WAREHOUSE, {**DHL, "quantities": there})
    parcel = api.call("GET", f"/orders/{order_id}/parcel", WAREHOUSE).body
    shown = [tuple(line[of] for of in ("product_id", "quantity", "backordered", "shipped")) for line in parcel["lines"]]
    assert shown == [("jug", 3, 2, 1), ("mug", 2, 0, 2)]
    assert parcel["address"]["street"] == "1 Elm Row"
    assert "total" not in parcel
    _, rest = api.call("GET", path, WAREHOUSE).body["items"]
    assert (rest["quantities"], rest["backordered"]) == ({"jug": 2}, {"jug": 2})


def test_each_step_of_a_parcel_is_shown_to_the_customer_staff_and_the_warehouse(api: ApiHarness) -> None:
    order_id = place_fulfilling(api)
    path = f"/orders/{order_id}/shipments/{order_id}-1"
    for _ in range(2):
        gone = api.call("POST", f"{path}/dispatched", WAREHOUSE, DHL)
        assert (gone.status, gone.body["status"], gone.body["carrier"]) == (200, "DISPATCHED", "dhl")
    assert api.call("GET", f"/orders/{order_id}", ANN).body["status"] == "SHIPPED"
    for token in (ANN, STAFF, WAREHOUSE):
        found = api.call("GET", "/shipments", token, **DHL)
        assert (found.status, [one["shipment_id"] for one in found.body["items"]]) == (200, [f"{order_id}-1"])
        assert api.call("GET", f"/orders/{order_id}/shipments", token).body == found.body
    for _ in range(2):
        assert api.call("POST", f"{path}/delivered", WAREHOUSE).body["status"] == "DELIVERED"
    whole = api.call("GET", f"/orders/{order_id}/whole", ANN).body
    assert (whole["order"]["status"], whole["shipments"][0]["quantities"]) == ("DELIVERED", {"mug": 2})
    assert whole["order"]["delivered_at"] == whole["order"]["updated_at"]
    (line,) = whole["order"]["lines"]
    assert (line["shipped"], line["delivered"], line["returned"]) == (2, 2, 0)


# notifications --------------------------------------------------------------------------------------------------------
def test_the_mails_of_a_customer_are_listed(api: ApiHarness) -> None:
    order_id = api.place_order().body["order_id"]
    sent = replace(SAMPLES[NOTIFICATION], order_id=order_id, at=api.shop.now_instant(), ttl=4_000_000_000)
    api.shop.table.write(put_if_absent(NOTIFICATION, sent))
    (shown,) = api.call("GET", "/customers/me/notifications", ANN).body["items"]
    assert shown == {"at": sent.at, "event": "OrderPlaced", "order_id": order_id, "product_id": None, "status": "SENT"}
    assert api.call("GET", f"/orders/{order_id}/notifications", ANN).body["items"] == [shown]
