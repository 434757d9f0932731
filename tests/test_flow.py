"""Tests the whole way of an order, from the request to the archive and back, with real handlers and a real stream."""

import hashlib
import json
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from functions.handlers.archive_worker import parse_archive
from functions.model.entities import ArchivedOrder, Order
from functions.model.timelines import merge_timeline
from functions.shop import (
    accounts,
    cancellation,
    credit_payments,
    discounts,
    orders,
    payments,
    placing,
    returns,
    shipments,
)
from functions.shop.invoices import get_invoice_of_order
from functions.shop.lists import ListRequest
from local.world.harness import ANN, HOME_ADDRESS, STAFF, WAREHOUSE, ShopHarness
from proof.support.actors import get_stock, set_shipping_prices, set_tax_rate


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


def test_an_order_paid_shipped_and_returned_in_parts_is_archived_and_its_money_adds_up(harness: ShopHarness) -> None:
    harness.open_shop(available=10)
    discounts.create_discount(harness.shop, STAFF, "spring", 2000, limit=1)
    set_tax_rate(harness.shop, 2000)
    set_shipping_prices(harness.shop, EUR=490)
    wanted = {"mug": placing.RequestedLine(2), "pot": placing.RequestedLine(1)}
    placed = placing.place_order(harness.shop, ANN, "key-1", wanted, HOME_ADDRESS, {}, "spring").order
    order_id, total = placed.order_id, 3 * 1250 - 750 + 490
    assert placed.total == total

    card = accounts.issue_gift_card(harness.shop, STAFF, "card", 1000, "EUR").result["code"]
    credit_payments.pay_with_credit(harness.shop, ANN, "part", order_id, accounts.gift_card_source(harness.shop, card))
    harness.process_all()
    told = payments.ProviderPaymentEvent(
        "evt_1", "pi_1", order_id, "succeeded", total, "EUR"
    )  # the customer pays the total by card, although a gift card paid a part
    payments.record_payment(harness.shop, told, {"id": "evt_1"})
    harness.process_all()
    invoice = get_invoice_of_order(harness.shop, ANN, order_id)
    assert [(paid.method, paid.amount) for paid in invoice.payments] == [("CREDIT", 1000), ("CARD", total - 1000)]
    assert harness.provider.refunded_amount("pi_1") == 1000, "the excess was refunded at once"

    shipments.dispatch_shipment(harness.shop, WAREHOUSE, order_id, f"{order_id}-1", "dhl", "1", {"mug": 1})
    shipments.dispatch_shipment(harness.shop, WAREHOUSE, order_id, f"{order_id}-2", "dhl", "2")
    for number in (1, 2):
        shipments.deliver_shipment(harness.shop, WAREHOUSE, order_id, f"{order_id}-{number}")
    harness.process_all()
    back = {"mug": returns.ReturnedGoods(1, restock=True)}
    returned = returns.return_goods(harness.shop, STAFF, "back", order_id, back, refund_shipping=True).result
    assert returned["amount"] == 1000 + 490, "the price of a mug less a fifth, and shipping"
    harness.process_all()
    assert harness.provider.refunded_amount("pi_1") == 1000 + returned["amount"]
    order = orders.get_order(harness.shop, ANN, order_id)
    assert isinstance(order, Order)
    assert (order.status, order.paid, order.refunded) == ("PARTIALLY_RETURNED", total, returned["amount"])
    assert [mail.subject.partition(" for")[0].partition(" order")[0] for mail in harness.sent_mails()] == [
        "We received your", "Your", "Refund", "A part of your", "Your", "Your", "We received goods of your",
        "Credit note", "Refund",
    ]  # fmt: skip
    assert [part.available for part in get_stock(harness.shop, "mug")] == [9]

    before = harness.partition(f"ORDER#{order_id}")
    harness.advance_days(days=396)
    harness.process_all()
    stub = orders.get_order(harness.shop, ANN, order_id)
    assert isinstance(stub, ArchivedOrder)
    kept = [image for image in before if image["type"]["S"] != "ExpiryMarker"]
    assert parse_archive(harness.objects("archive")[stub.object_key]) == kept
    counted = Counter(image["type"]["S"] for image in kept)
    assert (counted["Payment"], counted["Refund"], counted["Return"], counted["Shipment"]) == (2, 2, 1, 2)
    assert get_invoice_of_order(harness.shop, ANN, order_id) == invoice


