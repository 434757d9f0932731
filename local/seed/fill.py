"""Fills the running local shop with random orders of some years: simulates them in memory, then writes the items."""

from __future__ import annotations

import random
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3

from functions.adapters.event_bus import to_put_events_entry
from functions.model.reactions import REACTIONS
from local.laptop import users
from local.laptop.shop_client import RunningShop, state_option
from local.seed.distributions import Distribution
from local.seed.history import History
from local.seed.memory_shop import MemoryShop
from local.seed.memory_table import Image
from ops.scan.progress import ProgressReport

ITEMS_PER_REQUEST = 25
"""The maximum number of items in a BatchWriteItem request."""
WRITERS = 4
UNNOTICED_SQL = """
    CREATE TABLE orderstream_seeded (partition TEXT, sort TEXT, PRIMARY KEY (partition, sort)) WITHOUT ROWID;
    CREATE TRIGGER orderstream_unnoticed BEFORE INSERT ON _stream_records
    WHEN NEW.event_name = 'INSERT' AND EXISTS (
        SELECT 1 FROM orderstream_seeded
        WHERE partition = json_extract(NEW.keys_json, '$.PK.S') AND sort = json_extract(NEW.keys_json, '$.SK.S')
    )
    BEGIN SELECT RAISE(IGNORE); END;
"""
"""SQL of a trigger: an inserted item adds no stream record if the table orderstream_seeded has its key."""
NOTICED_SQL = "DROP TRIGGER IF EXISTS orderstream_unnoticed; DROP TABLE IF EXISTS orderstream_seeded;"
KNOWN_USERS = {"alice": "Alice Ash", "bob": "Bob Beck"}
"""Users of the local shop who also become random customers, so that you can sign in as them."""


class ShopNotEmpty(Exception):
    """The shop already has items, so it cannot be filled."""

    def __init__(self) -> None:
        super().__init__("The shop is not empty: stop it with Ctrl-C")


def fill_shop(shop: RunningShop, orders: int, seed: int) -> Counter[str]:
    """Fill the shop with orders of the last years. Print and return how many things of each kind were made.

    The same seed gives the same items in the same shop on the same day. Raises ShopNotEmpty if the shop has items.
    """
    if shop.engine.dynamodb().scan(TableName=shop.table_name, Limit=1)["Items"]:
        raise ShopNotEmpty
    end = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    start = end - timedelta(days=365 * Distribution.years)
    print(f"Playing {orders} orders of {start:%Y-%m-%d} to {end:%Y-%m-%d} with the shop's own code, in memory ...")
    began = time.monotonic()
    variables = _variables_of(shop)
    settings = _settings_of(shop, variables)
    memory = MemoryShop(start, random.Random(seed), variables, **settings)  # noqa: S311  not secret
    window = timedelta(minutes=int(variables["PAYMENT_WINDOW_MINUTES"]))
    history = History(memory, random.Random(seed), end, orders, window, _known_customers(shop))  # noqa: S311
    history.play(lambda day: print(f"  {day:%Y-%m}: {history.counts['orders']} orders", flush=True))
    print(f"Writing {len(memory.table.items)} items and {len(memory.archive)} archive objects ...", flush=True)
    _write_items(shop, list(memory.table.items.values()))
    _write_archive(shop, memory.archive)
    _request_shipments(shop, list(memory.unshipped.values()))
    print(f"Done in {time.monotonic() - began:.0f} s.\n")
    for name, number in sorted(history.counts.items()):
        print(f"  {number:>7,} {name}")
    print(f"\nNext: open the page, sign in as alice, or: .venv/bin/python -m ops drift{state_option(shop.state)}")
    return history.counts


def _variables_of(shop: RunningShop) -> dict[str, str]:
    """Return the environment variables of all functions whose work the `MemoryShop` and its `History` do."""
    client = boto3.client("lambda", **shop.aws.client_options)
    modules = ("api", "order_deadlines", "copies_reader", *(each.function for each in REACTIONS if each.function))
    found: dict[str, str] = {}
    for module in modules:
        name = shop.stack.function_name(f"functions.handlers.{module}.handler")
        found |= client.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    return found


