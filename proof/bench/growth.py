"""Measure whether access patterns get slower or cost more as the table grows to 1,000, 10,000 and 100,000 other items.

An access pattern is a named query. The other items are in the same partitions and indexes, before and after the items
that the query reads. The bench fails if, at any size, the units or requests of a pattern differ from the recorded
numbers (proof/support/recorded_units.json).

After one warm-up query, the local engine runs one query after the other, on a table without a stream. Times on AWS are
different, but do not depend on the table's size either. "The pattern in the middle" is the median of all patterns.
`make bench ARGS="--only growth --million"` also measures three patterns among a million items.
"""

import itertools
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

from functions.dynamodb.patterns import Get, Query
from functions.dynamodb.table import Table
from functions.model import patterns as p
from functions.model.table import ROWS_BY_TYPE, create_table_request
from local.world.dynamodb_engine import Engine
from proof.bench.measure import Figure, exact, spread
from proof.support.client_faults import WireTap
from proof.support.pattern_examples import UNITS, around, asked_for, call_of, load
from proof.support.tapped_client import START

Pattern = Get[Any] | Query[Any]
RECORDED: Mapping[str, Mapping[str, Any]] = json.loads(UNITS.read_text(encoding="utf-8"))
SIZES = [1_000, 10_000, 100_000]
MEASURED_PATTERNS: Mapping[str, Pattern] = {
    "an order": p.ORDER_BY_ID,
    "a customer's orders": p.ORDERS_OF_CUSTOMER,
    "the newest orders of a queue": p.ORDERS_BY_STATUS_NEWEST_FIRST,
}
MILLION = 1_000_000
REPETITIONS = 7
CHUNK = 5_000


def figures(engine: Engine) -> list[Figure]:
    """Return the figures of each table size. Raises AssertionError if a pattern's cost is not the recorded cost."""
    request = create_table_request("bench-growth")
    wire = WireTap(engine.dynamodb())
    wire.client.create_table(**{name: value for name, value in request.items() if name != "StreamSpecification"})
    table = Table(wire.client, "bench-growth", ROWS_BY_TYPE, clock=lambda: START)
    load(table, list(asked_for()))
    others, loaded = around(), 0
    found = []
    for size in SIZES:
        while loaded < size:
            load(table, list(itertools.islice(others, min(CHUNK, size - loaded))))
            loaded += min(CHUNK, size - loaded)
        patterns = list(MEASURED_PATTERNS.values()) if size >= MILLION else list(p.PATTERNS)
        for pattern in patterns:
            assert_cost(wire, table, pattern)
        took = {pattern.id: _milliseconds(table, pattern) for pattern in patterns}
        among = f"among {size:,}"
        if len(patterns) == len(p.PATTERNS):
            every = f"all {len(patterns)} patterns {among}"
            found += [
                Figure(every, "units", exact(sum(one["units"] for one in RECORDED.values()))),
                Figure(every, "requests", exact(sum(one["requests"] for one in RECORDED.values()))),
                Figure(f"the pattern in the middle {among}", "ms", spread(map(statistics.median, took.values()))),
            ]
        for what, pattern in MEASURED_PATTERNS.items():
            found.append(Figure(f"{what} {among}", "units", exact(RECORDED[pattern.id]["units"])))
            found.append(Figure(f"{what} {among}", "ms", spread(took[pattern.id])))
    return found


def assert_cost(wire: WireTap, table: Table, pattern: Pattern) -> None:
    """Run the pattern. Raises AssertionError if its items or its cost differ from proof/support/recorded_units.json."""
    wire.clear()
    found, recorded = _run_pattern(table, pattern), RECORDED[pattern.id]
    kind = "GetItem" if isinstance(pattern, Get) else "Query"
    cost = (len(found), wire.operations, wire.units)
    assert cost == (recorded["finds"], [kind] * recorded["requests"], recorded["units"]), f"{pattern.id}: {cost}"


def _run_pattern(table: Table, pattern: Pattern) -> Sequence[object]:
    call = call_of(pattern)
    if isinstance(pattern, Get):
        return [item for item in [table.get(pattern, **call.known)] if item is not None]
    return table.query(pattern, **call.asked, **call.known).items


def _milliseconds(table: Table, pattern: Pattern) -> list[float]:
    took = []
    for _ in range(REPETITIONS):
        began = time.perf_counter()
        _run_pattern(table, pattern)
        took.append((time.perf_counter() - began) * 1000)
    return took
