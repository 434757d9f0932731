"""Where an operator's tool works: the shop on this machine, a deployed stack, or just a table; and how it is told."""

from __future__ import annotations

import argparse
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, cast

import boto3
from botocore.exceptions import ClientError

from functions.dynamodb.store import Table
from functions.model.table import BY_TYPE
from functions.shop.shop import Shop
from ops.kept import STALE, Kept, who

ON_AWS_UNITS_PER_SECOND = 100
"""How many capacity units a second a sweep consumes at most, unless it is given another limit: a table on AWS serves
customers meanwhile. On this machine a sweep has no limit, for no capacity is paid for there."""
PATIENCE_SECONDS = 60
"""How long an operator's tool waits for items in others' hands: no customer waits for it."""

if TYPE_CHECKING:
    from local.backlog import Lane
    from local.running import Running

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


@dataclass(frozen=True)
class Place:
    """A whole shop, deployed by a stack. `outputs`: what the stack tells of itself; `client`: a client of a service,
    there; `resources`: the names of its resources of a CloudFormation type, as that service calls them; `seen`: all
    that a journal has of an order, where one is kept."""

    outputs: Mapping[str, str]
    client: Callable[[str], Any]
    resources: Callable[[str], Sequence[str]]
    seen: Callable[[str], Sequence[Mapping[str, Any]]] = lambda order_id: ()
    lanes: Callable[[], Sequence[Lane]] = lambda: ()
    """How far the readers and queues of the shop on this machine are behind; on AWS CloudWatch knows."""

    @cached_property
    def table(self) -> Table:
        return Table(self.client("dynamodb"), self.outputs["TableName"], BY_TYPE, budget_seconds=PATIENCE_SECONDS)

    @property
    def shop(self) -> Shop:
        return _shop(self.table)

    @property
    def bus(self) -> str:
        """The name of its bus of events."""
        return self.resources("AWS::Events::EventBus")[0]


def where(*, whole: bool = False) -> argparse.ArgumentParser:
    """What a tool is told of where it works. `whole`: it needs more of the shop than its table."""
    asked = argparse.ArgumentParser(add_help=False)
    which = asked.add_mutually_exclusive_group()
    which.add_argument("--stack", help="the name of the shop's CloudFormation stack, such as orderstream-dev")
    if not whole:
        which.add_argument("--table", help="just a table's name, as the stack tells it (TableName)")
    which.add_argument("--local", action="store_true", help="the shop that runs on this machine (default)")
    asked.add_argument("--region", help="where that is; the one of your AWS settings if not said")
    return asked


def place_of(given: argparse.Namespace) -> Place:
    """The shop that is meant: the one on this machine, if no other is named."""
    return _deployed(given.stack, given.region) if given.stack else _running_here()


def table_of(given: argparse.Namespace) -> Table:
    """The table that is meant."""
    if getattr(given, "table", None):
        client = boto3.client("dynamodb", region_name=given.region)
        return Table(client, given.table, BY_TYPE, budget_seconds=PATIENCE_SECONDS)
    return place_of(given).table


def shop_of(given: argparse.Namespace) -> Shop:
    """The shop on the table that is meant, for who needs no more of it."""
    return _shop(table_of(given))


def _shop(table: Table) -> Shop:
    return Shop(table=table, new_id=lambda: uuid.uuid4().hex)


def _deployed(name: str, region: str | None) -> Place:
    cloudformation = boto3.client("cloudformation", region_name=region)
    try:
        (stack,) = cloudformation.describe_stacks(StackName=name)["Stacks"]
    except ClientError as error:
        sys.exit(f"There is no such stack here: {error}")

    def resources(resource_type: str) -> list[str]:
        pages = cloudformation.get_paginator("list_stack_resources").paginate(StackName=name)
        found = (one for page in pages for one in page["StackResourceSummaries"])
        return [one["PhysicalResourceId"] for one in found if one["ResourceType"] == resource_type]

    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}
    return Place(outputs, cache(lambda service: boto3.client(service, region_name=region)), resources)


def _running_here() -> Place:
    from local.running import find  # noqa: PLC0415  whoever works on AWS needs none of the laptop's programs

    running = find()
    if running is None:
        sys.exit("The shop is not running here (or not ready yet). Start it with: make up")
    return here(running)


def here(running: Running) -> Place:
    """The shop that runs on this machine."""

    def client(service: str) -> Any:
        if service == "dynamodb":
            return running.engine.dynamodb()
        return boto3.client(service, **running.aws.access)  # type: ignore[call-overload]

    outputs = {**running.stack.outputs, "TableName": running.table_name}
    return Place(outputs, cache(client), running.stack.names, running.journal_of, running.lanes)


# what is said on the command line -------------------------------------------------------------------------------------
def pace() -> argparse.ArgumentParser:
    """The option of every tool that goes through the table: how fast it may be. See `units_per_second`."""
    asked = argparse.ArgumentParser(add_help=False)
    asked.add_argument(
        "--units-per-second",
        type=positive,
        metavar="UNITS",
        help="how many capacity units it reads and writes a second at most "
        f"(default: {ON_AWS_UNITS_PER_SECOND} on AWS, no limit on this machine)",
    )
    return asked


def units_per_second(given: argparse.Namespace) -> float | None:
    """The limit that `pace` was given, else the default of where the tool works; None: there is no limit."""
    if given.units_per_second is None and (given.stack or getattr(given, "table", None)):
        return ON_AWS_UNITS_PER_SECOND
    return cast(float | None, given.units_per_second)


def remembered(*, parts: bool = True) -> argparse.ArgumentParser:
    """How a tool goes on that the table remembers. `parts`: it can go through several at once."""
    asked = argparse.ArgumentParser(add_help=False)
    asked.add_argument("--anew", action="store_true", help="begin at the beginning, though it was stopped half-way")
    if parts:
        asked.add_argument(
            "--segments", type=count, default=1, help="how many parts of the table at once (default: %(default)s)"
        )
    return asked


def kept(given: argparse.Namespace, table: Table, tool: str, name: str, task: str) -> Kept:
    """This tool's sweep, as the table remembers it: gone on with where it was stopped today. Raises InHand."""
    found = Kept(
        table,
        tool,
        name,
        task,
        by=who(),
        segments=getattr(given, "segments", 1),
        stale=timedelta(0) if given.anew else STALE,
    )
    if found.since is not None:
        print(f"{found.told} (--anew begins at the beginning.)", flush=True)
    return found


def positive(text: str) -> float:
    number = float(text)
    if not number > 0:
        raise argparse.ArgumentTypeError("must be more than 0")
    return number


def count(text: str) -> int:
    number = int(text)
    if not number > 0:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number
