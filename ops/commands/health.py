"""The `health` command: show on one screen, from reads and a sample of the table, what is "ok" and what to do."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from botocore.exceptions import BotoCoreError, ClientError

from functions.adapters import object_store
from functions.dynamodb.codec import Image
from functions.dynamodb.errors import TableBusy
from functions.dynamodb.table import Table
from functions.model import metrics
from functions.model.metrics import MetricDefinition
from functions.model.patterns import SHIPPING_TABLE, TAX_TABLE
from functions.model.service_levels import PERCENTILE, SERVICE_LEVELS, WINDOW_MINUTES
from functions.model.table import INDEX_PROJECTIONS
from functions.shop.sellers import get_latest_seller
from ops import targets
from ops.commands.drift import DriftCheck
from ops.failures.failure_store import PARKED_PREFIX, FailureRepository
from ops.repair.account_checks import UNBALANCED
from ops.scan.sweep import sweep
from ops.scan.throttle import limit_capacity
from ops.targets import ShopTarget
from ops.terminal_text import colored

MAX_LAG_SECONDS = 60
"""A stream reader that lags by more than this is reported. Normally it processes a batch in one second."""
ACTIVE_READER_WINDOW, KNOWN_READER_WINDOW = timedelta(minutes=15), timedelta(days=14)
"""A function that has read the stream in the last 14 days is a stream reader.

While the table is busy, each stream reader should also have been invoked in the last 15 minutes.
"""
LEVEL_WINDOW = timedelta(minutes=WINDOW_MINUTES)
BUSY_MINUTES = 5
"""The table counts as busy if it was written, or a stream reader invoked, in 5 or more of the last 15 minutes.

Otherwise a reader without an invocation is no problem: its filter may have matched none of the few writes.
"""
WHILE_TABLE_IS_WRITTEN = "although the table is written to"
CHECK_MAPPING_ADVICE = "Check whether its event source mapping is enabled:"
TOOLS_FOR_SLOW_EFFECTS = ("hot-keys", "failures list")
FAILURES_ADVICE = "See the reasons. After a repair, redrive:"
MAX_WAITING_MESSAGES = 1000
"""A queue with more waiting messages is reported, because its worker cannot process so many within minutes."""
SAMPLE_ITEMS = 2000
DRIFT_ITEMS, DRIFT_PAUSE_SECONDS = 200, 30.0
NEAR_LIMIT_BYTES = 300_000
"""An item of more bytes is reported, before it reaches DynamoDB's limit of 400 KB."""
EXPIRING_WITHIN = timedelta(days=1)
TTL_OVERDUE_AFTER = timedelta(days=3)
"""An item that exists this long after its ttl is reported: DynamoDB deletes it within a few days (developer guide)."""
MAX_VALID_TTL = datetime(2200, 1, 1, tzinfo=UTC).timestamp()
"""A ttl after this time is reported. It is probably in milliseconds instead of seconds."""
UNUSED_DAYS = 14
MAX_NAMED = 3


@dataclass(frozen=True)
class CheckResult:
    """One finding of the health report. `action`: what to do, or "". `commands`: for it, or to find the cause."""

    subject: str
    status: str
    action: str = ""
    commands: Sequence[str] = ()

    def __str__(self) -> str:
        if not self.action:
            return f"{colored('ok', 'green')}  {self.subject:14} {self.status}"
        lines = [f"{colored('!!', 'red')}  {self.subject:14} {self.status}", f"    {self.action}"]
        return "\n".join([*lines, *(f"      {colored(command, 'cyan')}" for command in self.commands)])


HealthCheck = Callable[[ShopTarget, datetime], Iterator[CheckResult]]


