"""What may not change under those who rely on it: what events tell, and what items of older and newer code share.

Both are files that `make docs` writes (docs/events/*.json, docs/items.json). It compares what lies there with what the
model says now, and refuses what would break: a file that is taken away by hand is a promise that is taken back.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from typing import Any, get_type_hints

from docs import markdown
from docs.pages.table import describe_type, embedded_classes
from functions.dynamodb.codec import set_element_codec, unwrap_newtype, unwrap_optional
from functions.model import table as t

Description = Mapping[str, Any]
ITEMS = "items.json"


def find_breaking_changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each promise that the files of before made and those of now break."""
    for name, text in sorted(before.items()):
        was = json.loads(text)
        if name == ITEMS:
            yield from _compare_items(was, json.loads(after[name]))
        elif name not in after:
            yield f"{was['title']} is published no more: if nobody waits for it, delete docs/{name}."
        else:
            yield from _compare_event(was, json.loads(after[name]))


# events ---------------------------------------------------------------------------------------------------------------
def _compare_event(was: Description, now: Description) -> Iterator[str]:
    """What breaks a subscriber of an event, or us when an event of older code is still on its way."""
    of = f"{was['title']} of schema {was['properties']['schema']['const']}"
    if was["properties"]["schema"] != now["properties"]["schema"]:
        return
    for path, (before, after) in _common_parts(was, now):
        here = f"{of}: {path or 'it'}"
        gone = before.get("properties", {}).keys() - after.get("properties", {}).keys()
        yield from (f"{here} has no {name} any more." for name in sorted(gone))
        no_more = {*before.get("required", ())} - {*after.get("required", ())} - gone
        yield from (f"{here} may lack {name} now." for name in sorted(no_more))
        added = {*after.get("required", ())} - {*before.get("required", ())}
        yield from (
            f"{here} must have {name} now, which those on their way and in the archive lack: give it a default."
            for name in sorted(added)
        )
        if _type_of(before) != _type_of(after):
            yield f"{here} is of another type now."


def _common_parts(
    was: Description, now: Description, path: str = ""
) -> Iterator[tuple[str, tuple[Description, Description]]]:
    """What both have, the whole first."""
    yield path, (was, now)
    for name in sorted(was.get("properties", {}).keys() & now.get("properties", {}).keys()):
        yield from _common_parts(was["properties"][name], now["properties"][name], f"{path}.{name}".lstrip("."))


def _type_of(part: Description) -> Any:
    """What a value must be, but for the list of what it may be, which can grow."""
    if "anyOf" in part:
        return sorted(str(_type_of(one)) for one in part["anyOf"])
    inner = part.get("additionalProperties", part.get("items"))
    return part.get("type"), part.get("format"), part.get("const"), _type_of(inner) if isinstance(inner, dict) else None


# items ----------------------------------------------------------------------------------------------------------------
def render_items() -> str:
    """docs/items.json: each type of item, and what lies inside of items: its schema, and its attributes with what they
    are. `?` may be missing."""
    found = {row.type: describe_entity(row.entity, row.schema) for row in t.ROWS}
    parts = {part.__name__: describe_entity(part, 1) for row in t.ROWS for part in embedded_classes(row.entity)}
    return markdown.as_json(dict(sorted({**parts, **found}.items()))) + "\n"


def describe_entity(entity: type[Any], schema: int) -> Description:
    hints = get_type_hints(entity)
    attributes = {}
    for field in fields(entity):
        hint = hints[field.name]
        missing = field.default is not MISSING or unwrap_optional(hint) or set_element_codec(hint)
        attributes[field.name] = describe_type(unwrap_newtype(unwrap_optional(hint) or hint)) + ("?" if missing else "")
    return {"schema": schema, "attributes": attributes}


def _compare_items(was: Mapping[str, Description], now: Mapping[str, Description]) -> Iterator[str]:
    for name, before in was.items():
        if name not in now:
            yield f"{name} is no item any more: if none is left in any table, take it out of docs/{ITEMS}."
        elif before["schema"] == now[name]["schema"]:
            yield from _compare_item(
                f"{name} of schema {before['schema']}", before["attributes"], now[name]["attributes"]
            )


def _compare_item(of: str, was: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """What code of now could not read of older items, or older code of items that are written now."""
    for name, kind in now.items():
        before = was.get(name)
        if before is None:
            if not kind.endswith("?"):
                yield f"{of}: items that are there have no {name}: give it a default."
        elif before.removesuffix("?") != kind.removesuffix("?"):
            yield f"{of}: {name} was {before} and is {kind} now: give it another name."
        elif before.endswith("?") and not kind.endswith("?"):
            yield f"{of}: {name} may be missing in items that are there: migrate them, then raise the schema."
    for name in was.keys() - now.keys():
        if not was[name].endswith("?"):
            yield f"{of}: code that is still at work needs {name}: give it a default first, take it away later."
