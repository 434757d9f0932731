"""Refunds Lambda: process a refund through the payment provider, or as an entry on a credit account."""

from typing import Any

from functions.adapters import payment_provider
from functions.model import metrics
from functions.model.events import ReceivedEvent
from functions.runtime import clients, dead_letters, observability
from functions.runtime.environment import RefundsEnvironment, load_environment
from functions.runtime.queue_batch import MessageBatch
from functions.shop.refund_processing import PaymentProvider, process_refund
from functions.shop.shop import Shop


@observability.instrument_handler("refunds")
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Lambda entry point: process a batch of SQS messages and return the failed ones for retry."""
    environment = load_environment(RefundsEnvironment)
    shop = clients.create_shop(environment.table_name)
    provider = payment_provider.get_payment_provider(environment.provider_url, environment.provider_secret)
    batch = MessageBatch(
        event,
        dead_letters.dead_letter_writer(environment.failures_bucket, "refunds"),
        observability.failure_logger("refunds"),
    )
    return batch.apply_each(lambda wanted: settle_refund(shop, provider, wanted)).response()


def settle_refund(shop: Shop, provider: PaymentProvider, event: ReceivedEvent) -> None:
    """Process the refund that an event requests, and log its result."""
    order_id, refund_id = event.data.order_id, event.data.refund_id
    refund = process_refund(shop, provider, order_id, refund_id)
    if refund is None:
        observability.log_effect("refunded", shop, event, effect=None, refund_id=refund_id, status=None)
        return
    if refund.status == "FAILED":
        observability.add_metric(metrics.REFUNDS_FAILED)
    else:
        observability.add_metric(metrics.REFUNDED, refund.amount, currency=refund.currency)
    said = {"refund_id": refund_id, "status": refund.status, "reason": refund.reason}
    observability.log_effect("refunded", shop, event, effect=f"{refund_id}-{refund.attempt}", **said)
