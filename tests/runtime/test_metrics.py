"""Tests metrics of functions: a log line becomes metrics in CloudWatch, without further requests or units."""

import importlib
import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from functions.handlers import backlog_metrics, event_publisher, order_deadlines
from functions.model import metrics as m
from functions.model.entities import STATUS_SHARDS
from functions.model.lambdas import lambda_name
from functions.model.metrics import METRICS
from functions.model.table import ROWS
from functions.runtime import clients, observability
from functions.runtime.metrics_buffer import MetricsBuffer
from functions.runtime.scheduled_jobs import RunIncomplete, ScheduledRun
from functions.runtime.time_limit import MARGIN_SECONDS
from functions.shop import accounts, follows, products, refunds
from local.world.harness import ANN, READERS, STAFF, WORKERS, ShopHarness
from proof.support.alarm_model import EmittedMetrics, capture_metrics
from proof.support.client_faults import WireTap, crash_at, error_reply, fail_calls
from proof.support.lambda_context import FakeContext
from proof.support.synthesized import MODULES


@pytest.fixture
def told() -> Iterator[EmittedMetrics]:
    with capture_metrics() as found:
        yield found


def lines(tally: MetricsBuffer) -> list[Any]:
    return [json.loads(line) for line in tally.emf_lines("shop", 1795253400000)]


# the log line ---------------------------------------------------------------------------------------------------------
def test_a_call_is_one_line_in_cloudwatchs_own_format() -> None:
    tally = MetricsBuffer("copies_reader")
    tally.add_metric(m.READ_UNITS, 2.5)
    tally.add_metric(m.READ_UNITS, 1)
    tally.add_metric(m.PROCESSING_LAG, 40)
    tally.add_metric(m.PROCESSING_LAG, 0)
    tally.add_metric(m.THROTTLES_BY_FUNCTION)
    tally.add_metric(m.ORDERS_PAID)
    (line,) = lines(tally)
    assert line == {
        "_aws": {
            "Timestamp": 1795253400000,
            "CloudWatchMetrics": [
                {
                    "Namespace": "shop",
                    "Dimensions": [["function"]],
                    "Metrics": [{"Name": "ReadUnits", "Unit": "Count"}, {"Name": "Lag", "Unit": "Milliseconds"}],
                },
                {
                    "Namespace": "shop",
                    "Dimensions": [["function"], []],
                    "Metrics": [{"Name": "ThrottlesByFunction", "Unit": "Count"}],
                },
                {"Namespace": "shop", "Dimensions": [[]], "Metrics": [{"Name": "OrdersPaid", "Unit": "Count"}]},
            ],
        },
        "function": "copies_reader",
        "ReadUnits": 3.5,
        "Lag": [40, 0],
        "ThrottlesByFunction": 1,
        "OrdersPaid": 1,
    }


def test_each_currency_is_a_line_of_its_own() -> None:
    tally = MetricsBuffer("event_publisher")
    for currency, total in (("EUR", 1250), ("USD", 990), ("EUR", 50)):
        tally.add_metric(m.REVENUE, total, currency=currency)
    assert [(line["currency"], line["Revenue"]) for line in lines(tally)] == [("EUR", 1300), ("USD", 990)]


def test_more_values_than_a_line_may_hold_are_several_lines() -> None:
    tally = MetricsBuffer("event_publisher")
    tally.add_metric(m.PARKED)
    for lag in range(201):
        tally.add_metric(m.PROCESSING_LAG, lag)
    found = lines(tally)
    assert [len(line["Lag"]) for line in found] == [100, 100, 1]
    assert [lag for line in found for lag in line["Lag"]] == list(range(201))
    assert ["Parked" in line for line in found] == [True, False, False], "parked records are counted once"


def test_a_count_of_zero_is_not_logged_but_a_gauge_of_zero_is() -> None:
    tally = MetricsBuffer("backlog_metrics")
    tally.add_metric(m.PARKED, 0)
    tally.add_metric(m.READ_UNITS, 0)
    assert lines(tally) == []
    tally.add_metric(m.PARKED_WAITING, 0)
    assert [line["ParkedWaiting"] for line in lines(tally)] == [0]


