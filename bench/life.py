"""Units and requests of an order's whole life: placed, paid, invoiced, sent, delivered and archived, with all copies,
totals and mails; ours, the usual way (bench.usual), and the floor.

Ours are the real handlers on real stream records, so are the usual way's. At the end both must have come to the same
(`State`). The floor is worked out from published rules (`least`): what those copies, indexes and mails need at the
least, if each is written once, nothing is ever done twice and nobody has to find that out.

Half the units of the usual way are out of reach for whoever does this work: the floor is three quarters of them. Most
of either is what the work itself is, copies, sales and totals for each product in their indexes and their deletion;
idempotency and lines of their own are what the usual way pays besides, consistent reads are what ours does (`shown`).

Besides: what placing costs in the plain case, and what each further check adds to it; and what it costs to know that a
copy was made before.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any

from bench import outcome, pair
from bench.measure import Figure, exact
from bench.outcome import State
from bench.pair import PRICE, Sent, Shop
from docs.pages.cost import prices
from functions.model.table import BY_TYPE
from local.engine import Engine
from tests.shop.acts import ANN, open_shop, order_from
from tests.shop.test_units import MORE, furnish

LINES = (1, 5, 20)
QUANTITY = 2
PLAIN_LINES = (1, 5)
DAYS = 396
UNITS = ("read", "written")
COPIES = {row.type for row in BY_TYPE.values() if row.kind in ("snapshot", "log")}
Used = Mapping[tuple[str, str], Counter[str]]


def figures(engine: Engine) -> list[Figure]:
    with pair.opened(engine) as (_, queues):
        lived = {lines: lives(engine, queues, lines) for lines in LINES}
        found = [figure for lines, both in lived.items() for figure in _of_life(lines, both)]
        found += [figure for lines in PLAIN_LINES for figure in _of_placing(lines, lived[lines])]
        return [*found, *_of_checks(engine, queues), *of_deduplication(engine, queues)]


# a life ---------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Life:
    """What an order's life asked for, by step and function, and what came of it. `order`: the order as it was placed:
    all that it is, in one item."""

    used: Used
    state: State
    order: dict[str, Any]

    def units(self, *kinds: str) -> float:
        return sum(used[kind] for used in self.used.values() for kind in kinds or UNITS)


@dataclass(frozen=True)
class Both:
    ours: Life
    usual: Life


def lives(engine: Engine, queues: dict[str, str], lines: int) -> Both:
    """The same life twice. Raises AssertionError where not the same has come of it."""
    customer_id = f"ann-{next(pair.numbers)}"
    with pair.ours(engine, queues) as shop:
        ours = live(shop, customer_id, lines)
    with pair.usual(engine, queues) as other:
        both = Both(ours, live(other, customer_id, lines))
    assert both.ours.state == both.usual.state, both
    return both


def live(shop: Shop, customer_id: str, lines: int) -> Life:
    """An order of so many products, from its placement to the archive."""
    ids = [f"p{number:02}-{customer_id}" for number in range(lines)]
    quantities = dict.fromkeys(ids, QUANTITY)
    shop.open(customer_id, ids)
    shop.floor.records()
    meter, floor = shop.meter, shop.floor

    def step(name: str, act: Any) -> Any:
        meter.step, meter.function = name, "api"
        with meter.on(shop.clients):
            done = act()
            pair.settle(shop)
        return done

    order_id = step("placed", lambda: shop.place(customer_id, "key-1", quantities))
    order, before = outcome.order_of(shop, order_id), outcome.counted(shop, order_id)
    step("paid", lambda: shop.pay(order_id, PRICE * QUANTITY * lines))
    step("dispatched", lambda: shop.ship(order_id))
    step("delivered", lambda: shop.deliver(order_id))
    state = outcome.as_delivered(shop, order_id, customer_id, ids)
    state.metric.subtract(before)
    step("archived", lambda: floor.wait(DAYS))
    outcome.as_archived(shop, state, order_id, customer_id, ids)
    return Life(dict(meter.used), state, order)


def _of_life(lines: int, both: Both) -> Iterator[Figure]:
    ours, usual = both.ours, both.usual
    called = f"an order's whole life, {lines} line{'s' * (lines > 1)}"
    floor = sum(least(lines, ours.order).values())
    half = 0.5 if lines == 5 else None
    yield Figure(called, "units", exact(ours.units()), exact(usual.units()), exact(floor), most=half)
    yield Figure(f"{called}: written", "units", exact(ours.units("written")), exact(usual.units("written")))
    yield Figure(f"{called}: read", "units", exact(ours.units("read")), exact(usual.units("read")))
    yield Figure(f"{called}: requests", "requests", exact(ours.units("requests")), exact(usual.units("requests")))
    yield Figure(f"{called}: its units in money", "USD a million", exact(_priced(ours)), exact(_priced(usual)))


def _priced(life: Life) -> float:
    """A unit written costs five times as much as one read."""
    table = prices()["table_classes"]["STANDARD"]
    read, written = life.units("read") * table["read_million"], life.units("written") * table["write_million"]
    return round(float(read + written), 2)


def least(lines: int, order: Mapping[str, Any]) -> dict[str, float]:
    """The fewest units of each part of a life, by the developer guide's rules ("Read and write operations", "Capacity
    unit consumption"): a unit written for each KB, twice that in a transaction; in each index one for an item that
    comes, goes or changes, two for one that moves in it; half a unit read for 4 KB.

    An order is one item with its lines in it; what one step changes is one transaction. Each copy is one put, each
    total one update, each mail kept once. `order`: as it was placed.
    """
    whole = kilobytes(order)
    changes, mails = 5, 4
    return {
        "placing: the order, a place in its queue, the stock": 2 * whole + 1 + 2 * lines,
        "placing: the customer and the products are read": (1 + lines) / 2,
        "paying: the order, its move to another queue, the payment": 2 * whole + 2 + 2,
        "fulfilling: the order and its move; the invoice in two indexes": (2 * whole + 2) + (2 * whole + 2 * whole),
        "fulfilling: the number of the invoice, the shipment": 2 + 2,
        "fulfilling: order, customer and number are read": 1.5,
        "dispatching: the order and its move, the shipment and its place by number": (2 * whole + 2) + (2 + 1),
        "delivering: the order leaves the queue, the shipment": (2 * whole + 1) + (2 + 1),
        "copies of each change: summary, timeline, activity with its index": changes * (1 + 1 + 2),
        "sales: a line for each product, in two indexes": 3 * lines,
        "totals: each product's with its place among the best, the minute's": 2 * lines + 1,
        "mails: each kept, and found by its order": mails * 2,
        "mails: customer and order are read": mails * 1,
        "archive: the partition is read, a line 0.4 KB": ceil((2 * whole + 3 + 0.4 * lines) / 4) / 2,
        "archive: lines, timeline, payment and shipment are deleted": 3 * lines + changes + 1 + 2,
        "archive: the stub, and the summary that shows it": 2,
    }


def kilobytes(item: Mapping[str, Any]) -> int:
    """Begun KB of an item (developer guide, "DynamoDB item sizes and formats")."""
    return ceil(sum(len(name) + _size(value) for name, value in item.items()) / 1024)


def _size(value: Any) -> int:
    if isinstance(value, Mapping):
        return 3 + sum(1 + len(name) + _size(one) for name, one in value.items())
    if isinstance(value, list):
        return 3 + sum(1 + _size(one) for one in value)
    if value is None or isinstance(value, bool):
        return 1
    return len(str(value).encode()) if isinstance(value, str) else 1 + ceil(len(str(value)) / 2)


def shown(engine: Engine, lines: int = 5) -> str:
    """Where the units of a life go, and those of the floor: a table of each."""
    with pair.opened(engine) as (_, queues):
        both = lives(engine, queues, lines)
    parts = least(lines, both.ours.order)
    floor = [f"{units:>6g}  {part}" for part, units in parts.items()]
    return "\n".join([where(both), "", "the floor", *floor, f"{sum(parts.values()):>6g}"])


def where(both: Both) -> str:
    """By step and function: units read + written."""
    rows = dict.fromkeys([*both.ours.used, *both.usual.used])
    lines = [f"{'step':<11} {'function':<14} {'ours':>13} {'usual':>13}"]
    for row in rows:
        cells = [life.used.get(row, Counter()) for life in (both.ours, both.usual)]
        shown = "".join(f" {cell['read']:>6g} +{cell['written']:>5g}" for cell in cells)
        lines.append(f"{row[0]:<11} {row[1]:<14}{shown}")
    totals = [(life.units("read"), life.units("written")) for life in (both.ours, both.usual)]
    return "\n".join([*lines, " " * 26 + "".join(f" {read:>6g} +{written:>5g}" for read, written in totals)])


# placing --------------------------------------------------------------------------------------------------------------
def _of_placing(lines: int, both: Both) -> Iterator[Figure]:
    """An order under 1 KB, with nothing to be looked at but the customer and the products."""
    ours, usual = (life.used["placed", "api"] for life in (both.ours, both.usual))
    called = f"placing an order, {lines} line{'s' * (lines > 1)}"
    floor = exact(3 + 2 * lines)
    yield Figure(f"{called}: written", "units", exact(ours["written"]), exact(usual["written"]), floor)
    yield Figure(f"{called}: read", "units", exact(ours["read"]), exact(usual["read"]), exact((1 + lines) / 2))
    yield Figure(f"{called}: requests", "requests", exact(ours["requests"]), exact(usual["requests"]), exact(2))


def _of_checks(engine: Engine, queues: dict[str, str]) -> Iterator[Figure]:
    """What an order asks for beyond its goods: ours alone, for the usual one does not know of it."""
    for name, (order, _, _) in MORE.items():
        with pair.ours(engine, queues) as shop:
            open_shop(shop.floor.shop)
            furnish(shop.floor.shop)
            plain = _spent(shop, "plain", partial(order_from, shop.floor.shop, ANN, "plain", mug=1))
            more = _spent(shop, "more", partial(order, shop.floor.shop))
        units, requests = (sum(more[kind] - plain[kind] for kind in kinds) for kinds in (UNITS, ("requests",)))
        yield Figure(f"placing, {name}: more", "units", exact(units))
        yield Figure(f"placing, {name}: more", "requests", exact(requests))


def _spent(shop: Shop, step: str, act: Callable[[], object]) -> Counter[str]:
    shop.meter.step, shop.meter.function = step, "api"
    with shop.meter.on(shop.clients):
        act()
    return shop.meter.used[step, "api"]


# doing it once --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Known:
    """How often and for how many units it was asked whether a change's copies had been made; and what is sent when the
    change comes again."""

    requests: int
    units: float
    again: int


def of_deduplication(engine: Engine, queues: dict[str, str]) -> Iterator[Figure]:
    """Of an order that was dispatched: its copies are guarded by its version, nothing is added up."""
    with pair.ours(engine, queues) as shop:
        ours = _known(shop)
    with pair.usual(engine, queues) as other:
        usual = _known(other)
    called = "one change's copies are made once: asked for that alone"
    yield Figure(called, "requests", exact(ours.requests), exact(usual.requests), exact(0), most=0)
    yield Figure(called, "units", exact(ours.units), exact(usual.units), exact(0), most=0)
    yield Figure("the same change comes again: asked for", "requests", exact(ours.again), exact(usual.again))


def _known(shop: Shop) -> Known:
    customer_id = f"ann-{next(pair.numbers)}"
    shop.open(customer_id, [customer_id])
    order_id = shop.place(customer_id, "key-1", {customer_id: 1})
    pair.settle(shop)
    shop.pay(order_id, PRICE)
    pair.settle(shop)
    shop.ship(order_id)
    batches: dict[str, list[Any]] = {}
    with shop.meter.on(shop.clients):
        pair.settle(shop, batches.__setitem__)
    asked = [sent for sent in shop.meter.sent if sent.function == "copies" and not _writes_a_copy(sent)]
    shop.meter.function, shop.meter.step = "copies", "again"
    reader, _ = shop.readers["copies"]
    with shop.meter.on(shop.clients):
        assert reader({"Records": batches["copies"]}, pair.CALL) == {"batchItemFailures": []}
    again = shop.meter.used["again", "copies"]
    return Known(len(asked), sum(sent.units for sent in asked), again["requests"])


def _writes_a_copy(sent: Sent) -> bool:
    """Whether a request puts copies there, and does nothing else."""
    if sent.operation == "BatchWriteItem":
        return set(sent.body["RequestItems"]) == {pair.USUAL}
    return sent.operation == "PutItem" and sent.body["Item"].get("type", {}).get("S") in COPIES
