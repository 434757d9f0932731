"""The alarms of the synthesized template: a bad state raises them, and a good state does not.

The values of Orderstream's own metrics come from the log lines of the function that measures them. The values of the
metrics of AWS are literals in the unit that the documentation of AWS states:
- SQS ApproximateAgeOfOldestMessage, in seconds:
  https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html
- Lambda IteratorAge, in milliseconds: https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html
- SES Reputation.BounceRate and Reputation.ComplaintRate, as shares from 0 to 1:
  https://docs.aws.amazon.com/ses/latest/dg/reputationdashboard-cloudwatch-alarm.html
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest import mock

from functions.handlers import backlog_metrics
from functions.runtime import clients
from functions.shop import payments
from functions.shop.shop import ShopContext
from local.world.harness import READERS, WORKERS, ShopHarness
from proof.mutants.items import stored_order
from proof.support.actors import report_dispute, report_external_refund
from proof.support.alarm_model import capture_metrics, error_rate
from proof.support.archiving import archive_key, create_delivered_order, expire_everything, run_archive
from proof.support.client_faults import fail_calls
from stacks import synth_cache

MINUTE, HOUR = 60, 3600
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "GreaterThanThreshold": operator.gt,
    "LessThanThreshold": operator.lt,
}
STATISTICS: dict[str, Callable[[Sequence[float]], float]] = {
    "Maximum": max, "Minimum": min, "Sum": sum, "SampleCount": len,
}  # fmt: skip
AWS_METRICS: dict[str, tuple[str, Sequence[float], Sequence[float]]] = {
    "lag-5-minutes": ("AWS/SQS ApproximateAgeOfOldestMessage", [4 * MINUTE], [6 * MINUTE]),
    "lag-1-hour": ("AWS/SQS ApproximateAgeOfOldestMessage", [50 * MINUTE], [70 * MINUTE]),
    "lag-6-hours": ("AWS/SQS ApproximateAgeOfOldestMessage", [5 * HOUR], [7 * HOUR]),
    "stream-lag-5-minutes": ("AWS/Lambda IteratorAge", [4 * MINUTE * 1000], [6 * MINUTE * 1000]),
    "stream-lag-1-hour": ("AWS/Lambda IteratorAge", [50 * MINUTE * 1000], [70 * MINUTE * 1000]),
    "stream-lag-6-hours": ("AWS/Lambda IteratorAge", [5 * HOUR * 1000], [7 * HOUR * 1000]),
    "dead-letters-not-empty": ("AWS/SQS ApproximateNumberOfMessagesVisible", [0], [0, 1]),
    "stream-reader-silent": ("AWS/Lambda PolledEventCount", [0, 0], []),
    "schedule-silent": ("AWS/Lambda Invocations", [1, 1, 1], [0]),
    "erasure-silent": ("AWS/Lambda Invocations", [1, 1], [0]),
    "mails-bounce": ("AWS/SES Reputation.BounceRate", [0.02], [0.03]),
    "mails-reported-as-spam": ("AWS/SES Reputation.ComplaintRate", [0.0004], [0.0006]),
}
"""The alarms on metrics of AWS, by the first part of their names.

Each has its metric, the values of a good period, and the values of a bad period.
"""
RATES = {
    "api-5xx": (
        ("AWS/ApiGateway 5xx", "AWS/ApiGateway Count"),
        [(5, 5, 0), (5, 250, 0), (1_000, 60_000, 0), (90, 1_000, 80)],
        [(6, 6, 0), (30, 1_000, 5)],
    ),
    "api-crashes": (
        ("AWS/Lambda Errors", "AWS/Lambda Invocations"),
        [(2, 2, 0), (200, 18_000, 0)],
        [(3, 3, 0), (400, 18_000, 0)],
    ),
}
"""The alarms on a rate of errors: the metrics of errors and of requests, good periods, and bad periods.

A period has a number of errors, of requests, and of errors that are answers "busy".
"""
SLOW = ("slow-copies_reader", "slow-fulfilment", "slow-order_notification")
OWN_ALARMS = {
    *SLOW,
    "fulfilment-stalled",
    "failure-store-not-empty",
    "parked-not-empty",
    "mails-deferred",
    "unmatched-payment",
    "over-refunded",
    "throttling",
    "api-busy",
    "overdue-orders",
    "overdue-lag",
    "archive-mismatch",
}
"""The names of the alarms on metrics that functions of Orderstream emit."""


def alarms() -> dict[str, dict[str, Any]]:
    """Return the properties of each alarm in the template, by the alarm's name without the name of the stack."""
    resources = synth_cache.load_template("orderstream-dev", {"laptop": "true"})["Resources"].values()
    found = [one["Properties"] for one in resources if one["Type"] == "AWS::CloudWatch::Alarm"]
    return {alarm["AlarmName"].removeprefix("orderstream-dev-"): alarm for alarm in found}