def test_metrics_differ_only_by_few_dimensions_and_each_has_its_name() -> None:
    assert {name for metric in METRICS for name in metric.dimensions} == {"function", "currency", "resource", "reason"}
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    assert not [metric.name for metric in METRICS if metric.is_gauge and (metric.dimensions or metric.keep_each_value)]


# counters -------------------------------------------------------------------------------------------------------------
def test_paid_orders_and_their_revenue_are_counted(harness: ShopHarness, told: EmittedMetrics) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=2)
    harness.pay_order(order_id)
    harness.process_all(times=2)
    assert told.values(m.ORDERS_PAID) == [1, 1], "counted as often as it was published"
    assert told.values(m.REVENUE, currency="EUR") == [2500, 2500]
    assert sum(told.values(m.ORDERS_FULFILLED)) == 1


def test_an_effect_is_accepted_once_and_a_duplicate_as_often_as_it_comes_again(
    harness: ShopHarness, told: EmittedMetrics
) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=1)
    harness.pay_order(order_id)
    accounts.issue_store_credit(harness.shop, STAFF, "k", ANN.id, 700, "EUR")
    follows.follow_product(harness.shop, ANN, "mug")
    harness.process_all()
    told.clear()
    refunds.refund_order(harness.shop, STAFF, "sorry", order_id, 100)
    products.update_product(harness.shop, STAFF, "mug", price=990)
    harness.process_all(("copies_reader", "event_publisher"), times=1)
    for reaction, effects in (("refund", 1), ("order_notification", 2), ("product_alert", 1)):
        assert told.values(m.EFFECTS_ACCEPTED, function=reaction) == [effects], reaction
    told.clear()
    records = [it for it in harness.all_records if it["dynamodb"]["Keys"]["SK"]["S"].startswith(("REFUND", "PRODUCT"))]
    event_publisher.handler({"Records": records}, None)
    for reaction in ("refund", "product_alert"):
        WORKERS[reaction].handler({"Records": harness.take_messages(reaction)}, None)
        assert told.values(m.EFFECTS_ACCEPTED, function=reaction) == [], reaction
        assert told.values(m.EFFECTS_SKIPPED, function=reaction) == [
            len(told.values(m.PROCESSING_LAG, function=reaction))
        ]


def test_failures_and_parked_records_are_counted_by_function(harness: ShopHarness, told: EmittedMetrics) -> None:
    harness.open_shop()
    harness.pay_order(harness.place_order(mug=1))
    event_publisher.handler({"Records": harness.new_records()}, None)
    told.clear()
    batch = [*harness.take_messages("fulfilment"), {"messageId": "bad", "body": "{"}]
    with fail_calls("dynamodb", "TransactWriteItems", "InternalServerError"):
        WORKERS["fulfilment"].handler({"Records": batch}, None)
    assert told.values(m.EFFECTS_FAILED, function="fulfilment") == told.values(m.EFFECTS_FAILED) == [1]
    assert told.values(m.PARKED, function="fulfilment") == [1]
    assert told.values(m.EFFECTS_ACCEPTED, function="fulfilment") == []


def test_the_units_of_a_call_are_those_that_dynamodb_counted(harness: ShopHarness, told: EmittedMetrics) -> None:
    harness.open_shop()
    harness.process_all()
    harness.place_order(mug=1)
    records = harness.new_records()
    told.clear()
    before = clients.capacity_units.totals
    READERS["copies_reader"].handler({"Records": records}, None)
    read, written = (now - then for now, then in zip(clients.capacity_units.totals[:2], before[:2], strict=True))
    found = [sum(told.values(metric, function="copies_reader")) for metric in (m.READ_UNITS, m.WRITE_UNITS)]
    assert found == [read, written]
    assert written > 0


