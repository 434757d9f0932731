"""Measure the units and requests of an order from its placement to its archive, with all copies, totals and mails.

The order is placed, paid, invoiced, sent, delivered and archived in each shop. Real stream records go through the real
readers and workers of the shop. Another order of the same products was paid before. At the end all shops must have the
same lists, indexes, totals, mails, remaining items and archive (bench/outcome.py).

The usual shop with the same promises needs no idempotency around its copies, but it pays for the deletion of archived
items: each line, with its entries in two indexes, and each entry of the timeline.

The floor writes each copy, index entry and mail of our key table once, and reads nothing to detect a repetition
(`minimum_units`). Two changes of the design would lower the floor. The second row includes the first change:

- DynamoDB deletes an order's items for free at their `ttl`, as in the usual shop. If it deletes an item before the
  archive has a copy, the item is lost. So our archive deletes the items itself.
- The order's item contains its payment and shipment. With many parcels, payments and refunds it exceeds the maximum
  size of an item, and each change writes all of them again.

Ours is 26.5 units above that floor at five lines. 18 of them are written, and 8.5 are read: [decision
69](decisions/0069-what-an-orders-life-costs-line-by-line.md) lists what each unit is for.

In the last rows the same change is delivered again. Copies whose condition is a version need no unit to detect that;
totals need a mark. Our shop sends each copy again, and DynamoDB rejects it. The usual shop sends one write, which is
rejected. AWS bills a rejected write like an accepted one, by its own size.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any

from bench import outcome, pair
from bench.measure import WAYS, Figure, Spread, exact
from bench.outcome import OrderOutcome
from bench.pair import PRICE, BenchShop, SentRequest
from bench.usual.items import deserialize
from cost.bill import load_prices
from functions.model.table import ROWS_BY_TYPE
from local.dynamodb_engine import Engine
from tests.shop.test_units import MORE, furnish
from tests.support.actors import ANN, open_shop, place_order_as

LINES = (1, 5, 20)
QUANTITY = 2
PLACING_LINES = (1, 5)
ARCHIVE_DAYS, TTL_DAYS = 396, 30
"""How many days after its end an order is archived, and how many days later the `ttl` of its other items passes."""
STEPS = ("placed", "paid", "dispatched", "delivered", "archived")
DETAILED_LINES = 5
"""The number of lines of the order whose figures the report also shows for each step."""
MAX_RATIOS = {1: 0.88, 5: 0.80, 20: 0.75}
"""The aims by number of lines: our share of the usual shop's units. Decision 69 explains why not less."""
UNITS = ("read", "written")
COPIES = {row.type for row in ROWS_BY_TYPE.values() if row.kind in ("snapshot", "log")}
Used = Mapping[tuple[str, str], Counter[str]]


def figures(engine: Engine) -> list[Figure]:
    with pair.open_environment(engine) as (_, queues):
        lived = {lines: run_lives(engine, queues, lines) for lines in LINES}
        found = [figure for lines, both in lived.items() for figure in _life_figures(lines, both)]
        found += burst_figures(engine, queues)
        found += [figure for lines in PLACING_LINES for figure in _placing_figures(lines, lived[lines])]
        return [*found, *_extra_figures(engine, queues), *deduplication_figures(engine, queues)]


# a life ---------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Life:
    """The cost of an order from placement to archive, and its final state. `used`: the requests and capacity units, by
    step and function. `order`: the order's own item after placement."""

    used: Used
    state: OrderOutcome
    order: dict[str, Any]

    def units(self, *kinds: str, step: str | None = None) -> float:
        """Return the sum of these kinds of use, by default of read and written units. `step`: None for all steps."""
        steps = [used for (name, _), used in self.used.items() if step in (None, name)]
        return sum(used[kind] for used in steps for kind in kinds or UNITS)


