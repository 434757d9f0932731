"""Refunds Lambda: refund money at the payment provider or to a credit account, and cancel payments that are not due."""

from functions.adapters import payment_provider
from functions.model import metrics
from functions.model.events import ReceivedEvent
from functions.runtime import observability
from functions.runtime.environment import RefundsEnvironment
from functions.runtime.queue_batch import MessageBatch, queue_handler
from functions.shop import started_payments
from functions.shop.payment_provider import PaymentProvider
from functions.shop.refund_processing import process_refund
from functions.shop.shop import ShopContext


@queue_handler(RefundsEnvironment)
def handler(batch: MessageBatch, shop: ShopContext, environment: RefundsEnvironment) -> None:
    """Lambda entry point: process each requested refund, and cancel the payments that are not due any more."""
    provider = payment_provider.get_payment_provider(environment.provider_url, environment.provider_secret)
    batch.apply_each(lambda event: handle_event(shop, provider, event))


def handle_event(shop: ShopContext, provider: PaymentProvider, event: ReceivedEvent) -> None:
    if event.name == "RefundRequested":
        settle_refund(shop, provider, event)
        return
    if event.name == "StartedPaymentOutdated":
        cancelled = started_payments.cancel_payments(provider, [event.data.payment_id])
    else:
        cancelled = started_payments.cancel_open_payments(shop, provider, event.data.order_id)
    effect = f"{event.data.order_id}-cancelled" if cancelled else None
    observability.log_effect("started_payments_cancelled", shop, event, effect=effect, payment_ids=cancelled)


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
