"""Tests what the API shows after an order is paid: shipments, invoices and sent mails."""

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


def test_the_warehouse_sees_the_lines_and_the_address_of_a_shipment(api: ApiHarness) -> None:
    order_id, _ = fulfilling(api)
    parcel = api.call("GET", f"/orders/{order_id}/parcel", WAREHOUSE).body
    assert [(line["product_id"], line["quantity"]) for line in parcel["lines"]] == [("mug", 2)]
    assert parcel["address"]["street"] == "1 Elm Row"
    assert "total" not in parcel


def test_the_warehouse_sees_the_dispatched_and_the_backordered_pieces(api: ApiHarness) -> None:
    api.call(
        "POST",
        "/products",
        STAFF,
        {"product_id": "jug", "name": "Jug", "price": 900, "currency": "EUR", "backorder": True},
    )
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


def test_an_order_is_shipped_in_parts_and_its_lines_show_their_progress(api: ApiHarness) -> None:
    order_id, shipment_id = fulfilling(api, mug=2, pot=1)
    path = f"/orders/{order_id}/shipments"
    for _ in range(2):
        part = api.call("POST", f"{path}/{shipment_id}/dispatched", WAREHOUSE, {**DHL, "quantities": {"mug": 1}})
        assert (part.status, part.body["quantities"]) == (200, {"mug": 1})
    first, rest = api.call("GET", path, ANN).body["items"]
    assert (first, rest["status"], rest["quantities"]) == (part.body, "REQUESTED", {"mug": 1, "pot": 1})
    order = api.call("GET", f"/orders/{order_id}", ANN).body
    assert (order["status"], order["delivered_at"]) == ("PARTIALLY_SHIPPED", None)
    assert [(line["product_id"], line["quantity"], line["shipped"]) for line in order["lines"]] == [
        ("mug", 2, 1),
        ("pot", 1, 0),
    ]
    api.call("POST", f"{path}/{rest['shipment_id']}/dispatched", WAREHOUSE, {**DHL, "tracking_number": "2"})
    for one in (first, rest):
        assert api.call("POST", f"{path}/{one['shipment_id']}/delivered", WAREHOUSE).status == 200
    order = api.call("GET", f"/orders/{order_id}", ANN).body
    assert (order["status"], order["delivered_at"]) == ("DELIVERED", order["updated_at"])
    assert [(line["shipped"], line["delivered"], line["returned"]) for line in order["lines"]] == [(2, 2, 0), (1, 1, 0)]


@pytest.mark.parametrize(("quantities", "field", "most"), [({"mug": 3}, "mug", 2), ({"mug": 1, "jar": 1}, "jar", 0)])
def test_no_more_is_sent_than_a_parcel_holds(
    api: ApiHarness, quantities: dict[str, int], field: str, most: int
) -> None:
    order_id, shipment_id = fulfilling(api)
    path = f"/orders/{order_id}/shipments/{shipment_id}/dispatched"
    refused = api.call("POST", path, WAREHOUSE, {**DHL, "quantities": quantities})
    assert (refused.status, refused.problem_type) == (409, "too-much")
    assert (refused.body["field"], refused.body["most"]) == (field, most)


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


def test_a_parcel_is_not_delivered_before_it_is_on_its_way(api: ApiHarness) -> None:
    order_id, shipment_id = fulfilling(api)
    refused = api.call("POST", f"/orders/{order_id}/shipments/{shipment_id}/delivered", WAREHOUSE)
    assert (refused.status, refused.problem_type, refused.body["what"]) == (409, "wrong-state", "shipment")


def test_a_parcel_that_is_on_its_way_gets_no_other_number(api: ApiHarness) -> None:
    order_id, shipment_id = fulfilling(api)
    path = f"/orders/{order_id}/shipments/{shipment_id}/dispatched"
    api.call("POST", path, WAREHOUSE, DHL)
    assert api.call("POST", path, WAREHOUSE, {**DHL, "tracking_number": "2"}).problem_type == "wrong-state"


def test_a_parcel_there_is_not_is_not_found(api: ApiHarness) -> None:
    order_id, shipment_id = fulfilling(api)
    for path in (f"/orders/{order_id}/shipments/other", f"/orders/other/shipments/{shipment_id}"):
        assert api.call("POST", f"{path}/dispatched", WAREHOUSE, DHL).problem_type == "not-found"
        assert api.call("POST", f"{path}/delivered", WAREHOUSE).problem_type == "not-found"
    assert api.call("GET", "/orders/other/parcel", WAREHOUSE).problem_type == "not-found"
    assert api.call("GET", "/shipments", WAREHOUSE, carrier="DHL", tracking_number="1").problem_type == "not-found"


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


# invoices -------------------------------------------------------------------------------------------------------------
def test_an_invoice_is_shown_by_order_by_number_and_by_date(api: ApiHarness) -> None:
    order_id, _ = fulfilling(api)
    number = "2026-00000001"
    invoice = api.call("GET", f"/orders/{order_id}/invoice", ANN).body
    assert (invoice["invoice_id"], invoice["total"], invoice["name"]) == (number, 2500, "Ann")
    assert invoice["payments"] == [{"payment_id": "pi_key-1", "method": "CARD", "amount": 2500}]
    assert invoice["lines"][0]["price"] == 1250
    assert api.call("GET", f"/invoices/{number}", ANN).body == invoice
    today = invoice["issued_at"][:10]
    assert api.call("GET", "/customers/me/invoices", ANN, from_=today).body["items"] == [invoice]
    assert api.call("GET", "/customers/me/invoices", ANN, to=today).body["items"] == []


def test_an_order_that_is_not_paid_for_has_no_invoice(api: ApiHarness) -> None:
    order_id = api.place_order().body["order_id"]
    refused = api.call("GET", f"/orders/{order_id}/invoice", ANN)
    assert (refused.problem_type, refused.body["what"]) == ("not-found", "invoice")


def test_invoices_are_cut_into_pages(api: ApiHarness) -> None:
    for number in range(3):
        fulfilling(api, f"key-{number}")
    first = api.call("GET", "/customers/me/invoices", ANN, limit=2).body
    rest = api.call("GET", "/customers/me/invoices", ANN, limit=2, cursor=first["cursor"]).body
    numbers = [invoice["invoice_id"][-1] for invoice in first["items"] + rest["items"]]
    assert numbers == ["3", "2", "1"]
    assert rest["cursor"] is None


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


def test_the_mails_of_a_customer_are_listed_for_the_customer_and_the_order(api: ApiHarness) -> None:
    order_id = api.place_order().body["order_id"]
    told(api, order_id, "e1", timedelta(days=180))
    (shown,) = api.call("GET", "/customers/me/notifications", ANN).body["items"]
    assert (shown["order_id"], shown["event"], shown["status"]) == (order_id, "OrderPaid", "SENT")
    assert set(shown) == {"at", "event", "order_id", "product_id", "status"}
    assert shown["product_id"] is None
    assert api.call("GET", f"/orders/{order_id}/notifications", ANN).body["items"] == [shown]


def test_an_expired_item_is_hidden_before_it_is_deleted(api: ApiHarness) -> None:
    order_id = api.place_order().body["order_id"]
    told(api, order_id, "e1", timedelta(days=1))
    told(api, order_id, "e2", timedelta(seconds=-1))
    lies = [image for image in api.table_images() if image["type"]["S"] == "Notification"]
    assert len(lies) == 2
    for path in ("/customers/me", f"/orders/{order_id}"):
        assert len(api.call("GET", f"{path}/notifications", ANN).body["items"]) == 1