@dataclass(frozen=True)
class Lives:
    """The cost of the same order in each shop. `promising`: in the usual shop with the same promises as ours."""

    ours: Life
    usual: Life
    promising: Life

    @property
    def ways(self) -> tuple[Life, Life, Life]:
        return self.ours, self.usual, self.promising


def run_lives(engine: Engine, queues: dict[str, str], lines: int) -> Lives:
    """Run the same order in each shop, until it is archived. Raises AssertionError if the final states differ."""
    customer_id = "ann-1"  # fixed, because units depend on the length of the id
    with pair.open_our_shop(engine, queues) as shop:
        ours = run_life(shop, customer_id, lines)
    with pair.open_usual_shop(engine, queues) as usual:
        theirs = run_life(usual, customer_id, lines)
    with pair.open_usual_shop(engine, queues, same_promises=True) as promising:
        found = Lives(ours, theirs, run_life(promising, customer_id, lines))
    assert found.ours.state == found.usual.state == found.promising.state, found
    return found


def run_life(shop: BenchShop, customer_id: str, lines: int) -> Life:
    """Place, pay, send, deliver and archive an order of `lines` products, and measure each step."""
    ids = [f"p{number:02}-{customer_id}" for number in range(lines)]
    quantities = dict.fromkeys(ids, QUANTITY)
    shop.open(customer_id, ids)
    other = f"other-{customer_id}"
    shop.open(other, [])
    shop.pay(shop.place(other, "key-1", quantities), PRICE * QUANTITY * lines)
    pair.deliver_all(shop)
    meter, queues = shop.meter, []

    def step(name: str, act: Any) -> Any:
        meter.step, meter.function = name, "api"
        with meter.measure(shop.clients):
            done = act()
            pair.deliver_all(shop)
        return done

    order_id = step("placed", lambda: shop.place(customer_id, "key-1", quantities))
    order, before = outcome.order_of(shop, order_id), outcome.metric_totals(shop, order_id)
    for name, act in (
        ("paid", lambda: shop.pay(order_id, PRICE * QUANTITY * lines)),
        ("dispatched", lambda: shop.ship(order_id)),
        ("delivered", lambda: shop.deliver(order_id)),
    ):
        queues.append(outcome.queues_of(shop, order_id))
        step(name, act)
    queues.append(outcome.queues_of(shop, order_id))
    state = outcome.outcome_before_archive(shop, order_id, customer_id, ids)
    state.queues = queues
    state.metric.subtract(before)
    for days in (ARCHIVE_DAYS, TTL_DAYS):
        step("archived", partial(shop.harness.advance_days, days))
    outcome.add_archive_outcome(shop, state, order_id, customer_id, ids)
    return Life(dict(meter.used), state, order)


BURST = 23
"""The number of orders in a burst. All of them go through each step together."""
BURST_RATIO = 0.65


def burst_figures(engine: Engine, queues: dict[str, str]) -> Iterator[Figure]:
    """Run a burst (BURST orders at once) in each shop. Yield the average units and requests of one order."""
    with pair.open_our_shop(engine, queues) as shop:
        bursts = [run_burst(shop)]
    for same_promises in (False, True):
        with pair.open_usual_shop(engine, queues, same_promises) as other:
            bursts.append(run_burst(other))
    called = f"an order's whole life, {DETAILED_LINES} lines, with {BURST - 1} others at once"
    for what, kinds, most in (("", UNITS, BURST_RATIO), (": requests", ("requests",), None)):
        columns = [exact(average_per_order(used, kinds)) for used in bursts]
        yield _figure(f"{called}{what}", "requests" if what else "units", columns, max_ratio=most)


def average_per_order(burst: Used, kinds: Sequence[str]) -> float:
    """Return the average use of one order in a burst, summed over these kinds, such as "read"."""
    return round(sum(used[kind] for used in burst.values() for kind in kinds) / BURST, 2)


