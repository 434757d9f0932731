"""Webhook worker Lambda: an event on the bus wakes it, and it sends what webhooks lack of the event's object.

Each webhook has a thread of its own. What fails waits for webhook_retries.
"""

from collections.abc import Callable, Sequence
from functools import partial

from functions.adapters import webhook_sender
from functions.model import metrics
from functions.model.entities import Webhook
from functions.model.events import ReceivedEvent
from functions.runtime import observability, subscriptions
from functions.runtime.environment import WebhookEnvironment
from functions.runtime.queue_batch import MessageBatch, queue_handler
from functions.shop.shop import ShopContext
from functions.shop.webhook_deliveries import Result, Send, deliver, is_subscribed, merge_places


@queue_handler(WebhookEnvironment, margin_seconds=webhook_sender.SEND_SECONDS + 10)
def handler(batch: MessageBatch, shop: ShopContext, environment: WebhookEnvironment) -> None:
    """Lambda entry point: send what is new of the objects of the queued events to each webhook."""
    send = partial(webhook_sender.send, test_host=environment.webhook_test_host)
    batch.apply_together(lambda events: send_events(shop, send, events, batch.is_out_of_time))


def send_events(
    shop: ShopContext, send: Send, events: Sequence[ReceivedEvent], is_out_of_time: Callable[[], bool]
) -> None:
    """Send what webhooks lack of the objects of these events, and log it. Safe to repeat. Raises as `deliver`."""

    def send_to(webhook: Webhook) -> Result:
        result = Result()
        # An event that is published again also stands for later ones, which other webhooks have.
        found = [event for event in events if event.outbox and (event.outbox.late or is_subscribed(webhook, event))]
        for place in merge_places(event.outbox for event in found if event.outbox):
            deliver(shop, webhook.webhook_id, place, send, result, is_out_of_time)
        return result

    webhooks = subscriptions.get_webhooks(shop)
    results = shop.table.run_concurrently([partial(send_to, webhook) for webhook in webhooks])
    for event in events:
        sent = any(result.sent for result in results)
        observability.log_effect("webhooks_sent", shop, event, effect=event.id if sent else None)
    report(results)


def report(results: Sequence[Result]) -> None:
    """Add to the metrics what happened."""
    observability.add_metric(metrics.WEBHOOK_EVENTS_SENT, sum(result.sent for result in results))
    observability.add_metric(metrics.WEBHOOK_ATTEMPTS_FAILED, sum(result.failed for result in results))
    observability.add_metric(metrics.WEBHOOKS_PAUSED, sum(result.paused for result in results))
