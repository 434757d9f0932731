"""The definitions of all alarms. An alarm stays raised as long as its condition holds."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from functions.model import metrics
from functions.model.metrics import MetricDefinition
from functions.model.service_levels import PERCENTILE, SERVICE_LEVELS, WINDOW_MINUTES

AlarmTarget = Literal[
    "queue", "dead letters", "reader", "reader's mapping", "api", "api's function", "schedule", "hourly schedule"
]
"""One alarm is created for each resource of the kind: "reader" of the stream, "schedule" of some minutes or an hour."""
DIMENSIONS: dict[AlarmTarget, str] = {
    "queue": "QueueName",
    "dead letters": "QueueName",
    "reader": "FunctionName",
    "reader's mapping": "EventSourceMappingUUID",
    "api": "ApiId",
    "api's function": "FunctionName",
    "schedule": "FunctionName",
    "hourly schedule": "FunctionName",
}
BOUNCE_RATE, COMPLAINT_RATE = "AWS/SES Reputation.BounceRate", "AWS/SES Reputation.ComplaintRate"
"""SES's metrics: the share (0 to 1) of the account's mails that bounced, and the share that were reported as spam.

They are for the whole account, so they have no dimensions. SES writes these metrics only now and then.
https://docs.aws.amazon.com/ses/latest/dg/reputationdashboard-cloudwatch-alarm.html
"""
AWS_GAUGES = frozenset({BOUNCE_RATE, COMPLAINT_RATE})
Statistic = Literal["Maximum", "Minimum", "Sum", "SampleCount", "p99"]
RUNBOOKS = "docs/runbooks"
RATE_LIMITED_REACTIONS = frozenset({"export", "import", "product_alert"})
"""The reactions whose workers are slow on purpose: large imports, whole lists, thousands of followers.

The lag alarms for 5 minutes and 1 hour do not watch them.
"""


@dataclass(frozen=True, kw_only=True)
class ErrorRate:
    """The errors in percent of all requests that an alarm compares with its limit.

    `requests`: their AWS metric. `floor`: the lowest number of them to divide by, so that a few errors in a quiet hour
    raise no alarm. `expected`: our metric of expected errors, which are subtracted.
    """

    requests: str
    floor: int
    expected: MetricDefinition | None = None

    @property
    def expression(self) -> str:
        """The rate as a CloudWatch expression of the metrics `errors`, `requests` and `expected`.

        https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html
        """
        errors = "FILL(errors, 0) - FILL(expected, 0)" if self.expected else "FILL(errors, 0)"
        return f"100 * ({errors}) / IF(FILL(requests, 0) < {self.floor}, {self.floor}, requests)"


@dataclass(frozen=True, kw_only=True)
class AlarmDefinition:
    """An alarm: its condition, its meaning and its runbook.

    It is raised if the `statistic` of `metric` is above `above`, or below `below`, in `periods` periods of `minutes`.
    `metric`: one of Orderstream's, or "namespace name" of an AWS service. `for_each`: one alarm for each resource of
    this kind, except the `excluded`. `function`: the Lambda that reports a metric of Orderstream; "" without
    dimensions. `is_level`: whether the metric is a gauge. If data is missing, an alarm with `above` on a gauge keeps
    its state, another one is not raised, and one with `below` is. `rate`: compare the error rate in percent.
    `stops_release`: whether the alarm rolls back the release of the API function.
    """

    name: str
    description: str
    metric: MetricDefinition | str
    statistic: Statistic
    runbook: str
    above: float | None = None
    below: float | None = None
    for_each: AlarmTarget | None = None
    excluded: frozenset[str] = frozenset()
    function: str = ""
    minutes: int = 5
    periods: int = 1
    rate: ErrorRate | None = None
    stops_release: bool = False

    def __post_init__(self) -> None:
        if (self.above is None) is (self.below is None):
            raise ValueError(f"{self.name}: set either `above` or `below`")

    @property
    def is_level(self) -> bool:
        return self.metric.is_gauge if isinstance(self.metric, MetricDefinition) else self.metric in AWS_GAUGES

    @property
    def runbook_path(self) -> str:
        return f"{RUNBOOKS}/{self.runbook}.md"


TEST_ALARM = "over-refunded"
"""The alarm that a test of the notifications raises by hand. CloudWatch ends it at its next evaluation."""
LAG_LEVELS = (("5-minutes", 300), ("1-hour", 3_600), ("6-hours", 21_600))
"""The names and seconds of the lags (processing delays) at which an alarm is raised.

