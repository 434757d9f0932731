"""Measure money, units and requests of an order from its placement to its archive, with all copies, totals and mails.

The order is placed, paid, invoiced, sent, delivered and archived. Real stream records go through the real readers and
workers. Another order of the same products was paid before, so the totals of the products exist.

The floor (`minimum_units`) is a lower bound: it writes each copy, index entry and mail of our key table once, and reads
nothing to detect a repetition. Two changes of the design would lower the floor. The row "if DynamoDB deleted its
items" includes the first change, and the next row includes both:

- DynamoDB could delete an order's items at their `ttl`, for free. But if it deleted an item before the archive had a
  copy of the item, the item would be lost. So our archive deletes the items itself.
- The order's item could contain its payment and shipment. But with many parcels, payments and refunds, the item would
  exceed DynamoDB's maximum size of an item, and each change would write the whole item again.

With five lines, the shop is 45 units above the first floor: 21 write units and 24 read units. [Decision
69](decisions/cost-and-scale.md#d69) lists what each unit is for.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any

from functions.model.table import ROWS_BY_TYPE
from local.world.dynamodb_engine import Engine
from ops.cost.bill import load_prices
from proof.bench.measure import Figure, exact
from proof.bench.measured_shop import PRICE, BenchShop, open_environment, open_shop
from proof.support.http_client import HOME_ADDRESS as HOME

LINES = (1, 5, 20)
QUANTITY = 2
ARCHIVE_DAYS, TTL_DAYS = 396, 30
"""How many days after its end an order is archived, and how many days later the `ttl` of its other items passes."""
STEPS = ("placed", "paid", "dispatched", "delivered", "archived")
DETAILED_LINES = 5
"""The number of lines of the order whose figures are also shown for each step."""
MAX_USD = {1: 54.44, 5: 72.94, 20: 156.31}
"""The aims by number of lines: the price of the units of a million orders in USD."""
BURST, MAX_BURST_UNITS = 23, 115
"""The number of orders that go through each step together, and the aim for the units of one such order."""
UNITS = ("read", "written")
COPIES = {row.type for row in ROWS_BY_TYPE.values() if row.kind in ("snapshot", "log")}
REMAINING = ["ArchivedOrder", "Invoice"]
"""The types of the items that remain in an order's partition after the archiving."""
Used = Mapping[tuple[str, str], Counter[str]]


def figures(engine: Engine) -> list[Figure]:
    """Return the money, units and requests of an order's life, alone and in a burst."""
    with open_environment(engine) as (_, queues):
        lives = {lines: run_life(engine, queues, lines) for lines in LINES}
        found = [figure for lines, life in lives.items() for figure in _life_figures(lines, life)]
        found += burst_figures(engine, queues)
        return found


# a life ---------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Life:
    """The requests and units of an order's life, by step and function."""

    used: Used

    def units(self, *kinds: str, step: str | None = None) -> float:
        """Return the sum of `kinds` ("read", "written", "requests"), by default of all units. `step`: None for all."""
        steps = [used for (name, _), used in self.used.items() if step in (None, name)]
        return sum(used[kind] for used in steps for kind in kinds or UNITS)

    @property
    def money(self) -> float:
        """The price in USD of the units of a million orders with this life."""
        table = load_prices()["table_classes"]["STANDARD"]
        read, written = self.units("read") * table["read_million"], self.units("written") * table["write_million"]
        return round(float(read + written), 2)


def run_life(engine: Engine, queues: dict[str, str], lines: int) -> Life:
    """Place, pay, send, deliver and archive an order of `lines` products, and measure each step."""
    with open_shop(engine, queues) as shop:
        # The id of the customer is fixed, because units depend on its length.
        return Life(run_lives(shop, ["ann-1"], [f"p{number:02}-ann-1" for number in range(lines)]))


def run_lives(shop: BenchShop, customers: Sequence[str], product_ids: Sequence[str]) -> Used:
    """Run the lives of orders of the same products, one order of each customer, and measure each step.

    The records of a step are one batch. Raises AssertionError if an order is not archived at the end.
    """
    quantities, amount = dict.fromkeys(product_ids, QUANTITY), PRICE * QUANTITY * len(product_ids)
    shop.open("other-ann-1", product_ids)
    shop.pay(shop.place("other-ann-1", "key-1", quantities), amount)
    for customer_id in customers:
        shop.open(customer_id, [])
    shop.deliver_all()
    orders: list[str] = []

    def step(name: str, act: Callable[[], object]) -> None:
        shop.meter.step, shop.meter.function = name, "api"
        with shop.meter.measure():
            act()
            shop.deliver_all()

    def each(act: Callable[[str], None]) -> None:
        for order_id in orders:
            act(order_id)

    step("placed", lambda: orders.extend(shop.place(customer, "key-1", quantities) for customer in customers))
    step("paid", lambda: each(lambda order_id: shop.pay(order_id, amount)))
    step("dispatched", lambda: each(shop.harness.dispatch_order))
    step("delivered", lambda: each(shop.harness.deliver_order))
    for days in (ARCHIVE_DAYS, TTL_DAYS):
        step("archived", partial(shop.harness.advance_days, days))
    for order_id in orders:
        left = sorted(item["type"]["S"] for item in shop.harness.partition(f"ORDER#{order_id}"))
        assert left == REMAINING, left
    return dict(shop.meter.used)


def burst_figures(engine: Engine, queues: dict[str, str]) -> Iterator[Figure]:
    """Yield the average units and requests of an order in a burst."""
    with open_shop(engine, queues) as shop:
        burst = run_burst(shop)
    called = f"an order's whole life, {DETAILED_LINES} lines, with {BURST - 1} others at once"
    yield Figure(f"{called}: units", "units", exact(average_per_order(burst, UNITS)), max_value=MAX_BURST_UNITS)
    yield Figure(f"{called}: requests", "requests", exact(average_per_order(burst, ("requests",))))


