"""What follows from a paid order, as the API shows it: the warehouse's part, invoices, and what was told by mail."""

from datetime import timedelta
from typing import Any

import pytest

from functions.dynamodb.keys import instant
from functions.dynamodb.writes import put
from functions.model.entities import Notification
from functions.model.table import NOTIFICATION
from functions.shop.invoices import issue_invoice
from functions.shop.shipments import request_shipment
from tests.api.asking import ANN, STAFF, WAREHOUSE, Api

DHL = {"carrier": "DHL", "tracking_number": "JD0146 000034"}


def fulfilling(api: Api, key: str = "key-1", **quantities: int) -> tuple[str, str]:
    """An order that is paid for and in the warehouse's hands: its id, its shipment's id."""
    order_id = str(api.place(key, ANN, **quantities).said["order_id"])
    api.pay(order_id, event_id=f"evt_{key}", payment_id=f"pi_{key}")
    shipment = request_shipment(api.shop, order_id)
    assert shipment is not None
    return order_id, shipment.shipment_id


def test_the_warehouse_sees_what_to_pack_and_where_it_goes(api: Api) -> None:
    order_id, _ = fulfilling(api)
    parcel = api.ask("GET", f"/orders/{order_id}/parcel", WAREHOUSE).said
    assert [(line["product_id"], line["quantity"]) for line in parcel["lines"]] == [("mug", 2)]
    assert parcel["address"]["street"] == "1 Elm Row"
    assert "total" not in parcel


def test_the_warehouse_sees_what_is_sent_already_and_what_was_not_there(api: Api) -> None:
    api.ask(
        "POST",
        "/products",
        STAFF,
        {"product_id": "jug", "name": "Jug", "price": 900, "currency": "EUR", "backorder": True},
    )
    api.ask("POST", "/products/jug/receipts", STAFF, {"quantity": 1}, key="jugs")
    order_id, shipment_id = fulfilling(api, mug=2, jug=3)
    path = f"/orders/{order_id}/shipments"
    (asked,) = api.ask("GET", path, WAREHOUSE).said["items"]
    assert (asked["quantities"], asked["backordered"]) == ({"mug": 2, "jug": 3}, {"jug": 2})
    there = {"mug": 2, "jug": 1}
    api.ask("POST", f"{path}/{shipment_id}/dispatched", WAREHOUSE, {**DHL, "quantities": there})
    parcel = api.ask("GET", f"/orders/{order_id}/parcel", WAREHOUSE).said
    shown = [tuple(line[of] for of in ("product_id", "quantity", "backordered", "shipped")) for line in parcel["lines"]]
    assert shown == [("jug", 3, 2, 1), ("mug", 2, 0, 2)]
    _, rest = api.ask("GET", path, WAREHOUSE).said["items"]
    assert (rest["quantities"], rest["backordered"]) == ({"jug": 2}, {"jug": 2})


def test_a_parcel_goes_its_way_and_everybody_concerned_sees_it(api: Api) -> None:
    order_id, shipment_id = fulfilling(api)
    path = f"/orders/{order_id}/shipments/{shipment_id}"
    for _ in range(2):
        gone = api.ask("POST", f"{path}/dispatched", WAREHOUSE, DHL)
        assert (gone.status, gone.said["status"], gone.said["carrier"]) == (200, "DISPATCHED", "dhl")
    assert api.ask("GET", f"/orders/{order_id}", ANN).said["status"] == "SHIPPED"
    for token in (ANN, STAFF, WAREHOUSE):
        found = api.ask("GET", "/shipments", token, **DHL)
        assert (found.status, [one["shipment_id"] for one in found.said["items"]]) == (200, [shipment_id])
        assert api.ask("GET", f"/orders/{order_id}/shipments", token).said == found.said
    for _ in range(2):
        assert api.ask("POST", f"{path}/delivered", WAREHOUSE).said["status"] == "DELIVERED"
    whole = api.ask("GET", f"/orders/{order_id}/whole", ANN).said
    assert (whole["order"]["status"], whole["shipments"][0]["quantities"]) == ("DELIVERED", {"mug": 2})