After 5 minutes a person should check the cause. After 1 hour customers notice the lag. After 6 hours, half of the time
for a repair has passed: after 12 hours, Lambda stops retrying a stream record.
"""


def _lag_alarms() -> Iterator[AlarmDefinition]:
    for level, seconds in LAG_LEVELS:
        yield AlarmDefinition(
            name=f"lag-{level}",
            description=f"An event has waited in its queue for more than {level.replace('-', ' ')}",
            metric="AWS/SQS ApproximateAgeOfOldestMessage",
            statistic="Maximum",
            above=seconds,
            runbook="lag",
            for_each="queue",
            excluded=frozenset() if level == "6-hours" else RATE_LIMITED_REACTIONS,
        )
        yield AlarmDefinition(
            name=f"stream-lag-{level}",
            description=f"A stream reader is more than {level.replace('-', ' ')} behind",
            metric="AWS/Lambda IteratorAge",
            statistic="Maximum",
            above=seconds * 1_000,
            runbook="stream-lag",
            for_each="reader",
        )


def _service_level_alarms() -> Iterator[AlarmDefinition]:
    for level in SERVICE_LEVELS:
        yield AlarmDefinition(
            name=f"slow-{level.function}",
            description=f"Effects are late ({level.effect}): one of 100 takes more than {level.seconds} seconds",
            metric=metrics.PROCESSING_LAG,
            function=level.function,
            statistic=PERCENTILE,
            above=level.seconds * 1_000,
            minutes=WINDOW_MINUTES,
            runbook="slow-effects",
        )


def _alarm_if_any(
    *, name: str, description: str, metric: MetricDefinition, statistic: Statistic = "Minimum"
) -> AlarmDefinition:
    """Return an alarm about anything that a person must handle: a gauge that stays above 0, or a sum that is above."""
    return AlarmDefinition(
        name=name, description=description, metric=metric, statistic=statistic, above=0, runbook=name
    )


CANARY_ALARM = AlarmDefinition(
    name="canary-failing",
    description="No run of the canary placed and cancelled an order for 15 minutes: customers may not be able to order",
    metric=metrics.CANARY_SUCCEEDED,
    statistic="Sum",
    below=1,
    periods=3,
    runbook="canary-failing",
)
"""The alarm of the canary, a Lambda that places test orders in a stage with the setting `canary_minutes`."""
ALARMS: tuple[AlarmDefinition, ...] = (
    _alarm_if_any(
        name="fulfilment-stalled",
        description="Paid orders have no shipment request after 10 minutes",
        metric=metrics.ORDERS_STALLED,
    ),
    *_service_level_alarms(),
    *_lag_alarms(),
    _alarm_if_any(
        name="failure-store-not-empty",
        description="Lambda stopped retrying stream records. Their copies or events are missing",
        metric=metrics.FAILED_BATCHES_WAITING,
    ),
    _alarm_if_any(
        name="parked-not-empty",
        description="A function parked records or messages that it cannot process",
        metric=metrics.PARKED_WAITING,
    ),
    AlarmDefinition(
        name="dead-letters-not-empty",
        description="A message failed at all its deliveries, or a scheduled run failed",
        metric="AWS/SQS ApproximateNumberOfMessagesVisible",
        statistic="Maximum",
        above=0,
        runbook="dead-letters-not-empty",
        for_each="dead letters",
    ),
    AlarmDefinition(
        name="mails-deferred",
        description="SES has refused a mail for an hour. After three days the mail is parked",
        metric=metrics.MAIL_DEFERRAL_AGE,
        statistic="Maximum",
        above=60 * 60 * 1000,
        minutes=30,
        runbook="mails-deferred",
    ),
    _alarm_if_any(
        name="unmatched-payment",
        description="A payment matches no order and is not refunded yet",
        metric=metrics.UNMATCHED_PAYMENTS,
    ),
    _alarm_if_any(
        name="webhook-paused",
        description="A webhook was paused, because it has not accepted an event for three days",
        metric=metrics.WEBHOOKS_PAUSED,
        statistic="Sum",
    ),
    _alarm_if_any(
        name="over-refunded",
        description="More money of an order left the shop than was paid",
        metric=metrics.OVER_REFUNDED,
        statistic="Sum",
    ),
    AlarmDefinition(
        name="api-5xx",
        description="The API answers more than 2 % of all requests with 5xx errors",
        metric="AWS/ApiGateway 5xx",
        statistic="Sum",
        above=2,
        rate=ErrorRate(requests="AWS/ApiGateway Count", floor=250, expected=metrics.BUSY_ANSWERS),
        runbook="api-5xx",
        for_each="api",
        stops_release=True,
    ),
    AlarmDefinition(
        name="api-busy",
        description="The API answers requests with 503 busy, because the table throttles them or orders conflict",
        metric=metrics.BUSY_ANSWERS,
        statistic="Sum",
        above=20,
        runbook="throttling",
    ),
    AlarmDefinition(
        name="api-crashes",
        description="More than 2 % of the API function's calls have no response: it cannot start, crashes or times out",
        metric="AWS/Lambda Errors",
        statistic="Sum",
        above=2,
        rate=ErrorRate(requests="AWS/Lambda Invocations", floor=100),
        minutes=1,
        runbook="api-5xx",
        for_each="api's function",
        stops_release=True,
    ),
    AlarmDefinition(
        name="throttling",
        description="DynamoDB throttles requests",
        metric=metrics.THROTTLES_BY_FUNCTION,
        statistic="Sum",
        above=20,
        runbook="throttling",
    ),
    _alarm_if_any(
        name="overdue-orders",
        description="Orders past their deadline are not processed. Unpaid orders keep stock reserved",
        metric=metrics.OVERDUE_ORDERS,
    ),
    AlarmDefinition(
        name="overdue-lag",
        description="An order is 15 minutes past its deadline. The runs do not catch up, or the order cannot be read",
        metric=metrics.OVERDUE_LAG,
        statistic="Minimum",
        above=15 * 60 * 1000,
        runbook="overdue-orders",
    ),
    _alarm_if_any(
        name="archive-mismatch",
        description="An archive object lacks data that the table has. The order stays in the table",
        metric=metrics.ARCHIVE_MISMATCHES,
    ),
    # A mapping that reads the stream writes this metric, with the value 0 if there are no records. It counts
    # the records before the filter. https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html
    AlarmDefinition(
        name="stream-reader-silent",
        description="A mapping does not read the stream. After 24 hours, the records that it has not read expire",
        metric="AWS/Lambda PolledEventCount",
        statistic="SampleCount",
        below=1,
        minutes=15,
        runbook="stream-lag",
        for_each="reader's mapping",
    ),
    AlarmDefinition(
        name="schedule-silent",
        description="A scheduled function does not run. Its work waits, and alarms on its metrics do not change",
        metric="AWS/Lambda Invocations",
        statistic="Sum",
        below=1,
        minutes=15,
        runbook="schedule-silent",
        for_each="schedule",
        excluded=frozenset({"canary"}),
    ),
    AlarmDefinition(
        name="erasure-silent",
        description="The erasure job did not run for two hours. Personal data must be erased within a legal time limit",
        metric="AWS/Lambda Invocations",
        statistic="Sum",
        below=1,
        minutes=120,
        runbook="schedule-silent",
        for_each="hourly schedule",
    ),
    # AWS reviews an account at a bounce rate of 5 % or a complaint rate of 0.1 %, and may pause its mails at 10 % or
    # 0.5 %: https://docs.aws.amazon.com/ses/latest/dg/reputationdashboardmessages.html
    AlarmDefinition(
        name="mails-bounce",
        description="More than 2.5 % of the account's mails bounce. At 5 % AWS reviews the account",
        metric=BOUNCE_RATE,
        statistic="Maximum",
        above=0.025,
        minutes=60,
        runbook="mail-reputation",
    ),
    AlarmDefinition(
        name="mails-reported-as-spam",
        description="More than 0.05 % of the account's mails are reported as spam. At 0.1 % AWS reviews the account",
        metric=COMPLAINT_RATE,
        statistic="Maximum",
        above=0.0005,
        minutes=60,
        runbook="mail-reputation",
    ),
)
