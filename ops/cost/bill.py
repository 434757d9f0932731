"""Compute a stage's bill for a month, from the resources of its synthesized template and a number of orders.

Each type of resource has a function in PRICED or a reason in FREE. Otherwise the bill raises UnpricedResource.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from functions.model.lambdas import lambda_name_of_handler
from ops.cost import usage
from stacks import PROJECT
from stacks.stage import Stage, read_settings
from stacks.synth_cache import get_assembly

PRICES = PROJECT / "ops" / "prices.json"
MILLION = 1_000_000
GIGABYTE = 1 << 30
APART = ("SES", "Cognito")
"""The services that cost far more than all others. The bill also shows its total without these services."""


def load_prices() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(PRICES.read_text(encoding="utf-8"))
    return found


class UnpricedResource(LookupError):
    """A template has a type of resource that is neither in PRICED nor in FREE. The text has a line for each type."""


@dataclass(frozen=True)
class BillLine:
    """A line of a bill. `quantity`: the units that AWS bills in a month. `price`: the price of one unit in dollars."""

    service: str
    what: str
    quantity: float
    price: float

    @property
    def amount(self) -> float:
        return self.quantity * self.price


@dataclass(frozen=True)
class Month:
    """The input of a bill. `resources`: the resources' properties by type and logical id. `orders`: orders a month."""

    stage: Stage
    resources: Mapping[str, Mapping[str, Mapping[str, Any]]]
    orders: float
    prices: Mapping[str, Any] = field(default_factory=load_prices)

    def price(self, name: str) -> float:
        return float(self.prices["others"][name])

    def life(self, kind: str) -> float:
        """Return the usage of all orders of the month together. `kind`: see LifeStep.total."""
        return self.orders * sum(step.total(kind) for step in usage.ORDER_LIFE.values())

    @cached_property
    def views(self) -> float:
        return self.orders * usage.VIEWS_PER_ORDER

    @cached_property
    def functions(self) -> Mapping[str, Mapping[str, Any]]:
        """The shop's functions by name. Excludes the CDK's functions, which run only during a deploy."""
        found = self.resources.get("AWS::Lambda::Function", {}).values()
        ours = [one for one in found if str(one.get("Handler")).startswith("functions.")]
        return {lambda_name_of_handler(one["Handler"]): one for one in ours}

    @cached_property
    def scheduled(self) -> Mapping[str, float]:
        """The number of scheduled runs in the month, by function."""
        ids = self.resources.get("AWS::Lambda::Function", {})
        runs: dict[str, float] = {}
        for rule in self.resources.get("AWS::Events::Rule", {}).values():
            if found := re.fullmatch(r"rate\((\d+) (minute|hour|day)s?\)", rule.get("ScheduleExpression", "")):
                minutes = int(found[1]) * {"minute": 1, "hour": 60, "day": 24 * 60}[found[2]]
                for target in rule["Targets"]:
                    name = lambda_name_of_handler(ids[target["Arn"]["Fn::GetAtt"][0]]["Handler"])
                    runs[name] = runs.get(name, 0) + usage.MINUTES_A_MONTH / minutes
        return runs

    @cached_property
    def calls(self) -> Mapping[str, float]:
        """The number of invocations in the month, by function."""
        steps = usage.ORDER_LIFE.values()
        return {
            name: self.orders * sum(step.usage[name].calls for step in steps if name in step.usage)
            + self.scheduled.get(name, 0)
            + (self.views if name == "api" else 0)
            for name in self.functions
        }

    @property
    def requests(self) -> float:
        """The number of requests to the API in the month."""
        return self.calls["api"] + self.calls["payment_starter"]

    @cached_property
    def stored(self) -> tuple[float, float]:
        """The gigabytes in the table and in its indexes, in a shop that archives as many orders as it gets each day."""
        days = usage.days_until_archived(self.stage)
        sizes = [one.byte_days(days) for one in usage.ORDER_STORAGE.values()]
        a_day = self.orders / usage.MONTH_DAYS / GIGABYTE
        return a_day * sum(table for table, _ in sizes), a_day * sum(indexes for _, indexes in sizes)


Lines = Iterator[BillLine]
Resources = Mapping[str, Mapping[str, Any]]


