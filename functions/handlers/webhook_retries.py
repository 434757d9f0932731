"""Job that runs every minute, sends the events of webhooks whose wait is over, and starts replays.

Each webhook has a thread of its own, and one attempt at a time. What is left when the time is over waits for the next
run. Runs that overlap are harmless, because a lease lets one of them send the events of an object.
"""

from contextlib import suppress
from functools import partial
from typing import Any

from functions.adapters import webhook_sender
from functions.model import metrics
from functions.model.entities import Webhook
from functions.runtime import clients, observability, secrets
from functions.runtime.environment import WebhookEnvironment, load_environment
from functions.runtime.log import log
from functions.runtime.scheduled_jobs import ScheduledRun, WorkList
from functions.runtime.time_limit import TimeLimit
from functions.shop.webhook_deliveries import OutOfTime, Result, list_subscribed, retry_waiting

LANES = 32


@observability.instrument_handler
def handler(_event: dict[str, Any], context: Any) -> dict[str, int]:
    """Lambda entry point for a scheduled event. Returns how many events were sent, and how many attempts failed.

    Raises RunIncomplete at the end if a webhook's items could not be read or written.
    """
    environment = load_environment(WebhookEnvironment)
    shop = clients.create_shop(
        environment.table_name, pepper=lambda: secrets.get_secret(environment.pepper_secret).encode()
    )
    send = partial(webhook_sender.send, test_host=environment.webhook_test_host)
    limit, results = TimeLimit(context, margin_seconds=webhook_sender.SEND_SECONDS + 10), [Result()]

    def retry(webhook: Webhook) -> bool:
        results.append(result := Result())
        with suppress(OutOfTime):
            retry_waiting(shop, webhook, send, result, limit.is_reached)
        return result.sent > 0

    run = ScheduledRun("webhook_retries", limit, LANES, shop.table.run_concurrently)
    run.process(WorkList(iter(list_subscribed(shop)), retry, lambda webhook: webhook.webhook_id))
    done = {name: sum(getattr(result, name) for result in results) for name in ("sent", "failed", "paused")}
    observability.add_metric(metrics.WEBHOOK_EVENTS_SENT, done["sent"])
    observability.add_metric(metrics.WEBHOOK_ATTEMPTS_FAILED, done["failed"])
    observability.add_metric(metrics.WEBHOOKS_PAUSED, done["paused"])
    log.info("webhooks_retried", extra=done)
    run.raise_if_failed()
    return done