def run_burst(shop: BenchShop) -> Used:
    """Measure each step of BURST orders, from placement to archive. Each customer orders the same products once.

    The records of a step are one batch. Raises AssertionError if an order is not archived at the end."""
    view, meter, name = outcome.view_of(shop), shop.meter, "ann-1"
    ids = [f"p{number:02}-{name}" for number in range(DETAILED_LINES)]
    quantities, amount = dict.fromkeys(ids, QUANTITY), PRICE * QUANTITY * DETAILED_LINES
    shop.open(f"other-{name}", ids)
    shop.pay(shop.place(f"other-{name}", "key-1", quantities), amount)
    customers = [f"{name}-{number}" for number in range(BURST)]
    for customer_id in customers:
        shop.open(customer_id, [])
    pair.deliver_all(shop)
    orders: list[str] = []

    def step(name: str, act: Callable[[], object]) -> None:
        meter.step, meter.function = name, "api"
        with meter.measure(shop.clients):
            act()
            pair.deliver_all(shop)

    def each(act: Callable[[str], None]) -> None:
        for order_id in orders:
            act(order_id)

    step("placed", lambda: orders.extend(shop.place(customer, "key-1", quantities) for customer in customers))
    step("paid", lambda: each(lambda order_id: shop.pay(order_id, amount)))
    step("dispatched", lambda: each(shop.ship))
    step("delivered", lambda: each(shop.deliver))
    for days in (ARCHIVE_DAYS, TTL_DAYS):
        step("archived", partial(shop.harness.advance_days, days))
    for order_id in orders:
        left = outcome.group_by_kind(view, shop.harness.partition(view.order.format(order_id)))
        assert sorted(left) == ["invoice", "stub"], left
    return dict(meter.used)


def _figure(what: str, unit: str, columns: Sequence[Spread], **aims: float | None) -> Figure:
    """Return a figure. `columns`: the values in the order of WAYS. The last values may be missing."""
    return Figure.of(what, unit, dict(zip(WAYS, columns, strict=False)), **aims)


def _life_figures(lines: int, lived: Lives) -> Iterator[Figure]:
    called = f"an order's whole life, {lines} line{'s' * (lines > 1)}"
    floor = sum(minimum_units(lines).values())

    def figure(what: str, unit: str, measure: Callable[[Life], float], *least: Spread, **aims: float | None) -> Figure:
        return _figure(f"{called}{what}", unit, [*(exact(measure(life)) for life in lived.ways), *least], **aims)

    yield figure("", "units", Life.units, exact(floor), max_ratio=MAX_RATIOS[lines])
    yield figure(": written", "units", lambda life: life.units("written"))
    yield figure(": read", "units", lambda life: life.units("read"))
    yield figure(": requests", "requests", lambda life: life.units("requests"))
    yield figure(": its units in money", "USD per million lives", _unit_price)
    if lines == DETAILED_LINES:
        for step in STEPS:
            yield figure(f": {step}", "units", partial(Life.units, step=step))
        for design, saved in further_designs().items():
            floor -= saved
            yield Figure(f"{called}: {design}", "units", floor=exact(floor))


def _unit_price(life: Life) -> float:
    """Return the price in USD of the capacity units of a million such orders."""
    table = load_prices()["table_classes"]["STANDARD"]
    read, written = life.units("read") * table["read_million"], life.units("written") * table["write_million"]
    return round(float(read + written), 2)


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
    """Return the smallest item of a placed order: its keys, and the attributes that both shops show."""
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
        "address": pair.HOME,
        "lines": {f"p{number:02}-ann-1": line for number in range(lines)},
    }


