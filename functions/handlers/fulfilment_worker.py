"""Fulfilment Lambda: issue the invoice of a paid order and request its shipment from the warehouse.

One transaction writes the invoice, and a second transaction writes the shipment. Both are safe to repeat. If the Lambda
crashes between them, SQS delivers the message again, and the retry writes the shipment.
"""

from functions.model import metrics
from functions.model.events import ReceivedEvent
from functions.runtime import observability
from functions.runtime.environment import FulfilmentEnvironment
from functions.runtime.queue_batch import MessageBatch, queue_handler
from functions.shop.invoices import issue_invoice
from functions.shop.shipments import request_shipment
from functions.shop.shop import Shop


@queue_handler(FulfilmentEnvironment)
def handler(batch: MessageBatch, shop: Shop, _environment: FulfilmentEnvironment) -> None:
    """Lambda entry point: issue the invoice and request the shipment of each paid order."""
    batch.apply_each(lambda paid: fulfil_order(shop, paid))


def fulfil_order(shop: Shop, event: ReceivedEvent) -> None:
    """Issue the invoice of a paid order, request its shipment, and log the ids of both."""
    order_id = event.data.order_id
    invoice_id = issue_invoice(shop, order_id)
    shipment = request_shipment(shop, order_id)
    shipment_id = shipment.shipment_id if shipment else None
    observability.add_metric(metrics.ORDERS_FULFILLED, shipment is not None)
    observability.log_effect(
        "order_fulfilled", shop, event, effect=shipment_id, invoice_id=invoice_id, shipment_id=shipment_id
    )