def table_lines(month: Month, tables: Resources) -> Lines:
    for table in tables.values():
        (replica,) = table["Replicas"]
        prices = month.prices["table_classes"][replica.get("TableClass", "STANDARD")]
        scheduled = sum(runs * usage.SCHEDULED_READS.get(name, 0) for name, runs in month.scheduled.items())
        units = {"read": month.life("read") + month.views / 2 + scheduled, "write": month.life("written")}
        for way, number in units.items():
            if table["BillingMode"] == "PROVISIONED":
                hours = _provisioned_hours(month.stage, way, number)
                yield BillLine("DynamoDB", f"{way} unit hours", hours, prices[f"{way}_unit_hour"])
            else:
                yield BillLine("DynamoDB", f"{way} units", number, prices[f"{way}_million"] / MILLION)
        in_table, in_indexes = month.stored
        yield BillLine("DynamoDB", "GB in the table", in_table, prices["gigabyte_month"])
        yield BillLine("DynamoDB", "GB in the indexes", in_indexes, prices["gigabyte_month"])
        if replica["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"]:
            yield BillLine(
                "DynamoDB", "GB with point-in-time recovery", in_table, month.price("recovery_gigabyte_month")
            )
        watched = [replica, *replica["GlobalSecondaryIndexes"]] if "GlobalSecondaryIndexes" in replica else [replica]
        rules = 2 * sum(bool(one.get("ContributorInsightsSpecification", {}).get("Enabled")) for one in watched)
        if rules:
            yield BillLine("DynamoDB", "rules of contributor insights", rules, month.price("insights_rule_month"))


def _provisioned_hours(stage: Stage, way: str, units: float) -> float:
    """Return the unit hours of provisioned capacity, which follows the average load but has a minimum."""
    mean = units / usage.HOURS_A_MONTH / 3600 / (stage.utilization / 100)
    least = sum(stage.capacity_range(f"{way}_units", target)[0] for target in ("table", "GSI1", "GSI2", "GSI3"))
    return max(mean, least) * usage.HOURS_A_MONTH


def backup_lines(month: Month, plans: Resources) -> Lines:
    in_table, _ = month.stored
    for plan in plans.values():
        for rule in plan["BackupPlan"]["BackupPlanRule"]:
            every = 1 if rule["ScheduleExpression"].split()[2] == "*" else usage.MONTH_DAYS
            copies = rule["Lifecycle"]["DeleteAfterDays"] / every
            stored = in_table * copies * (1 + len(rule["CopyActions"]))
            what = f"GB in backups ({rule['RuleName'].lower()})"
            yield BillLine("AWS Backup", what, stored, month.price("backup_gigabyte_month"))


def function_lines(month: Month, _: Resources) -> Lines:
    calls = sum(month.calls.values())
    seconds = sum(
        number * usage.CALL_SECONDS * month.functions[name]["MemorySize"] / 1024 for name, number in month.calls.items()
    )
    yield BillLine("Lambda", "invocations", calls, month.price("lambda_request_million") / MILLION)
    yield BillLine("Lambda", "GB-seconds", seconds, month.price("lambda_gigabyte_second"))
    traced = sum(
        number
        for name, number in month.calls.items()
        if month.functions[name].get("TracingConfig", {}).get("Mode") == "Active"
    )
    if not traced:
        return
    first = min(traced, usage.TRACES_PER_SECOND * usage.DAY_SECONDS * usage.MONTH_DAYS)
    traces = first + usage.TRACED_SHARE * (traced - first)
    yield BillLine("X-Ray", "traces", traces, month.price("trace_million") / MILLION)


def version_lines(month: Month, versions: Resources) -> Lines:
    starts = [one for one in month.functions.values() if "SnapStart" in one]
    if starts:
        gigabyte_seconds = sum(one["MemorySize"] for one in starts) / 1024 * usage.HOURS_A_MONTH * 3600 * len(versions)
        yield BillLine("Lambda", "GB-seconds of snapshots", gigabyte_seconds, month.price("snapshot_gigabyte_second"))


def mapping_lines(month: Month, mappings: Resources) -> Lines:
    queues = sum("StartingPosition" not in one for one in mappings.values())
    polls = queues * usage.POLLERS * usage.POLLS_A_MINUTE * usage.MINUTES_A_MONTH
    yield BillLine("SQS", "polls of queues", polls, month.price("queue_request_million") / MILLION)


def queue_lines(month: Month, _: Resources) -> Lines:
    requests = month.life("messages") * usage.REQUESTS_PER_MESSAGE
    yield BillLine("SQS", "requests of messages", requests, month.price("queue_request_million") / MILLION)


def bus_lines(month: Month, _: Resources) -> Lines:
    yield BillLine("EventBridge", "events", month.life("events"), month.price("event_million") / MILLION)


def bus_archive_lines(month: Month, archives: Resources) -> Lines:
    archived = month.life("events") * usage.EVENT_BYTES / GIGABYTE
    for archive in archives.values():
        stored = archived / usage.MONTH_DAYS * archive["RetentionDays"]
        yield BillLine("EventBridge", "GB archived", archived, month.price("event_archive_gigabyte"))
        yield BillLine("EventBridge", "GB in the archive", stored, month.price("event_archive_gigabyte_month"))


