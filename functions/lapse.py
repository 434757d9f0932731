"""What the passing of time does to orders, looked at every minute: unpaid ones lapse, shipped ones count as delivered.

"Now" is the schedule's own time, which EventBridge puts into the event: a late run does what it was due to do.
"""

from datetime import datetime, timedelta
from typing import Any

from functions import wiring
from functions.environment import Lapse, current
from functions.shop.orders import lapse_unpaid
from functions.shop.shipments import assume_delivered


def handler(event: dict[str, Any], _context: Any) -> dict[str, int]:
    """Lambda entry point for a scheduled event, `{"time": "2026-11-21T09:30:00Z"}`. Answers how many of each."""
    environment = current(Lapse)
    shop = wiring.shop(
        environment.table_name,
        retention_days=environment.retention_days,
        return_window_days=environment.return_window_days,
    )
    now = datetime.fromisoformat(event["time"])
    done = {
        "lapsed": lapse_unpaid(shop, now - timedelta(minutes=environment.payment_window_minutes)),
        "assumed_delivered": assume_delivered(shop, now - timedelta(days=environment.assumed_delivered_days)),
    }
    wiring.log.info("looked", extra=done)
    return done
