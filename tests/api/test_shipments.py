"""Tests what the API shows after an order is paid: shipments and sent mails."""

from datetime import timedelta
from typing import Any

import pytest

from functions.dynamodb.keys import to_instant
from functions.dynamodb.writes import put_if_absent
from functions.model.entities import Notification
from functions.model.table import NOTIFICATION
from functions.shop.fulfilment import fulfil_order
from proof.support.http_client import ANN, STAFF, WAREHOUSE, ApiHarness

DHL = {"carrier": "DHL", "tracking_number": "JD0146 000034"}


def fulfilling(api: ApiHarness, key: str = "key-1", **quantities: int) -> tuple[str, str]:
    """Place and pay an order, and request its shipment. Return the ids of the order and the shipment."""
    order_id = str(api.place_order(key, ANN, **quantities).body["order_id"])
    api.pay(order_id, event_id=f"evt_{key}", payment_id=f"pi_{key}")
    fulfilment = fulfil_order(api.shop, order_id)
    assert fulfilment is not None
    return order_id, fulfilment.shipment.shipment_id


def test_the_warehouse_sees_the_address_and_the_dispatched_and_the_backordered_pieces(api: ApiHarness) -> None:
    jug = {"product_id": "jug", "name": "Jug", "price": 900, "currency": "EUR", "backorder": True}
    api.call("POST", "/products", STAFF, jug)
    api.call("POST", "/products/jug/receipts", STAFF, {"quantity": 1}, key="jugs")
    order_id, shipment_id = fulfilling(api, mug=2, jug=3)
    path = f"/orders/{order_id}/shipments"
    (asked,) = api.call("GET", path, WAREHOUSE).body["items"]
    assert (asked["quantities"], asked["backordered"]) == ({"mug": 2, "jug": 3}, {"jug": 2})
    there = {"mug": 2, "jug": 1}
    api.call("POST", f"{path}/{shipment_id}/dispatched", WAREHOUSE, {**DHL, "quantities": there})
    parcel = api.call("GET", f"/orders/{order_id}/parcel", WAREHOUSE).body
    shown = [tuple(line[of] for of in ("product_id", "quantity", "backordered", "shipped")) for line in parcel["lines"]]
    assert shown == [("jug", 3, 2, 1), ("mug", 2, 0, 2)]
    assert parcel["address"]["street"] == "1 Elm Row"
    assert "total" not in parcel
    _, rest = api.call("GET", path, WAREHOUSE).body["items"]
    assert (rest["quantities"], rest["backordered"]) == ({"jug": 2}, {"jug": 2})


def test_each_step_of_a_parcel_is_shown_to_the_customer_staff_and_the_warehouse(api: ApiHarness) -> None:
    order_id, shipment_id = fulfilling(api)
    path = f"/orders/{order_id}/shipments/{shipment_id}"
    for _ in range(2):
        gone = api.call("POST", f"{path}/dispatched", WAREHOUSE, DHL)
        assert (gone.status, gone.body["status"], gone.body["carrier"]) == (200, "DISPATCHED", "dhl")
    assert api.call("GET", f"/orders/{order_id}", ANN).body["status"] == "SHIPPED"
    for token in (ANN, STAFF, WAREHOUSE):
        found = api.call("GET", "/shipments", token, **DHL)
        assert (found.status, [one["shipment_id"] for one in found.body["items"]]) == (200, [shipment_id])
        assert api.call("GET", f"/orders/{order_id}/shipments", token).body == found.body
    for _ in range(2):
        assert api.call("POST", f"{path}/delivered", WAREHOUSE).body["status"] == "DELIVERED"
    whole = api.call("GET", f"/orders/{order_id}/whole", ANN).body
    assert (whole["order"]["status"], whole["shipments"][0]["quantities"]) == ("DELIVERED", {"mug": 2})
    assert whole["order"]["delivered_at"] == whole["order"]["updated_at"]
    (line,) = whole["order"]["lines"]
    assert (line["shipped"], line["delivered"], line["returned"]) == (2, 2, 0)


@pytest.mark.parametrize(
    ("quantities", "field"),
    [
        ({}, "quantities"),
        ([], "quantities"),
        ({"mug": 0}, "quantities.mug"),
        ({"mug": -1}, "quantities.mug"),
        ({"mug": 1.0}, "quantities.mug"),
        ({"mug": "1"}, "quantities.mug"),
        ({"mug": True}, "quantities.mug"),
        ({"mug": 10_001}, "quantities.mug"),
        ({"": 1}, "quantities..[key]"),
        ({"a#b": 1}, "quantities.a#b.[key]"),
        ({f"p{number}": 1 for number in range(91)}, "quantities"),
    ],
)
def test_quantities_are_whole_pieces_of_products(api: ApiHarness, quantities: Any, field: str) -> None:
    order_id, shipment_id = fulfilling(api)
    before = api.table_images()
    path = f"/orders/{order_id}/shipments/{shipment_id}/dispatched"
    refused = api.call("POST", path, WAREHOUSE, {**DHL, "quantities": quantities})
    assert list(refused.field_errors) == [field]
    assert api.table_images() == before


@pytest.mark.parametrize("field", ["carrier", "tracking_number"])
@pytest.mark.parametrize("value", ["", " ", "a#b", "x" * 65, "a\nb", "\x00", 5, None])
def test_a_carrier_and_a_number_are_short_words(api: ApiHarness, field: str, value: Any) -> None:
    order_id, shipment_id = fulfilling(api)
    before = api.table_images()
    refused = api.call(
        "POST", f"/orders/{order_id}/shipments/{shipment_id}/dispatched", WAREHOUSE, {**DHL, field: value}
    )
    assert list(refused.field_errors) == [field]
    assert api.table_images() == before


def test_a_shipment_is_asked_for_by_carrier_and_number(api: ApiHarness) -> None:
    assert list(api.call("GET", "/shipments", ANN, carrier="DHL").field_errors) == ["tracking_number"]
    assert list(api.call("GET", "/shipments", ANN, carrier="D#L", tracking_number="1").field_errors) == ["carrier"]


# notifications --------------------------------------------------------------------------------------------------------
def told(api: ApiHarness, order_id: str, effect_id: str, ends_in: timedelta) -> None:
    """Write the Notification item of a mail that Ann got. It expires after `ends_in`."""
    notification = Notification(
        customer_id=ANN.sub,
        order_id=order_id,
        effect_id=effect_id,
        at=to_instant(api.shop.now()),
        event="OrderPaid",
        status="SENT",
        claim="c",
        claimed_until=0,
        ttl=int((api.shop.now() + ends_in).timestamp()),
    )
    api.shop.table.write(put_if_absent(NOTIFICATION, notification))


def test_the_mails_of_a_customer_are_listed_until_they_expire(api: ApiHarness) -> None:
    order_id = api.place_order().body["order_id"]
    told(api, order_id, "e1", timedelta(days=180))
    told(api, order_id, "e2", timedelta(seconds=-1))  # expired, but not deleted yet
    (shown,) = api.call("GET", "/customers/me/notifications", ANN).body["items"]
    assert shown == {
        "at": shown["at"],
        "event": "OrderPaid",
        "order_id": order_id,
        "product_id": None,
        "status": "SENT",
    }
    assert api.call("GET", f"/orders/{order_id}/notifications", ANN).body["items"] == [shown]
