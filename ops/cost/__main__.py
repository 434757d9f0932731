"""Print what a stage costs in a month, line by line: `make cost STAGE=prod ARGS="--orders 1000,100000"`."""

import argparse
from collections.abc import Iterator

from ops.command_line import CommandLineParser
from ops.cost.bill import APART, BillLine, UnpricedResource, bill, load_month, load_prices, total, yearly_growth
from ops.cost.usage import VOLUMES
from ops.terminal_text import colored
from stacks.stage import InvalidSetting
from stacks.synth_cache import SynthFailed


def main() -> None:
    """Print a bill for each number of orders. Exit with 2 if an argument or a setting is wrong."""
    parser = CommandLineParser(prog="python -m ops.cost", description=__doc__)
    parser.add_argument("--stage", default="dev", help="the stage (default: dev)")
    parser.add_argument(
        "-c", "--context", metavar="NAME=VALUE", action="append", default=[], help="override a setting, as with the CDK"
    )
    parser.add_argument(
        "--orders",
        metavar="NUMBER",
        type=_volumes,
        default=VOLUMES,
        help="orders a day; several are separated by commas (default: 1000,100000,10000000)",
    )
    asked = parser.parse_args()
    settings = dict(one.partition("=")[::2] for one in asked.context)
    try:
        for orders_a_day in asked.orders:
            month = load_month(orders_a_day, **{"stage": asked.stage, **settings})
            print(*_render(f"{month.stage.name}, {orders_a_day:,} orders a day", bill(month)), sep="\n")
            print(f"Each further year adds {total(yearly_growth(month)):,.2f}: archived orders.\n")
    except (InvalidSetting, SynthFailed, UnpricedResource) as error:
        parser.error(str(error).strip().rpartition("\n")[2])
    prices = load_prices()
    print(f"{prices['currency']} a month, list prices of {prices['region']} of {prices['as_of']}: docs/cost.md")


def _volumes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(one) for one in text.replace("_", "").split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be whole numbers, such as 1000,100000") from None


def _render(title: str, lines: list[BillLine]) -> Iterator[str]:
    yield colored(title, "bold")
    for line in lines:
        yield f"  {line.service:<16}{line.what:<32}{line.quantity:>20,.2f}{line.amount:>16,.2f}"
    yield colored(f"  {'total':<68}{total(lines):>16,.2f}", "bold")
    yield f"  {'total without mails and users':<68}{total(lines, without=APART):>16,.2f}"


if __name__ == "__main__":
    main()
