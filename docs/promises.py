"""The contracts that must not break: the fields of events, and the item attributes that older and newer code share.

`make docs` stores the contracts as files (docs/events/*.json, docs/items.json). It compares the stored files with the
model, and rejects a breaking change. So does `python -m docs.promises`, part of `make check`. To withdraw a contract,
delete its file by hand.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_type_hints

from docs import markdown
from docs.pages import events
from docs.pages.model import embedded_parts
from docs.pages.table import describe_type
from functions.dynamodb.codec import set_element_type, unwrap_newtype, unwrap_optional
from functions.dynamodb.keys import Row
from functions.model import table as t

Description = Mapping[str, Any]
DOCS = Path(__file__).parent
ITEMS = "items.json"
RULES: Mapping[str, str] = {
    "event-removed": "If it has no subscribers, delete its file in docs/events.",
    "event-field-removed": "Keep it until no subscriber reads it. Then delete the event's file in docs/events.",
    "event-field-optional": "Keep sending it, because subscribers rely on it.",
    "event-field-required": "Give it a default, because queued and archived events lack it.",
    "event-field-type-changed": "Add a field with another name, and publish both.",
    "event-value-removed": "Keep it in the list, because queued and archived events may have it.",
    "item-type-removed": f"If no table has such items, delete it from docs/{ITEMS}.",
    "item-former-name-removed": f"If no table has such items, delete this former name from docs/{ITEMS}.",
    "item-attribute-added": "Give it a default.",
    "item-attribute-type-changed": "Add an attribute with another name.",
    "item-attribute-required": "Migrate them, then raise the schema.",
    "item-attribute-removed": "Give it a default now, and remove it later.",
}
"""What to do instead of a breaking change, by the name of the rule."""


def published_contracts(folder: Path = DOCS) -> dict[str, str]:
    """Return the stored contracts by their path in docs/."""
    files = [*(folder / "events").glob("*.json"), *folder.glob(ITEMS)]
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in files}


def render_contracts() -> dict[str, str]:
    """Return the contracts of the model by their path in docs/."""
    return {ITEMS: render_items(), **{f"events/{name}.json": text for name, text in events.render_schemas().items()}}


def find_breaking_changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """Yield "RULE: what breaks, and what to do instead" for each contract in the files `before` that `after` breaks."""
    for name, text in sorted(before.items()):
        was = json.loads(text)
        if name == ITEMS:
            yield from _compare_items(was, json.loads(after[name]))
        elif name not in after:
            yield _broken("event-removed", f"{was['title']} is no longer published.")
        else:
            yield from _compare_event(was, json.loads(after[name]))


def _broken(rule: str, what: str) -> str:
    return f"{rule}: {what} {RULES[rule]}"


# events ---------------------------------------------------------------------------------------------------------------
def _compare_event(was: Description, now: Description) -> Iterator[str]:
    """Yield the changes that break a subscriber, or our own consumers of an event that older code published."""
    of = f"{was['title']} of schema {was['properties']['schema']['const']}"
    if was["properties"]["schema"] != now["properties"]["schema"]:
        return
    for path, (before, after) in _common_parts(was, now):
        here = f"{of}: {path or 'the event'}"
        gone = before.get("properties", {}).keys() - after.get("properties", {}).keys()
        yield from (_broken("event-field-removed", f"{here} no longer has the field {name}.") for name in sorted(gone))
        no_more = {*before.get("required", ())} - {*after.get("required", ())} - gone
        yield from (
            _broken("event-field-optional", f"{here} no longer requires the field {name}.") for name in sorted(no_more)
        )
        added = {*after.get("required", ())} - {*before.get("required", ())}
        yield from (_broken("event-field-required", f"{here} requires the new field {name}.") for name in sorted(added))
        if _type_of(before) != _type_of(after):
            yield _broken("event-field-type-changed", f"{here} has another type now.")
        elif listed := _values_of(after):
            lost = [str(value) for value in _values_of(before) if value not in listed]
            yield from (_broken("event-value-removed", f"{here} no longer lists the value {value}.") for value in lost)


def _common_parts(
    was: Description, now: Description, path: str = ""
) -> Iterator[tuple[str, tuple[Description, Description]]]:
    """Yield the parts that both schemas have, by path, beginning with the whole."""
    yield path, (was, now)
    for name in sorted(was.get("properties", {}).keys() & now.get("properties", {}).keys()):
        yield from _common_parts(was["properties"][name], now["properties"][name], f"{path}.{name}".lstrip("."))


def _type_of(part: Description) -> Any:
    """Return the type of a value, without its list of allowed values, because that list may grow."""
    if "anyOf" in part:
        return sorted(str(_type_of(one)) for one in part["anyOf"])
    inner = part.get("additionalProperties", part.get("items"))
    return part.get("type"), part.get("format"), _type_of(inner) if isinstance(inner, dict) else None


def _values_of(part: Description) -> list[Any]:
    """Return the allowed values of a part if it has a fixed list. A list of one value is a `const`."""
    one = [part["const"]] if "const" in part else []
    return [*one, *part.get("enum", ()), *(value for choice in part.get("anyOf", ()) for value in _values_of(choice))]


# items ----------------------------------------------------------------------------------------------------------------
def render_items() -> str:
    """Return docs/items.json: the schema and the attributes of each item type, and of each class inside an item.

    `?` means that the attribute may be missing. Stored items may also have the former types and attribute names.
    """
    found = {row.type: {**describe_entity(row.entity, row.schema), **_former_names(row)} for row in t.ROWS}
    parts = {part.__name__: describe_entity(part, 1) for row in t.ROWS for _, part, _ in embedded_parts(row.entity)}
    return markdown.as_json(dict(sorted({**parts, **found}.items()))) + "\n"


def _former_names(row: Row[Any]) -> Description:
    former = {"former_types": [*row.former_types], "former_names": {**row.former_names}}
    return {what: names for what, names in former.items() if names}


def describe_entity(entity: type[Any], schema: int) -> Description:
    hints = get_type_hints(entity)
    attributes = {}
    for field in fields(entity):
        hint = hints[field.name]
        missing = field.default is not MISSING or unwrap_optional(hint) or set_element_type(hint)
        attributes[field.name] = describe_type(unwrap_newtype(unwrap_optional(hint) or hint)) + ("?" if missing else "")
    return {"schema": schema, "attributes": attributes}


def _compare_items(was: Mapping[str, Description], now: Mapping[str, Description]) -> Iterator[str]:
    read_as = {kind: name for name, after in now.items() for kind in (name, *after.get("former_types", ()))}
    for name, before in was.items():
        gone = [kind for kind in (name, *before.get("former_types", ())) if kind not in read_as]
        yield from (_broken("item-type-removed", f"{kind} is no longer an item type.") for kind in gone)
        after = now[read_as[name]] if name in read_as else None
        if after is not None and before["schema"] == after["schema"]:
            yield from _compare_item(f"{name} of schema {before['schema']}", before, after)


def _compare_item(of: str, before_item: Description, after_item: Description) -> Iterator[str]:
    """Yield the stored items that the current code cannot read, and the new items that older code cannot read.

    Older code cannot read a required attribute under a new name either: it retries until the item is migrated back.
    """
    former = after_item.get("former_names", {})
    for name, was_named in before_item.get("former_names", {}).items():
        if former.get(name) != was_named:
            yield _broken("item-former-name-removed", f"{of}: stored items may have {was_named} for {name}.")
    now_named = {was_named: name for name, was_named in former.items()}
    was = {now_named.get(name, name): kind for name, kind in before_item["attributes"].items()}
    now = after_item["attributes"]
    for name, kind in now.items():
        before = was.get(name)
        if before is None:
            if not kind.endswith("?"):
                yield _broken("item-attribute-added", f"{of}: stored items do not have {name}.")
        elif before.removesuffix("?") != kind.removesuffix("?"):
            what = f"{of}: the type of {name} changed from {before} to {kind}."
            yield _broken("item-attribute-type-changed", what)
        elif before.endswith("?") and not kind.endswith("?"):
            yield _broken("item-attribute-required", f"{of}: stored items may lack {name}.")
    for name in was.keys() - now.keys():
        if not was[name].endswith("?"):
            yield _broken("item-attribute-removed", f"{of}: older code that still runs needs {name}.")


def main() -> None:
    """Exit with a line for each contract in docs/ that the model breaks."""
    sys.exit("\n".join(find_breaking_changes(published_contracts(), render_contracts())) or 0)


if __name__ == "__main__":
    main()
