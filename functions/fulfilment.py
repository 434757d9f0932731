"""Fulfilment Lambda: issue the invoice of a paid order and request its shipment from the warehouse.

The invoice and the shipment are written in separate transactions. Both are safe to repeat. After a crash between them,
the retry writes the shipment.
"""

from typing import Any

from functions import wiring
from functions.environment import FulfilmentEnvironment, load_environment
from functions.model import metrics
from functions.model.events import ReceivedEvent
from functions.queues import MessageBatch
from functions.shop.invoices import issue_invoice
from functions.shop.shipments import request_shipment
from functions.shop.shop import Shop


@wiring.instrument_handler("fulfilment")
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Lambda entry point: process a batch of SQS messages and return the failed ones for retry."""
    environment = load_environment(FulfilmentEnvironment)
    shop = wiring.create_shop(environment.table_name)
    batch = MessageBatch(
        event, wiring.dead_letter_writer(environment.failures_bucket, "fulfilment"), wiring.failure_logger("fulfilment")
    )
    return batch.apply_each(lambda paid: fulfil_order(shop, paid)).response()


def fulfil_order(shop: Shop, event: ReceivedEvent) -> None:
    """Issue the invoice of a paid order, request its shipment, and log the ids of both."""
    order_id = event.data.order_id
    invoice_id = issue_invoice(shop, order_id)
    shipment = request_shipment(shop, order_id)
    shipment_id = shipment.shipment_id if shipment else None
    wiring.add_metric(metrics.ORDERS_FULFILLED, shipment is not None)
    wiring.log_effect("fulfilled", shop, event, effect=shipment_id, invoice_id=invoice_id, shipment_id=shipment_id)