# the stream -----------------------------------------------------------------------------------------------------------
def check_stream_lag(target: ShopTarget, now: datetime) -> Iterator[CheckResult]:
    """Check how far each stream reader is behind the table's stream, and whether it is still invoked."""
    latest, minutes = {}, []
    for name in target.resources("AWS::Lambda::Function"):
        of = [{"Name": "FunctionName", "Value": name}]
        if _fetch_datapoints(target, "AWS/Lambda", "IteratorAge", of, "Maximum", now, KNOWN_READER_WINDOW, 24 * 3600):
            ages = _fetch_datapoints(target, "AWS/Lambda", "IteratorAge", of, "Maximum", now, ACTIVE_READER_WINDOW, 60)
            latest[name] = ages[-1] / 1000 if ages else None
            minutes.append(len(ages))
    writes = [{"Name": "TableName", "Value": target.outputs["TableName"]}]
    written = _fetch_datapoints(
        target, "AWS/DynamoDB", "ConsumedWriteCapacityUnits", writes, "Sum", now, ACTIVE_READER_WINDOW, 60
    )
    is_busy = max([sum(units > 0 for units in written), *minutes]) >= BUSY_MINUTES

    def silent(what: str, *function: str) -> CheckResult:
        why, advice = (WHILE_TABLE_IS_WRITTEN, CHECK_MAPPING_ADVICE) if is_busy else ("and there were few writes", "")
        option = " --function-name" if function else ""
        command = _aws_command(target, f"lambda list-event-source-mappings{option}", *function)
        return CheckResult("stream", f"{what}, {why}", advice, [command])

    for name, seconds in latest.items():
        behind = f"{name} is {seconds or 0:,.0f} s behind the stream"
        if seconds is None:
            yield silent(f"{name} was not invoked in {ACTIVE_READER_WINDOW.seconds // 60} minutes", name)
        elif seconds <= MAX_LAG_SECONDS:
            yield CheckResult("stream", behind)
        else:
            commands = [_log_command(target, name), *_failures_commands(target)]
            yield CheckResult("stream", behind, f"Read its log. {FAILURES_ADVICE}", commands)
    if not latest:
        yield silent(f"no reader was invoked in {KNOWN_READER_WINDOW.days} days")


def check_service_levels(target: ShopTarget, now: datetime) -> Iterator[CheckResult]:
    """Report each kind of effect, such as mails, that is later than its service level, and why, from the metrics."""
    late = has_effects = False
    for level in SERVICE_LEVELS:
        lags = _fetch_own_datapoints(target, metrics.PROCESSING_LAG, PERCENTILE, now, level.function)
        has_effects, worst_ms = has_effects or bool(lags), max(lags, default=0)
        if worst_ms > level.seconds * 1_000:
            late = True
            reasons = ", ".join(_reasons(target, now, level.function)) or "the metrics show no reason"
            status = f"{level.effect}: one of 100 takes more than {worst_ms / 1_000:,.0f} s (level: {level.seconds} s)"
            commands = [target.ops_command(tool) for tool in TOOLS_FOR_SLOW_EFFECTS]
            yield CheckResult(
                "service level", f"{status}; {reasons}", "Follow docs/runbooks/slow-effects.md:", commands
            )
    if not has_effects:
        yield CheckResult("service level", f"no effects in {WINDOW_MINUTES} minutes")
    elif not late:
        levels = ", ".join(f"{level.effect} {level.seconds} s" for level in SERVICE_LEVELS)
        yield CheckResult("service level", f"99 of 100 effects are within their level: {levels}")


def _reasons(target: ShopTarget, now: datetime, function: str) -> Iterator[str]:
    """Yield the possible reasons of a Lambda's lag: failed attempts, invocations that timed out, throttled requests."""
    for metric, words in (
        (metrics.EFFECTS_FAILED, "failed attempts"),
        (metrics.OUT_OF_TIME, "invocations out of time"),
    ):
        if count := sum(_fetch_own_datapoints(target, metric, "Sum", now, function)):
            yield f"{count:,.0f} {words}"
    client, namespace = target.client("cloudwatch"), target.outputs["StackName"]
    for one in client.list_metrics(Namespace=namespace, MetricName=metrics.THROTTLES_BY_RESOURCE.name)["Metrics"]:
        of = one["Dimensions"]
        if count := sum(_fetch_datapoints(target, namespace, one["MetricName"], of, "Sum", now, LEVEL_WINDOW, 60)):
            names = {dimension["Name"]: dimension["Value"] for dimension in of}
            yield f"{count:,.0f} requests throttled ({names['resource']}: {names['reason']})"


def _fetch_own_datapoints(
    target: ShopTarget, metric: MetricDefinition, statistic: str, now: datetime, function: str
) -> list[float]:
    """Return the datapoints of a metric of Orderstream for one Lambda, in the window of the service levels."""
    of = [{"Name": "function", "Value": function}]
    period = WINDOW_MINUTES * 60
    return _fetch_datapoints(target, target.outputs["StackName"], metric.name, of, statistic, now, LEVEL_WINDOW, period)


