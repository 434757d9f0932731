"""What a deploy would do to the indexes of the table, before it does it.

DynamoDB makes or deletes one index in an update of a table and changes none; CloudFormation sends one update, and rolls
back where it is refused, after minutes or hours. So the difference is looked at first, and split into deploys.

Source: Amazon DynamoDB developer guide, "Managing Global Secondary Indexes"; API reference, UpdateTable.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from functions.model.table import create_table_request
from ops import place

TABLES = ("AWS::DynamoDB::GlobalTable", "AWS::DynamoDB::Table")


@dataclass(frozen=True)
class Index:
    """`attributes`: what it holds beside its keys; None: all."""

    keys: tuple[str, ...]
    attributes: frozenset[str] | None
    status: str = "ACTIVE"

    def same(self, other: Index) -> bool:
        return (self.keys, self.attributes) == (other.keys, other.attributes)


@dataclass(frozen=True)
class Indexes:
    """A table's own keys, and its indexes by name."""

    keys: tuple[str, ...]
    indexes: Mapping[str, Index]


# where they are found -------------------------------------------------------------------------------------------------
def of_model() -> Indexes:
    """As the model says, of which the template is made."""
    return _read(create_table_request("any"))


def of_file(path: Path) -> Indexes | None:
    """Of a template, or of the JSON that `aws dynamodb describe-table` printed; None where it has no table."""
    document = json.loads(path.read_text(encoding="utf-8"))
    if "Table" in document:
        return _read(document["Table"])
    tables = [one["Properties"] for one in document.get("Resources", {}).values() if one["Type"] in TABLES]
    return _read(tables[0]) if tables else None


def of_table(client: Any, name: str) -> Indexes:
    return _read(client.describe_table(TableName=name)["Table"])


def of_stack(name: str, region: str | None) -> Indexes | None:
    """Of the table that a stack says is its own; None where there is no such stack yet."""
    try:
        (stack,) = boto3.client("cloudformation", region_name=region).describe_stacks(StackName=name)["Stacks"]
    except ClientError as error:
        if "does not exist" in str(error):
            return None
        raise
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}
    if "TableName" not in outputs:  # its first deploy failed
        return None
    return of_table(boto3.client("dynamodb", region_name=region), outputs["TableName"])


def _read(table: Mapping[str, Any]) -> Indexes:
    return Indexes(
        _keys(table),
        {
            index["IndexName"]: Index(
                _keys(index),
                _attributes(index["Projection"]),
                index.get("IndexStatus", "ACTIVE"),
            )
            for index in table.get("GlobalSecondaryIndexes", ())
        },
    )


def _keys(schema: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"{key['AttributeName']} ({key['KeyType']})" for key in schema["KeySchema"])


def _attributes(projection: Mapping[str, Any]) -> frozenset[str] | None:
    return None if projection["ProjectionType"] == "ALL" else frozenset(projection.get("NonKeyAttributes", ()))


# what follows ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Plan:
    """What to deploy, one after the other. `fits`: whether all of it is done by one deploy of the template as it is.
    `why_not`: what no number of deploys makes of it as it is, or not now."""

    waves: Sequence[str] = ()
    why_not: Sequence[str] = ()

    @property
    def fits(self) -> bool:
        return len(self.waves) <= 1 and not self.why_not

    def told(self) -> Iterator[str]:
        yield from self.why_not
        if self.fits:
            yield f"One deploy does it: {self.waves[0]}." if self.waves else "The indexes stay as they are."
        elif self.waves:
            yield f"DynamoDB changes one index at a time. Deploy {len(self.waves)} times, one after the other is done:"
            yield from (f"  {number}. {wave}" for number, wave in enumerate(self.waves, 1))


def plan(deployed: Indexes, wanted: Indexes | None) -> Plan:
    """What leads from the one to the other. What is new comes first, and what is old goes last: so no reader is without
    an index. A changed index is a new one under another name, since two of one name cannot be there at once."""
    if wanted is None or wanted.keys != deployed.keys:
        return Plan((), ("The table's own keys differ: a deploy would make a new and empty table in its place.",))
    before, after = deployed.indexes, wanted.indexes
    made = [
        f"make {name}, and fill what has no keys for it by a migration" for name in sorted(after.keys() - before.keys())
    ]
    changed = sorted(name for name in before.keys() & after.keys() if not before[name].same(after[name]))
    made += [f"make what {name} shall be under a new name, and have that asked in {name}'s place" for name in changed]
    gone = [f"delete {name}" for name in sorted({*(before.keys() - after.keys()), *changed})]
    why_not = [f"{name} cannot be changed: its keys and what it holds are for ever." for name in changed]
    why_not += [
        f"{name} is {one.status} still: wait until it is ACTIVE."
        for name, one in sorted(before.items())
        if one.status != "ACTIVE" and (made or gone)
    ]
    return Plan((*made, *gone), tuple(why_not))


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: place.Commands) -> None:
    checking = commands.add_parser(
        "indexes",
        parents=[place.where()],
        help="before a deploy: can the deployed table's indexes become the template's at once?",
        description="Compares the table that is named, or a stack's, or that of the shop on this machine, with a "
        "template. Ends with 1 where a deploy would fail, and says which deploys lead there.",
    )
    checking.add_argument(
        "--against", type=Path, metavar="FILE", help="a template, or what describe-table said, instead of a table"
    )
    checking.add_argument(
        "--template", type=Path, metavar="FILE", help="what is to be deployed (default: what the model says)"
    )
    checking.set_defaults(run=check_indexes)


def check_indexes(given: argparse.Namespace) -> None:
    """Say what a deploy would do to the table's indexes. Exits with 1 where it would fail."""
    try:
        wanted = of_file(given.template) if given.template else of_model()
        deployed = _deployed(given)
    except (BotoCoreError, ClientError, LookupError, OSError, ValueError) as error:
        sys.exit(f"Not compared: {error}")
    if deployed is None:
        print("There is no table yet: it is made with all its indexes at once.")
        return
    found = plan(deployed, wanted)
    print("\n".join(found.told()))
    if not found.fits:
        sys.exit(1)


def _deployed(given: argparse.Namespace) -> Indexes | None:
    if given.against:
        return of_file(given.against)
    if given.stack:
        return of_stack(given.stack, given.region)
    table = place.table_of(given)
    return of_table(table.client, table.name)
