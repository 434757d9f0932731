"""Job that runs every five minutes: measure the backlogs that need a person. Alarms start and end with these metrics.

It counts parked records and failed stream batches until they are redriven, payments that match no order until they are
refunded, paid orders that stall, and orders that are overdue. It finds them even if nothing fails, for example because
no event arrives. It lists the keys of the failure store and queries the table's index of orders and payments.
"""

from datetime import timedelta
from typing import Any

from functions import objects, wiring
from functions.environment import BacklogMetricsEnvironment, load_environment
from functions.model import metrics
from functions.shop.ending import list_unpaid_orders
from functions.shop.payments import list_unmatched_payments
from functions.shop.shipments import list_unconfirmed_orders, list_unrequested_orders

STALLED_AFTER = timedelta(minutes=10)
"""A paid order normally goes to the warehouse within seconds."""

OVERDUE_AFTER = timedelta(minutes=5)
"""An order normally expires within a minute. A scheduled run that is late is dropped after five minutes."""

METRICS_BY_PREFIX = {
    "parked/mismatch/": metrics.ARCHIVE_MISMATCHES,
    "parked/": metrics.PARKED_WAITING,
    "aws/lambda/": metrics.GIVEN_UP_WAITING,
}
"""The metric that counts the objects under a prefix of the failure store. The first match counts."""


@wiring.instrument_handler("watch")
def handler(_event: dict[str, Any], _context: Any) -> dict[str, int]:
    """Lambda entry point for a scheduled event. Returns the size of each backlog by metric name."""
    environment = load_environment(BacklogMetricsEnvironment)
    found = dict.fromkeys(METRICS_BY_PREFIX.values(), 0)
    for key in list_waiting_keys(environment.failures_bucket):
        metric = next(
            (metric for place, metric in METRICS_BY_PREFIX.items() if key.startswith(place)), metrics.PARKED_WAITING
        )
        found[metric] += 1
    shop = wiring.create_shop(environment.table_name)
    found[metrics.UNMATCHED_PAYMENTS] = sum(1 for _ in list_unmatched_payments(shop))
    found[metrics.ORDERS_STALLED] = sum(1 for _ in list_unrequested_orders(shop, shop.now() - STALLED_AFTER))
    due = shop.now() - OVERDUE_AFTER
    not_paid = list_unpaid_orders(shop, due - timedelta(minutes=environment.payment_window_minutes))
    not_confirmed = list_unconfirmed_orders(shop, due - timedelta(days=environment.assumed_delivered_days))
    found[metrics.LAPSE_BACKLOG] = sum(1 for orders in (not_paid, not_confirmed) for _ in orders)
    for metric, number in found.items():
        wiring.add_metric(metric, number)
    summary = {metric.name: number for metric, number in found.items()}
    wiring.log.info("watched", extra=summary)
    return summary


def list_waiting_keys(bucket: str) -> list[str]:
    """Return the keys in the failure store that were not redriven yet."""
    redriven = {key.removeprefix(objects.REDRIVEN_PREFIX) for key in objects.list_keys(bucket, objects.REDRIVEN_PREFIX)}
    return [
        key for key in objects.list_keys(bucket) if not key.startswith(objects.REDRIVEN_PREFIX) and key not in redriven
    ]