def average_per_order(burst: Used, kinds: Sequence[str]) -> float:
    """Return the sum of `kinds` ("read", "written", "requests") of a burst, divided by the number of its orders."""
    return round(sum(used[kind] for used in burst.values() for kind in kinds) / BURST, 2)


def run_burst(shop: BenchShop) -> Used:
    """Run the lives of BURST orders of the same products, each by a different customer."""
    customers = [f"ann-1-{number}" for number in range(BURST)]
    return run_lives(shop, customers, [f"p{number:02}-ann-1" for number in range(DETAILED_LINES)])


def _life_figures(lines: int, life: Life) -> Iterator[Figure]:
    called = f"an order's whole life, {lines} line{'s' * (lines > 1)}"
    floor = sum(minimum_units(lines).values())
    yield Figure(f"{called}: money", "USD per million lives", exact(life.money), max_value=MAX_USD[lines])
    yield Figure(f"{called}: units", "units", exact(life.units()), exact(floor))
    yield Figure(f"{called}: written", "units", exact(life.units("written")))
    yield Figure(f"{called}: read", "units", exact(life.units("read")))
    yield Figure(f"{called}: requests", "requests", exact(life.units("requests")))
    if lines == DETAILED_LINES:
        for step in STEPS:
            yield Figure(f"{called}: {step}", "units", exact(life.units(step=step)))
        for design, saved in further_designs().items():
            floor -= saved
            yield Figure(f"{called}: {design}", "units", floor=exact(floor))


CHANGES, MAILS = 5, 4


def minimum_units(lines: int) -> dict[str, float]:
    """Return the minimum units of each part of a life with the keys of model/table.py, by the developer guide's rules
    ("Read and write operations", "Capacity unit consumption"): one unit is written for each KB, two in a transaction;
    in each index one for an item that comes, goes or changes, two for one that moves; half a unit is read for 4 KB.

    An order is one item with its lines in it; the changes of one step are one transaction. Each copy is one put, each
    total one update, each mail is stored once.

    The rule is frozen: it was written before the code that it is compared with. It depends on the number of lines, and
    not on what our code stores or sends: the size of the order is that of `least_order`. A test compares the digest of
    this function, so that no change of the rule goes unnoticed.
    """
    whole = kilobytes(least_order(lines))
    return {
        "placing: the order, a place in its queue, the stock": 2 * whole + 1 + 2 * lines,
        "placing: the customer and the products are read": (1 + lines) / 2,
        "paying: the order, its move to another queue, the payment": 2 * whole + 2 + 2,
        "fulfilling: the order and its move; the invoice in two indexes": (2 * whole + 2) + (2 * whole + 2 * whole),
        "fulfilling: the number of the invoice, the shipment": 2 + 2,
        "fulfilling: order, customer and number are read": 1.5,
        "dispatching: the order and its move, the shipment and its place by number": (2 * whole + 2) + (2 + 1),
        "delivering: the order leaves the queue, the shipment": (2 * whole + 1) + (2 + 1),
        "copies of each change: summary, activity with its index": CHANGES * (1 + 2),
        "sales: a line for each product; what the customer bought is in the summary": lines,
        "totals: each product's, which moves among the best, the minute's": 3 * lines + 1,
        "mails: each kept, and found by its customer": MAILS * 1,
        "mails: customer and order are read": MAILS * 1,
        "archive: the partition is read": ceil((2 * whole + 3) / 4) / 2,
        "archive: payment and shipment are deleted": 1 + 2,
        "archive: the stub, and the summary that shows it": 2,
    }


def least_order(lines: int) -> dict[str, Any]:
    """Return the smallest item of a placed order: its keys, and the attributes that a shop must show."""
    at, order_id = "2026-11-24T12:00:00.000Z", "g4xouvh65duoz5hu2sws4jhtyq"
    line = {"name": "Blue p00-ann-1", "price": PRICE, "quantity": QUANTITY}
    return {
        "PK": f"ORDER#{order_id}",
        "SK": "ORDER",
        "GSI2PK": "STATUS#PENDING#0",
        "GSI2SK": f"{at}#{order_id}",
        "type": "Order",
        "order_id": order_id,
        "customer_id": "ann-1",
        "status": "PENDING",
        "currency": "EUR",
        "placed_at": at,
        "updated_at": at,
        "total": PRICE * QUANTITY * lines,
        "address": HOME,
        "lines": {f"p{number:02}-ann-1": line for number in range(lines)},
    }


def further_designs() -> dict[str, float]:
    """Return the units that each change of the design would save. A row of the page includes the rows before it. The
    docstring of this module names the disadvantages."""
    return {
        "if DynamoDB deleted its items at their ttl": 1 + 2,
        "and if its item contained payment and shipment": 2 + 2 + 2 + 2,
    }


def kilobytes(item: Mapping[str, Any]) -> int:
    """Return the size of an item in KB, rounded up (developer guide, "DynamoDB item sizes and formats")."""
    return ceil(sum(len(name) + _size(value) for name, value in item.items()) / 1024)


def _size(value: Any) -> int:
    if isinstance(value, Mapping):
        return 3 + sum(1 + len(name) + _size(one) for name, one in value.items())
    if isinstance(value, list):
        return 3 + sum(1 + _size(one) for one in value)
    if value is None or isinstance(value, bool):
        return 1
    return len(str(value).encode()) if isinstance(value, str) else 1 + ceil(len(str(value)) / 2)
