"""Job that runs every minute and applies two time limits to orders.

- The payment window: if an order is not fully paid within this time after it was placed, the job ends the order.
- The delivery limit: if a shipped order has not changed for this time, the job marks it as delivered.

The job compares the time limits with the scheduled time in EventBridge's event, not with the system clock. So a run
that starts late has the same result as a run that starts in time.
"""

from datetime import datetime, timedelta
from functools import partial
from typing import Any

from functions.runtime import clients, observability
from functions.runtime.environment import OrderDeadlinesEnvironment, load_environment
from functions.runtime.log import log
from functions.runtime.scheduled_jobs import ScheduledRun
from functions.shop.cancellation import lapse_order, list_unpaid_orders
from functions.shop.shipments import assume_delivered, list_unconfirmed_orders


@observability.instrument_handler
def handler(event: dict[str, Any], _context: Any) -> dict[str, int]:
    """Lambda entry point for a scheduled event, `{"time": "2026-11-21T09:30:00Z"}`.

    Ends orders that are not paid in time (new status LAPSED). Marks shipped orders as delivered if their delivery is
    not confirmed in time. Returns how many orders were ended and how many were marked. Raises RunIncomplete at the end
    if an order failed, so that the invocation counts as failed.
    """
    environment = load_environment(OrderDeadlinesEnvironment)
    shop = clients.create_shop(
        environment.table_name,
        retention_days=environment.retention_days,
        return_window_days=environment.return_window_days,
    )
    now = datetime.fromisoformat(event["time"])
    not_paid = list_unpaid_orders(shop, now - timedelta(minutes=environment.payment_window_minutes))
    not_confirmed = list_unconfirmed_orders(shop, now - timedelta(days=environment.assumed_delivered_days))
    run = ScheduledRun("order_deadlines")
    done = {
        "lapsed": run.apply_each(not_paid, partial(lapse_order, shop)),
        "assumed_delivered": run.apply_each(not_confirmed, partial(assume_delivered, shop)),
    }
    log.info("deadlines_checked", extra=done)
    run.raise_if_failed()
    return done
