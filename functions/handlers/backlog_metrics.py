"""Job that runs every five minutes: count failures and delays that a person must handle. Alarms watch the numbers.

The job counts:
- records that a function stored in the failure store (an S3 bucket), because it can never process them;
- stream batches in the failure store that Lambda stopped retrying;
- payments that match no order and are not refunded yet;
- paid orders without a shipment request;
- orders that passed their payment or delivery deadline, and that the Lambda order_deadlines did not process.

A record or batch in the failure store is counted until an operator redrives it (processes it again).

The job reads the keys of the failure store and the table's indexes. So it finds a backlog even if no function reports
an error, for example if events do not arrive.
"""

from datetime import timedelta
from typing import Any

from functions.adapters import object_store
from functions.model import metrics
from functions.runtime import clients, observability
from functions.runtime.environment import BacklogMetricsEnvironment, load_environment
from functions.runtime.log import log
from functions.shop.cancellation import list_unpaid_orders
from functions.shop.payments import list_unmatched_payments
from functions.shop.shipments import list_unconfirmed_orders, list_unrequested_orders

STALLED_AFTER = timedelta(minutes=10)
"""A paid order without a shipment request counts as stalled if it has not changed for this time.

Normally the shipment is requested within seconds after the payment.
"""

OVERDUE_AFTER = timedelta(minutes=5)
"""An order that passed its payment or delivery deadline by more than this time counts as overdue.

The Lambda order_deadlines checks the deadlines every minute, and EventBridge drops a run that could not start within
five minutes. So an order that waits longer is a sign that the runs fail or do not start.
"""

METRICS_BY_PREFIX = {
    "parked/mismatch/": metrics.ARCHIVE_MISMATCHES,
    "parked/": metrics.PARKED_WAITING,
    "aws/lambda/": metrics.GIVEN_UP_WAITING,
}
"""The metrics that count the objects in the failure store, by the prefix of the object's key.

If a key starts with several of these prefixes, the object is counted for the first one.
"""


@observability.instrument_handler
def handler(_event: dict[str, Any], _context: Any) -> dict[str, int]:
    """Lambda entry point for a scheduled event: count the backlog, and add the numbers to the metrics.

    Returns the numbers by metric name.
    """
    environment = load_environment(BacklogMetricsEnvironment)
    found = dict.fromkeys(METRICS_BY_PREFIX.values(), 0)
    for key in list_waiting_keys(environment.failures_bucket):
        metric = next(
            (metric for place, metric in METRICS_BY_PREFIX.items() if key.startswith(place)), metrics.PARKED_WAITING
        )
        found[metric] += 1
    shop = clients.create_shop(environment.table_name)
    found[metrics.UNMATCHED_PAYMENTS] = sum(1 for _ in list_unmatched_payments(shop))
    found[metrics.ORDERS_STALLED] = sum(1 for _ in list_unrequested_orders(shop, shop.now() - STALLED_AFTER))
    due = shop.now() - OVERDUE_AFTER
    not_paid = list_unpaid_orders(shop, due - timedelta(minutes=environment.payment_window_minutes))
    not_confirmed = list_unconfirmed_orders(shop, due - timedelta(days=environment.assumed_delivered_days))
    found[metrics.LAPSE_BACKLOG] = sum(1 for orders in (not_paid, not_confirmed) for _ in orders)
    for metric, number in found.items():
        observability.add_metric(metric, number)
    summary = {metric.name: number for metric, number in found.items()}
    log.info("backlog_measured", extra=summary)
    return summary


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