def check_local_backlog(target: ShopTarget, _: datetime) -> Iterator[CheckResult]:
    """Report which Lambda functions and queues of the local shop are behind with their work, and how far."""
    if full := target.full_disk():
        command = f"du -sh {shlex.quote(str(target.local_state))}/*"
        yield CheckResult("disk", full, "Free some space on this disk. The shop itself uses:", [command])
    behind = [lane for lane in target.lanes() if lane.is_behind]
    for lane in behind:
        yield CheckResult("backlog", str(lane), "It should catch up. If not, read the log:", [_local_log(target)])
    for lane in target.lanes():
        if lane.returning and not lane.is_behind:
            yield CheckResult("retries", f"{lane.name}: {lane.waiting} waiting, {lane.format_retries()}")
    if not behind:
        yield CheckResult("backlog", "no reader and no queue is behind")


def _fetch_datapoints(
    target: ShopTarget,
    namespace: str,
    metric: str,
    dimensions: Sequence[Mapping[str, str]],
    statistic: str,
    now: datetime,
    since: timedelta,
    period_seconds: int,
) -> list[float]:
    """Return the datapoints of a CloudWatch metric, oldest first. `statistic`: such as "Sum" or "p99"."""
    is_percentile = statistic.startswith("p")
    found = target.client("cloudwatch").get_metric_statistics(
        Namespace=namespace,
        MetricName=metric,
        Dimensions=[*dimensions],
        StartTime=now - since,
        EndTime=now,
        Period=period_seconds,
        **{"ExtendedStatistics" if is_percentile else "Statistics": [statistic]},
    )
    points = sorted(found["Datapoints"], key=lambda point: point["Timestamp"])
    return [point["ExtendedStatistics"][statistic] if is_percentile else point[statistic] for point in points]


# failures and queues --------------------------------------------------------------------------------------------------
def check_failure_store(target: ShopTarget, _: datetime) -> Iterator[CheckResult]:
    """Count the documents in the failure store that were not redriven."""
    failures = FailureRepository(target.client("s3"), None, target.outputs["FailuresBucket"], ())
    keys = [entry.key for entry in failures.list_entries() if not entry.redriven]
    parked = sum(key.startswith(PARKED_PREFIX) for key in keys)
    says = f"{parked} parked, {len(keys) - parked} given up by a mapping"
    yield CheckResult("failure store", says, FAILURES_ADVICE if keys else "", _failures_commands(target))


def _failures_commands(target: ShopTarget) -> list[str]:
    return [target.ops_command("failures list"), target.ops_command("failures redrive --all --because repaired")]


def _aws_command(target: ShopTarget, command: str, *arguments: str) -> str:
    """Return a command line of the AWS CLI, in the region of the shop."""
    region = target.options[target.options.index("--region") :][:2] if "--region" in target.options else ()
    return f"aws {command} {shlex.join([*arguments, *region])}".strip()


def _log_command(target: ShopTarget, function: str) -> str:
    query = ["--query", "LoggingConfig.LogGroup", "--output", "text"]
    group = _aws_command(target, "lambda get-function-configuration --function-name", function, *query)
    return _aws_command(target, f'logs tail "$({group})" --since 15m')


def _local_log(target: ShopTarget) -> str:
    return shlex.join(["tail", "-n", "50", str(target.local_state / "aws" / "functions.log")])


def check_queues(target: ShopTarget, _: datetime) -> Iterator[CheckResult]:
    """Report messages in queues, in flight (also failed ones that wait for their retry) and in dead-letter queues."""
    failures = FailureRepository.for_target(target)
    waiting = {url: failures.count_messages(url) for url in failures.source_queue_urls.values()}
    for url, (wait, in_hand) in waiting.items():
        if wait + in_hand > MAX_WAITING_MESSAGES:
            says = f"{_queue_name(url)}: {wait} waiting, {in_hand} in flight"
            command = (
                _aws_command(target, "sqs get-queue-attributes --attribute-names All --queue-url", url)
                if _is_on_aws(target)
                else _local_log(target)
            )
            yield CheckResult(
                "queue", says, "Its worker is too slow, or fails:", [command, *_failures_commands(target)]
            )
    total, received = sum(wait + in_hand for wait, in_hand in waiting.values()), sum(it for _, it in waiting.values())
    retries = f", {received} of them in flight or for a retry" if received else ""
    if all(wait + in_hand <= MAX_WAITING_MESSAGES for wait, in_hand in waiting.values()):
        yield CheckResult("queues", f"{total} messages waiting in {len(waiting)} queues{retries}")
    dead_letter_counts = {queue.url: sum(failures.count_messages(queue.url)) for queue in failures.dead_letter_queues}
    for url, count in dead_letter_counts.items():
        if count:
            says = f"{count} in {_queue_name(url)}"
            yield CheckResult("dead letters", says, FAILURES_ADVICE, _failures_commands(target))
    if not any(dead_letter_counts.values()):
        yield CheckResult("dead letters", f"none in {len(dead_letter_counts)} queues")


