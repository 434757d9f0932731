"""Deletes expired items of the local DynamoDB. An advance also deletes the items that expire within a given time.

`python -m local advance 400d` starts an advance with a time in 400 days. First, it runs the stack's schedules
(local/laptop/schedules.py) up to this time. Then it deletes the items that are due at this time. No clock is changed,
and the functions still read the real clock. So a later order does not expire earlier than usual, and an advance keeps
what functions still write to (`KEPT_TYPES`), and the log entries of an order that is not archived yet.

It deletes each item on the condition that its expiry time did not change. The stream record must have the user identity
of DynamoDB's TTL process, which the engine adds only for its own deletions. So `expire_until` first stores the keys of
the due items in the engine's database. A trigger there adds the identity in the transaction of the deletion, so every
stream reader sees it.
"""

from __future__ import annotations

import http.client
import re
import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache

from functions.dynamodb.codec import Image
from functions.model.table import ACTIVITY, CONTRIBUTION, ORDER, SALE, SALES_MINUTE
from local.world.dynamodb_engine import TTL_ATTRIBUTE, Engine

MAX_DURATION = timedelta(days=36_525)
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

KEPT_TYPES = (*CONTRIBUTION.types, SALES_MINUTE.type, SALE.type)
"""The types that an advance keeps: the sales of a product and of a minute, and the contributions of items to totals.

Without its contribution, a later cancellation would count the order twice, and the archive would wait for it.
"""

MARK_EXPIRED_REMOVALS_SQL = f"""
    CREATE TABLE IF NOT EXISTS orderstream_expiring (
        table_name TEXT, partition TEXT, sort TEXT, ttl TEXT, PRIMARY KEY (table_name, partition, sort)
    );
    CREATE TRIGGER IF NOT EXISTS orderstream_mark_removals AFTER INSERT ON _stream_records
    WHEN NEW.event_name = 'REMOVE' AND EXISTS (
        SELECT 1 FROM orderstream_expiring
        WHERE table_name = NEW.table_name
        AND partition = json_extract(NEW.keys_json, '$.PK.S') AND sort = json_extract(NEW.keys_json, '$.SK.S')
        AND ttl = json_extract(NEW.old_image, '$.{TTL_ATTRIBUTE}.N')
    )
    BEGIN
        UPDATE _stream_records SET user_identity = '{{"type":"Service","principalId":"dynamodb.amazonaws.com"}}'
        WHERE id = NEW.id;
    END;
"""


REPORTED = {
    "lapsed": "unpaid orders that lapsed",
    "assumed_delivered": "shipped orders that were marked as delivered",
    "finished": "erasures that were finished",
}
"""The texts that an advance prints for the results of the schedules, by the name of the result."""


@dataclass(frozen=True)
class Advance:
    """What an advance did. `expired`: the number of deleted items. `done`: the results of the schedules, by name."""

    expired: int
    done: Mapping[str, int]

    def __str__(self) -> str:
        counts = {text: self.done.get(name, 0) for name, text in REPORTED.items()}
        return "; ".join(
            [f"{text}: {count}" for text, count in counts.items() if count] + [f"expired items: {self.expired}"]
        )


def parse_duration(text: str) -> timedelta:
    """Parse a duration in s, m, h, d or w, such as "90m", of at most a hundred years. Raises ValueError."""
    found = re.fullmatch(r"(\d{1,6})([smhdw])", text.strip())
    if not found:
        raise ValueError(f"{text!r} is not a duration: use a number and a unit (s, m, h, d, w), e.g. 400d")
    length = timedelta(**{UNITS[found[2]]: int(found[1])})
    if length > MAX_DURATION:
        raise ValueError(f"{text!r} is longer than a hundred years")
    return length


def advance(
    engine: Engine, table_name: str, by: timedelta, run_schedules: Callable[[datetime, datetime], Mapping[str, int]]
) -> Advance:
    """Run the schedules, and then delete items that expired, as if the duration had passed. Safe to repeat."""
    now = datetime.now(UTC)
    done = run_schedules(now, now + by)
    return Advance(expire_until(engine, table_name, now + by, keep=kept_items(engine, table_name)), done)


def kept_items(engine: Engine, table_name: str) -> Callable[[Image], bool]:
    """Return a predicate: whether an advance keeps an item (`KEPT_TYPES`, and log entries of unarchived orders)."""
    client = engine.dynamodb()

    @cache
    def is_in_table(order_id: str) -> bool:
        found = client.get_item(TableName=table_name, Key=ORDER.key(order_id=order_id), ConsistentRead=True)
        return bool(found.get("Item", {}).get("type") == {"S": ORDER.type})

    def is_kept(item: Image) -> bool:
        kind = item.get("type", {}).get("S")
        return kind in KEPT_TYPES or (kind == ACTIVITY.type and is_in_table(item["order_id"]["S"]))

    return is_kept


def expire_until(
    engine: Engine, table_name: str, until: datetime, keep: Callable[[Image], bool] = lambda item: False
) -> int:
    """Delete the items that expire until this time, as TTL would, and return their number. Safe to repeat.

    `keep`: whether an item stays until its real expiry, by its keys, ttl, `type` and `order_id`. The keys are PK and
    SK. An item whose expiry time changes meanwhile is not deleted.
    """
    expired = engine.delete_expired_items()
    client = engine.dynamodb()
    pages = client.get_paginator("scan").paginate(
        TableName=table_name,
        ConsistentRead=True,
        FilterExpression="#ttl <= :until",
        ProjectionExpression="PK, SK, #ttl, #type, order_id",
        ExpressionAttributeNames={"#ttl": TTL_ATTRIBUTE, "#type": "type"},
        ExpressionAttributeValues={":until": {"N": str(int(until.timestamp()))}},
    )
    with closing(sqlite3.connect(engine.database, timeout=30)) as database:
        database.executescript(MARK_EXPIRED_REMOVALS_SQL)
        for page in pages:
            items = [item for item in page["Items"] if not keep(item)]
            due = [(table_name, item["PK"]["S"], item["SK"]["S"], item[TTL_ATTRIBUTE]["N"]) for item in items]
            with database:
                database.executemany("INSERT OR REPLACE INTO orderstream_expiring VALUES (?, ?, ?, ?)", due)
            for _, partition, sort, ttl in due:
                try:
                    client.delete_item(
                        TableName=table_name,
                        Key={"PK": {"S": partition}, "SK": {"S": sort}},
                        ConditionExpression="#ttl = :ttl",
                        ExpressionAttributeNames={"#ttl": TTL_ATTRIBUTE},
                        ExpressionAttributeValues={":ttl": {"N": ttl}},
                    )
                    expired += 1
                except client.exceptions.ConditionalCheckFailedException:
                    pass  # the item was deleted or its expiry time changed after the scan read it
            with database:
                database.executemany(
                    "DELETE FROM orderstream_expiring WHERE (table_name, partition, sort, ttl) = (?, ?, ?, ?)", due
                )
    return expired


def run_expiry_loop(engine: Engine, stop: threading.Event, every_seconds: float = 1.0) -> None:
    """Delete expired items every `every_seconds`, in its own thread, until `stop` is set. Waits for the engine."""
    while not stop.wait(every_seconds):
        try:
            if engine.has_expired_items():
                engine.delete_expired_items()
        except (OSError, http.client.HTTPException, ValueError, RuntimeError, sqlite3.Error):
            continue
