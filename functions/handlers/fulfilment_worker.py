"""Fulfilment Lambda: issue the invoice of a paid order and request its shipment from the warehouse.

The invoice and the shipment are written in separate transactions. Both are safe to repeat. After a crash between them,
the retry writes the shipment.
"""

from typing import Any

from functions.model import metrics
from functions.model.events import ReceivedEvent
from functions.runtime import clients, dead_letters, observability
from functions.runtime.environment import FulfilmentEnvironment, load_environment
from functions.runtime.queue_batch import MessageBatch
from functions.shop.invoices import issue_invoice
from functions.shop.shipments import request_shipment
from functions.shop.shop import Shop


@observability.instrument_handler("fulfilment")
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Lambda entry point: process a batch of SQS messages and return the failed ones for retry."""
    environment = load_environment(FulfilmentEnvironment)
    shop = clients.create_shop(environment.table_name)
    batch = MessageBatch(
        event,
        dead_letters.dead_letter_writer(environment.failures_bucket, "fulfilment"),
        observability.failure_logger("fulfilment"),
    )
    return batch.apply_each(lambda paid: fulfil_order(shop, paid)).response()


def fulfil_order(shop: Shop, event: ReceivedEvent) -> None:
    """Issue the invoice of a paid order, request its shipment, and log the ids of both."""
    order_id = event.data.order_id
    invoice_id = issue_invoice(shop, order_id)
    shipment = request_shipment(shop, order_id)
    shipment_id = shipment.shipment_id if shipment else None
    observability.add_metric(metrics.ORDERS_FULFILLED, shipment is not None)
    observability.log_effect(
        "fulfilled", shop, event, effect=shipment_id, invoice_id=invoice_id, shipment_id=shipment_id
    )