def test_an_order_is_sent_in_parts_and_its_lines_say_what_has_become_of_them(api: Api) -> None:
    order_id, shipment_id = fulfilling(api, mug=2, pot=1)
    path = f"/orders/{order_id}/shipments"
    for _ in range(2):
        part = api.ask("POST", f"{path}/{shipment_id}/dispatched", WAREHOUSE, {**DHL, "quantities": {"mug": 1}})
        assert (part.status, part.said["quantities"]) == (200, {"mug": 1})
    first, rest = api.ask("GET", path, ANN).said["items"]
    assert (first, rest["status"], rest["quantities"]) == (part.said, "REQUESTED", {"mug": 1, "pot": 1})
    order = api.ask("GET", f"/orders/{order_id}", ANN).said
    assert (order["status"], order["delivered_at"]) == ("PARTIALLY_SHIPPED", None)
    assert [(line["product_id"], line["quantity"], line["shipped"]) for line in order["lines"]] == [
        ("mug", 2, 1),
        ("pot", 1, 0),
    ]
    api.ask("POST", f"{path}/{rest['shipment_id']}/dispatched", WAREHOUSE, {**DHL, "tracking_number": "2"})
    for one in (first, rest):
        assert api.ask("POST", f"{path}/{one['shipment_id']}/delivered", WAREHOUSE).status == 200
    order = api.ask("GET", f"/orders/{order_id}", ANN).said
    assert (order["status"], order["delivered_at"]) == ("DELIVERED", order["updated_at"])
    assert [(line["shipped"], line["delivered"], line["returned"]) for line in order["lines"]] == [(2, 2, 0), (1, 1, 0)]


@pytest.mark.parametrize(("quantities", "field", "most"), [({"mug": 3}, "mug", 2), ({"mug": 1, "jar": 1}, "jar", 0)])
def test_no_more_is_sent_than_a_parcel_holds(api: Api, quantities: dict[str, int], field: str, most: int) -> None:
    order_id, shipment_id = fulfilling(api)
    path = f"/orders/{order_id}/shipments/{shipment_id}/dispatched"
    refused = api.ask("POST", path, WAREHOUSE, {**DHL, "quantities": quantities})
    assert (refused.status, refused.problem) == (409, "too-much")
    assert (refused.said["field"], refused.said["most"]) == (field, most)


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
def test_quantities_are_whole_pieces_of_products(api: Api, quantities: Any, field: str) -> None:
    order_id, shipment_id = fulfilling(api)
    before = api.contents()
    path = f"/orders/{order_id}/shipments/{shipment_id}/dispatched"
    refused = api.ask("POST", path, WAREHOUSE, {**DHL, "quantities": quantities})
    assert list(refused.wrong) == [field]
    assert api.contents() == before


def test_a_parcel_is_not_delivered_before_it_is_on_its_way(api: Api) -> None:
    order_id, shipment_id = fulfilling(api)
    refused = api.ask("POST", f"/orders/{order_id}/shipments/{shipment_id}/delivered", WAREHOUSE)
    assert (refused.status, refused.problem, refused.said["what"]) == (409, "wrong-state", "shipment")


def test_a_parcel_that_is_on_its_way_gets_no_other_number(api: Api) -> None:
    order_id, shipment_id = fulfilling(api)
    path = f"/orders/{order_id}/shipments/{shipment_id}/dispatched"
    api.ask("POST", path, WAREHOUSE, DHL)
    assert api.ask("POST", path, WAREHOUSE, {**DHL, "tracking_number": "2"}).problem == "wrong-state"


def test_a_parcel_there_is_not_is_not_found(api: Api) -> None:
    order_id, shipment_id = fulfilling(api)
    for path in (f"/orders/{order_id}/shipments/other", f"/orders/other/shipments/{shipment_id}"):
        assert api.ask("POST", f"{path}/dispatched", WAREHOUSE, DHL).problem == "not-found"
        assert api.ask("POST", f"{path}/delivered", WAREHOUSE).problem == "not-found"
    assert api.ask("GET", "/orders/other/parcel", WAREHOUSE).problem == "not-found"
    assert api.ask("GET", "/shipments", WAREHOUSE, carrier="DHL", tracking_number="1").problem == "not-found"


