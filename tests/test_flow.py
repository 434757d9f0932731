"""Tests the whole way of an order, from the request to the archive and back, with real handlers and a real stream."""

import hashlib
import json

from functions.handlers.archive_worker import parse_archive
from functions.model.entities import ArchivedOrder
from functions.shop import (
    orders,
    shipments,
)
from functions.shop.invoices import get_invoice_of_order
from functions.shop.lists import ListRequest
from local.world.harness import ANN, WAREHOUSE, ShopHarness
from proof.support.actors import get_stock


def test_an_order_goes_from_the_request_to_the_archive_and_its_bytes_come_back_equal(harness: ShopHarness) -> None:
    harness.open_shop(available=10)
    order_id = harness.place_order(mug=2, pot=1)
    harness.process_all()
    (summary,) = orders.list_orders_of_customer(harness.shop, ListRequest(ANN, 10), ANN.id).items
    assert (summary.status, summary.total, summary.items) == ("PENDING", 3 * 1250, 3)

    assert harness.pay_order(order_id) == "CAPTURED"
    harness.process_all()
    invoice = get_invoice_of_order(harness.shop, ANN, order_id)
    assert [(paid.payment_id, paid.amount) for paid in invoice.payments] == [("pi_1", 3 * 1250)]
    (parcel,) = shipments.list_shipments_of_order(harness.shop, ANN, order_id)
    asked = [json.loads(message["body"])["detail"]["data"] for message in harness.take_messages("warehouse")]
    assert [(one["shipment_id"], one["quantities"]) for one in asked] == [(parcel.shipment_id, {"mug": 2, "pot": 1})]

    shipments.dispatch_shipment(harness.shop, WAREHOUSE, order_id, parcel.shipment_id, "dhl", "42")
    harness.process_all()
    shipments.deliver_shipment(harness.shop, WAREHOUSE, order_id, parcel.shipment_id)
    harness.process_all()
    subjects = [mail.subject for mail in harness.sent_mails()]
    assert len(subjects) == len(set(subjects)) == 4, "one mail each: placed, paid, shipped, delivered"
    before = harness.partition(f"ORDER#{order_id}")
    assert {image["type"]["S"] for image in before} == {
        "Order", "ExpiryMarker", "Invoice", "Payment", "Shipment",
    }  # fmt: skip

    harness.advance_days(days=396)
    harness.process_all()
    stub = orders.get_order(harness.shop, ANN, order_id)
    assert isinstance(stub, ArchivedOrder)
    body = harness.objects("archive")[stub.object_key]
    assert hashlib.sha256(body).hexdigest() == stub.sha256
    kept = [image for image in before if image["type"]["S"] != "ExpiryMarker"]  # its deletion started the archiving
    assert parse_archive(body) == kept
    assert {image["type"]["S"] for image in harness.partition(f"ORDER#{order_id}")} == {"ArchivedOrder", "Invoice"}
    (summary,) = orders.list_orders_of_customer(harness.shop, ListRequest(ANN, 10), ANN.id).items
    assert (summary.archived, summary.status) == (True, "DELIVERED")
    assert [part.available for part in get_stock(harness.shop, "mug")] == [8]
