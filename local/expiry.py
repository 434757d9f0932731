"""Deletes expired items of the local DynamoDB. An advance also deletes the items that expire within a given time.

The command `python -m local advance 400d` starts an advance with a future time: 400 days from now. First, the advance
runs the stack's schedules (local/schedules.py) with times up to this time. They end unpaid orders, mark old shipped
orders as delivered, erase customers, and so on. Then the advance deletes the items that are expired at the future time.

No clock is changed, and the future time is not stored. All other functions read the real clock, as on AWS. So an order
that is placed after the command does not expire earlier than usual. For the same reason, an advance keeps the items in
`KEPT_TYPES` until their real expiry: by the real clock, the functions still count in these items.

An advance deletes each due item with DeleteItem, on the condition that the item's expiry time did not change. On AWS,
the stream record of an expired item has the user identity of DynamoDB's TTL process. The local DynamoDB engine adds
this user identity only when its own TTL process deletes an item. Therefore `expire_until` first stores the keys of the
due items in the engine's database. A trigger in this database then adds the user identity to the stream records of
these deletions. The trigger runs in the transaction of the deletion, so every stream reader sees the user identity.
"""

from __future__ import annotations

import http.client
import re
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta

from functions.model.table import CONTRIBUTION, METRIC, SALE
from local.dynamodb_engine import TTL_ATTRIBUTE, Engine

MAX_DURATION = timedelta(days=36_525)
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

KEPT_TYPES = (*CONTRIBUTION.types, METRIC.type, SALE.type)
"""The types that an advance keeps: the sales of a product and of a minute, and the contributions of items to totals.

If the contribution of an order were deleted, a later cancellation would count the order twice, the archive would wait
for the contribution, and `ops drift` could not add up the totals.
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


def parse_duration(text: str) -> timedelta:
    """Parse a duration such as "400d", "90m" or "2w" of at most a hundred years. Raises ValueError.

    The units are s, m, h, d and w (weeks).
    """
    found = re.fullmatch(r"(\d{1,6})([smhdw])", text.strip())
    if not found:
        raise ValueError(f"{text!r} is not a duration: use a number and a unit (s, m, h, d, w), e.g. 400d")
    length = timedelta(**{UNITS[found[2]]: int(found[1])})
    if length > MAX_DURATION:
        raise ValueError(f"{text!r} is longer than a hundred years")
    return length


def advance(
    engine: Engine, table_name: str, by: timedelta, run_schedules: Callable[[datetime, datetime], object]
) -> int:
    """Expire orders and items as if the duration `by` had passed. No clock is changed.

    First calls `run_schedules` with the time of now and the time to which the clock advances, because the schedules may
    write items that are due within the same duration. Then deletes the due items, and returns their number. Safe to
    repeat.
    """
    now = datetime.now(UTC)
    run_schedules(now, now + by)
    return expire_until(engine, table_name, now + by, keep=KEPT_TYPES)


def expire_until(engine: Engine, table_name: str, until: datetime, keep: Sequence[str] = ()) -> int:
    """Delete the items whose expiry time is `until` or earlier, as TTL would. Return how many items were deleted.

    `until` may be in the future. `keep`: items of these types are deleted only if they are expired now. The table must
    have the string keys PK and SK. Safe to repeat. If another process changes the expiry time of an item meanwhile, the
    item is not deleted.
    """
    expired = engine.delete_expired_items()
    client = engine.dynamodb()
    kept = {f":type{number}": {"S": name} for number, name in enumerate(keep)}
    pages = client.get_paginator("scan").paginate(
        TableName=table_name,
        ConsistentRead=True,
        FilterExpression=" AND ".join(["#ttl <= :until", *(f"#type <> {value}" for value in kept)]),
        ProjectionExpression="PK, SK, #ttl",
        ExpressionAttributeNames={"#ttl": TTL_ATTRIBUTE} | ({"#type": "type"} if kept else {}),
        ExpressionAttributeValues={":until": {"N": str(int(until.timestamp()))}, **kept},
    )
    with closing(sqlite3.connect(engine.database, timeout=30)) as database:
        database.executescript(MARK_EXPIRED_REMOVALS_SQL)
        for page in pages:
            due = [(table_name, item["PK"]["S"], item["SK"]["S"], item[TTL_ATTRIBUTE]["N"]) for item in page["Items"]]
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
    """Delete expired items every `every_seconds` until `stop` is set. AWS may take days to delete expired items.

    Run this function in its own thread. While the engine is down, it retries.
    """
    while not stop.wait(every_seconds):
        try:
            if engine.has_expired_items():
                engine.delete_expired_items()
        except (OSError, http.client.HTTPException, ValueError, RuntimeError, sqlite3.Error):
            continue