@pytest.mark.parametrize("field", ["carrier", "tracking_number"])
@pytest.mark.parametrize("value", ["", " ", "a#b", "x" * 65, "a\nb", "\x00", 5, None])
def test_a_carrier_and_a_number_are_short_words(api: Api, field: str, value: Any) -> None:
    order_id, shipment_id = fulfilling(api)
    before = api.contents()
    refused = api.ask(
        "POST", f"/orders/{order_id}/shipments/{shipment_id}/dispatched", WAREHOUSE, {**DHL, field: value}
    )
    assert list(refused.wrong) == [field]
    assert api.contents() == before


def test_a_shipment_is_asked_for_by_carrier_and_number(api: Api) -> None:
    assert list(api.ask("GET", "/shipments", ANN, carrier="DHL").wrong) == ["tracking_number"]
    assert list(api.ask("GET", "/shipments", ANN, carrier="D#L", tracking_number="1").wrong) == ["carrier"]


# invoices -------------------------------------------------------------------------------------------------------------
def test_an_invoice_is_shown_by_order_by_number_and_by_date(api: Api) -> None:
    order_id, _ = fulfilling(api)
    number = issue_invoice(api.shop, order_id)
    invoice = api.ask("GET", f"/orders/{order_id}/invoice", ANN).said
    assert (invoice["invoice_id"], invoice["total"], invoice["name"]) == (number, 2500, "Ann")
    assert invoice["payments"] == [{"payment_id": "pi_key-1", "method": "CARD", "amount": 2500}]
    assert invoice["lines"][0]["price"] == 1250
    assert api.ask("GET", f"/invoices/{number}", ANN).said == invoice
    today = invoice["issued_at"][:10]
    assert api.ask("GET", "/customers/me/invoices", ANN, from_=today).said["items"] == [invoice]
    assert api.ask("GET", "/customers/me/invoices", ANN, to=today).said["items"] == []


def test_an_order_that_is_not_paid_for_has_no_invoice(api: Api) -> None:
    order_id = api.place().said["order_id"]
    refused = api.ask("GET", f"/orders/{order_id}/invoice", ANN)
    assert (refused.problem, refused.said["what"]) == ("not-found", "invoice")


def test_invoices_are_cut_into_pages(api: Api) -> None:
    for number in range(3):
        order_id, _ = fulfilling(api, f"key-{number}")
        issue_invoice(api.shop, order_id)
    first = api.ask("GET", "/customers/me/invoices", ANN, limit=2).said
    rest = api.ask("GET", "/customers/me/invoices", ANN, limit=2, cursor=first["cursor"]).said
    numbers = [invoice["invoice_id"][-1] for invoice in first["items"] + rest["items"]]
    assert numbers == ["3", "2", "1"]
    assert rest["cursor"] is None


# notifications --------------------------------------------------------------------------------------------------------
def told(api: Api, order_id: str, effect_id: str, ends_in: timedelta) -> None:
    """Ann was sent a mail that is remembered for so long."""
    notification = Notification(
        customer_id=ANN.sub,
        order_id=order_id,
        effect_id=effect_id,
        at=instant(api.shop.now()),
        event="OrderPaid",
        status="SENT",
        claim="c",
        claimed_until=0,
        ttl=int((api.shop.now() + ends_in).timestamp()),
    )
    api.shop.table.write(put(NOTIFICATION, notification))


def test_what_a_customer_was_told_is_shown_for_them_and_for_the_order(api: Api) -> None:
    order_id = api.place().said["order_id"]
    told(api, order_id, "e1", timedelta(days=180))
    (shown,) = api.ask("GET", "/customers/me/notifications", ANN).said["items"]
    assert (shown["order_id"], shown["event"], shown["status"]) == (order_id, "OrderPaid", "SENT")
    assert set(shown) == {"at", "event", "order_id", "product_id", "status"}
    assert shown["product_id"] is None
    assert api.ask("GET", f"/orders/{order_id}/notifications", ANN).said["items"] == [shown]


def test_f26_what_has_expired_is_hidden_though_it_still_lies_in_the_table(api: Api) -> None:
    order_id = api.place().said["order_id"]
    told(api, order_id, "e1", timedelta(days=1))
    told(api, order_id, "e2", timedelta(seconds=-1))
    lies = [image for image in api.contents() if image["type"]["S"] == "Notification"]
    assert len(lies) == 2
    for path in ("/customers/me", f"/orders/{order_id}"):
        assert len(api.ask("GET", f"{path}/notifications", ANN).said["items"]) == 1
