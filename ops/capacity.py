"""What the table's traffic costs by request, what it would cost provisioned with autoscaling, and in which table class.

It is reckoned from what CloudWatch counted, in hours. Of each hour two figures are kept: its units, which is what is
paid for by request, and those of its busiest five minutes, which is what autoscaling would have to provide for.
Sources: DynamoDB developer guide, "DynamoDB metrics and dimensions", "Managing throughput capacity automatically with
DynamoDB auto scaling", "Considerations when choosing a table class".

It makes things simpler than they are: an hour's capacity is that of its busiest five minutes from its first second to
its last, though autoscaling takes some minutes to follow and lets go after fifteen. What comes and goes within a
minute or two it cannot follow at all; burst capacity of five minutes does, or DynamoDB throttles. Free tiers and
reserved capacity are left out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from functions.dynamodb.keys import instant
from functions.model.table import PROJECTED
from ops import place
from stacks.stage import STAGES

PRICES = Path(__file__).parent / "prices.json"
PERIOD_SECONDS = 300
HOUR_SECONDS = 3600
MONTH_HOURS = 730
GIGABYTE = 1 << 30
MOST_DAYS = 63
"""CloudWatch keeps figures of five minutes for 63 days."""
WAYS = ("read", "write")
BILLING = ("on-demand", "provisioned")
TABLE = "table"

Hour = tuple[int, int]
"""The units of an hour, and of its busiest five minutes."""


@dataclass(frozen=True)
class Traffic:
    """What CloudWatch has counted. `read`, `write`: the hours of the table and of each index, oldest first. `stored`:
    their bytes."""

    table: str
    since: str
    read: Mapping[str, Sequence[Hour]]
    write: Mapping[str, Sequence[Hour]]
    stored: Mapping[str, int]

    @property
    def hours(self) -> int:
        return len(self.read[TABLE])

    def of(self, way: str, where: str) -> Sequence[Hour]:
        found: Sequence[Hour] = {"read": self.read, "write": self.write}[way][where]
        return found

    @classmethod
    def of_json(cls, kept: Mapping[str, Any]) -> Traffic:
        """As it was kept. Raises KeyError, TypeError, ValueError."""
        ways = {way: {where: [_hour(hour) for hour in hours] for where, hours in kept[way].items()} for way in WAYS}
        stored = {where: int(size) for where, size in kept["stored"].items()}
        found = cls(kept["table"], kept["since"], ways["read"], ways["write"], stored)
        lengths = {len(hours) for way in ways.values() for hours in way.values()}
        if len(lengths) != 1 or lengths == {0} or not found.read.keys() == found.write.keys() == stored.keys():
            raise ValueError("it does not tell the same hours of the table and each index")
        return found


def _hour(hour: Any) -> Hour:
    units, busiest = hour
    return int(units), int(busiest)


@dataclass(frozen=True)
class Rules:
    """How autoscaling is set: what part of the capacity, in percent, is to be in use, and the least there is."""

    utilization: int
    least: int

    def provided(self, busiest: int) -> int:
        """The units a second that are provisioned in an hour, by the units of its busiest five minutes."""
        return max(self.least, -(-busiest * 100 // (PERIOD_SECONDS * self.utilization)))


@dataclass(frozen=True)
class Costs:
    """A month's, of the table or an index in one table class."""

    by_request: float
    provisioned: float
    storage: float

    def all(self, billing: str) -> float:
        return self.storage + {"on-demand": self.by_request, "provisioned": self.provisioned}[billing]


# asking ---------------------------------------------------------------------------------------------------------------
def traffic(cloudwatch: Any, dynamodb: Any, table: str, since: datetime, hours: int) -> Traffic:
    """What was consumed from a full hour on, for so many."""
    described = dynamodb.describe_table(TableName=table)["Table"]
    indexes = {one["IndexName"]: one for one in described.get("GlobalSecondaryIndexes", ())}
    stored = {TABLE: described["TableSizeBytes"], **{name: one["IndexSizeBytes"] for name, one in indexes.items()}}
    places = [TABLE, *(name for name in PROJECTED if name in indexes)]
    wanted = list(product(WAYS, places))
    queries = [_query(table, number, *one) for number, one in enumerate(wanted)]
    found: dict[str, dict[datetime, float]] = {query["Id"]: {} for query in queries}
    until = since + timedelta(hours=hours)
    pages = cloudwatch.get_paginator("get_metric_data").paginate(
        MetricDataQueries=queries, StartTime=since, EndTime=until
    )
    for page in pages:
        for result in page["MetricDataResults"]:
            found[result["Id"]] |= dict(zip(result["Timestamps"], result["Values"], strict=True))
    ways: dict[str, dict[str, Sequence[Hour]]] = {way: {} for way in WAYS}
    for (way, where), sums in zip(wanted, found.values(), strict=True):
        ways[way][where] = _hours(sums, since, hours)
    return Traffic(table, instant(since), ways["read"], ways["write"], {where: stored[where] for where in places})


def _query(table: str, number: int, way: str, where: str) -> dict[str, Any]:
    named = {"TableName": table, "GlobalSecondaryIndexName": "" if where == TABLE else where}
    dimensions = [{"Name": name, "Value": value} for name, value in named.items() if value]
    metric = f"Consumed{way.capitalize()}CapacityUnits"
    counted = {"Namespace": "AWS/DynamoDB", "MetricName": metric, "Dimensions": dimensions}
    return {"Id": f"m{number}", "MetricStat": {"Metric": counted, "Period": PERIOD_SECONDS, "Stat": "Sum"}}


