"""Build the Lambda event filters of the two stream readers from the declarations in functions/model.

Sources: Lambda developer guide, "Using event filtering with a DynamoDB event source"; DynamoDB developer guide,
"DynamoDB Streams and Time to Live", for how to recognize the deletion of an expired item.
"""

import json
from collections.abc import Sequence
from typing import Any

from functions.model import copies
from functions.model.audit import AUDITED_CHANGES
from functions.model.changes import CHANGE_TYPES
from functions.model.events import EVENTS

MAX_PATTERNS, MAX_CHARACTERS = 5, 4096
TTL_IDENTITY = {"type": ["Service"], "principalId": ["dynamodb.amazonaws.com"]}


def build_copies_patterns() -> list[str]:
    """Return the filter patterns of the stream reader that updates copies, totals and the audit trail.

    Raises ValueError if a copy is derived from a copy: the reader's own writes could invoke it without end.
    """
    if looping := [row.type for row in copies.SOURCE_ROWS if row.kind != "primary"]:
        raise ValueError(f"copies must be derived from primaries, but these are copies: {looping}")
    return _check_limits(
        [
            _build_pattern(["INSERT", "MODIFY"], [name for row in copies.SOURCE_ROWS for name in row.types]),
            {"eventName": ["INSERT", "MODIFY"], **AUDITED_CHANGES},
        ]
    )


def build_publisher_patterns() -> list[str]:
    """Return the filter patterns for the stream records that are published as events, of item types with events.

    Each matches one kind of change, perhaps only deletions by TTL. Those of items that change very often also check the
    old image, so that Lambda invokes the function only for events.
    """
    published = {event.name for event in EVENTS}
    types: dict[tuple[str, bool], list[str]] = {}
    narrow: list[dict[str, Any]] = []
    for kind in CHANGE_TYPES:
        if kind.name not in published:
            continue
        if kind.old_image_filter:
            pattern = _build_pattern([kind.event_name], kind.row.types)
            pattern["dynamodb"]["OldImage"] = {name: {"N": [*values]} for name, values in kind.old_image_filter.items()}
            narrow.append(pattern)
        else:
            types.setdefault((kind.event_name, kind.only_ttl_deletion), []).extend(kind.row.types)
    return _check_limits(
        [*(_build_pattern([on], names, expired=expired) for (on, expired), names in types.items()), *narrow]
    )


def _build_pattern(on: Sequence[str], types: Sequence[str], *, expired: bool = False) -> dict[str, Any]:
    image = "OldImage" if "REMOVE" in on else "NewImage"
    pattern: dict[str, Any] = {"eventName": [*on], "dynamodb": {image: {"type": {"S": sorted(set(types))}}}}
    return {**pattern, "userIdentity": TTL_IDENTITY} if expired else pattern


def _check_limits(patterns: Sequence[dict[str, Any]]) -> list[str]:
    texts = [json.dumps(pattern, separators=(",", ":")) for pattern in patterns]
    if len(texts) > MAX_PATTERNS or any(len(text) > MAX_CHARACTERS for text in texts):
        raise ValueError(
            f"an event source mapping allows {MAX_PATTERNS} patterns of {MAX_CHARACTERS} characters, got {texts}"
        )
    return texts
