"""The reaction to money that is to be given back: the payment provider gives it, or a credit account has it."""

from typing import Any

from functions import wiring
from functions.environment import Refunds, current
from functions.model import metrics
from functions.model.events import Received
from functions.queues import Messages
from functions.shop.settling import Provider, settle
from functions.shop.shop import Shop


@wiring.observed("refunds")
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Lambda entry point: a batch of queue messages in, the messages to send again out."""
    environment = current(Refunds)
    shop = wiring.shop(environment.table_name)
    provider = wiring.provider(environment.provider_url, environment.provider_secret)
    messages = Messages(event, wiring.parking(environment.failures_bucket, "refunds"), wiring.failing("refunds"))
    return messages.each(lambda wanted: give_back(shop, provider, wanted)).response()


def give_back(shop: Shop, provider: Provider, wanted: Received) -> None:
    """Bring one refund where it goes."""
    order_id, refund_id = wanted.data.order_id, wanted.data.refund_id
    refund = settle(shop, provider, order_id, refund_id)
    if refund is None:
        wiring.worked("refunded", shop, wanted, effect=None, refund_id=refund_id, status=None)
        return
    if refund.status == "FAILED":
        wiring.count(metrics.REFUNDS_FAILED)
    else:
        wiring.count(metrics.REFUNDED, refund.amount, currency=refund.currency)
    said = {"refund_id": refund_id, "status": refund.status, "reason": refund.reason}
    wiring.worked("refunded", shop, wanted, effect=f"{refund_id}-{refund.attempt}", **said)
