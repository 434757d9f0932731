"""The reaction to a paid order: its invoice, and its shipment for the warehouse.

Two effects, each in its own transaction and each repeatable, so that a crash between them leaves nothing half done.
"""

from typing import Any

from functions import wiring
from functions.environment import Fulfilment, current
from functions.model import metrics
from functions.model.events import Received
from functions.queues import Messages
from functions.shop.invoices import issue_invoice
from functions.shop.shipments import request_shipment
from functions.shop.shop import Shop


@wiring.observed("fulfilment")
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Lambda entry point: a batch of queue messages in, the messages to send again out."""
    environment = current(Fulfilment)
    shop = wiring.shop(environment.table_name)
    messages = Messages(event, wiring.parking(environment.failures_bucket, "fulfilment"), wiring.failing("fulfilment"))
    return messages.each(lambda paid: fulfil(shop, paid)).response()


def fulfil(shop: Shop, paid: Received) -> None:
    """Invoice and shipment of an order that was paid."""
    order_id = paid.data.order_id
    invoice_id = issue_invoice(shop, order_id)
    shipment = request_shipment(shop, order_id)
    shipment_id = shipment.shipment_id if shipment else None
    wiring.count(metrics.ORDERS_FULFILLED, shipment is not None)
    wiring.worked("fulfilled", shop, paid, effect=shipment_id, invoice_id=invoice_id, shipment_id=shipment_id)
