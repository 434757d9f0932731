"""Derive the audit trail: an entry for each change of an item that carries the stamp of staff or of an operator.

The stamp (functions/dynamodb/actors.py) is on the item only as long as its present version was written by this person.
So each stamped change is one entry, and a record that is delivered again gives the same entry.
"""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from functions.dynamodb.actors import AUDIT, Actor
from functions.dynamodb.codec import Image, build_decoder, build_encoder
from functions.dynamodb.keys import Instant
from functions.model import table as t
from functions.model.changes import Change
from functions.model.entities import AuditEntry

AUDITED_CHANGES: Mapping[str, Any] = {"dynamodb": {"NewImage": {AUDIT: {"M": {"by": {"S": [{"exists": True}]}}}}}}
"""The Lambda event filter for stamped items."""
UNTOLD_ATTRIBUTES = {"version", "updated_at", "timeline"}
"""The attributes that an entry leaves out: they change with every command, and the entry has their meaning itself."""
PERSONAL = "(personal)"
"""What an entry shows in place of a personal attribute, so that no erasure needs to find the entry."""
MAX_TEXT, MAX_CHANGES = 200, 20
"""The length of a value in an entry, and how many changed attributes an entry has. They bound its size to 10 KB."""


def audit_entry(change: Change, audit_days: int) -> AuditEntry | None:
    """Return the entry of a change, kept for `audit_days`, or None if no stamp of staff is on the item."""
    stamp = None if change.after is None else change.image.get(AUDIT)
    if stamp is None or change.name == "OrderRestored":  # a restored item may still have the stamp of its last version
        return None
    actor = build_decoder(Actor)(stamp["M"])
    return make_entry(actor, change.image, change.at, change.id, audit_days, before=change.before, after=change.after)


def make_entry(
    actor: Actor, key: Image, at: Instant, change_id: str, audit_days: int, *, before: Any = None, after: Any = None
) -> AuditEntry:
    """Return an entry with what differs between two states of an item, or None. `key`: its PK and SK."""
    old, new = _told(before), _told(after)
    changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)][:MAX_CHANGES]
    return AuditEntry(
        item=key["PK"]["S"].replace("#", ":"),
        sort_key=key["SK"]["S"],
        at=at,
        change_id=change_id,
        ttl=expires_at(at, audit_days),
        values_before=_shown(before, old, changed),
        values_after=_shown(after, new, changed),
        by=actor.by,
        command=actor.command,
        reason=actor.reason,
    )


def expires_at(at: Instant, audit_days: int) -> int:
    """Return the `ttl` (epoch seconds) of an entry that was made at this time."""
    return int((datetime.fromisoformat(at) + timedelta(days=audit_days)).timestamp())


def _told(item: Any) -> dict[str, Any]:
    """Return the attributes of an item by name, as plain values. The entries of a map have names such as lines.mug.

    No keys are built: an erasure may have emptied the attributes of a stored record.
    """
    if item is None:
        return {}
    told: dict[str, Any] = {}
    for name, value in build_encoder(type(item))(item).items():
        inner = value.get("M")
        if name not in UNTOLD_ATTRIBUTES:
            told |= {f"{name}.{key}": _plain(one) for key, one in inner.items()} if inner else {name: _plain(value)}
    return told


def _plain(value: Mapping[str, Any]) -> Any:
    """Return a value without DynamoDB's type tags. A number stays a text."""
    ((tag, content),) = value.items()
    match tag:
        case "M":
            return {name: _plain(one) for name, one in content.items()}
        case "L":
            return [_plain(one) for one in content]
        case "B":
            return "(binary)"
    return content


def _shown(item: Any, told: Mapping[str, Any], changed: list[str]) -> dict[str, str] | None:
    if item is None:
        return None
    personal = t.ROWS_BY_TYPE[type(item).__name__].personal or ()
    return {
        name: PERSONAL if name.partition(".")[0] in personal else _short(told[name]) for name in changed if name in told
    }


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