def is_raised(alarm: dict[str, Any], values: Sequence[float]) -> bool:
    """Return whether a period with these values raises the alarm."""
    return COMPARISONS[alarm["ComparisonOperator"]](STATISTICS[alarm["Statistic"]](values), alarm["Threshold"])


def raised_by(act: Callable[[], object]) -> set[str]:
    """Run a function. Return the names of the alarms that the metrics in its log lines raise."""
    with capture_metrics() as emitted:
        act()
    values: dict[str, list[float]] = {}
    for line in emitted.lines:
        for directive in line["_aws"]["CloudWatchMetrics"]:
            for name in [metric["Name"] for metric in directive["Metrics"] if [] in directive["Dimensions"]]:
                values.setdefault(name, []).extend(line[name] if isinstance(line[name], list) else [line[name]])
    return {
        name
        for name, alarm in alarms().items()
        if alarm.get("MetricName") in values and is_raised(alarm, values[alarm["MetricName"]])
    }


def measure_backlog() -> object:
    return backlog_metrics.handler({}, None)


# durations ------------------------------------------------------------------------------------------------------------
def test_an_order_without_a_shipment_raises_an_alarm_10_minutes_after_its_payment(harness: ShopHarness) -> None:
    harness.open_shop()
    harness.pay_order(harness.place_order())
    harness.clock_offset = timedelta(minutes=9)
    assert raised_by(measure_backlog) == set()
    harness.clock_offset = timedelta(minutes=11)
    assert raised_by(measure_backlog) == {"fulfilment-stalled"}


def test_an_unpaid_order_raises_an_alarm_5_minutes_after_its_30_minutes_for_the_payment(harness: ShopHarness) -> None:
    harness.open_shop()
    harness.place_order()
    harness.clock_offset = timedelta(minutes=34)
    assert raised_by(measure_backlog) == set()
    harness.clock_offset = timedelta(minutes=36)
    assert raised_by(measure_backlog) == {"overdue-orders"}


