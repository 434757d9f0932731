"""Find an operator tool's target: the local shop, a stack or a table. Declare the options that tools share."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Protocol, cast

import boto3
from botocore.exceptions import ClientError

from functions.dynamodb.actors import Actor
from functions.dynamodb.keys import Instant, to_instant
from functions.dynamodb.table import Table
from functions.model.lambdas import resource_prefix
from functions.model.table import ROWS_BY_TYPE
from functions.shop.audit import record_action
from functions.shop.shop import ShopContext
from ops.scan.checkpoint import MAX_RESUME_AGE, Checkpoint, current_operator

DEFAULT_UNITS_PER_SECOND_ON_AWS = 100
"""The default limit of a table sweep on AWS, where the table serves customers at the same time."""
RETRY_BUDGET_SECONDS = 60
"""How long an operator tool retries throttled or conflicting requests. It may be long, because no customer waits."""


class Subparsers(Protocol):
    """An object that adds parsers of commands, as in argparse. `settings`: other arguments of add_parser()."""

    def add_parser(self, name: str, **settings: Any) -> argparse.ArgumentParser: ...


LAG_THRESHOLD_SECONDS = 5.0
"""A queue, or a Lambda function that reads the table's stream, counts as behind if it lags by this time or more."""


@dataclass(frozen=True)
class ConsumerLag:
    """How far a stream reader or a queue is behind: unfinished records or messages, and the oldest one's age.

    `returning`, `returns_at`: how many wait after a failed delivery, and until when (epoch seconds).
    """

    name: str
    waiting: int
    seconds: float
    returning: int = 0
    returns_at: float = 0

    @property
    def is_behind(self) -> bool:
        return self.waiting > 0 and self.seconds >= LAG_THRESHOLD_SECONDS

    def __str__(self) -> str:
        again = f", {self.format_retries()}" if self.returning else ""
        return f"{self.name} is {self.seconds:.0f} s behind: {self.waiting} waiting{again}"

    def format_retries(self) -> str:
        first = datetime.fromtimestamp(self.returns_at).astimezone()
        return f"{self.returning} of them after a failed delivery, the first again at {first:%H:%M:%S}"


@dataclass(frozen=True)
class ShopTarget:
    """A complete shop on which a tool works: a deployed stack or the local shop.

    `outputs`: of the stack; on AWS also `StackName`. `resources`: returns physical ids by CloudFormation type.
    """

    outputs: Mapping[str, str]
    client: Callable[[str], Any]
    resources: Callable[[str], Sequence[str]]
    lanes: Callable[[], Sequence[ConsumerLag]] = lambda: ()
    """A function that returns how far each stream reader and each queue of the local shop is behind; () on AWS."""
    function_log: Callable[[], bytes] = lambda: b""
    """A function that returns the log lines of all functions of the local shop, oldest first; empty on AWS."""
    full_disk: Callable[[], str | None] = lambda: None
    """A function that returns why the local shop accepts no writes: its disk is full. None: it has enough space."""
    local_state: Path = Path(".local")
    """The folder of the local shop's state."""
    options: Sequence[str] = ()
    """The options of a tool that select this shop, such as `--stack orderstream-dev`. Empty: the default local shop."""

    @cached_property
    def table(self) -> Table:
        return Table(
            self.client("dynamodb"), self.outputs["TableName"], ROWS_BY_TYPE, retry_budget_seconds=RETRY_BUDGET_SECONDS
        )

    @property
    def shop(self) -> ShopContext:
        """The shop with the settings that its stack has as outputs."""
        names = ("payment_window_minutes", "closed_order_days", "return_window_days", "audit_days")
        outputs = {name: self.outputs.get(resource_prefix(name)) for name in names}
        return _make_shop(self.table, **{name: int(value) for name, value in outputs.items() if value})

    @property
    def bus_name(self) -> str:
        """The name of the shop's EventBridge event bus."""
        return self.resources("AWS::Events::EventBus")[0]

    def ops_command(self, arguments: str) -> str:
        """Return the command line that runs a tool on this shop with this Python, from the working directory."""
        python = Path(sys.executable)
        if python.is_relative_to(Path.cwd()):
            python = python.relative_to(Path.cwd())
        return shlex.join([str(python), "-m", "ops", *shlex.split(arguments), *self.options])


