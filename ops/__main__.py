"""Run an operator tool on a shop or a single table on AWS, or on the local shop: `python -m ops COMMAND`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any

from local.laptop.shop_target import find_local_target
from ops import cli_errors
from ops.command_line import CommandLineParser
from ops.commands import (
    archive_query,
    audit,
    canary_setup,
    capacity,
    drift,
    export,
    failures,
    first_deploy,
    health,
    hot_keys,
    indexes,
    migrate,
    model,
    order,
    preflight,
    query,
    replay,
    request,
    restore,
    review,
    smoke,
    stripe_setup,
    subscribe,
)
from ops.targets import Subparsers
from ops.terminal_text import colored

PROGRAM = "python -m ops"

COMMAND_GROUPS: Mapping[str, Sequence[tuple[ModuleType, str]]] = {
    "Look": (
        (order, "order K7QD4XN2"),
        (request, "request JKJaXmPLvHcESHA="),
        (query, "query A12b --arg order_id=puew472mvqwwyp7umsfzvnbsye"),
        (archive_query, 'archive-query "SELECT count(*) FROM orders"'),
        (audit, "audit ORDER:puew472mvqwwyp7umsfzvnbsye"),
        (export, "export orders --from 2026-10-01 --to 2026-11-01"),
        (model, "model --diagram"),
    ),
    "Check a running shop": (
        (health, "health"),
        (drift, "drift --all"),
        (hot_keys, "hot-keys --stack orderstream-prod"),
        (capacity, "capacity --stack orderstream-prod"),
    ),
    "Repair": (
        (failures, "failures list"),
        (replay, "replay --from-event-archive --since 3d --to-all"),
        (restore, "restore --from 2026-10-01 --to 2026-11-01"),
    ),
    "Deploy and upgrade": (
        (preflight, "preflight --stack orderstream-prod --template cdk.out/orderstream-prod.template.json"),
        (first_deploy, "first-deploy --stack orderstream-prod"),
        (indexes, "indexes --stack orderstream-prod --template cdk.out/orderstream-prod.template.json"),
        (review, "review --stack orderstream-prod --template cdk.out/orderstream-prod.template.json"),
        (migrate, "migrate up --dry-run"),
        (smoke, "smoke --stack orderstream-dev"),
        (canary_setup, "canary-setup --stack orderstream-prod"),
        (stripe_setup, "stripe-setup --stack orderstream-prod"),
        (
            subscribe,
            (
                "subscribe --account 123456789012 --events OrderPaid,OrderShipped "
                "--bus arn:aws:events:eu-central-1:111122223333:event-bus/BUS"
            ),
        ),
    ),
}
"""The commands by purpose, each with an example of its arguments."""


@dataclass
class CommandGroup:
    """Adds the commands of one group, without argparse's `help`, which would list them twice."""

    commands: Subparsers
    example: str = ""
    lines: list[str] = field(default_factory=list)

    def add_parser(self, name: str, *, help: str, **settings: Any) -> argparse.ArgumentParser:  # noqa: A002  argparse's
        example = colored(f"$ {PROGRAM} {self.example}", "dim")
        self.lines += [f"  {colored(f'{name:<15}', 'cyan')}{help}", f"  {'':<15}{example}"]
        return self.commands.add_parser(name, **{"epilog": f"Example: {PROGRAM} {self.example}", **settings})


@cache
def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line. Its help shows the commands by purpose, each with an example."""
    parser = CommandLineParser(
        prog=PROGRAM,
        usage=f"{PROGRAM} COMMAND …",
        description="Operator tools for the local shop. With --stack NAME, they work on a deployed stack.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(find_local_target=find_local_target)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", help="one of those below")
    text: list[str] = []
    for title, tools in COMMAND_GROUPS.items():
        group = CommandGroup(commands)
        for tool, group.example in tools:
            tool.command(group)
        text += [colored(f"{title}:", "bold"), *group.lines, ""]
    parser.epilog = "\n".join([*text, f"The options of a command: {PROGRAM} COMMAND --help"])
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    args = make_parser().parse_args(argv)
    try:
        with cli_errors.exit_on_error():
            args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:  # the program that reads our output, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        sys.exit(130)
    except SystemExit as ended:
        if isinstance(ended.code, str):  # an error message, which Python prints to stderr
            sys.exit(colored(ended.code, "red", sys.stderr))
        raise


if __name__ == "__main__":
    main()