def _settings_of(shop: RunningShop, variables: dict[str, str]) -> dict[str, Any]:
    """Return the settings of a Shop object, as the deployed API has them."""
    secrets = boto3.client("secretsmanager", **shop.aws.client_options)
    pepper = secrets.get_secret_value(SecretId=variables["PEPPER_SECRET"])["SecretString"].encode()
    return {
        "pepper": lambda: pepper,
        "closed_order_days": int(variables["CLOSED_ORDER_DAYS"]),
        "return_window_days": int(variables["RETURN_WINDOW_DAYS"]),
    }


def _known_customers(shop: RunningShop) -> Iterator[tuple[str, str, str]]:
    """Yield the customer id, the e-mail address and a name of the users who can sign in."""
    client = boto3.client("cognito-idp", **shop.aws.client_options)
    pool = shop.stack.resource_name("AWS::Cognito::UserPool")
    for user, name in KNOWN_USERS.items():
        users.sign_in(shop.aws, shop.stack, user)  # creates the user if necessary
        found = client.admin_get_user(UserPoolId=pool, Username=users.email_address(user))
        attributes = {one["Name"]: one["Value"] for one in found["UserAttributes"]}
        yield attributes["sub"], attributes["email"], name


def _write_items(shop: RunningShop, items: Sequence[Image]) -> None:
    """Write all items into the shop's table, without stream records."""

    def write(chunk: Sequence[Image]) -> None:
        requests: Any = [{"PutRequest": {"Item": item}} for item in chunk]
        answer = client.batch_write_item(RequestItems={shop.table_name: requests})
        assert not answer["UnprocessedItems"], "the local engine never throttles"

    client, progress = shop.engine.dynamodb(), ProgressReport("writing")
    chunks = [items[start : start + ITEMS_PER_REQUEST] for start in range(0, len(items), ITEMS_PER_REQUEST)]
    with _unnoticed(shop, items), ThreadPoolExecutor(WRITERS) as pool:
        for number, _ in enumerate(pool.map(write, chunks), 1):
            progress.update(number / len(chunks), f"{len(items):,} items")


@contextmanager
def _unnoticed(shop: RunningShop, items: Sequence[Image]) -> Iterator[None]:
    with closing(sqlite3.connect(shop.engine.database, timeout=60, isolation_level=None)) as database:
        database.executescript(NOTICED_SQL + UNNOTICED_SQL)
        database.execute("BEGIN")
        keys = ((item["PK"]["S"], item["SK"]["S"]) for item in items)
        database.executemany("INSERT INTO orderstream_seeded VALUES (?, ?)", keys)
        database.execute("COMMIT")
        try:
            yield
        finally:
            database.executescript(NOTICED_SQL)


def _write_archive(shop: RunningShop, objects: dict[str, bytes]) -> None:
    client = boto3.client("s3", **shop.aws.client_options)
    bucket = shop.stack.outputs["ArchiveBucket"]

    def put(key: str) -> None:
        kind = "application/gzip" if key.endswith(".gz") else "application/json"
        client.put_object(Bucket=bucket, Key=key, Body=objects[key], ContentType=kind)

    progress = ProgressReport("archive")
    with ThreadPoolExecutor(WRITERS) as pool:
        for number, _ in enumerate(pool.map(put, objects), 1):
            progress.update(number / len(objects), f"{len(objects):,} objects")


def _request_shipments(shop: RunningShop, requests: Sequence[Any]) -> None:
    """Send the shipment requests of orders that are not packed yet to the warehouse."""
    client: Any = boto3.client("events", **shop.aws.client_options)
    bus = shop.stack.resource_name("AWS::Events::EventBus")
    for detail in requests:
        client.put_events(Entries=[to_put_events_entry(bus, detail)])
