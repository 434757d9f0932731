"""What the passing of time does to orders, looked at every minute: unpaid ones lapse, shipped ones count as delivered.

"Now" is the schedule's own time, which EventBridge puts into the event: a late run does what it was due to do.
"""

from datetime import datetime, timedelta
from functools import partial
from typing import Any

from functions import wiring
from functions.environment import OrderExpiryEnvironment, load_environment
from functions.schedules import ScheduledRun
from functions.shop.ending import lapse_order, list_unpaid_orders
from functions.shop.shipments import assume_delivered, list_unconfirmed_orders


@wiring.instrument_handler("lapse")
def handler(event: dict[str, Any], _context: Any) -> dict[str, int]:
    """Lambda entry point for a scheduled event, `{"time": "2026-11-21T09:30:00Z"}`. Answers how many of each.

    Raises NotAll at the end, so that the failure is seen.
    """
    environment = load_environment(OrderExpiryEnvironment)
    shop = wiring.create_shop(
        environment.table_name,
        retention_days=environment.retention_days,
        return_window_days=environment.return_window_days,
    )
    now = datetime.fromisoformat(event["time"])
    not_paid = list_unpaid_orders(shop, now - timedelta(minutes=environment.payment_window_minutes))
    not_confirmed = list_unconfirmed_orders(shop, now - timedelta(days=environment.assumed_delivered_days))
    run = ScheduledRun("lapse")
    done = {
        "lapsed": run.apply_each(not_paid, partial(lapse_order, shop)),
        "assumed_delivered": run.apply_each(not_confirmed, partial(assume_delivered, shop)),
    }
    wiring.log.info("looked", extra=done)
    run.raise_if_failed()
    return done