def _queue_name(url: str) -> str:
    return url.rpartition("/")[2]


# the table ------------------------------------------------------------------------------------------------------------
def check_sampled_items(target: ShopTarget, now: datetime) -> Iterator[CheckResult]:
    """Check size and ttl of sampled items, and count those that expire soon.

    A ttl is wrong if it is in the year 2200 or later, or if the item still exists three days after its ttl.
    """
    items = sample_items(target.table)
    ends = [(image, int(image["ttl"]["N"])) for image in items if "ttl" in image]
    large = [image for image in items if len(object_store.to_canonical_json(image)) > NEAR_LIMIT_BYTES]
    says = f"{len(large)} of {len(items)} are larger than {NEAR_LIMIT_BYTES // 1000} KB{_format_names(large)}"
    action = "The limit is 400 KB. Find the attribute that grows:" if large else ""
    yield CheckResult("items", says, action, _item_commands(target, large))
    wrong = [image for image, ttl in ends if ttl > MAX_VALID_TTL]
    says = f"{len(wrong)} of {len(ends)} expire after the year 2200{_format_names(wrong)}"
    yield CheckResult(
        "ttl",
        says,
        "A ttl is in seconds. Mend the code that writes milliseconds, and the items with a migration:" if wrong else "",
        [*_item_commands(target, wrong), target.ops_command("migrate new ttl in seconds")],
    )
    late = [image for image, ttl in ends if ttl < (now - TTL_OVERDUE_AFTER).timestamp()]
    says = f"{len(late)} still exist {TTL_OVERDUE_AFTER.days} days after their ttl{_format_names(late)}"
    yield CheckResult(
        "ttl lag",
        says,
        "Check that DynamoDB deletes expired items:" if late else "",
        [_aws_command(target, "dynamodb describe-time-to-live --table-name", target.outputs["TableName"])]
        if _is_on_aws(target)
        else _item_commands(target, late),
    )
    soon = sum(now.timestamp() <= ttl < (now + EXPIRING_WITHIN).timestamp() for _, ttl in ends)
    yield CheckResult("expiring", f"{soon} of {len(items)} expire within {EXPIRING_WITHIN.days} day")


def sample_items(table: Table) -> list[Image]:
    """Return the first items of a scan: a random sample, because partitions come in the order of key hashes."""
    items: list[Image] = []
    sweep(table, items.append, max_items=SAMPLE_ITEMS)
    return items


def _item_commands(target: ShopTarget, images: Sequence[Image]) -> list[str]:
    """Return command lines that show the first of these items."""
    keys = [(image["PK"]["S"], image["SK"]["S"]) for image in images[:MAX_NAMED]]
    return [target.ops_command(f"query --key {shlex.join(key)}") for key in keys]


def _is_on_aws(target: ShopTarget) -> bool:
    return "StackName" in target.outputs


def _format_names(images: Sequence[Image]) -> str:
    names = [f"{image['PK']['S']} / {image['SK']['S']}" for image in images[:MAX_NAMED]]
    return f" ({', '.join(names)}{', …' if len(images) > MAX_NAMED else ''})" if names else ""


def check_drift(target: ShopTarget, _: datetime) -> Iterator[CheckResult]:
    """Check a sample of items for drift. An item that differs is checked again after DRIFT_PAUSE_SECONDS."""
    drift = DriftCheck(target.shop, pause_seconds=DRIFT_PAUSE_SECONDS)
    drift.check_sample(DRIFT_ITEMS)
    counts = Counter(fault.kind for fault in drift.discrepancies.values())
    counts |= {"unreadable": drift.sweep_result.passed_over, "changed at every check": drift.unstable}
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    says = f"{kinds or 'none'} in {drift.sweep_result.read} items and their copies"
    can_repair = any(fault.kind != UNBALANCED for fault in drift.discrepancies.values())
    action = "Repair it:" if can_repair else "Find the items; no repair of drift mends them:" if kinds else ""
    command = target.ops_command("drift --all --repair" if can_repair else "drift --all")
    yield CheckResult("drift", says, action, [command])


def check_payments(target: ShopTarget, _: datetime) -> Iterator[CheckResult]:
    """Report the secrets of the payment provider that still have the random value of the first deploy."""
    names = ["ProviderSecret", "WebhookSecret"] if "ProviderSecret" in target.outputs else []
    versions = target.client("secretsmanager").list_secret_version_ids
    unset = [name for name in names if len(versions(SecretId=target.outputs[name])["Versions"]) < 2]
    if unset:
        commands = [target.ops_command("stripe-setup")]
        yield CheckResult("payments", f"never stored: {', '.join(unset)}", "Follow docs/stripe.md:", commands)
    else:
        said = "the provider's secrets are stored" if names else "the shop has no payment provider"
        yield CheckResult("payments", said)


