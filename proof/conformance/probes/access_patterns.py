"""The read units that each access pattern of the shop consumes, if the items of a request have at most 4 KB in all.

A pattern sends one request for each partition that it reads. A consistent read of up to 4 KB consumes one unit, an
eventually consistent read consumes half a unit. These probes follow from the declarations of the patterns.
"""

from typing import Any, Literal

from functions.dynamodb.patterns import Get, Query
from functions.model.patterns import PATTERNS
from proof.conformance.probes import sources
from proof.conformance.probes.kinds import PatternProbe


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
