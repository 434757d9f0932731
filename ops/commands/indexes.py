"""The `indexes` command: check before a deploy how the deploy would change the table's indexes and warm throughput.

DynamoDB creates or deletes only one index per table update, cannot change an existing index, and never lowers a warm
throughput. CloudFormation sends all changes in one update, and rolls back after minutes or hours. So this command
prints the separate deploys that are needed, and what no deploy can change.

Source: Amazon DynamoDB developer guide, "Managing Global Secondary Indexes", "Understanding DynamoDB warm throughput".
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
from ops import targets

WarmThroughput = tuple[tuple[str, int], ...]
"""The warm throughput in units per second, by the name of the value."""
WARM_VALUES = ("ReadUnitsPerSecond", "WriteUnitsPerSecond")
TABLE_TYPES = ("AWS::DynamoDB::GlobalTable", "AWS::DynamoDB::Table")


@dataclass(frozen=True)
class IndexDefinition:
    """A global secondary index. `attributes`: the projected ones besides the keys; None for all. `warm`: as set."""

    keys: tuple[str, ...]
    attributes: frozenset[str] | None
    status: str = "ACTIVE"
    warm: WarmThroughput = ()

    def has_same_definition(self, other: IndexDefinition) -> bool:
        return (self.keys, self.attributes) == (other.keys, other.attributes)


@dataclass(frozen=True)
class TableIndexes:
    """The keys of a table, its indexes by name, and its own warm throughput."""

    keys: tuple[str, ...]
    indexes: Mapping[str, IndexDefinition]
    warm: WarmThroughput = ()


# read indexes ---------------------------------------------------------------------------------------------------------
def indexes_from_model() -> TableIndexes:
    """Return the indexes that the code declares. The CloudFormation template is generated from this declaration."""
    return parse_table(create_table_request("any"))


def indexes_from_file(path: Path) -> TableIndexes | None:
    """Return the indexes from a template, or from `aws dynamodb describe-table`; None without a table."""
    document = json.loads(path.read_text(encoding="utf-8"))
    if "Table" in document:
        return parse_table(document["Table"])
    tables = [one["Properties"] for one in document.get("Resources", {}).values() if one["Type"] in TABLE_TYPES]
    if not tables and isinstance(document.get("Outputs", {}).get("TableName", {}).get("Value"), str):
        # The table was restored from a backup, so the template contains only its name and not its indexes. Use the
        # indexes that the code declares.
        return indexes_from_model()
    return parse_table(tables[0]) if tables else None


def indexes_from_table(client: Any, name: str) -> TableIndexes:
    return parse_table(client.describe_table(TableName=name)["Table"])


def indexes_from_stack(name: str, region: str | None) -> TableIndexes | None:
    """Return the indexes of a deployed stack's table. Returns None if the stack or its table does not exist yet."""
    stack = targets.describe_stack(boto3.client("cloudformation", region_name=region).describe_stacks, name) or {}
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}
    if "TableName" not in outputs:  # the stack's first deploy failed, so there is no table yet
        return None
    return indexes_from_table(boto3.client("dynamodb", region_name=region), outputs["TableName"])


def parse_table(table: Mapping[str, Any]) -> TableIndexes:
    """Return the indexes of a table that a template, a CreateTable request or DescribeTable describes."""
    return TableIndexes(
        _parse_keys(table),
        {
            index["IndexName"]: IndexDefinition(
                _parse_keys(index),
                _parse_projection(index["Projection"]),
                index.get("IndexStatus", "ACTIVE"),
                _parse_warm_throughput(index),
            )
            for index in table.get("GlobalSecondaryIndexes", ())
        },
        _parse_warm_throughput(table),
    )


def _parse_warm_throughput(described: Mapping[str, Any]) -> WarmThroughput:
    given = described.get("WarmThroughput") or {}
    return tuple((name, given[name]) for name in WARM_VALUES if name in given)


def _parse_keys(schema: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"{key['AttributeName']} ({key['KeyType']})" for key in schema["KeySchema"])


def _parse_projection(projection: Mapping[str, Any]) -> frozenset[str] | None:
    return None if projection["ProjectionType"] == "ALL" else frozenset(projection.get("NonKeyAttributes", ()))