def check_taxes(target: ShopTarget, _: datetime) -> Iterator[CheckResult]:
    """Report a shop without tax rates, whose orders have no taxes, and one without a seller on its invoices."""
    rates = target.shop.table.get(TAX_TABLE)
    missing = ["tax rates"] if rates is None or not rates.rates else []
    missing += ["the seller"] if get_latest_seller(target.shop) is None else []
    if missing:
        said, action = (
            f"never stored: {', '.join(missing)}",
            "Follow docs/how-to/set-taxes.md. Without taxes, store the rate 0.",
        )
        yield CheckResult("taxes", said, action)
    else:
        yield CheckResult("taxes", "tax rates and the seller are stored")


def check_shipping(target: ShopTarget, _: datetime) -> Iterator[CheckResult]:
    """Report a shop without shipping methods, whose orders ship for free."""
    table = target.shop.table.get(SHIPPING_TABLE)
    if table is None or not table.methods:
        action = "Follow docs/how-to/set-shipping.md, unless shipping is free."
        yield CheckResult("shipping", "never stored: shipping methods; all orders ship for free", action)
    else:
        yield CheckResult("shipping", f"shipping methods: {', '.join(one.id for one in table.methods)}")


def check_indexes(target: ShopTarget, now: datetime) -> Iterator[CheckResult]:
    """Report the indexes that were not read in the last 14 days, because each write of an item costs units there."""
    unused = []
    for index in INDEX_PROJECTIONS:
        of = [
            {"Name": "TableName", "Value": target.outputs["TableName"]},
            {"Name": "GlobalSecondaryIndexName", "Value": index},
        ]
        days = timedelta(days=UNUSED_DAYS)
        units = _fetch_datapoints(target, "AWS/DynamoDB", "ConsumedReadCapacityUnits", of, "Sum", now, days, 24 * 3600)
        if not sum(units):
            unused.append(index)
    says = f"not read in {UNUSED_DAYS} days: {', '.join(unused) or 'none'}"
    table = target.client("dynamodb").describe_table(TableName=target.outputs["TableName"])["Table"]
    if unused and now - table["CreationDateTime"] < timedelta(days=UNUSED_DAYS):
        yield CheckResult("indexes", f"{says}; the table is younger")
        return
    yield CheckResult("indexes", says, "Use it, or remove it from functions/model and deploy." if unused else "")


LOCAL_CHECKS: tuple[HealthCheck, ...] = (
    check_local_backlog,
    check_failure_store,
    check_queues,
    check_sampled_items,
    check_drift,
)
AWS_CHECKS: tuple[HealthCheck, ...] = (
    check_stream_lag,
    check_service_levels,
    check_failure_store,
    check_queues,
    check_sampled_items,
    check_drift,
    check_payments,
    check_taxes,
    check_shipping,
    check_indexes,
)


def run_checks(target: ShopTarget, checks: Sequence[HealthCheck], now: datetime) -> Iterator[CheckResult]:
    """Run all checks and yield their results. If a check fails with an AWS error, its result describes the error."""
    for check in checks:
        subject = check.__name__.removeprefix("check_").replace("_", " ")
        try:
            yield from check(target, now)
        except (BotoCoreError, TableBusy, ClientError) as error:
            advice = "Check your permissions, and run the command again:"
            yield CheckResult(subject, f"check failed: {error}", advice, [target.ops_command("health")])


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: targets.Subparsers) -> None:
    parser = commands.add_parser(
        "health",
        parents=[targets.target_options(needs_stack=True), targets.throttle_options()],
        help="show the health of the shop on one screen",
    )
    parser.set_defaults(run=show_health)


def show_health(args: argparse.Namespace) -> None:
    """Print the health of the shop. Exits with 1 if a check found a problem that needs an action."""
    where = targets.resolve_target(args)
    todo = 0
    with limit_capacity(where.table, targets.units_per_second(args)):
        for line in run_checks(where, AWS_CHECKS if args.stack else LOCAL_CHECKS, datetime.now(UTC)):
            print(line, flush=True)
            todo += bool(line.action)
    if not args.stack:
        print("    the page shows the lag of the readers (Flow) and the use of the indexes (Insight)")
    if todo:
        sys.exit(f"{todo} {'problem' if todo == 1 else 'problems'} found.")
    print(colored("No problems found.", "green"))
