"""Job that runs every minute and applies two time limits to orders.

- The payment window: if an order is not fully paid within this time after it was placed, the job ends the order.
- The delivery limit: if a shipped order has not changed for this time, the job marks it as delivered.

It compares them with the scheduled time in EventBridge's event, so a late run has the same result.

The schedule starts several runs at the same time, each for its own group of shards of the index of open orders. A run
processes several orders at once, stops before its timeout, and leaves the rest to the next. Runs that overlap are
harmless, because each order is changed by a conditional write.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from functions.model.entities import STATUS_SHARDS, QueuedOrder
from functions.runtime import clients, observability
from functions.runtime.environment import OrderDeadlinesEnvironment, load_environment
from functions.runtime.log import log
from functions.runtime.scheduled_jobs import ScheduledRun, WorkList
from functions.runtime.time_limit import TimeLimit
from functions.shop.cancellation import lapse_order, list_unpaid_orders
from functions.shop.shipments import assume_delivered, list_unconfirmed_orders
from functions.shop.shop import ShopContext


@observability.instrument_handler
def handler(event: dict[str, Any], context: Any) -> dict[str, int]:
    """Lambda entry point for a scheduled event, `{"time": "2026-11-21T09:30:00Z", "group": 0, "groups": 4}`.

    Ends orders that are not paid in time (new status LAPSED), and marks shipped orders as delivered if their delivery
    is not confirmed in time. Returns both numbers. Raises RunIncomplete at the end if an order failed. `group`,
    `groups`: process every `groups`-th shard, from number `group` on; by default all.
    """
    environment = load_environment(OrderDeadlinesEnvironment)
    shop = clients.create_shop(
        environment.table_name,
        closed_order_days=environment.closed_order_days,
        return_window_days=environment.return_window_days,
    )
    now = datetime.fromisoformat(event["time"])
    shards = range(event.get("group", 0), STATUS_SHARDS.read, event.get("groups", 1))
    placed_before = now - timedelta(minutes=environment.payment_window_minutes)
    shipped_before = now - timedelta(days=environment.assumed_delivered_days)
    not_paid = [_work_list(list_unpaid_orders(shop, placed_before, shard), shop, lapse_order) for shard in shards]
    not_confirmed = [
        _work_list(list_unconfirmed_orders(shop, shipped_before, shard), shop, assume_delivered) for shard in shards
    ]
    run = ScheduledRun("order_deadlines", TimeLimit(context), environment.lapse_lanes, shop.table.run_concurrently)
    run.process(*not_paid, *not_confirmed)
    done = {"lapsed": _count(not_paid), "assumed_delivered": _count(not_confirmed)}
    log.info("deadlines_checked", extra=done)
    run.raise_if_failed()
    return done


def _work_list(
    orders: Iterator[QueuedOrder], shop: ShopContext, handle: Callable[[ShopContext, str], bool]
) -> WorkList[QueuedOrder]:
    return WorkList(orders, lambda order: handle(shop, order.order_id), lambda order: order.order_id)


def _count(lists: Iterable[WorkList[QueuedOrder]]) -> int:
    return sum(each.done for each in lists)
