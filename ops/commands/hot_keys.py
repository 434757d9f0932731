"""The `hot-keys` command: find the table, index or key whose requests DynamoDB throttles, from CloudWatch metrics.

UserErrors is not used: it counts invalid requests.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

from functions.dynamodb.keys import to_instant
from functions.model.table import INDEX_PROJECTIONS
from ops import targets
from ops.table_metrics import fetch_sums
from ops.terminal_text import colored

THROTTLE_EVENTS = "ThrottleEvents"
CAUSES: Mapping[str, str] = {
    "KeyRangeThroughput": "one partition is at its limit of 3,000 read or 1,000 write units a second: a hot key",
    "ProvisionedThroughput": "at the limit of its provisioned capacity, for any key",
    "MaxOnDemandThroughput": "at the limit of its configured on-demand maximum, for any key",
    "AccountLimit": "the account is at its limit in this region, for any key",
}
"""The explanation of each cause of throttling, by its part of a name such as ReadKeyRangeThroughputThrottleEvents."""
HOT_PARTITION_CAUSE = "KeyRangeThroughput"
OPERATIONS = (
    "BatchGetItem", "BatchWriteItem", "DeleteItem", "GetItem", "PutItem", "Query", "TransactWriteItems", "UpdateItem",
)  # fmt: skip
"""The DynamoDB operations that the shop's Lambda functions use."""
PERIOD_SECONDS = 60
MAX_HOURS = 15 * 24
"""The maximum of `--hours`, because CloudWatch keeps one-minute datapoints for 15 days."""
MAX_KEYS = 10
THROTTLED_RULE_PREFIX = "DynamoDBContributorInsights-PKT-"
"""The prefix of rules that count throttled requests by partition key: no key of this table identifies a person."""


@dataclass(frozen=True)
class ThrottleCount:
    """How many requests one CloudWatch metric counted as throttled.

    `index`, `operation`: "" for the table itself, and for all operations. `most`: in the worst minute, at `most_at`.
    """

    metric: str
    index: str
    operation: str
    total: int
    most: int
    most_at: str


@dataclass(frozen=True)
class ThrottledKey:
    """A partition key and how often requests for it were throttled. `index`: "" means the table itself."""

    index: str
    key: str
    total: int


@dataclass(frozen=True)
class ThrottleReport:
    """The throttled requests of a table. `seen`: where Contributor Insights counts keys; "" for the table itself."""

    table: str
    since: str
    until: str
    counted: tuple[ThrottleCount, ...]
    seen: tuple[str, ...] = ()
    keys: tuple[ThrottledKey, ...] = ()


# fetch ----------------------------------------------------------------------------------------------------------------
def fetch_throttle_report(
    cloudwatch: Any, dynamodb: Any, table: str, since: datetime, until: datetime
) -> ThrottleReport:
    """Fetch the throttling metrics of a table, and the throttled keys if Contributor Insights has them."""
    wanted = list(_metrics_to_fetch())
    metrics = [
        (metric, {"GlobalSecondaryIndexName": index, "Operation": operation}) for metric, index, operation in wanted
    ]
    times = fetch_sums(cloudwatch, table, metrics, PERIOD_SECONDS, since, until)
    counted = []
    for (metric, index, operation), minutes in zip(wanted, times, strict=True):
        if any(minutes.values()):
            at = max(sorted(minutes), key=lambda minute: minutes[minute])
            sums = int(sum(minutes.values())), int(minutes[at])
            counted.append(ThrottleCount(metric, index, operation, *sums, to_instant(at.astimezone(UTC))))
    rules = dict(_throttled_key_rules(dynamodb, table))
    keys = [
        key for index, rule in rules.items() for key in _fetch_throttled_keys(cloudwatch, index, rule, since, until)
    ]
    return ThrottleReport(table, to_instant(since), to_instant(until), tuple(counted), tuple(rules), tuple(keys))


def _metrics_to_fetch() -> Iterator[tuple[str, str, str]]:
    """Yield the metrics to fetch, each as (metric, index, operation). "" means the table, or all operations."""
    for index in ("", *INDEX_PROJECTIONS):
        for way in ("Read", "Write"):
            yield f"{way}{THROTTLE_EVENTS}", index, ""
            yield from ((f"{way}{cause}{THROTTLE_EVENTS}", index, "") for cause in CAUSES)
    yield from (("ThrottledRequests", "", operation) for operation in OPERATIONS)