def test_throttled_requests_are_logged_and_counted_by_their_reason(
    harness: ShopHarness, told: EmittedMetrics, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    arn = "arn:aws:dynamodb:eu-central-1:111122223333:table/orders/index/GSI2"
    why = {"reason": "IndexReadKeyRangeThroughputExceeded", "resource": arn}
    event = {"time": harness.now().isoformat(), "group": 1, "groups": STATUS_SHARDS.read}
    reply = error_reply("ThrottlingException", throttlingReasons=[why])
    attempts = 2 * 4  # two lists with one Query each, and three retries of the client
    WireTap(clients.client("dynamodb")).reply_next("Query", *[reply] * attempts)
    with pytest.raises(RunIncomplete):
        order_deadlines.handler(event, None)
    assert told.values(m.THROTTLES_BY_RESOURCE, resource="GSI2", reason=why["reason"]) == [attempts]
    assert told.values(m.THROTTLES_BY_FUNCTION) == [attempts]
    assert told.values(m.THROTTLES_BY_FUNCTION, function="order_deadlines") == [attempts]
    (line,) = [vars(record) for record in caplog.records if record.message == "requests_throttled"]
    found = {name: line[name] for name in ("reason", "resource", "key", "requests")}
    assert found == {**why, "key": "STATUS#SHIPPED#1", "requests": attempts}
    told.clear()
    order_deadlines.handler(event, None)
    assert told.values(m.THROTTLES_BY_FUNCTION) == []


@pytest.mark.parametrize(
    ("partition", "logged"), [("STOCK#mug#001", "STOCK#mug#001"), ("CUSTOMER#ann", "CUSTOMER"), ("LIMIT#ann", "LIMIT")]
)
def test_the_log_of_a_throttled_request_has_the_key_of_a_product_but_not_of_a_customer(
    harness: ShopHarness, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, partition: str, logged: str
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    client = clients.client("dynamodb")

    def handler(event: Any, context: Any) -> None:
        with suppress(client.exceptions.ClientError):
            client.get_item(TableName=harness.shop.table.name, Key={"PK": {"S": partition}, "SK": {"S": "any"}})

    handler.__module__ = "functions.handlers.api"
    WireTap(client).reply_next("GetItem", *[error_reply("ThrottlingException")] * 4)
    observability.instrument_handler(handler)({}, None)
    (line,) = [vars(record) for record in caplog.records if record.message == "requests_throttled"]
    assert line["key"] == logged


def test_a_partition_whose_key_is_logged_identifies_no_customer() -> None:
    templates = {row.templates(index)[0] for row in ROWS for index in ("main", *row.indexes)}
    shared = [one for one in templates if one.prefix.startswith(observability.SHARED_PARTITIONS)]
    assert {one.prefix for one in shared} == {*observability.SHARED_PARTITIONS}
    fields = {name for one in shared for name in one.field_names}
    assert fields == {"code", "part", "open_status", "product_id", "season", "series", "shard"}


def test_how_far_behind_a_reader_is_counts_from_its_oldest_change(harness: ShopHarness, told: EmittedMetrics) -> None:
    harness.open_shop()
    records = harness.new_records()
    records[1]["dynamodb"]["ApproximateCreationDateTime"] -= 60
    told.clear()
    READERS["copies_reader"].handler({"Records": records}, None)
    (lag,) = told.values(m.PROCESSING_LAG, function="copies_reader")
    assert 60_000 <= lag < 70_000


@pytest.mark.parametrize("module", MODULES)
def test_every_function_is_observed_under_its_own_name(module: str, told: EmittedMetrics) -> None:
    handler = importlib.import_module(f"functions.handlers.{module}").handler
    with suppress(Exception):  # no Lambda can process this record, but each measures its age
        handler({"Records": [{"dynamodb": {"ApproximateCreationDateTime": 1}}]}, SimpleNamespace(aws_request_id="one"))
    assert {line["function"] for line in told.lines} == {lambda_name(module)}


def test_a_crashed_invocation_logs_its_metrics_and_the_next_one_starts_empty(
    harness: ShopHarness, told: EmittedMetrics
) -> None:
    harness.open_shop()
    records = harness.new_records()
    told.clear()
    with crash_at("events", "PutEvents"):
        READERS["event_publisher"].handler({"Records": records}, None)
    assert len(told.lines) == 1
    observability.add_metric(m.PARKED)
    assert len(told.lines) == 1, "a metric outside of an invocation is not logged"


# gauges ---------------------------------------------------------------------------------------------------------------
def test_redriven_documents_and_their_marks_are_not_in_the_backlog(harness: ShopHarness, told: EmittedMetrics) -> None:
    keys = (
        "parked/copies_reader/a.json",
        "parked/copies_reader/b.json",
        "parked/mismatch/c.json",
        "aws/lambda/m/1",
        "aws/lambda/m/2",
    )
    for key in (*keys, f"redriven/{keys[0]}", f"redriven/{keys[3]}", "redriven/parked/long/gone.json"):
        clients.client("s3").put_object(Bucket="failures", Key=key, Body=b"{}")
    found = backlog_metrics.handler({}, None)
    nothing_waits = {"UnmatchedPayments": 0, "OrdersStalled": 0, "OverdueOrders": 0, "OverdueLag": 0}
    assert found == {"ParkedWaiting": 1, "ArchiveMismatches": 1, "FailedBatchesWaiting": 1, **nothing_waits}
    assert {name: line[name] for line in told.lines for name in found} == found


def test_an_order_is_stalled_from_ten_minutes_after_its_payment_regardless_of_its_age(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=1)
    harness.clock_offset = timedelta(minutes=20)
    harness.pay_order(order_id)
    harness.clock_offset += timedelta(minutes=9)
    assert backlog_metrics.handler({}, None)["OrdersStalled"] == 0
    harness.clock_offset += timedelta(minutes=2)
    assert backlog_metrics.handler({}, None)["OrdersStalled"] == 1


def test_an_order_is_overdue_from_five_minutes_after_its_time_was_over_until_it_is_moved_on(
    harness: ShopHarness,
) -> None:
    harness.open_shop()
    harness.place_order(mug=1)
    sent = harness.place_order("key-2", mug=1)
    harness.pay_order(sent)
    harness.process_all()
    harness.dispatch_order(sent)

    def overdue(after: timedelta) -> int:
        harness.clock_offset = after
        return backlog_metrics.handler({}, None)["OverdueOrders"]

    assert [overdue(timedelta(minutes=minutes)) for minutes in (34, 36)] == [0, 1], "the order is not paid"
    assert [overdue(timedelta(days=30, minutes=minutes)) for minutes in (4, 6)] == [1, 2], "not confirmed"
    oldest = timedelta(days=30, minutes=6 - 30)
    assert backlog_metrics.handler({}, None)["OverdueLag"] == pytest.approx(
        oldest / timedelta(milliseconds=1), abs=5_000
    )
    harness.lapse(harness.now().isoformat())
    found = backlog_metrics.handler({}, None)
    assert (found["OverdueOrders"], found["OverdueLag"]) == (0, 0)


def test_a_backlog_that_cannot_be_counted_in_time_hides_no_other(harness: ShopHarness, told: EmittedMetrics) -> None:
    harness.open_shop()
    for number in range(8):
        harness.place_order(f"key-{number}", mug=1)
    harness.pay_order(harness.place_order("paid", mug=1))
    harness.clock_offset = timedelta(hours=1)
    context = FakeContext(MARGIN_SECONDS + 3)
    takes = ScheduledRun._handle
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScheduledRun, "_handle", context.spending(1, takes))
        found = backlog_metrics.handler({}, context)
    assert (found["OrdersStalled"], found["OverdueOrders"]) == (1, 3), "the counts are lower bounds"
    assert found["UnmatchedPayments"] == 0
    assert told.values(m.OUT_OF_TIME, function="backlog_metrics") == [1]


def test_a_backlog_that_was_not_looked_at_is_not_reported_as_empty(harness: ShopHarness) -> None:
    harness.open_shop()
    harness.place_order(mug=1)
    harness.clock_offset = timedelta(hours=1)
    found = backlog_metrics.handler({}, FakeContext(MARGIN_SECONDS - 1))
    assert found.keys() & {"OverdueOrders", "OverdueLag"} == set()
