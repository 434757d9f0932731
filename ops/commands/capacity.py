"""The `capacity` command: estimate the table's cost with on-demand, provisioned and reserved capacity, by table class.

On-demand mode bills the units of each hour. For provisioned mode, the busiest five minutes of an hour decide what
autoscaling provisions in this hour. Real autoscaling takes some minutes, and cannot follow a peak of one or two
minutes. Free tiers are not included.

A block of reserved capacity makes provisioned capacity in the table class STANDARD cheaper, and is billed even if less
is provisioned. The estimate reserves a block only if it saves money, and assumes that the account has only this table.
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/reserved-capacity.html
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
YEAR_MONTHS = 12
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
    """The capacity that a table and its indexes have consumed, from CloudWatch.

    `since`: the start of the first hour.
    `read`, `write`: the consumed units of each hour, oldest first. The key is "table" or the name of an index.
    `stored`: the size in bytes. The key is "table" or the name of an index.
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


@dataclass(frozen=True)
class Reservation:
    """The cheapest reservation of capacity for one term (a number of years).

    `units`: the units per second to reserve, by "read" and "write"; 0 if a reservation saves no money.
    `cost`: the monthly cost of the table with all its indexes, with this reservation. It includes the upfront fee,
    divided by the months of the term, and the provisioned capacity beyond the reservation.
    """

    years: int
    table_class: str
    units: Mapping[str, int]
    cost: float

    @property
    def term(self) -> str:
        return f"{self.years} year{'s' if self.years > 1 else ''}"


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


def plan_reservations(traffic: TableTraffic, prices: Mapping[str, Any], rules: AutoscalingRules) -> list[Reservation]:
    """Return the cheapest reservation for each term."""
    reserved = prices["reserved"]
    table_class = reserved["table_class"]
    cost = sum_costs(estimate_costs(traffic, prices, rules))["provisioned", table_class]
    found = []
    for years, term in reserved["terms"].items():
        plans = {}
        for way in OPERATIONS:
            monthly = term[f"{way}_upfront"] / (YEAR_MONTHS * int(years)) + MONTH_HOURS * term[f"{way}_hour"]
            hours = [provisioned_units(traffic, way, hour, rules) for hour in range(traffic.hours)]
            unit_month = MONTH_HOURS * prices["table_classes"][table_class][f"{way}_unit_hour"]
            plans[way] = _reserve_blocks(hours, reserved["block_units"], monthly, unit_month)
        units = {way: number for way, (number, _) in plans.items()}
        saved = sum(saving for _, saving in plans.values())
        found.append(Reservation(int(years), table_class, units, cost - saved))
    return found


def provisioned_units(traffic: TableTraffic, operation: str, hour: int, rules: AutoscalingRules) -> int:
    """Return the units per second that the table and its indexes provision in an hour. `hour`: from 0."""
    return sum(rules.provisioned_units(traffic.hourly_units(operation, where)[hour][1]) for where in traffic.stored)


def _reserve_blocks(hours: Sequence[int], block: int, block_month: float, unit_month: float) -> tuple[int, float]:
    """Return how many units to reserve, and the money that they save in a month.

    A further block is never used in more hours than the block before it, so the loop ends at the first that saves no
    money.
    `hours`: the provisioned units of each hour. `block_month`, `unit_month`: the monthly price of a block, and of a
    unit.
    """
    units, saved = 0, 0.0
    while True:
        covered = sum(min(block, max(0, one - units)) for one in hours) / len(hours)
        if (saving := covered * unit_month - block_month) <= 0:
            return units, saved
        units, saved = units + block, saved + saving


def format_report(traffic: TableTraffic, prices: Mapping[str, Any], rules: AutoscalingRules) -> Iterator[str]:
    """Yield the lines of the report: the monthly costs, and the cheapest billing mode, table class and reservation."""
    yield (
        f"{traffic.table}: {traffic.hours} hours from {traffic.since}, scaled to a month of {MONTH_HOURS} hours in "
        f"{prices['currency']}, with the prices of {prices['region']} from {prices['as_of']}; provisioned: "
        f"{rules.utilization} % target utilization, {rules.min_units} units or more"
    )
    costs_by_class = estimate_costs(traffic, prices, rules)
    sums, reservations = sum_costs(costs_by_class), plan_reservations(traffic, prices, rules)
    for name, places in costs_by_class.items():
        yield colored(f"{name:<28}{'on-demand':>12}{'provisioned':>13}{'storage':>11}", "bold")
        for where, one in places.items():
            yield f"  {where:<26}{one.on_demand:>12.2f}{one.provisioned:>13.2f}{one.storage:>11.2f}"
    yield from _format_totals(sums, reservations)
    if "reserved" in prices["unverified"]["prices"]:
        yield "The prices of reserved capacity are not verified: compare them before you buy"
    yield from _format_cheapest(sums, reservations)


def _format_totals(sums: Mapping[tuple[str, str], float], reservations: Sequence[Reservation]) -> Iterator[str]:
    yield colored("total", "bold")
    yield from (f"  {billing + ', ' + name:<40}{total:>10.2f}" for (billing, name), total in sums.items())
    for one in reservations:
        label = f"reserved for {one.term}, {one.table_class}"
        yield f"  {label:<40}{one.cost:>10.2f}  {_format_units(one) or 'no block of 100 units pays'}"


def _format_units(reservation: Reservation) -> str:
    wanted = [f"{units} {way}" for way, units in reservation.units.items() if units]
    return f"{' and '.join(wanted)} units" if wanted else ""


def _format_cheapest(sums: Mapping[tuple[str, str], float], reservations: Sequence[Reservation]) -> Iterator[str]:
    billing, name = min(sums, key=lambda one: sums[one])
    reserved = min(reservations, key=lambda one: one.cost, default=None)
    if reserved is None or reserved.cost >= sums[billing, name]:
        yield colored(f"cheapest: billing={billing}, table_class={name}", "green")
        return
    yield f"cheapest without a reservation: billing={billing}, table_class={name}"
    yield (
        f"cheapest: billing=provisioned, table_class={reserved.table_class}, "
        f"with {_format_units(reserved)} reserved for {reserved.term}"
    )


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: targets.Subparsers) -> None:
    parser = commands.add_parser(
        "capacity",
        parents=[targets.metrics_options()],
        help="estimate the monthly cost with on-demand, provisioned and reserved capacity, by table class",
    )
    days = targets.positive_int_up_to(MAX_DAYS, "CloudWatch keeps five-minute datapoints no longer")
    parser.add_argument("--days", type=days, default=14, help="the number of past days to read (default: %(default)s)")
    parser.set_defaults(run=estimate_table_cost)


def estimate_table_cost(args: argparse.Namespace) -> None:
    """Print the monthly costs of the table in each billing mode and table class, and with reserved capacity."""
    cloudwatch, dynamodb, table = targets.resolve_metrics(args)
    until = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    hours = args.days * 24
    traffic = fetch_traffic(cloudwatch, dynamodb, table, until - timedelta(hours=hours), hours)
    prod = STAGES["prod"]
    rules = AutoscalingRules(prod.utilization, prod.capacity_range("write_units", TABLE)[0])
    print("\n".join(format_report(traffic, load_prices(), rules)))
