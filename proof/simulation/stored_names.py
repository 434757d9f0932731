"""Collects the names that the code stores or sends: item types, keys, attributes, S3 objects and events.

A rename in the code must not change these names, so they come from the data of a run, and no name from the shop's code
is imported. docs/items.json lists the attributes with their types.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from proof.simulation.world import Simulation

LITERAL = {"COMMAND", "REACTION_PROGRESS", "SWEEP"}
"""Prefixes of partition keys whose sort key is a name from the code, for example the command pay_with_credit."""
CHOICES = ("kind", "status", "reaction", "command", "tool", "queue", "event", "mail", "reason", "task")
"""Attributes whose values are names from the code. For example, the attribute `status` has the value "PAID"."""


def stored_names(world: Simulation) -> dict[str, set[str]]:
    """Return all names that a run stored or sent, by where they occur, for example "Order attributes"."""
    names: dict[str, set[str]] = {}
    for record in world.records:
        for half in ("NewImage", "OldImage"):
            if image := record["dynamodb"].get(half):
                for what, found in _names_of_item(image):
                    names.setdefault(what, set()).update(found)
    names["objects"] = {
        _object(key) for _, key in world.s3.written_at if not key.startswith("aws/")
    }  # leave out the S3 objects below aws/, because Lambda chooses their keys, not the shop's code
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
    """Replace the data in a key attribute with asterisks. Example: ORDER#o1 becomes ORDER#*."""
    if image["PK"]["S"].partition("#")[0] in LITERAL and "#" not in key:
        return key
    return "#".join(part if re.fullmatch("[A-Z_]+", part) else "*" for part in key.split("#"))


def _object(key: str) -> str:
    """Replace the data in an S3 object key with asterisks: parked/archive/17.json becomes parked/archive/*.json."""
    folders, _, name = key.rpartition("/")
    if folders.startswith("redriven/"):
        return "redriven/*"
    kept = [part if re.fullmatch(r"[a-z_-]+", part) else "*" for part in folders.split("/")]
    return "/".join([*kept, "*." + name.partition(".")[2]])
