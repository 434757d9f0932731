"""Fulfilment Lambda: issue the invoices of paid orders, and request their shipments from the warehouse.

The orders of a batch share one transaction (functions/shop/fulfilment.py). If it fails, each order is fulfilled alone,
so that no order fails because of another order.
"""

from collections.abc import Sequence

from functions.model import metrics
from functions.model.events import ReceivedEvent
from functions.runtime import observability
from functions.runtime.environment import FulfilmentEnvironment
from functions.runtime.queue_batch import MessageBatch, queue_handler
from functions.shop.fulfilment import fulfil_orders
from functions.shop.shop import ShopContext


@queue_handler(FulfilmentEnvironment)
def handler(batch: MessageBatch, shop: ShopContext, environment: FulfilmentEnvironment) -> None:
    """Lambda entry point: issue the invoice and request the shipment of each paid order."""
    batch.apply_together(lambda paid: fulfil_paid_orders(shop, paid, environment.invoice_series))


def fulfil_paid_orders(shop: ShopContext, events: Sequence[ReceivedEvent], lanes: int) -> None:
    """Issue the invoices of paid orders, request their shipments, and log the ids of invoice and shipment."""
    done = fulfil_orders(shop, [event.data.order_id for event in events], lanes)
    for event in events:
        fulfilment = done.pop(event.data.order_id, None)  # if two events are about one order, log one effect
        shipment_id = fulfilment.shipment.shipment_id if fulfilment else None
        invoice_id = fulfilment.invoice_id if fulfilment else None
        observability.add_metric(metrics.ORDERS_FULFILLED, fulfilment is not None)
        observability.log_effect(
            "order_fulfilled", shop, event, effect=shipment_id, invoice_id=invoice_id, shipment_id=shipment_id
        )