def target_options(*, needs_stack: bool = False) -> argparse.ArgumentParser:
    """Return a parser with the options of the shop or table; no `--table` if the tool `needs_stack`, such as queues."""
    parser = argparse.ArgumentParser(add_help=False)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--stack", help="the name of the shop's CloudFormation stack, such as orderstream-dev")
    if not needs_stack:
        which.add_argument("--table", help="only a table, by its name (the stack output TableName)")
    which.add_argument("--local", action="store_true", help="the shop that runs on this machine (default)")
    add_state_option(which)
    parser.add_argument("--region", help="the AWS region (default: the region of your AWS configuration)")
    parser.add_argument(
        "--as",
        dest="operator",
        metavar="NAME",
        help="your name in the audit trail (default: $ORDERSTREAM_OPERATOR, otherwise your IAM identity or login name)",
    )
    return parser


def record_run(
    args: argparse.Namespace, shop: ShopContext, command: str, *items: str, reason: str | None = None
) -> None:
    """Record who runs a tool on these items in the audit trail, except dry runs. Raises ClientError."""
    if getattr(args, "dry_run", False):
        return
    name = args.operator or os.environ.get("ORDERSTREAM_OPERATOR")
    if not name and (args.stack or getattr(args, "table", None)):
        identity = boto3.client("sts", region_name=args.region).get_caller_identity()
        name = identity["Arn"].rpartition("/")[2]
    for item in items:
        record_action(shop, Actor(by=f"ops:{name or current_operator()}", command=command, reason=reason), item)


def add_state_option(parser: argparse._ActionsContainer) -> None:
    help_text = "the shop that runs on this machine with its state in this folder, as `python -m local --state DIR up`"
    parser.add_argument("--state", type=Path, metavar="DIR", help=help_text)


def resolve_target(args: argparse.Namespace) -> ShopTarget:
    """Return the shop that the options select: the stack of `--stack`, otherwise the local shop."""
    return _find_deployed_target(args.stack, args.region) if args.stack else args.find_local_target(args.state)


def resolve_table(args: argparse.Namespace) -> Table:
    """Return the table that the options select: the table of `--table`, otherwise the table of the selected shop."""
    if getattr(args, "table", None):
        client = boto3.client("dynamodb", region_name=args.region)
        return Table(client, args.table, ROWS_BY_TYPE, retry_budget_seconds=RETRY_BUDGET_SECONDS)
    return resolve_target(args).table


def resolve_shop(args: argparse.Namespace) -> ShopContext:
    """Return the selected table as a ShopContext, for tools that need only the table."""
    return _make_shop(resolve_table(args))


def _make_shop(table: Table, **settings: Any) -> ShopContext:
    return ShopContext(table=table, new_id=lambda: uuid.uuid4().hex, **settings)


def describe_stack(describe_stacks: Callable[..., Any], name: str) -> Mapping[str, Any] | None:
    """Return the description of a stack, or None if it does not exist. Raises ClientError otherwise."""
    try:
        (stack,) = describe_stacks(StackName=name)["Stacks"]
    except ClientError as error:
        if "does not exist" in str(error):
            return None
        raise
    return dict(stack)


def _find_deployed_target(name: str, region: str | None) -> ShopTarget:
    cloudformation = boto3.client("cloudformation", region_name=region)
    try:
        (stack,) = cloudformation.describe_stacks(StackName=name)["Stacks"]
    except ClientError as error:
        sys.exit(f"Cannot read the stack {name}: {error}")

    def resources(resource_type: str) -> list[str]:
        pages = cloudformation.get_paginator("list_stack_resources").paginate(StackName=name)
        found = (one for page in pages for one in page["StackResourceSummaries"])
        return [one["PhysicalResourceId"] for one in found if one["ResourceType"] == resource_type]

    outputs = {"StackName": name} | {one["OutputKey"]: one["OutputValue"] for one in stack.get("Outputs", [])}
    options = ["--stack", name, *(["--region", region] if region else [])]
    return ShopTarget(
        outputs, cache(lambda service: boto3.client(service, region_name=region)), resources, options=options
    )


