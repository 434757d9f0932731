"""`python -m local COMMAND`: run and use the shop on this machine."""

from __future__ import annotations

import argparse
import json
import re
import sqlite3
import sys
from datetime import datetime
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError
from urllib3.exceptions import HTTPError

from local.laptop import demo, load_test, users, warehouse
from local.laptop.aws_process import FunctionFailed, shell_environment
from local.laptop.deploy import DeployFailed
from local.laptop.own_shop import run_own_shop
from local.laptop.shop_client import STATE_FOLDER, RunningShop, require_running_shop, shop_command
from local.laptop.shop_target import local_target
from local.laptop.state_checks import DamagedState, UnusableFolder
from local.seed import fill
from local.up import API_PORT, PAGE_PORT, PROVIDER_PORT, reset_state, run_shop
from local.world import expiry
from local.world.dynamodb_engine import EngineNotInstalled, TableDiffers
from local.world.processes import ProcessFailed
from ops.api_client import UnexpectedResponse
from ops.command_line import CommandLineParser
from ops.commands.smoke import run_smoke
from ops.scenarios import EffectMissing

REPORTED_ERRORS = (
    EngineNotInstalled,
    ProcessFailed,
    DeployFailed,
    FunctionFailed,
    UnusableFolder,
    EffectMissing,
    UnexpectedResponse,
)
"""For these errors, `python -m local` prints only the message, without a traceback. The exit code is 1."""


def main() -> None:
    parser = CommandLineParser(prog="python -m local", description="Run and use the shop on this machine.")
    parser.add_argument("--state", type=Path, default=STATE_FOLDER, help="folder of the state (default: %(default)s)")
    commands = parser.add_subparsers(dest="command", required=True)
    starting = commands.add_parser("up", help="start the shop and print its activity until Ctrl-C")
    starting.add_argument("--port", type=parse_port, default=API_PORT, help="port of the API (default: %(default)s)")
    starting.add_argument(
        "--provider-port",
        type=parse_port,
        default=PROVIDER_PORT,
        help="port of the payment provider (default: %(default)s)",
    )
    starting.add_argument(
        "--page-port", type=parse_port, default=PAGE_PORT, help="port of the web page (default: %(default)s)"
    )
    starting.add_argument(
        "--no-warehouse",
        action="store_true",
        help="do not start the local warehouse; you answer its requests (docs/warehouse-system.md)",
    )
    starting.add_argument(
        "-c",
        dest="settings",
        type=parse_setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a deployment setting (docs/settings.md); repeatable",
    )
    commands.add_parser("demo", help="run typical orders in a separate shop, and fail if an effect does not arrive")
    commands.add_parser("smoke", help="run the orders of `make smoke` in a separate shop, as in a deployed stage")
    loading = commands.add_parser("load", help="place many orders, measure speed and delay, and check each effect")
    loading.add_argument("--orders", type=parse_positive_int, default=600, help="default: %(default)s")
    loading.add_argument("--clients", type=parse_positive_int, default=16, help="default: %(default)s")
    loading.add_argument("--rate", type=float, default=0, help="orders per second (default: no limit)")
    seeding = commands.add_parser("fill", help="fill the running, empty shop with the orders of three years")
    seeding.add_argument("--orders", type=parse_positive_int, default=10_000, help="default: %(default)s")
    seeding.add_argument("--seed", type=parse_positive_int, default=1, help="another number creates other data")
    commands.add_parser("token", help="print an access token").add_argument(
        "name", type=parse_user_name, help="alice, bob, staff, warehouse, or another customer"
    )
    advancing = commands.add_parser("advance", help="process all deadlines and expiries of a duration")
    advancing.add_argument("by", type=expiry.parse_duration, help="the duration, e.g. 400d or 90m")
    commands.add_parser("env", help='print variables for the AWS CLI: eval "$(python -m local env)"')
    commands.add_parser(
        "warehouse-requests", help="print the requests to the warehouse and delete them (with up --no-warehouse)"
    )
    commands.add_parser("mail", help="print all sent mails")
    resetting = commands.add_parser("reset", help="delete the state: all orders, users, mails and logs of the shop")
    resetting.add_argument("--yes", action="store_true", help="do not ask, as if the input is not a terminal")
    arguments = parser.parse_args()
    try:
        run_command(arguments)
    except (DamagedState, TableDiffers, fill.ShopNotEmpty) as error:
        sys.exit(f"{error}; to start with an empty shop: {shop_command(arguments.state, 'reset')}")
    except REPORTED_ERRORS as error:
        sys.exit(str(error))
    except (BotoCoreError, ClientError, HTTPError) as error:
        sys.exit(f"The shop does not answer ({type(error).__name__}). It may be starting or stopping. Try again.")
    except BrokenPipeError:  # the program that reads the output, such as `head`, has closed the pipe
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        where = error.filename or arguments.state
        sys.exit(f"{where}: {error.strerror or error}. To use another folder: .venv/bin/python -m local --state DIR up")
    except sqlite3.Error as error:
        sys.exit(f"The files in {arguments.state} cannot be used: {error}.")


