"""Slows the clients of the local shop while it is far behind with the effects of orders.

A laptop accepts orders faster than it can process their effects, such as mails. Without a limit, the effects of an
order come many minutes later. AWS starts more functions instead, so this limit is only in the local shop.
"""

from __future__ import annotations

import time
from pathlib import Path

from functions.model.service_levels import SERVICE_LEVELS
from local.laptop.backlog import read_consumer_lags

MAX_LAG_SECONDS = 15
MIN_WAITING = 500
"""A consumer is too slow if its lag and its waiting records or messages reach both limits.

The lag alone is not enough: after a laptop has slept, a few records are hours old. Nor is the number: the readers
process 500 records of an import in seconds.
"""
MAX_FILE_AGE_SECONDS = 10
"""The shop ignores a file with an older measurement, because it is from a killed run."""
RETRY_AFTER_SECONDS = 5
CONSUMERS = {"event_publisher", *(level.function for level in SERVICE_LEVELS)}


def find_overload(file: Path, method: str, path: str) -> str | None:
    """Return why the shop accepts no new order now, or None, also for any other request. `file`: the lags."""
    if (method, path) != ("POST", "/orders") or not _is_recent(file):
        return None
    late = [one for one in read_consumer_lags(file) if one.name in CONSUMERS and one.waiting >= MIN_WAITING]
    worst = max(late, key=lambda one: one.seconds, default=None)
    if worst is None or worst.seconds < MAX_LAG_SECONDS:
        return None
    return f"This machine is behind with the orders: {worst}. Send the order again in {RETRY_AFTER_SECONDS} seconds."


def _is_recent(file: Path) -> bool:
    try:
        return time.time() - file.stat().st_mtime < MAX_FILE_AGE_SECONDS
    except OSError:
        return False
