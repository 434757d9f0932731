"""The `subscribe` command: print the AWS CLI commands that send events of the shop to a queue of another team.

It calls no AWS service. The queue is in the shop's Region, and may be in another account: EventBridge then sends with a
role of the shop's account, and the other account needs no bus.
https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-service-cross-account.html
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from functions.model.events import EVENT_SOURCE, EVENTS_BY_NAME
from ops import targets
from ops.cli_errors import UsageError
from ops.terminal_text import suggest

BUS_ARN = re.compile(r"arn:(?P<partition>[\w-]+):events:(?P<region>[\w-]+):(?P<account>\d{12}):event-bus/(?P<bus>\S+)")
RETENTION = {"MessageRetentionPeriod": str(14 * 86_400)}  # the longest time that SQS allows
MAX_RECEIVES = 5


def write_script(bus: Mapping[str, str], account: str, name: str, events: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a shell script: the commands for the team's account, then those for the shop's account.

    `bus`: the parts of BUS_ARN. `name`: of queue, rule and role. All can be repeated, except `create-role`.
    """
    shop, cross_account = bus["account"], account != bus["account"]
    queue, dead, undelivered = (
        f"arn:{bus['partition']}:sqs:{bus['region']}:{owner}:{name}{ending}"
        for owner, ending in ((account, ""), (account, "-dead"), (shop, "-undelivered"))
    )
    rule = f"arn:{bus['partition']}:events:{bus['region']}:{shop}:rule/{bus['bus']}/{name}"
    role = f"arn:{bus['partition']}:iam::{shop}:role/{name}"
    # https://docs.aws.amazon.com/eventbridge/latest/userguide/cross-service-confused-deputy-prevention.html
    by_rule = {
        "Principal": {"Service": "events.amazonaws.com"},
        "Condition": {"ArnEquals": {"aws:SourceArn": rule}},
    }
    # A role as the principal would have to exist before the queue, and would be lost if it were created again.
    by_role = {
        "Principal": {"AWS": f"arn:{bus['partition']}:iam::{shop}:root"},
        "Condition": {"ArnEquals": {"aws:PrincipalArn": role}},
    }
    send = {"Action": "sqs:SendMessage", "Resource": queue}
    target = {"Id": "queue", "Arn": queue, "DeadLetterConfig": {"Arn": undelivered}}
    pattern = {"source": [EVENT_SOURCE], "account": [shop], "detail-type": [*events]}

    yield f"# In the account {account} of the team: the queue, and a queue for messages that the team cannot process."
    yield _aws("sqs create-queue", bus, queue_name=f"{name}-dead", attributes=RETENTION)
    redrive = {"deadLetterTargetArn": dead, "maxReceiveCount": str(MAX_RECEIVES)}
    policies = {"Policy": _policy(send | (by_role if cross_account else by_rule)), "RedrivePolicy": json.dumps(redrive)}
    yield _aws("sqs create-queue", bus, queue_name=name, attributes=policies)
    yield f"# In the account {shop} of the shop: the rule, and a queue for events that EventBridge cannot deliver."
    if cross_account:
        trust = _policy(by_rule | {"Action": "sts:AssumeRole"})
        yield _aws("iam create-role", bus, role_name=name, assume_role_policy_document=trust)
        yield _aws("iam put-role-policy", bus, role_name=name, policy_name="send", policy_document=_policy(send))
        target["RoleArn"] = role
    attributes = RETENTION | {"Policy": _policy(by_rule | {"Action": "sqs:SendMessage", "Resource": undelivered})}
    yield _aws("sqs create-queue", bus, queue_name=f"{name}-undelivered", attributes=attributes)
    yield _aws("events put-rule", bus, event_bus_name=bus["bus"], name=name, event_pattern=pattern)
    yield _aws("events put-targets", bus, event_bus_name=bus["bus"], rule=name, targets=[target])


def _policy(statement: Mapping[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **statement}]})


def _aws(command: str, bus: Mapping[str, str], **options: Any) -> str:
    """Return a command of the AWS CLI in the shop's Region. Options that are no texts are written as JSON."""
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in options.items()}
    words = [word for name, text in texts.items() for word in (f"--{name.replace('_', '-')}", text)]
    return f"aws {command} {shlex.join(['--region', bus['region'], *words])}"


def _event_names(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in EVENTS_BY_NAME:
            raise argparse.ArgumentTypeError(f"{name!r} is not an event.{suggest(name, EVENTS_BY_NAME)}")
    return names


def _text(pattern: str, needs: str) -> Callable[[str], str]:
    """Return a parser of texts that match a pattern. Its error says what an option needs."""

    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise argparse.ArgumentTypeError(f"{text!r} is not valid: use {needs}.")
        return text

    return parse


def command(commands: targets.Subparsers) -> None:
    parser = commands.add_parser(
        "subscribe",
        help="print the commands that send events to the queue of another team",
        description="Prints commands of the AWS CLI, and runs none. They allow only what the subscription needs.",
    )
    account, name = (
        _text(r"\d{12}", "the 12 digits of an AWS account"),
        _text(r"[\w-]{1,64}", "1 to 64 letters, digits, _ or -"),
    )
    parser.add_argument("--account", required=True, type=account, help="the id of the AWS account with the queue")
    parser.add_argument("--bus", required=True, help="the ARN of the shop's event bus")
    parser.add_argument("--events", required=True, type=_event_names, help="the names of the events, joined by commas")
    parser.add_argument("--name", default="orderstream-events", type=name, help="of queue, rule and role (%(default)s)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print the script. Raises UsageError if `--bus` is not the ARN of a bus."""
    bus = BUS_ARN.fullmatch(args.bus)
    if bus is None:
        raise UsageError(f"{args.bus!r} is not an ARN such as arn:aws:events:REGION:ACCOUNT:event-bus/NAME.")
    print("\n".join(write_script(bus.groupdict(), args.account, args.name, args.events)))
