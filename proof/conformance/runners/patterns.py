"""Plays the probes of access patterns: loads the items of the shop's tests and sends each pattern's requests."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from functions.dynamodb.patterns import Get
from functions.dynamodb.table import Table
from functions.model.patterns import PATTERNS
from functions.model.table import ROWS_BY_TYPE
from proof.conformance.probes.kinds import PatternProbe
from proof.support.client_faults import WireTap
from proof.support.pattern_examples import asked_for, call_of, load
from proof.support.tapped_client import START

BY_ID = {pattern.id: pattern for pattern in PATTERNS}


def load_items(client: Any, table_name: str) -> Table:
    """Write the items that the patterns find into an empty table of the shop, and return the table."""
    table = Table(client, table_name, ROWS_BY_TYPE, clock=lambda: START)
    load(table, list(asked_for()))
    return table


def check(probe: PatternProbe, table: Table, wire: WireTap) -> str:
    """Send the requests of a pattern, and return how they differ from the probe, or "" if they do not differ.

    `wire`: records the requests of its client, which this function uses.
    """
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
