"""Record what the payment provider reports: payments, disputes and refunds.

An adapter converts the provider's events to the events of the shop, so that the rules of the shop know no provider.
"""

from dataclasses import asdict

from functions.shop import disputes, external_refunds, payments, refund_processing
from functions.shop.idempotency import IdempotentResult
from functions.shop.shop import ShopContext

ShopEvent = (
    payments.ProviderPaymentEvent
    | disputes.ProviderDisputeEvent
    | refund_processing.ProviderRefundEvent
    | external_refunds.ExternalRefundEvent
)


def record_event(shop: ShopContext, event: ShopEvent) -> IdempotentResult:
    """Record an event by its kind. Safe to repeat: an event id is recorded only once.

    Raises IdempotencyKeyReused if the id was used for another payment event, and TableBusy.
    """
    if isinstance(event, payments.ProviderPaymentEvent):
        return payments.record_payment(shop, event, asdict(event))
    if isinstance(event, disputes.ProviderDisputeEvent):
        return disputes.record_dispute(shop, event)
    if isinstance(event, refund_processing.ProviderRefundEvent):
        return refund_processing.record_refund(shop, event)
    return external_refunds.record_external_refund(shop, event)
