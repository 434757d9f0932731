"""What waits for a person, looked at every five minutes: alarms are raised by it, and end with it.

What was put aside and what the stream's mappings gave up, as long as nobody has redriven it; payments that match no
order, until they are given back; paid orders that stand still, and orders whose time is over, whatever the reason: also
where nothing fails, because nothing comes or nobody calls. It lists names in the failure store, and asks the table for
queues of orders and payments, by their index.
"""

from datetime import timedelta
from typing import Any

from functions import objects, wiring
from functions.environment import Watch, current
from functions.model import metrics
from functions.shop.ending import unpaid
from functions.shop.payments import unmatched
from functions.shop.shipments import unconfirmed, unrequested

STANDS = timedelta(minutes=10)
"""An order that was paid goes to the warehouse within seconds."""

OVERDUE = timedelta(minutes=5)
"""An order whose time is over is moved on within a minute; a run that comes late is given up after five."""

PLACES = {
    "parked/mismatch/": metrics.MISMATCHES,
    "parked/": metrics.PARKED_WAITING,
    "aws/lambda/": metrics.GIVEN_UP_WAITING,
}
"""Which metric counts what lies where in the failure store: the first that fits."""


@wiring.observed("watch")
def handler(_event: dict[str, Any], _context: Any) -> dict[str, int]:
    """Lambda entry point for a scheduled event. Answers how many of each wait."""
    environment = current(Watch)
    found = dict.fromkeys(PLACES.values(), 0)
    for key in waiting_in(environment.failures_bucket):
        metric = next((metric for place, metric in PLACES.items() if key.startswith(place)), metrics.PARKED_WAITING)
        found[metric] += 1
    shop = wiring.shop(environment.table_name)
    found[metrics.UNMATCHED] = sum(1 for _ in unmatched(shop))
    found[metrics.STANDING] = sum(1 for _ in unrequested(shop, shop.now() - STANDS))
    due = shop.now() - OVERDUE
    not_paid = unpaid(shop, due - timedelta(minutes=environment.payment_window_minutes))
    not_confirmed = unconfirmed(shop, due - timedelta(days=environment.assumed_delivered_days))
    found[metrics.LAPSE_BACKLOG] = sum(1 for orders in (not_paid, not_confirmed) for _ in orders)
    for metric, number in found.items():
        wiring.count(metric, number)
    told = {metric.name: number for metric, number in found.items()}
    wiring.log.info("watched", extra=told)
    return told


def waiting_in(bucket: str) -> list[str]:
    """The names of what lies in the failure store and was not redriven."""
    redriven = {key.removeprefix(objects.REDRIVEN) for key in objects.keys(bucket, objects.REDRIVEN)}
    return [key for key in objects.keys(bucket) if not key.startswith(objects.REDRIVEN) and key not in redriven]
