"""Fulfilment Lambda: issue invoices and credit notes, and request shipments, with one transaction for a batch.

If it fails, each order is fulfilled alone, so that no order fails because of another one.
"""

from collections.abc import Sequence

from functions.model import metrics
from functions.model.events import ReceivedEvent
from functions.runtime import observability
from functions.runtime.environment import FulfilmentEnvironment
from functions.runtime.queue_batch import MessageBatch, queue_handler
from functions.shop.credit_notes import issue_credit_note
from functions.shop.fulfilment import fulfil_orders
from functions.shop.shop import ShopContext


@queue_handler(FulfilmentEnvironment)
def handler(batch: MessageBatch, shop: ShopContext, environment: FulfilmentEnvironment) -> None:
    """Lambda entry point: issue the invoice and request the shipment of each paid order; issue credit notes."""
    batch.apply_together(lambda events: handle_events(shop, events, environment.invoice_series))


def handle_events(shop: ShopContext, events: Sequence[ReceivedEvent], lanes: int) -> None:
    """Issue the documents of these orders, request their shipments, and log the ids of invoice and shipment."""
    paid = [event for event in events if event.name == "OrderPaid"]
    for event in events:
        if event not in paid:
            number = issue_credit_note(shop, event.data.order_id)
            observability.log_effect("order_credited", shop, event, effect=number, invoice_id=number)
    done = fulfil_orders(shop, [event.data.order_id for event in paid], lanes) if paid else {}
    for event in paid:
        fulfilment = done.pop(event.data.order_id, None)  # if two events are about one order, log one effect
        shipment_id = fulfilment.shipment.shipment_id if fulfilment else None
        invoice_id = fulfilment.invoice_id if fulfilment else None
        observability.add_metric(metrics.ORDERS_FULFILLED, fulfilment is not None)
        observability.log_effect(
            "order_fulfilled", shop, event, effect=shipment_id, invoice_id=invoice_id, shipment_id=shipment_id
        )