def test_an_order_that_the_warehouse_stops_gives_goods_and_money_back(harness: ShopHarness) -> None:
    harness.open_shop(available=5)
    order_id = harness.place_order(mug=5)
    harness.pay_order(order_id)
    harness.process_all()
    cancellation.cancel_order(harness.shop, ANN, order_id)
    harness.process_all()
    told = [json.loads(message["body"])["detail"]["type"] for message in harness.take_messages("warehouse")]
    assert sorted(told) == ["OrderCancelRequested", "ShipmentRequested"]
    cancellation.agree_cancel(harness.shop, WAREHOUSE, order_id)
    harness.process_all()
    assert [part.available for part in get_stock(harness.shop, "mug")] == [5]
    assert harness.provider.refunded_amount("pi_1") == 5 * 1250
    subjects = [mail.subject for mail in harness.sent_mails()]
    assert len(subjects) == len(set(subjects)) == 6, (
        "placed, paid, cancellation requested, cancelled, credited, refunded"
    )


def test_a_shortened_order_is_mailed_delivered_and_archived_with_its_shipped_pieces(harness: ShopHarness) -> None:
    harness.open_shop(available=5)
    order_id = harness.place_order(mug=3, pot=1)
    harness.pay_order(order_id)
    harness.process_all()
    shipments.dispatch_shipment(harness.shop, WAREHOUSE, order_id, f"{order_id}-1", "dhl", "1", {"mug": 2})
    harness.process_all()
    cancellation.cancel_order(harness.shop, ANN, order_id)
    harness.process_all()
    asked = [json.loads(message["body"])["detail"]["type"] for message in harness.take_messages("warehouse")]
    assert asked == ["ShipmentRequested", "ShipmentRequested", "OrderCancelRequested"]
    cancellation.agree_cancel(harness.shop, WAREHOUSE, order_id)
    harness.process_all()
    (told,) = [json.loads(message["body"])["detail"] for message in harness.take_messages("warehouse")]
    assert (told["type"], told["data"]["shipment_id"]) == ("ShipmentCancelled", f"{order_id}-2")
    shipments.deliver_shipment(harness.shop, WAREHOUSE, order_id, f"{order_id}-1")
    harness.process_all()
    assert [get_stock(harness.shop, id)[0].available for id in ("mug", "pot")] == [3, 5]
    assert harness.provider.refunded_amount("pi_1") == 2 * 1250
    assert get_invoice_of_order(harness.shop, ANN, order_id).total == 4 * 1250, "the invoice does not change"
    assert sorted(mail.subject.partition(" order")[0] for mail in harness.sent_mails()) == [
        "A part of your", "Credit note for", "Refund for", "The rest of your", "We received your", "Your", "Your",
        "Your request to cancel",
    ]  # fmt: skip
    events = [event.event for event in merge_timeline([orders.get_order(harness.shop, ANN, order_id)])]
    assert events[-4:] == ["OrderPartlyShipped", "OrderCancelRequested", "OrderCutShort", "OrderDelivered"]
    harness.advance_days(days=396)
    harness.process_all()
    assert isinstance(orders.get_order(harness.shop, STAFF, order_id), ArchivedOrder)


@pytest.mark.parametrize("how", ["cancel", "lapse"])
def test_an_order_that_ends_unpaid_gives_its_goods_back_and_is_archived(harness: ShopHarness, how: str) -> None:
    harness.open_shop(available=5)
    order_id = harness.place_order(mug=5)
    harness.process_all()
    if how == "cancel":
        cancellation.cancel_order(harness.shop, ANN, order_id)
    else:
        late = datetime.now(UTC) + timedelta(minutes=31)
        assert harness.lapse(late.isoformat())["lapsed"] == 1
    harness.process_all()
    assert [part.available for part in get_stock(harness.shop, "mug")] == [5]
    harness.advance_days(days=366)
    harness.process_all()
    assert isinstance(orders.get_order(harness.shop, STAFF, order_id), ArchivedOrder)
    assert len(harness.sent_mails()) == 2