def further_designs() -> dict[str, float]:
    """Return the units that each change of the design would save. A row of the page includes the rows before it. The
    docstring of this module names the disadvantages."""
    return {
        "the same, deleted at ttl": 1 + 2,
        "and payment and shipment within the order": 2 + 2 + 2 + 2,
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


def unit_breakdown(engine: Engine, lines: int = 5) -> str:
    """Return two tables as text: an order's units by step and function, and the minimum units of each part."""
    with pair.open_environment(engine) as (_, queues):
        both = run_lives(engine, queues, lines)
    parts = minimum_units(lines)
    least = [f"{units:>6g}  {part}" for part, units in parts.items()]
    return "\n".join([units_by_function(both), "", "the least of these keys", *least, f"{sum(parts.values()):>6g}"])


def units_by_function(both: Lives) -> str:
    """Return a table as text: the read and written units of each shop, by step and function."""
    rows = dict.fromkeys([*both.ours.used, *both.usual.used, *both.promising.used])
    lines = [f"{'step':<11} {'function':<14} {'ours':>13} {'usual':>13} {'same promises':>13}"]
    for row in rows:
        cells = [life.used.get(row, Counter()) for life in both.ways]
        shown = "".join(f" {cell['read']:>6g} +{cell['written']:>5g}" for cell in cells)
        lines.append(f"{row[0]:<11} {row[1]:<14}{shown}")
    totals = [(life.units("read"), life.units("written")) for life in both.ways]
    return "\n".join([*lines, " " * 26 + "".join(f" {read:>6g} +{written:>5g}" for read, written in totals)])


# placing --------------------------------------------------------------------------------------------------------------
def _placing_figures(lines: int, both: Lives) -> Iterator[Figure]:
    """Yield the units and requests to place an order. The lower bound reads only the customer and the products."""
    called = f"placing an order, {lines} line{'s' * (lines > 1)}"
    least = {"written": 3 + 2 * lines, "read": (1 + lines) / 2, "requests": 2}
    for kind, floor in least.items():
        columns = [*(exact(life.used["placed", "api"][kind]) for life in both.ways), exact(floor)]
        most = None if kind == "read" else floor
        unit = "requests" if kind == "requests" else "units"
        yield _figure(f"{called}: {kind}", unit, columns, max_value=most)


def _extra_figures(engine: Engine, queues: dict[str, str]) -> Iterator[Figure]:
    """Yield the additional cost of each extra of an order, such as a discount code. The usual shop has no extras."""
    for name, (order, _, _) in MORE.items():
        with pair.open_our_shop(engine, queues) as shop:
            open_shop(shop.harness.shop)
            furnish(shop.harness.shop)
            plain = _measure_step(shop, "plain", partial(place_order_as, shop.harness.shop, ANN, "plain", mug=1))
            more = _measure_step(shop, "more", partial(order, shop.harness.shop))
        units, requests = (sum(more[kind] - plain[kind] for kind in kinds) for kinds in (UNITS, ("requests",)))
        yield Figure(f"placing, more for {name}", "units", exact(units))
        yield Figure(f"placing, more for {name}", "requests", exact(requests))


def _measure_step(shop: BenchShop, step: str, act: Callable[[], object]) -> Counter[str]:
    shop.meter.step, shop.meter.function = step, "api"
    with shop.meter.measure(shop.clients):
        act()
    return shop.meter.used[step, "api"]


# deduplication --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class DeduplicationCost:
    """The requests and units that only detect whether a change was processed before. `rejected_kilobytes`: the sizes in
    KB of the writes that DynamoDB rejects when the same change is delivered again."""

    requests: int
    units: float
    rejected_kilobytes: list[int]


def deduplication_figures(engine: Engine, queues: dict[str, str]) -> Iterator[Figure]:
    """Yield what duplicate detection costs for a dispatched order (only copies) and a paid order (also totals)."""
    with pair.open_our_shop(engine, queues) as shop:
        ours = _measure_deduplication(shop)
    with pair.open_usual_shop(engine, queues) as other:
        usual = _measure_deduplication(other)
    with pair.open_usual_shop(engine, queues, same_promises=True) as another:
        promising = _measure_deduplication(another)
    for name, most in (("dispatched", 0.0), ("paid", None)):
        costs = [way[name] for way in (ours, usual, promising)]
        called = f"to know that the copies of an order that is {name} were made before"
        for unit, spent in (
            ("requests", [exact(cost.requests) for cost in costs]),
            ("units", [exact(cost.units) for cost in costs]),
        ):
            yield _figure(called, unit, [*spent, exact(0)], max_ratio=most)
    rejected = [way["dispatched"].rejected_kilobytes for way in (ours, usual, promising)]
    again = "the same change comes again: rejected writes"
    yield _figure(again, "requests", [exact(len(each)) for each in rejected])
    yield _figure(f"{again}, as AWS bills them", "units", [exact(sum(each)) for each in rejected])


def _measure_deduplication(shop: BenchShop) -> dict[str, DeduplicationCost]:
    """Return what duplicate detection costs for each change of an order. Deliver each change again, at once and later.

    Raises AssertionError if a redelivery changes a copy."""
    customer_id = f"ann-{next(pair.unique_numbers)}"
    shop.open(customer_id, [customer_id])
    order_id = shop.place(customer_id, "key-1", {customer_id: 1})
    pair.deliver_all(shop)
    found, batches = {}, []
    acts = {"paid": partial(shop.pay, order_id, PRICE), "dispatched": partial(shop.ship, order_id)}
    for name, act in acts.items():
        act()
        calls: list[tuple[str, int, list[Any]]] = []
        shop.meter.sent.clear()
        with shop.meter.measure(shop.clients):
            pair.deliver_all(
                shop, lambda *called, calls=calls: calls.append((called[0], len(shop.meter.sent), called[1]))
            )
        # The first call of `copies_reader` processes this change. Later calls may process changes that follow from it.
        at = next(n for n, (function, _, _) in enumerate(calls) if function == "copies_reader")
        batch, until = calls[at][2], calls[at + 1][1]
        asked = [_deduplication_share(sent) for sent in shop.meter.sent[calls[at][1] : until]]
        found[name] = DeduplicationCost(sum(it[0] for it in asked), sum(it[1] for it in asked), _redeliver(shop, batch))
        batches.append(batch)
    shop.deliver(order_id)
    pair.deliver_all(shop)
    for batch in batches:
        _redeliver(shop, batch)
    return found


def _redeliver(shop: BenchShop, records: list[Any]) -> list[int]:
    """Deliver a batch to `copies_reader` again. Return the size in KB of each write. No write changes an item."""
    reader, _ = shop.readers["copies_reader"]
    before = outcome.copies_of(shop)
    shop.meter.sent.clear()
    with shop.meter.measure(shop.clients):
        assert reader({"Records": records}, pair.LAMBDA_CONTEXT) == {"batchItemFailures": []}
    assert outcome.copies_of(shop) == before
    return [kilobytes(deserialize(sent.body.get("Item", {}))) for sent in shop.meter.sent]


def _deduplication_share(sent: SentRequest) -> tuple[int, float]:
    """Return the part of a request of `copies_reader` that only detects duplicates: requests and units."""
    if sent.operation == "TransactWriteItems":  # our shop writes totals and their contribution in one transaction
        marks = [write for write in sent.body["TransactItems"] if '"COUNTED#' in json.dumps(write).upper()]
        return 0, 2.0 * len(marks)
    reads_lines = sent.operation == "Query" and sent.body["TableName"] in pair.USUAL.values()
    return (0, 0.0) if reads_lines or _writes_a_copy(sent) else (1, sent.units)


def _writes_a_copy(sent: SentRequest) -> bool:
    """Return whether a request only writes copies."""
    if sent.operation == "BatchWriteItem":
        return set(sent.body["RequestItems"]) <= set(pair.USUAL.values())
    if sent.body.get("TableName") == pair.USUAL[True]:
        return sent.operation in ("PutItem", "UpdateItem")
    return sent.operation == "PutItem" and sent.body["Item"].get("type", {}).get("S") in COPIES
