"""Growth: what every access pattern asks for, and how long it takes, among 1,000, 10,000 and 100,000 other items.

The items around lie in the same partitions and indexes, before and behind what is asked for (those of
tests/model/test_capacity.py). That units and requests of each pattern are the same at each size is made sure of here,
too: the bench fails where one differs. Milliseconds are the local engine's, one question after the other; AWS's differ,
but not by size. `make bench ARGS="--only growth --million"` goes on to a million, with three patterns.
"""

import itertools
import statistics
import time
from collections.abc import Mapping
from typing import Any

from bench.measure import Figure, exact, spread
from functions.dynamodb.patterns import Get, Query
from functions.dynamodb.store import Table
from functions.model import patterns as p
from functions.model.table import BY_TYPE, create_table_request
from local.engine import Engine
from tests.dynamodb.fixtures import START
from tests.dynamodb.wire import Wire
from tests.model.test_capacity import ASKED, around, asked_for, load

Pattern = Get[Any] | Query[Any]
SIZES = [1_000, 10_000, 100_000]
CHOSEN: Mapping[str, Pattern] = {
    "an order": p.A12,
    "a customer's orders": p.A14,
    "the newest orders of a queue": p.A16b,
}
ASKED_TIMES = 7
CHUNK = 5_000

Cost = tuple[float, tuple[str, ...]]
"""Units, and the requests."""


def figures(engine: Engine) -> list[Figure]:
    """Units, requests and milliseconds by size. Raises AssertionError where a pattern asks for more as it grows."""
    request = create_table_request("bench-growth")
    wire = Wire(engine.dynamodb())
    wire.client.create_table(**{name: value for name, value in request.items() if name != "StreamSpecification"})
    table = Table(wire.client, "bench-growth", BY_TYPE, clock=lambda: START)
    load(table, list(asked_for()))
    others, there = around(), 0
    first: Mapping[str, Cost] = {}
    found = []
    for size in SIZES:
        while there < size:
            load(table, list(itertools.islice(others, min(CHUNK, size - there))))
            there += min(CHUNK, size - there)
        patterns = list(ASKED) if size <= 100_000 else list(CHOSEN.values())
        costs = {pattern.id: _cost(wire, table, pattern) for pattern in patterns}
        first = first or costs
        if differ := [name for name, cost in costs.items() if cost != first[name]]:
            raise AssertionError(f"{', '.join(differ)} cost more among {size} items")
        took = {pattern.id: _milliseconds(table, pattern) for pattern in patterns}
        among = f"among {size:,}"
        if len(patterns) == len(ASKED):
            every, asked = f"all {len(costs)} patterns {among}", sum(len(requests) for _, requests in costs.values())
            found += [
                Figure(every, "units", exact(sum(units for units, _ in costs.values()))),
                Figure(every, "requests", exact(asked)),
                Figure(f"a pattern {among}", "ms", spread(map(statistics.median, took.values()))),
            ]
        found += [Figure(f"{what} {among}", "ms", spread(took[pattern.id])) for what, pattern in CHOSEN.items()]
    return found


def _ask(table: Table, pattern: Pattern) -> object:
    ask = ASKED[pattern]
    if isinstance(pattern, Get):
        return table.get(pattern, **ask.known)
    return table.query(pattern, **ask.asked, **ask.known)


def _cost(wire: Wire, table: Table, pattern: Pattern) -> Cost:
    wire.clear()
    assert _ask(table, pattern) is not None
    return wire.units, tuple(wire.operations)


def _milliseconds(table: Table, pattern: Pattern) -> list[float]:
    took = []
    for _ in range(ASKED_TIMES):
        began = time.perf_counter()
        _ask(table, pattern)
        took.append((time.perf_counter() - began) * 1000)
    return took