def test_a_sent_order_raises_an_alarm_5_minutes_after_its_30_days_for_the_delivery(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order()
    harness.pay_order(order_id)
    harness.process_all()
    harness.dispatch_order(order_id)
    harness.clock_offset = timedelta(days=30, minutes=4)
    assert raised_by(measure_backlog) == set()
    harness.clock_offset = timedelta(days=30, minutes=6)
    assert raised_by(measure_backlog) == {"overdue-orders"}


# counts ---------------------------------------------------------------------------------------------------------------
def test_a_payment_of_an_unknown_order_raises_an_alarm(harness: ShopHarness) -> None:
    harness.open_shop()
    harness.pay_order(harness.place_order())
    assert raised_by(measure_backlog) == set()
    event = payments.ProviderPaymentEvent("evt_9", "pi_9", "nobodys", "succeeded", 2500, "EUR")
    payments.record_payment(harness.shop, event, {"id": "evt_9"})
    assert raised_by(measure_backlog) == {"unmatched-payment"}


def test_money_that_leaves_beyond_what_was_paid_raises_an_alarm(harness: ShopHarness) -> None:
    harness.open_shop()
    harness.pay_order(harness.place_order())
    report_external_refund(harness.shop, "pi_1", 500)
    assert raised_by(harness.process_all) == set()
    report_dispute(harness.shop, "pi_1", "lost")
    assert raised_by(harness.process_all) == {"over-refunded"}


def test_each_kind_of_object_in_the_failure_store_raises_its_alarm(harness: ShopHarness) -> None:
    order_id = create_delivered_order(harness)
    messages = expire_everything(harness)
    assert raised_by(measure_backlog) == set()
    READERS["copies_reader"].handler(
        {"Records": [{"eventID": "unreadable", "dynamodb": {"SequenceNumber": "1"}}]}, None
    )
    assert raised_by(measure_backlog) == {"parked-not-empty"}
    client = clients.client("s3")
    client.put_object(Bucket="failures", Key="aws/lambda/copies/shard/1", Body=b"{}")
    assert raised_by(measure_backlog) == {"parked-not-empty", "failure-store-not-empty"}
    key = archive_key(harness.shop.table.decode(stored_order(harness, order_id)))
    client.put_object(Bucket="archive", Key=key, Body=b'{"items": []}')
    run_archive(*messages)
    assert raised_by(measure_backlog) == {"parked-not-empty", "failure-store-not-empty", "archive-mismatch"}


def test_a_mail_that_ses_refuses_raises_an_alarm_after_an_hour(harness: ShopHarness) -> None:
    harness.open_shop()
    harness.place_order()
    READERS["event_publisher"].handler({"Records": harness.new_records()}, None)
    waiting = harness.take_messages("order_notification")

    def refuse_mail() -> object:
        with fail_calls("sesv2", "SendEmail", "LimitExceededException", "Daily message quota exceeded."):
            return WORKERS["order_notification"].handler({"Records": waiting}, None)

    assert raised_by(refuse_mail) == set()
    waiting = harness.take_deferred_messages("order_notification")
    harness.clock_offset += timedelta(minutes=35)
    assert raised_by(refuse_mail) == set()
    waiting = harness.take_deferred_messages("order_notification")
    assert raised_by(refuse_mail) == {"mails-deferred"}, "a quarter of an hour later"


def test_throttled_requests_raise_an_alarm_if_there_are_more_than_20(harness: ShopHarness) -> None:
    harness.open_shop()
    for key in range(10):
        harness.place_order(str(key), mug=1)
    records = harness.new_records()
    create_shop = clients.create_shop

    def create_shop_without_pauses(table_name: str, **settings: Any) -> ShopContext:
        made = create_shop(table_name, **settings)
        return replace(made, table=replace(made.table, sleep=lambda _: None))

    def update_copies_with(throttles: int) -> object:
        with fail_calls("dynamodb", "PutItem", "ThrottlingException", times=throttles):
            return READERS["copies_reader"].handler({"Records": records}, None)

    with mock.patch.object(clients, "create_shop", create_shop_without_pauses):
        assert raised_by(lambda: update_copies_with(5)) == set()
        assert raised_by(lambda: update_copies_with(40)) == {"throttling"}


# the metrics of AWS ---------------------------------------------------------------------------------------------------
def test_each_alarm_on_a_metric_of_aws_has_its_threshold_in_the_unit_of_the_metric(harness: ShopHarness) -> None:
    found = {name: alarm for name, alarm in alarms().items() if name not in RATES}
    names = {name: next((stem for stem in AWS_METRICS if name.startswith(stem)), "") for name in found}
    assert {name for name, stem in names.items() if not stem} == OWN_ALARMS
    assert set(names.values()) == {*AWS_METRICS, ""}
    wrong = []
    for name, alarm in found.items():
        if stem := names[name]:
            metric, good, bad = AWS_METRICS[stem]
            assert f"{alarm['Namespace']} {alarm['MetricName']}" == metric
            if is_raised(alarm, good) or not is_raised(alarm, bad):
                wrong.append(name)
    assert wrong == []


def test_each_alarm_on_errors_compares_their_rate_and_a_busy_answer_is_no_error(harness: ShopHarness) -> None:
    for name, ((errors, requests), good, bad) in RATES.items():
        alarm = alarms()[name]
        read = {one["Id"]: one["MetricStat"]["Metric"] for one in alarm["Metrics"] if "MetricStat" in one}
        named = {id: f"{metric['Namespace']} {metric['MetricName']}" for id, metric in read.items()}
        assert named == {"errors": errors, "requests": requests} | (
            {"expected": "orderstream-dev BusyAnswers"} if "expected" in named else {}
        )
        (rate,) = (one["Expression"] for one in alarm["Metrics"] if "Expression" in one)
        raised = COMPARISONS[alarm["ComparisonOperator"]]
        assert not any(raised(error_rate(rate, *period), alarm["Threshold"]) for period in good), name
        assert all(raised(error_rate(rate, *period), alarm["Threshold"]) for period in bad), name


def test_each_alarm_is_evaluated_every_5_minutes_but_for_crashes_silence_and_mails(harness: ShopHarness) -> None:
    def period(alarm: dict[str, Any]) -> int:
        (seconds,) = {one["MetricStat"]["Period"] for one in alarm.get("Metrics", ()) if "MetricStat" in one} or {
            alarm.get("Period")
        }
        return int(seconds)

    seconds = {name: period(alarm) * alarm["EvaluationPeriods"] for name, alarm in alarms().items()}
    assert seconds == dict.fromkeys(seconds, 300) | {
        "api-crashes": 60,
        "mails-deferred": 1800,
        **{
            name: 900
            for name in seconds
            if name in SLOW or name.startswith(("stream-reader-silent", "schedule-silent"))
        },
        "erasure-silent": 7200,
        **dict.fromkeys(("mails-bounce", "mails-reported-as-spam"), 3600),
    }
