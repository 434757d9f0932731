"""One order's whole way, from the request to the archive and back, through the real handlers and a real stream."""

import hashlib
import json
from datetime import UTC, datetime, timedelta

import pytest

from functions.archive import restored
from functions.model.entities import ArchivedOrder
from functions.shop import orders, products, shipments
from functions.shop.invoices import invoice_of_order
from local.clock import expire_until
from tests.shopfloor import ANN, STAFF, WAREHOUSE, Shopfloor


def test_an_order_goes_from_the_request_to_the_archive_and_its_bytes_come_back_equal(floor: Shopfloor) -> None:
    floor.open_shop(available=10)
    order_id = floor.place(mug=2, pot=1)
    floor.settle()
    (summary,) = orders.orders_of_customer(floor.shop, ANN, ANN.id, 10, None).items
    assert (summary.status, summary.total, summary.items) == ("PENDING", 3 * 1250, 3)

    assert floor.pay(order_id) == "CAPTURED"
    floor.settle()
    invoice = invoice_of_order(floor.shop, ANN, order_id)
    assert [(paid.payment_id, paid.amount) for paid in invoice.payments] == [("pi_1", 3 * 1250)]
    (parcel,) = shipments.shipments_of_order(floor.shop, ANN, order_id)
    asked = [json.loads(message["body"])["detail"]["data"] for message in floor.waiting("warehouse")]
    assert [(one["shipment_id"], one["quantities"]) for one in asked] == [(parcel.shipment_id, {"mug": 2, "pot": 1})]

    shipments.dispatch(floor.shop, WAREHOUSE, order_id, parcel.shipment_id, "dhl", "42")
    floor.settle()
    shipments.deliver(floor.shop, WAREHOUSE, order_id, parcel.shipment_id)
    floor.settle()
    subjects = [mail.subject for mail in floor.mails()]
    assert len(subjects) == len(set(subjects)) == 4, "placed, paid, on its way, arrived: one mail each"
    before = floor.partition(f"ORDER#{order_id}")
    assert {image["type"]["S"] for image in before} == {
        "Order", "Expiry", "Invoice", "OrderLine", "Payment", "Shipment", "TimelineEvent",
    }  # fmt: skip

    expire_until(floor.engine, floor.shop.table.name, datetime.now(UTC) + timedelta(days=396))
    floor.settle()
    stub = orders.order_by_id(floor.shop, ANN, order_id)
    assert isinstance(stub, ArchivedOrder)
    body = floor.objects("archive")[stub.object_key]
    assert hashlib.sha256(body).hexdigest() == stub.sha256
    kept = [image for image in before if image["type"]["S"] != "Expiry"]  # its end is what started the archive
    assert restored(body) == kept
    assert {image["type"]["S"] for image in floor.partition(f"ORDER#{order_id}")} == {"ArchivedOrder", "Invoice"}
    (summary,) = orders.orders_of_customer(floor.shop, ANN, ANN.id, 10, None).items
    assert (summary.archived, summary.status) == (True, "DELIVERED")
    assert [part.available for part in products.stock_of_product(floor.shop, "mug")] == [8]


@pytest.mark.parametrize("how", ["cancel", "lapse"])
def test_an_order_that_ends_unpaid_gives_its_goods_back_and_is_archived(floor: Shopfloor, how: str) -> None:
    floor.open_shop(available=5)
    order_id = floor.place(mug=5)
    floor.settle()
    if how == "cancel":
        orders.cancel_order(floor.shop, ANN, order_id)
    else:
        late = datetime.now(UTC) + timedelta(minutes=31)
        assert floor.lapse(late.isoformat())["lapsed"] == 1
    floor.settle()
    assert [part.available for part in products.stock_of_product(floor.shop, "mug")] == [5]
    expire_until(floor.engine, floor.shop.table.name, datetime.now(UTC) + timedelta(days=366))
    floor.settle()
    assert isinstance(orders.order_by_id(floor.shop, STAFF, order_id), ArchivedOrder)
    assert len(floor.mails()) == 2