def metrics_options() -> argparse.ArgumentParser:
    """Return a parser with the options that select the metrics of a table on AWS."""
    parser = argparse.ArgumentParser(add_help=False)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--stack", help="the name of the shop's CloudFormation stack, such as orderstream-dev")
    which.add_argument("--table", help="only a table, by its name (the stack output TableName)")
    parser.add_argument("--region", help="the AWS region (default: the region of your AWS configuration)")
    return parser


def resolve_metrics(args: argparse.Namespace) -> tuple[Any, Any, str]:
    """Return clients of CloudWatch and DynamoDB, and the name of the table that the options select."""
    name = args.table or _find_deployed_target(args.stack, args.region).outputs["TableName"]
    cloudwatch, dynamodb = (boto3.client(service, region_name=args.region) for service in ("cloudwatch", "dynamodb"))
    return cloudwatch, dynamodb, name


# common options -------------------------------------------------------------------------------------------------------
def throttle_options() -> argparse.ArgumentParser:
    """Return a parser with the option `--units-per-second`, which limits the capacity of a table sweep."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(
        "--units-per-second",
        type=positive_number,
        metavar="UNITS",
        help="limit of capacity units per second, reads and writes together "
        f"(default: {DEFAULT_UNITS_PER_SECOND_ON_AWS} on AWS, no limit on this machine)",
    )
    return parser


def units_per_second(args: argparse.Namespace) -> float | None:
    """Return the limit of capacity units per second; None for no limit, which is the default on this machine."""
    if args.units_per_second is None and (args.stack or getattr(args, "table", None)):
        return DEFAULT_UNITS_PER_SECOND_ON_AWS
    return cast(float | None, args.units_per_second)


def resume_options(*, with_segments: bool = True) -> argparse.ArgumentParser:
    """Return a parser with the option `--restart`, and `--segments` for a tool that scans segments in parallel."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--restart", action="store_true", help="start from the beginning, do not resume a stopped run")
    if with_segments:
        parser.add_argument(
            "--segments",
            type=positive_int,
            default=1,
            help="segments of the table to scan in parallel (default: %(default)s)",
        )
    return parser


def open_checkpoint(args: argparse.Namespace, table: Table, tool: str, name: str, task: str) -> Checkpoint:
    """Return the checkpoint of a tool. Raises Locked if another run holds its lock.

    The run resumes the last one if that had the same `task` and stopped less than a day ago, unless `--restart`.
    """
    checkpoint = Checkpoint(
        table,
        tool,
        name,
        task,
        by=current_operator(),
        segments=getattr(args, "segments", 1),
        max_age=timedelta(0) if args.restart else MAX_RESUME_AGE,
    )
    if checkpoint.stopped_at is not None:
        print(f"{checkpoint.resume_message} (Use --restart to start from the beginning.)", flush=True)
    return checkpoint


def parse_date(text: str) -> Instant:
    """Parse a day or time of the command line; without a time zone it is UTC. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    return to_instant(moment if moment.tzinfo else datetime.fromisoformat(f"{moment.isoformat()}+00:00"))


def positive_number(text: str) -> float:
    number = float(text)
    if not number > 0:
        raise argparse.ArgumentTypeError("must be more than 0")
    return number


def positive_int(text: str) -> int:
    number = int(text)
    if not number > 0:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def positive_int_up_to(most: int, why: str) -> Callable[[str], int]:
    """Return a parser of numbers from 1 to `most`. `why`: the reason of the limit, for the error message."""

    def parse_limited(text: str) -> int:
        if (number := positive_int(text)) > most:
            raise argparse.ArgumentTypeError(f"must be {most} or less: {why}")
        return number

    return parse_limited
