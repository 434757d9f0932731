"""The names that a simulated shop has stored or sent: item types, keys, attributes, objects, events.

They outlive every version of the code, so no rename in the code may change them. docs/items.json has the attributes
with their types; this module reads what really was written, and imports no name of the product.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tests.simulation.world import Simulation

LITERAL = {"COMMAND", "EFFECT", "SWEEP"}
"""The sort key of these items, or what follows in their partition key, is a name in the code."""
CHOICES = ("kind", "status", "reaction", "command", "tool", "queue", "event", "mail", "reason", "task")
"""Attributes that hold a name of the code rather than data."""


def stored_names(world: Simulation) -> dict[str, set[str]]:
    """Every stored or sent name of a run, by what bears it."""
    names: dict[str, set[str]] = {}
    for record in world.records:
        for half in ("NewImage", "OldImage"):
            if image := record["dynamodb"].get(half):
                for what, found in _names_of_item(image):
                    names.setdefault(what, set()).update(found)
    names["objects"] = {
        _object(key) for _, key in world.s3.written_at if not key.startswith("aws/")
    }  # those Lambda names
    names["events"] = {f"{event['source']} {event['detail-type']}" for event in world.bus.published}
    return names


def _names_of_item(image: Mapping[str, Any]) -> Iterable[tuple[str, set[str]]]:
    of = image["type"]["S"]
    yield f"{of} attributes", set(image)
    for name in image:
        if name in ("PK", "SK") or re.fullmatch(r"GSI\d[PS]K", name):
            yield f"{of} keys", {f"{name} {_key(image[name]['S'], image)}"}
    for name in CHOICES:
        if "S" in image.get(name, {}):
            yield f"{of} {name}", {image[name]["S"]}


def _key(key: str, image: Mapping[str, Any]) -> str:
    """A key with its data left out: ORDER#*."""
    if image["PK"]["S"].partition("#")[0] in LITERAL and "#" not in key:
        return key
    return "#".join(part if re.fullmatch("[A-Z_]+", part) else "*" for part in key.split("#"))


def _object(key: str) -> str:
    """An object's key with its data left out: parked/copies/*.json. A mark bears the whole key of what it marks."""
    folders, _, name = key.rpartition("/")
    if folders.startswith("redriven/"):
        return "redriven/*"
    kept = [part if re.fullmatch(r"[a-z-]+", part) else "*" for part in folders.split("/")]
    return "/".join([*kept, "*." + name.partition(".")[2]])
