"""The read units that each access pattern of the shop consumes, if the items of a request have at most 4 KB in all.

A pattern sends one request for each partition that it reads. A consistent read of up to 4 KB consumes one unit, an
eventually consistent read consumes half a unit. These probes follow from the declarations of the patterns.
"""

import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from functions.dynamodb.patterns import Get, Query
from functions.dynamodb.table import Table
from functions.model.patterns import PATTERNS
from functions.model.table import ROWS_BY_TYPE, create_table_request
from proof.conformance.probes import sources
from proof.conformance.probes.kinds import Probe
from proof.conformance.runners.aws import check_result
from proof.support.client_faults import WireTap
from proof.support.pattern_examples import asked_for, call_of, load
from proof.support.tapped_client import START

BY_ID = {pattern.id: pattern for pattern in PATTERNS}


@dataclass(frozen=True, kw_only=True)
class PatternProbe(Probe):
    """The read capacity units of all requests that one access pattern of the shop sends."""

    pattern: str
    operation: Literal["GetItem", "Query"]
    consistent: bool
    requests: int
    units: float


def _probe(pattern: Get[Any] | Query[Any]) -> PatternProbe:
    consistent, requests = (True, 1) if isinstance(pattern, Get) else (pattern.consistent, pattern.shards or 1)
    operation: Literal["GetItem", "Query"] = "GetItem" if isinstance(pattern, Get) else "Query"
    how, cost = ("a consistent", "1 read unit") if consistent else ("an eventually consistent", "0.5 read units")
    where = "" if requests == 1 else f" in each of {requests} partitions"
    return PatternProbe(
        name=f"pattern_{pattern.id.lower()}",
        says=f"{pattern.id} ({pattern.description}) is {how} {operation} request of {cost}{where}.",
        source=sources.UNITS,
        pattern=pattern.id,
        operation=operation,
        consistent=consistent,
        requests=requests,
        units=requests * (1.0 if consistent else 0.5),
    )


PROBES = tuple(map(_probe, PATTERNS))


def play(client: Any, indexes_seconds: float = 0) -> Iterator[tuple[Probe, str]]:
    """Play the probes in a new table, and yield each result. `indexes_seconds`: how long its indexes may be behind."""
    name = f"patterns-{secrets.token_hex(4)}"
    client.create_table(**create_table_request(name))
    try:
        client.get_waiter("table_exists").wait(TableName=name)
        table = Table(client, name, ROWS_BY_TYPE, clock=lambda: START)
        load(table, list(asked_for()))
        time.sleep(indexes_seconds)
        wire = WireTap(client)
        for probe in PROBES:
            yield probe, check_result(lambda probe=probe: check(probe, table, wire))  # type: ignore[misc]
    finally:
        client.delete_table(TableName=name)


def check(probe: PatternProbe, table: Table, wire: WireTap) -> str:
    """Send the requests of a pattern with the tapped client, and return how they differ from the probe, or ""."""
    wire.clear()
    wire.requests.clear()
    wire.units_of.clear()
    pattern, tapped = BY_ID[probe.pattern], replace(table, client=wire.client)
    call = call_of(pattern)
    if isinstance(pattern, Get):
        tapped.get(pattern, **call.known)
    else:
        tapped.query(pattern, **call.asked, **call.known)
    return "; ".join(_differences(probe, wire))


def _differences(probe: PatternProbe, wire: WireTap) -> Iterator[str]:
    if wire.operations != [probe.operation] * probe.requests:
        yield f"requests {wire.operations}"
    if {request.body.get("ConsistentRead", False) for request in wire.requests} != {probe.consistent}:
        yield f"a consistent read is {not probe.consistent}"
    if wire.units != probe.units:
        yield f"{wire.units} units instead of {probe.units}"