def run_command(arguments: argparse.Namespace) -> None:
    match arguments.command:
        case "up":
            run_shop(
                arguments.state,
                api_port=arguments.port,
                provider_port=arguments.provider_port,
                page_port=arguments.page_port,
                with_warehouse=not arguments.no_warehouse,
                settings=dict(arguments.settings),
            )
        case "reset":
            reset_state(arguments.state, lambda: confirm_reset(arguments.state, is_asked=not arguments.yes))
            print(f"State deleted. Next: {shop_command(arguments.state, 'up')}")
        case "demo" | "smoke":
            run_scenarios_in_own_shop(as_stage=arguments.command == "smoke")
        case _:
            use_running_shop(require_running_shop(arguments.state), arguments)


def confirm_reset(state: Path, *, is_asked: bool) -> None:
    """Print what a reset deletes. On a terminal, also ask. Exits with 1 if the answer is not yes."""
    size = sum(file.stat().st_size for file in state.rglob("*") if file.is_file())
    print(f"This deletes {state}: all orders, users, mails, payments and logs of this shop ({size / 1e6:,.0f} MB).")
    if is_asked and sys.stdin.isatty():
        print("Delete it? Type yes to go on: ", end="", flush=True)
        if sys.stdin.readline().strip().lower() != "yes":
            sys.exit("Nothing was deleted.")


def use_running_shop(shop: RunningShop, arguments: argparse.Namespace) -> None:
    match arguments.command:
        case "load":
            load_test.run_load_test(shop, arguments.orders, arguments.clients, arguments.rate)
        case "fill":
            fill.fill_shop(shop, arguments.orders, arguments.seed)
        case "token":
            print(users.get_access_token(shop.aws, shop.stack, arguments.name))
        case "advance":
            print(demo.advance(shop, arguments.by))
        case "env":
            print(shell_environment(shop.aws, shop.engine))
        case "warehouse-requests":
            print_warehouse_requests(shop)
        case "mail":
            print_mails(shop)


def run_scenarios_in_own_shop(*, as_stage: bool) -> None:
    """Run the demo in a new shop. `as_stage`: use the shop as `make smoke` uses a deployed stage."""
    with run_own_shop(*(["--no-warehouse"] if as_stage else [])) as shop:
        if as_stage:
            run_smoke(local_target(shop), shop.api_url)
        else:
            demo.run_demo(shop)


def parse_setting(text: str) -> tuple[str, str]:
    """Parse NAME=VALUE into a name and a value. Raises argparse.ArgumentTypeError."""
    name, equals, value = text.partition("=")
    if not equals or name in ("", "stage", "laptop"):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a setting of the local shop: use NAME=VALUE, e.g. closed_order_days=30"
        )
    return name, value


def parse_port(text: str) -> int:
    """Parse a port number. Raises argparse.ArgumentTypeError."""
    if not re.fullmatch("[0-9]{1,5}", text) or not 0 < int(text) < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: use a number from 1 to 65535")
    return int(text)


def parse_positive_int(text: str) -> int:
    """Parse a number from 1 to 999999. Raises argparse.ArgumentTypeError."""
    if not re.fullmatch("[0-9]{1,6}", text) or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not valid: use a number from 1 to 999999")
    return int(text)


def parse_user_name(text: str) -> str:
    """Return the text if it is a valid user name. Raises argparse.ArgumentTypeError."""
    if not re.fullmatch(users.NAME_PATTERN, text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a user name: use a short name in lower case, e.g. carol")
    return text


def print_warehouse_requests(shop: RunningShop) -> None:
    for event in warehouse.receive_requests(shop.aws, shop.warehouse_queue_url):
        print(json.dumps({"type": event["type"], **event["data"]}))


def print_mails(shop: RunningShop) -> None:
    for mail in shop.aws.list_mails():
        at = datetime.fromtimestamp(mail["Timestamp"]).astimezone()
        print(f"{at:%H:%M:%S}  to {', '.join(mail['To'])}: {mail['Subject']}\n\n{mail['BodyText']}\n{'-' * 72}")


if __name__ == "__main__":
    main()