# plan deploys ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class DeployPlan:
    """The deploys that change the indexes, in their order: a change for each in `steps`.

    `obstacles`: sentences about changes that a deploy can never make, or that it cannot make yet.
    """

    steps: Sequence[str] = ()
    obstacles: Sequence[str] = ()

    @property
    def fits_one_deploy(self) -> bool:
        return len(self.steps) <= 1 and not self.obstacles

    def describe(self) -> Iterator[str]:
        yield from self.obstacles
        if self.fits_one_deploy:
            yield f"One deploy is enough: {self.steps[0]}." if self.steps else "The indexes do not change."
        elif self.steps:
            yield f"DynamoDB changes one index at a time. Run {len(self.steps)} deploys, one after the other:"
            yield from (f"  {number}. {wave}" for number, wave in enumerate(self.steps, 1))


def plan_deploys(deployed: TableIndexes, wanted: TableIndexes | None) -> DeployPlan:
    """Plan the deploys that change the deployed indexes to the wanted indexes; None if there is no table.

    New indexes come first and deletions last, so that every query has its index. A changed index gets a new name.
    """
    if wanted is None or wanted.keys != deployed.keys:
        return DeployPlan(
            (),
            ("The template has no table with this primary key: a deploy would create an empty table in its place.",),
        )
    before, after = deployed.indexes, wanted.indexes
    made = [
        f"create {name}, then migrate the items that have no keys for it"
        for name in sorted(after.keys() - before.keys())
    ]
    changed = sorted(name for name in before.keys() & after.keys() if not before[name].has_same_definition(after[name]))
    made += [f"create the new definition of {name} under a new name, and query that index instead" for name in changed]
    gone = [f"delete {name}" for name in sorted({*(before.keys() - after.keys()), *changed})]
    why_not = [
        f"{name} cannot be changed: DynamoDB cannot change the keys or projection of an index." for name in changed
    ]
    why_not += [
        f"{name} is {one.status}: wait until it is ACTIVE."
        for name, one in sorted(before.items())
        if one.status != "ACTIVE" and (made or gone)
    ]
    why_not += _lowered_warm_throughput("the table", deployed.warm, wanted.warm)
    for name in sorted(before.keys() & after.keys()):
        why_not += _lowered_warm_throughput(name, before[name].warm, after[name].warm)
    return DeployPlan((*made, *gone), tuple(why_not))


def _lowered_warm_throughput(where: str, before: WarmThroughput, after: WarmThroughput) -> Iterator[str]:
    """Yield a sentence for each value of a warm throughput that a deploy would lower. A value that is not set stays."""
    wanted = dict(after)
    for name, units in before:
        if wanted.get(name, units) < units:
            yield (
                f"{where} has a warm throughput of {units} {name}: DynamoDB cannot lower it to {wanted[name]}. "
                f"Set it to at least {units}, or do not set it."
            )


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: targets.Subparsers) -> None:
    parser = commands.add_parser(
        "indexes",
        parents=[targets.target_options()],
        help="check before a deploy whether one deploy can change the indexes",
        description="Compares the indexes of a table with a template. If one deploy would fail, prints the "
        "necessary deploys and exits with 1.",
    )
    parser.add_argument(
        "--against", type=Path, metavar="FILE", help="use a template or the output of describe-table instead of a table"
    )
    parser.add_argument(
        "--template", type=Path, metavar="FILE", help="the template to deploy (default: the key table of the code)"
    )
    parser.set_defaults(run=check_indexes)


def check_indexes(args: argparse.Namespace) -> None:
    """Print how a deploy would change the table's indexes. Exits with 1 if one deploy of the template would fail."""
    try:
        wanted = indexes_from_file(args.template) if args.template else indexes_from_model()
        deployed = _deployed_indexes(args)
    except (BotoCoreError, ClientError, LookupError, OSError, ValueError) as error:
        sys.exit(f"Cannot compare the indexes: {error}")
    if deployed is None:
        print("There is no table yet. The first deploy creates it with all its indexes.")
        return
    found = plan_deploys(deployed, wanted)
    print("\n".join(found.describe()))
    if not found.fits_one_deploy:
        sys.exit(1)


def _deployed_indexes(args: argparse.Namespace) -> TableIndexes | None:
    if args.against:
        return indexes_from_file(args.against)
    if args.stack:
        return indexes_from_stack(args.stack, args.region)
    table = targets.resolve_table(args)
    return indexes_from_table(table.client, table.name)
