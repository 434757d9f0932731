"""Job that runs every five minutes: count failures and delays that a person must handle. Alarms watch the numbers.

The job counts:
- records in the failure store (an S3 bucket), and stream batches there, until an operator redrives them;
- payments that match no order and are not refunded yet;
- paid orders without a shipment request;
- orders past their payment or delivery deadline, and for how long the oldest of them has waited.

It reads the keys of the failure store and the table's indexes. So it finds a backlog even if no function reports an
error, for example if events do not arrive. It counts the backlogs in turn, and stops before its timeout, so a large
backlog does not hide a small one.
"""

from datetime import datetime, timedelta
from typing import Any

from functions.adapters import object_store
from functions.dynamodb.keys import Instant
from functions.model import metrics
from functions.model.metrics import MetricDefinition
from functions.runtime import clients, observability
from functions.runtime.environment import BacklogMetricsEnvironment, load_environment
from functions.runtime.log import log
from functions.runtime.scheduled_jobs import ScheduledRun, WorkList
from functions.runtime.time_limit import TimeLimit
from functions.shop.cancellation import list_unpaid_orders
from functions.shop.payments import list_unmatched_payments
from functions.shop.shipments import list_unconfirmed_orders, list_unrequested_orders
from functions.shop.shop import ShopContext

STALLED_AFTER = timedelta(minutes=10)
"""A paid order without shipment request counts as stalled after this time. Normally it takes seconds."""

OVERDUE_AFTER = timedelta(minutes=5)
"""An order counts as overdue if it passed its payment or delivery deadline by more than this time.

order_deadlines runs every minute, and EventBridge drops a run that could not start within five minutes.
"""

METRICS_BY_PREFIX = {
    "parked/mismatch/": metrics.ARCHIVE_MISMATCHES,
    "parked/": metrics.PARKED_WAITING,
    "aws/lambda/": metrics.FAILED_BATCHES_WAITING,
}
"""The metrics that count the objects in the failure store, by the first prefix that matches the key."""


@observability.instrument_handler
def handler(_event: dict[str, Any], context: Any) -> dict[str, int]:
    """Lambda entry point for a scheduled event: count the backlog, and add the numbers to the metrics.

    Returns the numbers by metric name. Raises RunIncomplete, and adds no metric, if a backlog cannot be read. If the
    time is over before the first item of a backlog is read, its metric is left out, so that its alarm keeps its state.
    """
    environment = load_environment(BacklogMetricsEnvironment)
    found = dict.fromkeys(METRICS_BY_PREFIX.values(), 0)
    for key in list_waiting_keys(environment.failures_bucket):
        metric = next(
            (metric for place, metric in METRICS_BY_PREFIX.items() if key.startswith(place)), metrics.PARKED_WAITING
        )
        found[metric] += 1
    shop = clients.create_shop(environment.table_name)
    overdue = OverdueOrders(shop, environment)
    backlogs: dict[MetricDefinition, list[WorkList[Any]]] = {
        metrics.UNMATCHED_PAYMENTS: [WorkList(list_unmatched_payments(shop), lambda _: True)],
        metrics.ORDERS_STALLED: [WorkList(list_unrequested_orders(shop, shop.now() - STALLED_AFTER), lambda _: True)],
        metrics.OVERDUE_ORDERS: overdue.lists,
    }
    run = ScheduledRun("backlog_metrics", TimeLimit(context))
    run.process(*(one for lists in backlogs.values() for one in lists))
    run.raise_if_failed()
    for metric, lists in backlogs.items():
        number = sum(one.done for one in lists)
        if number or all(one.is_complete for one in lists):
            found[metric] = number
    if metrics.OVERDUE_ORDERS in found:
        found[metrics.OVERDUE_LAG] = int(overdue.longest.total_seconds() * 1000)
    for metric, number in found.items():
        observability.add_metric(metric, number)
    summary = {metric.name: number for metric, number in found.items()}
    log.info("backlog_measured", extra=summary)
    return summary


class OverdueOrders:
    """The orders that missed their payment or delivery deadline by more than OVERDUE_AFTER. `longest`: the delay."""

    def __init__(self, shop: ShopContext, environment: BacklogMetricsEnvironment) -> None:
        self._now = shop.now()
        self.longest = timedelta()
        payment = timedelta(minutes=environment.payment_window_minutes)
        delivery = timedelta(days=environment.assumed_delivered_days)
        due = self._now - OVERDUE_AFTER
        self.lists: list[WorkList[Any]] = [
            WorkList(list_unpaid_orders(shop, due - payment), lambda order: self._note(order.placed_at, payment)),
            WorkList(
                list_unconfirmed_orders(shop, due - delivery), lambda order: self._note(order.updated_at, delivery)
            ),
        ]

    def _note(self, since: Instant, allowed: timedelta) -> bool:
        self.longest = max(self.longest, self._now - datetime.fromisoformat(since) - allowed)
        return True


def list_waiting_keys(bucket: str) -> list[str]:
    """Return the keys of all objects in the failure store that were not redriven (processed again) yet."""
    redriven = {
        key.removeprefix(object_store.REDRIVEN_PREFIX)
        for key in object_store.list_keys(bucket, object_store.REDRIVEN_PREFIX)
    }
    return [
        key
        for key in object_store.list_keys(bucket)
        if not key.startswith(object_store.REDRIVEN_PREFIX) and key not in redriven
    ]