def api_lines(month: Month, _: Resources) -> Lines:
    yield BillLine("API Gateway", "requests", month.requests, month.price("api_request_million") / MILLION)
    if "AWS::CloudFront::Distribution" not in month.resources:
        sent = month.requests * usage.ANSWER_BYTES / GIGABYTE
        yield BillLine("API Gateway", "GB sent to clients", sent, month.price("transfer_gigabyte"))


def log_lines(month: Month, _: Resources) -> Lines:
    written = sum(month.calls.values()) * usage.LOG_BYTES / GIGABYTE
    stored = written / usage.MONTH_DAYS * month.stage.log_retention_days
    yield BillLine("CloudWatch", "GB of logs written", written, month.price("log_gigabyte"))
    yield BillLine("CloudWatch", "GB of logs kept", stored, month.price("log_gigabyte_month"))
    yield BillLine("CloudWatch", "metrics", usage.CUSTOM_METRICS, month.price("metric_month"))


def alarm_lines(month: Month, alarms: Resources) -> Lines:
    metrics = sum(len([one for one in it.get("Metrics", [{}]) if "Expression" not in one]) for it in alarms.values())
    yield BillLine("CloudWatch", "metrics of alarms", metrics, month.price("alarm_month"))


def bucket_lines(month: Month, buckets: Resources) -> Lines:
    written = month.life("objects") + month.orders * _archive_copies(buckets)
    yield BillLine("S3", "objects written", written, month.price("object_put_thousand") / 1000)


def _archive_copies(buckets: Resources) -> int:
    """Return how many copies S3 makes of each archived order."""
    return sum("ReplicationConfiguration" in one for one in buckets.values())


def user_lines(month: Month, pools: Resources) -> Lines:
    users = month.orders * usage.USERS_PER_ORDER
    for pool in pools.values():
        below = 0.0
        for limit, price in month.prices["active_user_months"][pool["UserPoolTier"]]:
            in_step = max(0.0, (users if limit is None else min(users, limit)) - below)
            below += in_step
            yield BillLine("Cognito", f"active users at {price}", in_step, price)


def key_lines(month: Month, keys: Resources) -> Lines:
    yield BillLine("KMS", "keys", len(keys), month.price("key_month"))
    yield BillLine("KMS", "requests", usage.KEY_REQUESTS, month.price("key_request_ten_thousand") / 10_000)


def front_lines(month: Month, _: Resources) -> Lines:
    requests = month.requests
    yield BillLine("CloudFront", "requests", requests, month.price("front_request_ten_thousand") / 10_000)
    sent = requests * usage.ANSWER_BYTES / GIGABYTE
    yield BillLine("CloudFront", "GB sent to clients", sent, month.price("front_gigabyte"))


def firewall_lines(month: Month, firewalls: Resources) -> Lines:
    rules = sum(len(one["Rules"]) for one in firewalls.values())
    yield BillLine("WAF", "web ACLs", len(firewalls), month.price("firewall_month"))
    yield BillLine("WAF", "rules", rules, month.price("firewall_rule_month"))
    yield BillLine("WAF", "requests", month.requests, month.price("firewall_request_million") / MILLION)


def _count_lines(service: str, what: str, price: str) -> Callable[[Month, Resources], Lines]:
    """Return a function for PRICED that bills each resource of a type with the same monthly price."""
    return lambda month, found: iter([BillLine(service, what, len(found), month.price(price))])