def _throttled_key_rules(dynamodb: Any, table: str) -> Iterator[tuple[str, str]]:
    """Yield (index, rule name) for each enabled rule of Contributor Insights that counts throttled keys."""
    for index in ("", *INDEX_PROJECTIONS):
        told = dynamodb.describe_contributor_insights(TableName=table, **({"IndexName": index} if index else {}))
        for rule in told.get("ContributorInsightsRuleList", ()):
            if told["ContributorInsightsStatus"] == "ENABLED" and rule.startswith(THROTTLED_RULE_PREFIX):
                yield index, rule


def _fetch_throttled_keys(
    cloudwatch: Any, index: str, rule: str, since: datetime, until: datetime
) -> Iterator[ThrottledKey]:
    report = cloudwatch.get_insight_rule_report(
        RuleName=rule, StartTime=since, EndTime=until, Period=3600, MaxContributorCount=MAX_KEYS, OrderBy="Sum"
    )
    for one in report.get("Contributors", ()):
        yield ThrottledKey(index, " ".join(one["Keys"]), int(one["ApproximateAggregateValue"]))


# report ---------------------------------------------------------------------------------------------------------------
def has_hot_partition(report: ThrottleReport) -> bool:
    """Return whether any partition was throttled because its traffic reached the limit of one partition."""
    return any(HOT_PARTITION_CAUSE in one.metric for one in report.counted)


def format_report(report: ThrottleReport) -> Iterator[str]:
    """Yield the lines of the report: the throttled requests and their causes, of the table and of each index."""
    yield f"{report.table} from {report.since} to {report.until}"
    events = [one for one in report.counted if not one.operation]
    if not events:
        yield colored("No requests were throttled.", "green")
        return
    for index, counted in groupby(sorted(events, key=lambda one: one.index), key=lambda one: one.index):
        yield from _format_index(report, index, list(counted))
    by_operation = sorted((one for one in report.counted if one.operation), key=lambda one: -one.total)
    if by_operation:
        yield "throttled requests: " + ", ".join(f"{one.total} {one.operation}" for one in by_operation)


def _format_index(found: ThrottleReport, index: str, counted: Sequence[ThrottleCount]) -> Iterator[str]:
    totals = {one.metric: one for one in counted}
    for way in ("Read", "Write"):
        causes = [(cause, totals.get(f"{way}{cause}{THROTTLE_EVENTS}")) for cause in CAUSES]
        for cause, one in causes:
            if one:
                yield (
                    f"{index or 'table'}: {one.total} {way.lower()}s throttled, {one.most} of them in the minute of "
                    f"{one.most_at}: {CAUSES[cause]}"
                )
        one = totals.get(f"{way}{THROTTLE_EVENTS}")
        if one and not any(found for _, found in causes):
            yield f"{index or 'table'}: {one.total} {way.lower()}s throttled; CloudWatch has no cause"
    if any(HOT_PARTITION_CAUSE in one.metric for one in counted):
        if index not in found.seen:
            yield f"  to see the key, enable Contributor Insights for {index or 'the table'} in mode THROTTLED_KEYS"
        for key in sorted((key for key in found.keys if key.index == index), key=lambda key: -key.total):
            yield colored(f"  {key.total:>8}  {key.key}", "red")


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: targets.Subparsers) -> None:
    parser = commands.add_parser(
        "hot-keys",
        parents=[targets.metrics_options()],
        help="find the throttled table, index or key, and the cause, from CloudWatch metrics",
    )
    hours = targets.positive_int_up_to(MAX_HOURS, "CloudWatch keeps one-minute datapoints no longer")
    parser.add_argument("--hours", type=hours, default=24, help="the number of past hours (default: %(default)s)")
    parser.set_defaults(run=find_hot_keys)


def find_hot_keys(args: argparse.Namespace) -> None:
    """Print how many requests were throttled and why. Exits with 1 if a partition was at its limit."""
    cloudwatch, dynamodb, table = targets.resolve_metrics(args)
    until = datetime.now(UTC).replace(second=0, microsecond=0)
    found = fetch_throttle_report(cloudwatch, dynamodb, table, until - timedelta(hours=args.hours), until)
    print("\n".join(format_report(found)))
    if has_hot_partition(found):
        sys.exit(1)