def _hours(sums: Mapping[datetime, float], since: datetime, hours: int) -> list[Hour]:
    """Five minutes by five minutes, put into hours; where nothing was counted nothing was consumed."""
    made = []
    for hour in range(hours):
        began = since + timedelta(hours=hour)
        periods = [sums.get(began + timedelta(seconds=at), 0.0) for at in range(0, HOUR_SECONDS, PERIOD_SECONDS)]
        made.append((round(sum(periods)), round(max(periods))))
    return made


# reckoning ------------------------------------------------------------------------------------------------------------
def costs(counted: Traffic, prices: Mapping[str, Any], rules: Rules) -> dict[str, dict[str, Costs]]:
    """By table class, then by place."""
    return {
        name: {where: _costs(counted, where, of_class, rules) for where in counted.stored}
        for name, of_class in prices["table_classes"].items()
    }


def _costs(counted: Traffic, where: str, prices: Mapping[str, float], rules: Rules) -> Costs:
    months = counted.hours / MONTH_HOURS
    by_request = provisioned = 0.0
    for way in WAYS:
        hours = counted.of(way, where)
        by_request += sum(units for units, _ in hours) / 1_000_000 * prices[f"{way}_million"]
        provisioned += sum(rules.provided(busiest) for _, busiest in hours) * prices[f"{way}_unit_hour"]
    return Costs(by_request / months, provisioned / months, counted.stored[where] / GIGABYTE * prices["gigabyte_month"])


def totals(of: Mapping[str, Mapping[str, Costs]]) -> dict[tuple[str, str], float]:
    """A month of the whole table, by billing and table class: both are the table's and its indexes' together."""
    return {
        (billing, name): sum(one.all(billing) for one in places.values())
        for name, places in of.items()
        for billing in BILLING
    }


def told(counted: Traffic, prices: Mapping[str, Any], rules: Rules) -> Iterator[str]:
    """The costs of a month, and what is cheapest."""
    yield (
        f"{counted.table}: {counted.hours} hours from {counted.since}, as a month of {MONTH_HOURS} hours in "
        f"{prices['currency']}, by the prices of {prices['region']} of {prices['as_of']}; provisioned: "
        f"{rules.utilization} % in use, at least {rules.least}"
    )
    of = costs(counted, prices, rules)
    for name, places in of.items():
        yield f"{name:<28}{'on-demand':>12}{'provisioned':>13}{'storage':>11}"
        for where, one in places.items():
            yield f"  {where:<26}{one.by_request:>12.2f}{one.provisioned:>13.2f}{one.storage:>11.2f}"
    sums = totals(of)
    yield "all together"
    yield from (f"  {billing + ', ' + name:<40}{total:>10.2f}" for (billing, name), total in sums.items())
    billing, name = min(sums, key=lambda one: sums[one])
    yield f"cheapest: billing={billing}, table_class={name}"


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: place.Commands) -> None:
    reckoning = commands.add_parser(
        "capacity", help="what the table costs by request and provisioned, and in which table class"
    )
    which = reckoning.add_mutually_exclusive_group(required=True)
    which.add_argument("--table", help="the table's name, as the stack tells it (TableName)")
    which.add_argument("--from", dest="kept", metavar="FILE", type=Path, help="the figures that --record has written")
    reckoning.add_argument("--region", help="where the table is; the one of your AWS settings if not said")
    reckoning.add_argument("--days", type=_days, default=14, help="how far back (default: %(default)s)")
    reckoning.add_argument("--record", metavar="FILE", type=Path, help="write the figures there, as JSON")
    reckoning.add_argument("--prices", metavar="FILE", type=Path, default=PRICES, help="of another region or day")
    prod = STAGES["prod"]
    reckoning.add_argument("--utilization", type=_percent, default=prod.utilization, help="default: %(default)s %%")
    least = prod.units("write_units", TABLE)[0]
    reckoning.add_argument("--least", type=place.count, default=least, help="units a second (default: %(default)s)")
    reckoning.set_defaults(run=reckon)


def reckon(given: argparse.Namespace) -> None:
    """Say what a month costs, one way and the other."""
    try:
        prices = json.loads(given.prices.read_text(encoding="utf-8"))
        if given.kept:
            counted = Traffic.of_json(json.loads(given.kept.read_text(encoding="utf-8")))
        else:
            cloudwatch, dynamodb = (boto3.client(name, region_name=given.region) for name in ("cloudwatch", "dynamodb"))
            until = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
            hours = given.days * 24
            counted = traffic(cloudwatch, dynamodb, given.table, until - timedelta(hours=hours), hours)
        if given.record:
            given.record.write_text(recorded(counted), encoding="utf-8")
    except (BotoCoreError, ClientError, OSError) as error:
        sys.exit(f"Not reckoned: {error}")
    except (LookupError, TypeError, ValueError):
        sys.exit(f"Not reckoned: {given.kept} holds no figures that --record has written")
    print("\n".join(told(counted, prices, Rules(given.utilization, given.least))))


def recorded(counted: Traffic) -> str:
    """As a file holds it: a line for each place, which a person can read."""
    parts = [f' "{name}": {json.dumps(getattr(counted, name))}' for name in ("table", "since")]
    for way in WAYS:
        lines = [f'  "{where}": {json.dumps(counted.of(way, where))}' for where in counted.stored]
        parts.append(f' "{way}": {{\n' + ",\n".join(lines) + "\n }")
    parts.append(f' "stored": {json.dumps(counted.stored)}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _days(text: str) -> int:
    number = place.count(text)
    if number > MOST_DAYS:
        raise argparse.ArgumentTypeError(f"must be {MOST_DAYS} or less: CloudWatch keeps five minutes no longer")
    return number


def _percent(text: str) -> int:
    number = place.count(text)
    if not 20 <= number <= 90:
        raise argparse.ArgumentTypeError("must be from 20 to 90")
    return number
