"""Measure the shop of `make up`: the time from a request to its last effect, and how many orders a second it processes.

The bench starts the shop of `make up`, with a warehouse that sends parcels at once. It places and pays an order every
half second. The time of a request ends with its last effect in the logs: the copies, the mail, the invoice or the
shipment. Then 8 clients place orders as fast as they can. For "orders a second", the time ends with the last effect of
all these orders. During this time, the bench also checks the orders' effects. Each figure is from one run.
"""

import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from local.laptop import load_test
from local.laptop.demo import DemoClients
from local.laptop.own_shop import LaptopShop
from local.world.dynamodb_engine import Engine
from proof.bench.measure import Figure, exact

PACED_ORDERS, PACE_SECONDS = 100, 0.5
BURST_ORDERS, CLIENTS = 250, 8
WARM_UP_ORDERS = 12
MEASURED_STEPS = {"placed": ("POST /orders", "OrderPlaced"), "paid": ("POST /payments/events", "OrderPaid")}
"""For each measured step: the route of its request, and the change of the order that causes its effects."""


def figures(engine: Engine) -> list[Figure]:
    """Measure the milliseconds from a request to its last effect, and how many orders a second the shop processes."""
    with tempfile.TemporaryDirectory() as folder:
        laptop = LaptopShop(Path(folder) / "state")
        laptop.start()
        try:
            people = DemoClients(laptop.shop())
            place_orders(people, WARM_UP_ORDERS)
            journal = laptop.state / "journal.sqlite"
            took = list(effect_latencies(journal, place_orders(people, PACED_ORDERS, every_seconds=PACE_SECONDS)))
            seconds = total_seconds(journal, place_orders(people, BURST_ORDERS))
        finally:
            laptop.stop()
    found = []
    for what in MEASURED_STEPS:
        at = statistics.quantiles([values[what] for values in took], n=100)
        found += [
            Figure(f"{what}: request to last effect, p{percent}", "ms", exact(round(at[percent - 1])))
            for percent in (50, 95, 99)
        ]
    return [*found, Figure(f"orders a second, {CLIENTS} clients", "", exact(round(BURST_ORDERS / seconds, 1)))]


def place_orders(people: DemoClients, orders: int, every_seconds: float = 0) -> list[str]:
    """Place orders of a new product, and wait for all their effects. `every_seconds`: the interval; 0 for no pause."""
    product_id, began = people.create_stocked_product(orders), time.monotonic()

    def order(number: int) -> str:
        time.sleep(max(0.0, began + number * every_seconds - time.monotonic()))
        return load_test.place_and_pay(people, product_id)

    with ThreadPoolExecutor(CLIENTS) as pool:
        placed = list(pool.map(order, range(orders)))
    load_test.check_effects(people, placed, product_id)
    return placed


def effect_latencies(journal: Path, orders: list[str]) -> Iterator[dict[str, float]]:
    """Yield for each order: by step, the milliseconds from the step's request to its last effect."""
    for entries in _entries(journal, orders):
        yield {what: _latency_ms(entries, *ends) for what, ends in MEASURED_STEPS.items()}


def total_seconds(journal: Path, orders: list[str]) -> float:
    """Return the seconds from the first request for these orders to the last effect."""
    every = [entry for entries in _entries(journal, orders) for entry in entries]
    began = min(_began(entry) for entry in every if entry["kind"] == "request")
    return (max(_at(entry) for entry in every if entry["kind"] in ("copied", "effect")) - began).total_seconds()


def _entries(journal: Path, orders: list[str]) -> Iterator[list[dict[str, Any]]]:
    with closing(sqlite3.connect(journal)) as database:
        for order_id in orders:
            rows = database.execute("SELECT entry FROM entries WHERE order_id = ?", (order_id,))
            yield [json.loads(text) for (text,) in rows]


def _at(entry: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(entry["at"])


def _began(request: dict[str, Any]) -> datetime:
    """Return when a request began. Its log entry has the time of the answer."""
    return _at(request) - timedelta(milliseconds=float(request["ms"]))


def _latency_ms(entries: list[dict[str, Any]], route: str, change: str) -> float:
    (asked,) = (it for it in entries if it["kind"] == "request" and it["route"] == route)
    (event,) = {it["event_id"] for it in entries if it["kind"] == "published" and it["event"] == change}
    copied = [it for it in entries if it["kind"] == "copied" and it["change"] == change]
    reacted = [it for it in entries if it["kind"] == "effect" and it.get("event") == event]
    return (max(map(_at, (*copied, *reacted))) - _began(asked)).total_seconds() * 1000
