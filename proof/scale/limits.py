"""List the limits of AWS that the load on the shop may reach. docs/quotas.md is generated from this list.

`kind`: a "hard" limit cannot be raised, AWS raises a "quota" on request, and a "setting" belongs to the shop. `value`:
the default in REGION. `raised`: the value to request from AWS (docs/quotas.md), or the changed setting; None if the
default is enough, or cannot be raised. `lifted_by`: what to change when the shop reaches the limit. `quota`: for a quota
that each order uses, its service and its code in Service Quotas.

On CHECKED_ON, we compared these values with AWS's pages: the quotas of API Gateway, of EventBridge in REGION and of a
table, the throughput and growth of a new table, and how Lambda scales with requests and queues. We did not check the
other values, which are well known. AWS changes values, and a new account has lower values: see the console.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

REGION = "eu-central-1"
CHECKED_ON = "2026-11-24"
DYNAMODB = "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide"
LAMBDA = "https://docs.aws.amazon.com/lambda/latest/dg"
EVENTBRIDGE = "https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-quota.html"
SES = "https://docs.aws.amazon.com/ses/latest/dg"


@dataclass(frozen=True)
class Limit:
    """One limit of AWS. The docstring of this module describes the fields."""

    id: str
    service: str
    what: str
    value: float
    unit: str
    kind: Literal["hard", "quota", "setting"]
    link: str
    lifted_by: str
    raised: float | None = None
    other_regions: str = ""
    quota: tuple[str, str] | None = None


LIMITS: tuple[Limit, ...] = (
    Limit(
        "partition-write", "DynamoDB", "write units of a partition", 1_000, "units a second", "hard",
        f"{DYNAMODB}/bp-partition-key-design.html",
        "more shards of the key. DynamoDB splits a hot partition between sort keys, but never one item, and a split does "
        "not help if each new sort key is the last",
    ),
    Limit(
        "partition-read", "DynamoDB", "read units of a partition", 3_000, "units a second", "hard",
        f"{DYNAMODB}/bp-partition-key-design.html", "a cache (CloudFront), or more shards of the key",
    ),
    Limit(
        "item-transaction", "DynamoDB", "transactions on one item at a time", 1, "transaction", "hard",
        f"{DYNAMODB}/transaction-apis.html#transaction-conflict-handling",
        "more items: stock parts, invoice series, shards of totals. AWS also bills a refused attempt",
    ),
    Limit(
        "transaction-items", "DynamoDB", "items of a transaction", 100, "items", "hard",
        f"{DYNAMODB}/transaction-apis.html", "smaller batches",
    ),
    Limit(
        "index-write", "DynamoDB", "write units of a partition of an index; above it, the table's writes are refused",
        1_000, "units a second", "hard", f"{DYNAMODB}/GSI.html#GSI.ThroughputConsiderations.Writes",
        "more shards of the index key",
    ),
    Limit(
        "table-write", "DynamoDB", "write units of a table, and of each index", 40_000, "units a second", "quota",
        f"{DYNAMODB}/ServiceQuotas.html#default-limits-throughput",
        "the quota of table-level write throughput", raised=200_000,
        quota=("dynamodb", "L-AB614373"),
    ),
    Limit(
        "table-read", "DynamoDB", "read units of a table, and of each index", 40_000, "units a second", "quota",
        f"{DYNAMODB}/ServiceQuotas.html#default-limits-throughput",
        "the quota of table-level read throughput", raised=120_000,
        quota=("dynamodb", "L-CF0CBE56"),
    ),
    Limit(
        "growth", "DynamoDB", "growth over the previous peak within 30 minutes", 2, "times", "hard",
        f"{DYNAMODB}/on-demand-capacity-mode.html", "warm throughput before the peak",
    ),
    Limit(
        "shard-readers", "DynamoDB Streams", "readers of a shard", 2, "readers", "hard",
        f"{DYNAMODB}/ServiceQuotas.html#limits-dynamodb-streams", "a reaction behind the bus instead of a reader",
    ),
    Limit(
        "parallelization", "Lambda", "concurrent batches of a shard", 10, "batches", "hard",
        f"{LAMBDA}/services-ddb-params.html", "warm throughput: more partitions have more shards",
    ),
    Limit(
        "stream-batch", "Lambda", "records of a batch from a stream", 10_000, "records", "hard",
        f"{LAMBDA}/services-ddb-params.html", "nothing: a batch also ends at 6 MB",
    ),
    Limit(
        "queue-batch", "Lambda", "messages of a batch from a queue without a window", 10, "messages", "hard",
        f"{LAMBDA}/services-sqs-parameters.html", "a window of at least a second",
    ),
    Limit(
        "queue-start", "Lambda", "batches at the same time from a queue that was idle", 5, "batches", "hard",
        f"{LAMBDA}/services-sqs-scaling.html", "nothing: it is the first minute of a peak",
    ),
    Limit(
        "queue-growth", "Lambda", "more batches at the same time from a queue, each minute", 300, "batches", "hard",
        f"{LAMBDA}/services-sqs-scaling.html", "nothing: it is the first minutes of a peak",
    ),
    Limit(
        "queue-maximum", "Lambda", "batches at the same time from a queue", 1_250, "batches", "hard",
        f"{LAMBDA}/services-sqs-scaling.html",
        "provisioned pollers, which scale threefold faster and 16 times as high, but exclude `concurrency`, of at most "
        "1,000",
    ),
    Limit(
        "lambda-concurrency", "Lambda", "invocations at the same time", 1_000, "invocations", "quota",
        f"{LAMBDA}/gettingstarted-limits.html", "the quota of concurrent executions", raised=10_000,
        quota=("lambda", "L-B99A9384"),
    ),
    Limit(
        "lambda-start", "Lambda", "new execution environments of a function in 10 seconds", 1_000, "environments",
        "hard", f"{LAMBDA}/scaling-behavior.html", "provisioned concurrency",
    ),
    Limit(
        "lambda-memory", "Lambda", "memory that gives a function one processor", 1_769, "MB", "setting",
        f"{LAMBDA}/configuration-memory.html", "`memory_mb` of the function in stacks/orders_stack.py", raised=1_769,
    ),
    Limit(
        "put-events", "EventBridge", "PutEvents requests", 2_400, "requests a second", "quota", EVENTBRIDGE,
        "the quota of PutEvents", raised=20_000, other_regions="10,000 in us-east-1, us-west-2 and eu-west-1",
        quota=("events", "L-9B653E91"),
    ),
    Limit(
        "bus-targets", "EventBridge", "events sent to targets; above it, they are delayed", 4_500, "events a second",
        "quota", EVENTBRIDGE, "the quota of invocations", raised=40_000,
        other_regions="18,750 in us-east-1, us-west-2 and eu-west-1; 750 to 2,250 in most others",
        quota=("events", "L-5540C5E3"),
    ),
    Limit(
        "ses-rate", "SES", "mails of an account out of the sandbox", 14, "mails a second", "quota", f"{SES}/quotas.html",
        "the quota of the sending rate", raised=14_000,
        quota=("ses", "L-CDEF9B6B"),
    ),
    Limit(
        "ses-day", "SES", "mails of an account out of the sandbox", 50_000, "mails a day", "quota",
        f"{SES}/quotas.html", "the quota of the daily sending", raised=250_000_000,
        quota=("ses", "L-804C8AE8"),
    ),
    Limit(
        "api-throttle", "API Gateway", "requests to all APIs of an account", 10_000, "requests a second", "quota",
        "https://docs.aws.amazon.com/apigateway/latest/developerguide/limits.html",
        "the throttle quota of the account, then `requests_per_second`", raised=20_000,
        other_regions="2,500 in eu-south-1, eu-south-2, eu-central-2 and others",
        quota=("apigateway", "L-8A5B8E43"),
    ),
)  # fmt: skip
BY_ID: Mapping[str, Limit] = {limit.id: limit for limit in LIMITS}
NEW_ACCOUNT: Mapping[str, float] = {"lambda-concurrency": 10, "ses-day": 200}
"""The lower values of a new account: SES is in its sandbox, and Lambda allows few concurrent invocations.

https://docs.aws.amazon.com/ses/latest/dg/request-production-access.html
https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
"""


def defaults() -> dict[str, float]:
    return {limit.id: limit.value for limit in LIMITS}
