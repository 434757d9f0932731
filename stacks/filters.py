"""Which stream records each of the two readers is called for, derived from the model: patterns of an event filter.

Sources: Lambda developer guide, "Using event filtering with a DynamoDB event source"; DynamoDB developer guide,
"DynamoDB Streams and Time to Live", for how the deletion of an expired item is told apart.
"""

import json
from collections.abc import Sequence
from typing import Any

from functions.model import derived
from functions.model.changes import KINDS
from functions.model.counters import COUNTERS
from functions.model.events import EVENTS

MOST_PATTERNS, MOST_CHARACTERS = 5, 4096
BY_TTL = {"type": ["Service"], "principalId": ["dynamodb.amazonaws.com"]}


def of_copies() -> list[str]:
    """What copies are made of: new and changed primaries, and what counted and is gone. A copy of a copy could go round
    for ever."""
    if looping := [row.type for row in derived.SOURCES if row.kind != "primary"]:
        raise ValueError(f"copies are derived from {looping}, which are no primaries")
    can_go = [counter.of.type for counter in COUNTERS if counter.gone]
    written = _pattern(["INSERT", "MODIFY"], [row.type for row in derived.SOURCES])
    return _checked([written, _pattern(["REMOVE"], can_go)])


def of_relay() -> list[str]:
    """What has an event: nothing derived, no removal but those at an item's ttl that somebody waits for, and of what is
    written all the time only what was as the change of it must have been."""
    told = {(event.of, event.name) for event in EVENTS}
    types: dict[tuple[str, bool], list[str]] = {}
    narrow: list[dict[str, Any]] = []
    for kind in KINDS:
        if (kind.row, kind.name) not in told:
            continue
        if kind.once_was:
            pattern = _pattern([kind.on], [kind.row.type])
            pattern["dynamodb"]["OldImage"] = {name: {"N": [*values]} for name, values in kind.once_was.items()}
            narrow.append(pattern)
        else:
            types.setdefault((kind.on, kind.expired), []).append(kind.row.type)
    return _checked([*(_pattern([on], names, expired=expired) for (on, expired), names in types.items()), *narrow])


def _pattern(on: Sequence[str], types: Sequence[str], *, expired: bool = False) -> dict[str, Any]:
    image = "OldImage" if "REMOVE" in on else "NewImage"
    pattern: dict[str, Any] = {"eventName": [*on], "dynamodb": {image: {"type": {"S": sorted(set(types))}}}}
    return {**pattern, "userIdentity": BY_TTL} if expired else pattern


def _checked(patterns: Sequence[dict[str, Any]]) -> list[str]:
    texts = [json.dumps(pattern, separators=(",", ":")) for pattern in patterns]
    if len(texts) > MOST_PATTERNS or any(len(text) > MOST_CHARACTERS for text in texts):
        raise ValueError(f"a mapping takes {MOST_PATTERNS} patterns of {MOST_CHARACTERS} characters, not {texts}")
    return texts
