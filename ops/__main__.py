"""Run an operator tool: `python -m ops COMMAND`.

A tool works on a shop or a single table on AWS, or on the local shop (the shop that runs on this machine).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from local.shop_target import find_local_target
from ops import cli_errors
from ops.commands import (
    archive_query,
    canary_setup,
    capacity,
    drift,
    failures,
    first_deploy,
    health,
    hot_keys,
    indexes,
    ledger,
    migrate,
    order,
    preflight,
    query,
    replay,
    restore,
    review,
    smoke,
    workbench,
)

TOOLS = (
    ledger,
    drift,
    query,
    workbench,
    migrate,
    indexes,
    first_deploy,
    review,
    preflight,
    smoke,
    canary_setup,
    hot_keys,
    capacity,
    failures,
    replay,
    restore,
    order,
    archive_query,
    health,
)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m ops", description="Operator tools for the local shop or a deployed stack."
    )
    parser.set_defaults(find_local_target=find_local_target)
    commands = parser.add_subparsers(dest="command", required=True)
    for tool in TOOLS:
        tool.command(commands)
    args = parser.parse_args(argv)
    try:
        with cli_errors.exit_on_error():
            args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:  # the program that reads our output, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