PRICED: Mapping[str, Callable[[Month, Resources], Lines]] = {
    "AWS::DynamoDB::GlobalTable": table_lines,
    "AWS::Backup::BackupPlan": backup_lines,
    "AWS::Lambda::Function": function_lines,
    "AWS::Lambda::Version": version_lines,
    "AWS::ApiGatewayV2::Api": api_lines,
    "AWS::Events::EventBus": bus_lines,
    "AWS::Events::Archive": bus_archive_lines,
    "AWS::SQS::Queue": queue_lines,
    "AWS::Lambda::EventSourceMapping": mapping_lines,
    "AWS::S3::Bucket": bucket_lines,
    "AWS::Logs::LogGroup": log_lines,
    "AWS::CloudWatch::Alarm": alarm_lines,
    "AWS::CloudWatch::Dashboard": _count_lines("CloudWatch", "dashboards", "dashboard_month"),
    "AWS::KMS::Key": key_lines,
    "AWS::SecretsManager::Secret": _count_lines("Secrets Manager", "secrets", "secret_month"),
    "AWS::CloudFront::Distribution": front_lines,
    "AWS::WAFv2::WebACL": firewall_lines,
    "AWS::Cognito::UserPool": user_lines,
}
"""The function that yields the bill's lines for a type of resource, in the order of the bill."""
FREE: Mapping[str, str] = {
    "AWS::ApiGatewayV2::(ApiMapping|Authorizer|DomainName|Integration|Route|Stage)": "requests of the API are billed",
    "AWS::Athena::WorkGroup": "only queries are billed, by the bytes that they read: 5.00 for a TB",
    "AWS::Backup::(BackupSelection|BackupVault)": "only the stored backups are billed",
    "AWS::Budgets::Budget": "only budgets with actions are billed",
    "AWS::CloudFormation::WaitCondition(Handle)?": "only in the deploy of `make prove` that must fail",
    "AWS::CloudFront::(CachePolicy|OriginAccessControl|ResponseHeadersPolicy)": "a part of a distribution",
    "AWS::CloudFront::Function": "it runs only for the folders of the page: 0.10 for a million visits",
    "AWS::CodeDeploy::.*": "deployments of Lambda functions are free",
    "AWS::Cognito::(ManagedLoginBranding|UserPoolClient|UserPoolDomain|UserPoolGroup)": "users are billed",
    "AWS::Events::Rule": "deliveries to queues and functions of the account are free, and so are schedules",
    "AWS::Glue::(Database|Table)": "the first million objects of an account's data catalog are free",
    "AWS::IAM::.*": "free",
    "AWS::Lambda::(Alias|EventInvokeConfig|LayerVersion|Permission)": "free",
    "AWS::Logs::Delivery(Destination|Source)?": "only the log of failed deliveries is billed: 0.50 for a GB",
    "AWS::Logs::QueryDefinition": "only its runs are billed, by the logs that they read: 0.005 for a GB",
    "AWS::S3::BucketPolicy": "free",
    "AWS::WAFv2::IPSet": "a part of a web ACL",
    "AWS::SES::ConfigurationSetEventDestination": "a kind of mail that bounces is a metric: 0.30 a month for each",
    "AWS::SES::(ConfigurationSet|EmailIdentity)": "mails are billed",
    "AWS::SNS::(Subscription|Topic|TopicPolicy)": "it carries the mails of alarms: 0.02 for a thousand",
    "AWS::SQS::QueuePolicy": "free",
    "Custom::.*": "it runs only during a deploy",
}
"""Patterns of resource types that have no line in the bill, with the reason."""


def load_resources(context: Mapping[str, object]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Return the properties of all resources of a deploy, by type and logical id. Raises InvalidSetting."""
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for file in sorted(get_assembly({"laptop": "true", **context}).glob("*.template.json")):
        for id, resource in json.loads(file.read_text(encoding="utf-8"))["Resources"].items():
            found.setdefault(resource["Type"], {})[id] = resource.get("Properties", {})
    return found


def find_unpriced(types: Iterable[str]) -> Iterator[str]:
    """Yield one sentence for each type of resource that is neither in PRICED nor in FREE."""
    for one in sorted(types):
        if one not in PRICED and not any(re.fullmatch(free, one) for free in FREE):
            yield f"ops/cost/bill.py: {one} has no price: add it to PRICED, or to FREE with the reason"


def bill(month: Month) -> list[BillLine]:
    """Return the lines of a month's bill. Raises UnpricedResource."""
    if unpriced := list(find_unpriced(month.resources)):
        raise UnpricedResource("\n".join(unpriced))
    lines = [
        line
        for kind, price in PRICED.items()
        if kind in month.resources
        for line in price(month, month.resources[kind])
    ]
    return [*lines, BillLine("SES", "mails", month.life("mails"), month.price("mail_thousand") / 1000)]


def load_month(orders_a_day: float, **context: object) -> Month:
    """Return the input of a stage's bill. `context`: the CDK context with the stage and its settings."""
    stage = read_settings({**json.loads((PROJECT / "cdk.json").read_text())["context"], **context})
    return Month(stage, load_resources(context), orders_a_day * usage.MONTH_DAYS)


def yearly_growth(month: Month) -> list[BillLine]:
    """Return what each year adds to the monthly cost: archived orders leave S3 objects and some items in the table."""
    prices, orders = month.prices["table_classes"][month.stage.table_class], month.orders * 12
    kept = [one.kept for one in usage.ORDER_STORAGE.values()]
    table, indexes = (orders * sum(sizes) / GIGABYTE for sizes in zip(*kept, strict=True))
    copies = _archive_copies(month.resources["AWS::S3::Bucket"])
    objects = orders * usage.ARCHIVED_BYTES * (1 + copies) / GIGABYTE
    return [
        BillLine("DynamoDB", "GB in the table", table, prices["gigabyte_month"]),
        BillLine("DynamoDB", "GB in the indexes", indexes, prices["gigabyte_month"]),
        BillLine("DynamoDB", "GB with point-in-time recovery", table, month.price("recovery_gigabyte_month")),
        BillLine("S3", "GB of objects", objects, month.price("object_gigabyte_month")),
    ]


def total(lines: Iterable[BillLine], *, without: tuple[str, ...] = ()) -> float:
    return sum(line.amount for line in lines if line.service not in without)
