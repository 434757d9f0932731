"""Refunds Lambda: send each requested refund to the payment provider, or add its amount to a credit account."""

from functions.adapters import payment_provider
from functions.model import metrics
from functions.model.events import ReceivedEvent
from functions.runtime import observability
from functions.runtime.environment import RefundsEnvironment
from functions.runtime.queue_batch import MessageBatch, queue_handler
from functions.shop.refund_processing import PaymentProvider, process_refund
from functions.shop.shop import ShopContext


@queue_handler(RefundsEnvironment)
def handler(batch: MessageBatch, shop: ShopContext, environment: RefundsEnvironment) -> None:
    """Lambda entry point: process each requested refund."""
    provider = payment_provider.get_payment_provider(environment.provider_url, environment.provider_secret)
    batch.apply_each(lambda requested: settle_refund(shop, provider, requested))


def settle_refund(shop: ShopContext, provider: PaymentProvider, event: ReceivedEvent) -> None:
    """Process the refund that an event requests, and log its result."""
    order_id, refund_id = event.data.order_id, event.data.refund_id
    refund = process_refund(shop, provider, order_id, refund_id)
    if refund is None:
        observability.log_effect("refund_processed", shop, event, effect=None, refund_id=refund_id, status=None)
        return
    if refund.status == "FAILED":
        observability.add_metric(metrics.REFUNDS_FAILED)
    else:
        observability.add_metric(metrics.REFUNDED, refund.amount, currency=refund.currency)
    said = {"refund_id": refund_id, "status": refund.status, "reason": refund.reason}
    observability.log_effect("refund_processed", shop, event, effect=f"{refund_id}-{refund.attempt}", **said)
