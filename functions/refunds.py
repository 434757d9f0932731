"""Refunds Lambda: process a refund through the payment provider, or as an entry on a credit account."""

from typing import Any

from functions import wiring
from functions.environment import RefundsEnvironment, load_environment
from functions.model import metrics
from functions.model.events import ReceivedEvent
from functions.queues import MessageBatch
from functions.shop.settling import PaymentProvider, process_refund
from functions.shop.shop import Shop


@wiring.instrument_handler("refunds")
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Lambda entry point: process a batch of SQS messages and return the failed ones for retry."""
    environment = load_environment(RefundsEnvironment)
    shop = wiring.create_shop(environment.table_name)
    provider = wiring.get_payment_provider(environment.provider_url, environment.provider_secret)
    batch = MessageBatch(
        event, wiring.dead_letter_writer(environment.failures_bucket, "refunds"), wiring.failure_logger("refunds")
    )
    return batch.apply_each(lambda wanted: settle_refund(shop, provider, wanted)).response()


def settle_refund(shop: Shop, provider: PaymentProvider, event: ReceivedEvent) -> None:
    """Process the refund that an event requests, and log its result."""
    order_id, refund_id = event.data.order_id, event.data.refund_id
    refund = process_refund(shop, provider, order_id, refund_id)
    if refund is None:
        wiring.log_effect("refunded", shop, event, effect=None, refund_id=refund_id, status=None)
        return
    if refund.status == "FAILED":
        wiring.add_metric(metrics.REFUNDS_FAILED)
    else:
        wiring.add_metric(metrics.REFUNDED, refund.amount, currency=refund.currency)
    said = {"refund_id": refund_id, "status": refund.status, "reason": refund.reason}
    wiring.log_effect("refunded", shop, event, effect=f"{refund_id}-{refund.attempt}", **said)
