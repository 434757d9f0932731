"""What the passing of time does to orders, looked at every minute: unpaid ones lapse, shipped ones count as delivered.

"Now" is the schedule's own time, which EventBridge puts into the event: a late run does what it was due to do.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from functions import wiring
from functions.environment import Lapse, current
from functions.shop.ending import lapse, unpaid
from functions.shop.shipments import assume_delivered, unconfirmed


class NotAll(Exception):
    """Some orders failed; the others were done, and the next run looks at all of them again."""


def handler(event: dict[str, Any], _context: Any) -> dict[str, int]:
    """Lambda entry point for a scheduled event, `{"time": "2026-11-21T09:30:00Z"}`. Answers how many of each.

    Raises NotAll at the end, so that the failure is seen.
    """
    environment = current(Lapse)
    shop = wiring.shop(
        environment.table_name,
        retention_days=environment.retention_days,
        return_window_days=environment.return_window_days,
    )
    now = datetime.fromisoformat(event["time"])
    not_paid = unpaid(shop, now - timedelta(minutes=environment.payment_window_minutes))
    not_confirmed = unconfirmed(shop, now - timedelta(days=environment.assumed_delivered_days))
    failed: list[str] = []
    done = {
        "lapsed": _each(not_paid, partial(lapse, shop), failed),
        "assumed_delivered": _each(not_confirmed, partial(assume_delivered, shop), failed),
    }
    wiring.log.info("looked", extra=done)
    if failed:
        raise NotAll(f"{len(failed)} orders failed")
    return done


def _each(order_ids: Iterable[str], act: Callable[[str], bool], failed: list[str]) -> int:
    """Do something with each order. Returns with how many it was done; one that fails does not stop the others."""
    done = 0
    for order_id in order_ids:
        try:
            done += act(order_id)
        except Exception as error:  # noqa: BLE001  whatever it is, the others must not wait for it
            wiring.failing("lapse")(error, {"messageId": order_id})
            failed.append(order_id)
    return done
