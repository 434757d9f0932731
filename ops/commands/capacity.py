"""The `capacity` command: estimate the table's cost with on-demand and provisioned capacity, by table class.

On-demand mode bills the units of each hour. For provisioned mode, the busiest five minutes of an hour decide what
autoscaling provisions in this hour. Real autoscaling takes some minutes, and cannot follow a peak of one or two
minutes. Free tiers and reserved capacity are not included.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

from functions.dynamodb.keys import to_instant
from functions.model.table import INDEX_PROJECTIONS
from ops import targets
from ops.cost.bill import load_prices
from ops.table_metrics import fetch_sums
from ops.terminal_text import colored
from stacks.stage import STAGES

PERIOD_SECONDS = 300
HOUR_SECONDS = 3600
MONTH_HOURS = 730
GIGABYTE = 1 << 30
MAX_DAYS = 63
"""The maximum of `--days`, because CloudWatch keeps five-minute datapoints for 63 days."""
OPERATIONS = ("read", "write")
BILLING = ("on-demand", "provisioned")
TABLE = "table"

HourUnits = tuple[int, int]
"""The capacity units consumed in an hour, and the units consumed in the busiest five minutes of that hour."""


@dataclass(frozen=True)
class TableTraffic:
    """The capacity that a table and its indexes have consumed, from CloudWatch, from the hour `since` on.

    By "table" or the name of an index: the consumed units of each hour, oldest first, and the stored bytes.
    """

    table: str
    since: str
    read: Mapping[str, Sequence[HourUnits]]
    write: Mapping[str, Sequence[HourUnits]]
    stored: Mapping[str, int]

    @property
    def hours(self) -> int:
        return len(self.read[TABLE])

    def hourly_units(self, operation: str, resource: str) -> Sequence[HourUnits]:
        found: Sequence[HourUnits] = {"read": self.read, "write": self.write}[operation][resource]
        return found


@dataclass(frozen=True)
class AutoscalingRules:
    """The autoscaling settings: the target utilization in percent, and the minimum capacity units."""

    utilization: int
    min_units: int

    def provisioned_units(self, peak_units: int) -> int:
        """Return the units per second to provision. `peak_units`: the units of the busiest five minutes of an hour."""
        return max(self.min_units, -(-peak_units * 100 // (PERIOD_SECONDS * self.utilization)))


@dataclass(frozen=True)
class MonthlyCosts:
    """The monthly costs of the table, or of one index, in one table class, in the currency of the price file."""

    on_demand: float
    provisioned: float
    storage: float

    def total(self, billing: str) -> float:
        return self.storage + {"on-demand": self.on_demand, "provisioned": self.provisioned}[billing]


# fetch ----------------------------------------------------------------------------------------------------------------
def fetch_traffic(cloudwatch: Any, dynamodb: Any, table: str, since: datetime, hours: int) -> TableTraffic:
    """Fetch the consumed capacity from CloudWatch, for `hours` hours from `since`. `since` must be a full hour."""
    described = dynamodb.describe_table(TableName=table)["Table"]
    indexes = {one["IndexName"]: one for one in described.get("GlobalSecondaryIndexes", ())}
    stored = {TABLE: described["TableSizeBytes"], **{name: one["IndexSizeBytes"] for name, one in indexes.items()}}
    places = [TABLE, *(name for name in INDEX_PROJECTIONS if name in indexes)]
    wanted = list(product(OPERATIONS, places))
    metrics = [
        (f"Consumed{way.capitalize()}CapacityUnits", {"GlobalSecondaryIndexName": "" if where == TABLE else where})
        for way, where in wanted
    ]
    found = fetch_sums(cloudwatch, table, metrics, PERIOD_SECONDS, since, since + timedelta(hours=hours))
    ways: dict[str, dict[str, Sequence[HourUnits]]] = {way: {} for way in OPERATIONS}
    for (way, where), sums in zip(wanted, found, strict=True):
        ways[way][where] = _group_into_hours(sums, since, hours)
    return TableTraffic(
        table, to_instant(since), ways["read"], ways["write"], {where: stored[where] for where in places}
    )


def _group_into_hours(sums: Mapping[datetime, float], since: datetime, hours: int) -> list[HourUnits]:
    """Group five-minute sums of capacity units into hours. A missing datapoint means that no units were consumed."""
    made = []
    for hour in range(hours):
        began = since + timedelta(hours=hour)
        periods = [sums.get(began + timedelta(seconds=at), 0.0) for at in range(0, HOUR_SECONDS, PERIOD_SECONDS)]
        made.append((round(sum(periods)), round(max(periods))))
    return made


# estimate -------------------------------------------------------------------------------------------------------------
def estimate_costs(
    traffic: TableTraffic, prices: Mapping[str, Any], rules: AutoscalingRules
) -> dict[str, dict[str, MonthlyCosts]]:
    """Return the monthly costs as a nested mapping: {table class: {"table" or the name of an index: costs}}."""
    return {
        name: {where: _estimate_cost(traffic, where, of_class, rules) for where in traffic.stored}
        for name, of_class in prices["table_classes"].items()
    }


def _estimate_cost(
    traffic: TableTraffic, resource: str, prices: Mapping[str, float], rules: AutoscalingRules
) -> MonthlyCosts:
    months = traffic.hours / MONTH_HOURS
    by_request = provisioned = 0.0
    for way in OPERATIONS:
        hours = traffic.hourly_units(way, resource)
        by_request += sum(units for units, _ in hours) / 1_000_000 * prices[f"{way}_million"]
        provisioned += sum(rules.provisioned_units(busiest) for _, busiest in hours) * prices[f"{way}_unit_hour"]
    return MonthlyCosts(
        by_request / months, provisioned / months, traffic.stored[resource] / GIGABYTE * prices["gigabyte_month"]
    )


def sum_costs(costs_by_class: Mapping[str, Mapping[str, MonthlyCosts]]) -> dict[tuple[str, str], float]:
    """Return the monthly costs of the table with all its indexes, by (billing mode, table class)."""
    return {
        (billing, name): sum(one.total(billing) for one in places.values())
        for name, places in costs_by_class.items()
        for billing in BILLING
    }


def format_report(traffic: TableTraffic, prices: Mapping[str, Any], rules: AutoscalingRules) -> Iterator[str]:
    """Yield the lines of the report: the monthly costs, and the cheapest billing mode and table class."""
    yield (
        f"{traffic.table}: {traffic.hours} hours from {traffic.since}, scaled to a month of {MONTH_HOURS} hours in "
        f"{prices['currency']}, with the prices of {prices['region']} from {prices['as_of']}; provisioned: "
        f"{rules.utilization} % target utilization, {rules.min_units} units or more"
    )
    costs_by_class = estimate_costs(traffic, prices, rules)
    sums = sum_costs(costs_by_class)
    for name, places in costs_by_class.items():
        yield colored(f"{name:<28}{'on-demand':>12}{'provisioned':>13}{'storage':>11}", "bold")
        for where, one in places.items():
            yield f"  {where:<26}{one.on_demand:>12.2f}{one.provisioned:>13.2f}{one.storage:>11.2f}"
    yield colored("total", "bold")
    yield from (f"  {billing + ', ' + name:<40}{total:>10.2f}" for (billing, name), total in sums.items())
    billing, name = min(sums, key=lambda one: sums[one])
    yield colored(f"cheapest: billing={billing}, table_class={name}", "green")


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: targets.Subparsers) -> None:
    parser = commands.add_parser(
        "capacity",
        parents=[targets.metrics_options()],
        help="estimate the monthly cost with on-demand and provisioned capacity, by table class",
    )
    days = targets.positive_int_up_to(MAX_DAYS, "CloudWatch keeps five-minute datapoints no longer")
    parser.add_argument("--days", type=days, default=14, help="the number of past days to read (default: %(default)s)")
    parser.set_defaults(run=estimate_table_cost)


def estimate_table_cost(args: argparse.Namespace) -> None:
    """Print the monthly costs of the table in each billing mode and table class."""
    cloudwatch, dynamodb, table = targets.resolve_metrics(args)
    until = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    hours = args.days * 24
    traffic = fetch_traffic(cloudwatch, dynamodb, table, until - timedelta(hours=hours), hours)
    prod = STAGES["prod"]
    rules = AutoscalingRules(prod.utilization, prod.capacity_range("write_units", TABLE)[0])
    print("\n".join(format_report(traffic, load_prices(), rules)))
