"""`python -m ops health`: every problem is found and reported with an action, and a healthy part gets no complaint."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest

from functions.adapters import object_store
from functions.model.table import INDEX_PROJECTIONS
from functions.runtime import clients
from functions.shop.sellers import replace_seller
from local.laptop import shop_client
from local.world.dynamodb_engine import REGION
from local.world.harness import ShopHarness
from ops.__main__ import main, make_parser
from ops.commands import health
from ops.commands.drift import DriftCheck
from ops.commands.health import AWS_CHECKS, LOCAL_CHECKS, CheckResult, run_checks
from ops.scan import sweep
from ops.targets import ConsumerLag, ShopTarget
from proof.support.actors import HOME_ADDRESS, STAFF, set_shipping_prices, set_tax_rate
from proof.support.archiving import create_delivered_order
from proof.support.operator_shop import fake_shop_with_buckets
from tests.ops.conftest import add_dead_letters, measured

READER, STACK = "copies-function", "orderstream-prod"


@pytest.fixture
def where(harness: ShopHarness) -> ShopTarget:
    """The shop of the test, described as a deployed stack."""
    create_delivered_order(harness)
    queue = harness.queues["archive"]
    queues = [queue, add_dead_letters(queue)]
    resources = {"AWS::Lambda::Function": [READER, "api-function"], "AWS::SQS::Queue": queues}

    def client(service: str) -> Any:
        if service == "dynamodb":
            return harness.engine.dynamodb()
        return CloudWatch() if service == "cloudwatch" else clients.client(service)

    outputs = {
        "StackName": STACK,
        "TableName": harness.shop.table.name,
        "FailuresBucket": "failures",
        "ArchiveBucket": "archive",
    }
    return ShopTarget(outputs, client, lambda kind: resources[kind])


class CloudWatch:
    """Adds percentiles to moto's CloudWatch, which lacks them. The p99 of a single value is this value, the maximum."""

    def __init__(self) -> None:
        self._moto = boto3.client("cloudwatch", region_name=REGION)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._moto, name)

    def get_metric_statistics(self, ExtendedStatistics: Sequence[str] = (), **asked: Any) -> Any:  # noqa: N803
        if not ExtendedStatistics:
            return self._moto.get_metric_statistics(**asked)
        points = self._moto.get_metric_statistics(**asked, Statistics=["Maximum"])["Datapoints"]
        (name,) = ExtendedStatistics
        return {"Datapoints": [{**point, "ExtendedStatistics": {name: point["Maximum"]}} for point in points]}


def index_is_read(where: ShopTarget, at: datetime) -> None:
    for index in INDEX_PROJECTIONS:
        of = {"TableName": where.outputs["TableName"], "GlobalSecondaryIndexName": index}
        measured("ConsumedReadCapacityUnits", 3, "AWS/DynamoDB", at, **of)


CHECKS = {
    "stream": health.check_stream_lag,
    "service level": health.check_service_levels,
    "failure store": health.check_failure_store,
    **dict.fromkeys(("queue", "queues", "dead letters"), health.check_queues),
    **dict.fromkeys(("items", "ttl", "ttl lag"), health.check_sampled_items),
    "drift": health.check_drift,
    "payments": health.check_payments,
    "taxes": health.check_taxes,
    "shipping": health.check_shipping,
    "indexes": health.check_indexes,
}


def lines(where: ShopTarget, what: str) -> list[CheckResult]:
    """Return the results of a check."""
    return [line for line in run_checks(where, [CHECKS[what]], datetime.now(UTC)) if line.subject == what]


def test_a_healthy_shop_is_reported_as_ok(where: ShopTarget) -> None:
    now = datetime.now(UTC)
    set_tax_rate(where.shop, 2000)
    set_shipping_prices(where.shop, EUR=490)
    replace_seller(where.shop, STAFF, HOME_ADDRESS, [])
    measured("IteratorAge", 900, "AWS/Lambda", now - timedelta(minutes=2), FunctionName=READER)
    index_is_read(where, now - timedelta(days=2))
    found = list(run_checks(where, AWS_CHECKS, now))
    assert [line for line in found if line.action] == []
    assert {line.subject for line in found} >= {"stream", "failure store", "queues", "dead letters", "items", "indexes"}
    assert f"ok  stream         {READER} is 1 s behind the stream" in map(str, found)


def test_a_reader_that_lags_is_reported(where: ShopTarget) -> None:
    at = datetime.now(UTC) - timedelta(minutes=2)
    measured("IteratorAge", 3_600_000, "AWS/Lambda", at, FunctionName="behind")
    (line,) = lines(readers(where, "behind"), "stream")
    assert line.status == "behind is 3,600 s behind the stream"
    assert line.action


def test_an_effect_that_is_later_than_its_service_level_is_reported_with_the_reasons(where: ShopTarget) -> None:
    at = datetime.now(UTC) - timedelta(minutes=2)
    (line,) = lines(where, "service level")
    assert (line.status, line.action) == ("no effects in 15 minutes", "")
    measured("Lag", 9_000, STACK, at, function="copies_reader")
    measured("Lag", 10_000, STACK, at, function="fulfilment")
    (line,) = lines(where, "service level")
    assert (line.status, line.action) == (
        "99 of 100 effects are within their level: copy 10 s, invoice and shipment 10 s, mail 60 s",
        "",
    )
    measured("Lag", 75_000, STACK, at, function="order_notification")
    (line,) = lines(where, "service level")
    assert line.status == "mail: one of 100 takes more than 75 s (level: 60 s); the metrics show no reason"
    measured("EffectsFailed", 3, STACK, at, function="order_notification")
    measured("OutOfTime", 2, STACK, at, function="order_notification")
    measured("ThrottlesByResource", 40, STACK, at, resource="GSI2", reason="IndexWriteKeyRangeThroughputExceeded")
    (line,) = lines(where, "service level")
    assert line.status.endswith(
        "; 3 failed attempts, 2 invocations out of time, "
        "40 requests throttled (GSI2: IndexWriteKeyRangeThroughputExceeded)"
    )
    assert "docs/runbooks/slow-effects.md" in line.action


def readers(where: ShopTarget, *names: str) -> ShopTarget:
    return ShopTarget(where.outputs, where.client, lambda kind: [*names] if "Lambda" in kind else where.resources(kind))


def test_a_reader_without_invocations_beside_an_active_one_is_reported(where: ShopTarget) -> None:
    now = datetime.now(UTC)
    measured("IteratorAge", 100, "AWS/Lambda", now - timedelta(days=3), FunctionName="off")
    for minute in range(1, 7):
        measured("IteratorAge", 100, "AWS/Lambda", now - timedelta(minutes=minute), FunctionName="on")
    silent, called = lines(readers(where, "off", "on"), "stream")
    assert silent.status == "off was not invoked in 15 minutes, although the table is written to"
    assert silent.commands == ["aws lambda list-event-source-mappings --function-name off"]
    assert not called.action


def test_readers_without_invocations_during_writes_are_reported(where: ShopTarget) -> None:
    now = datetime.now(UTC)
    both = readers(where, "silent one", "silent two")
    for name in both.resources("AWS::Lambda::Function"):
        measured("IteratorAge", 100, "AWS/Lambda", now - timedelta(days=3), FunctionName=name)
    assert [bool(line.action) for line in lines(both, "stream")] == [False, False], "nothing was written either"
    for minute in range(1, 7):
        at = now - timedelta(minutes=minute)
        measured("ConsumedWriteCapacityUnits", 5, "AWS/DynamoDB", at, TableName=where.outputs["TableName"])
    assert [bool(line.action) for line in lines(both, "stream")] == [True, True]
    (nobody,) = lines(readers(where, "never called"), "stream")
    assert (nobody.status.partition(",")[0], bool(nobody.action)) == ("no reader was invoked in 14 days", True)


def test_parked_records_and_dead_letters_are_reported(where: ShopTarget) -> None:
    object_store.put("failures", "parked/copies_reader/1.json", b"{}", "application/json")
    object_store.put("failures", "aws/lambda/event_publisher-1/2.json", b"{}", "application/json")
    clients.client("sqs").send_message(QueueUrl=where.resources("AWS::SQS::Queue")[1], MessageBody="{}")
    (store,), (dead,) = lines(where, "failure store"), lines(where, "dead letters")
    assert (store.status, bool(store.action)) == ("1 parked, 1 given up by a mapping", True)
    assert (dead.status, bool(dead.action)) == ("1 in dead-letters", True)
    object_store.put("failures", "redriven/parked/copies_reader/1.json", b"{}", "application/json")
    (store,) = lines(where, "failure store")
    assert store.status == "0 parked, 1 given up by a mapping", "redriven documents are not counted"


def test_a_growing_queue_is_reported(where: ShopTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "MAX_WAITING_MESSAGES", 1)
    for _ in range(2):
        clients.client("sqs").send_message(QueueUrl=where.resources("AWS::SQS::Queue")[0], MessageBody="{}")
    (line,) = lines(where, "queue")
    assert (line.status, bool(line.action)) == ("archive: 2 waiting, 0 in flight", True)
    assert lines(where, "queues") == [], "no line may say that the queues are ok"


@pytest.mark.parametrize(
    ("what", "planted"),
    [
        ("ttl", {"ttl": {"N": str(1_795_253_400_000)}}),
        ("ttl lag", {"ttl": {"N": str(1_600_000_000)}}),
        ("items", {"scan": {"B": b"x" * 250_000}}),
    ],
)
def test_an_unexpected_item_is_named(where: ShopTarget, what: str, planted: Any) -> None:
    assert not any(line.action for line in lines(where, what))
    item = {"PK": {"S": "COMMAND#ann#1"}, "SK": {"S": "planted"}, "type": {"S": "Command"}, **planted}
    where.table.client.put_item(TableName=where.table.name, Item=item)
    (line,) = lines(where, what)
    assert "COMMAND#ann#1 / planted" in line.status
    assert line.action


@pytest.mark.parametrize("options", [(), ("--state", "other shop"), ("--stack", "s", "--region", "eu-west-1")])
def test_the_commands_of_a_finding_run_as_printed(where: ShopTarget, options: Sequence[str]) -> None:
    where = replace(where, options=options)
    item = {"PK": {"S": "COMMAND#ann's#1"}, "SK": {"S": "planted"}, "type": {"S": "Command"}}
    where.table.client.put_item(TableName=where.table.name, Item={**item, "scan": {"B": b"x" * 250_000}})
    object_store.put("failures", "parked/copies_reader/1.json", b"{}", "application/json")
    found = [*lines(where, "items"), *lines(where, "failure store")]
    commands = [command for line in found for command in line.commands]
    assert len(commands) == 3
    for command in commands:
        words = shlex.split(command)
        assert make_parser().parse_args(words[words.index("ops") + 1 :]).command in ("query", "failures")


def test_of_a_large_table_only_a_sample_is_read(where: ShopTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "PAGE_SIZE", 4)
    monkeypatch.setattr(health, "SAMPLE_ITEMS", 6)
    assert len(health.sample_items(where.table)) == 6


def test_secrets_that_nobody_stored_are_reported(where: ShopTarget) -> None:
    (line,) = lines(where, "payments")
    assert (line.status, line.action) == ("the shop has no payment provider", "")
    secrets = clients.client("secretsmanager")
    names = ("ProviderSecret", "WebhookSecret")
    arns = {name: str(secrets.create_secret(Name=name, SecretString="random")["ARN"]) for name in names}
    shop = replace(where, outputs={**where.outputs, **arns})
    secrets.put_secret_value(SecretId="ProviderSecret", SecretString="rk_1")
    (line,) = lines(shop, "payments")
    assert (line.status, bool(line.action)) == ("never stored: WebhookSecret", True)
    secrets.put_secret_value(SecretId="WebhookSecret", SecretString="{}")
    (line,) = lines(shop, "payments")
    assert (line.status, line.action) == ("the provider's secrets are stored", "")


def test_a_shop_without_tax_rates_or_seller_is_reported(where: ShopTarget) -> None:
    (line,) = lines(where, "taxes")
    assert (line.status, bool(line.action)) == ("never stored: tax rates, the seller", True)
    set_tax_rate(where.shop, 0)
    (line,) = lines(where, "taxes")
    assert (line.status, bool(line.action)) == ("never stored: the seller", True)
    replace_seller(where.shop, STAFF, HOME_ADDRESS, ["ATU12345675"])
    (line,) = lines(where, "taxes")
    assert (line.status, line.action) == ("tax rates and the seller are stored", "")


def test_a_shop_without_shipping_methods_is_reported(where: ShopTarget) -> None:
    (line,) = lines(where, "shipping")
    assert (line.status, bool(line.action)) == ("never stored: shipping methods; all orders ship for free", True)
    set_shipping_prices(where.shop, EUR=490)
    (line,) = lines(where, "shipping")
    assert (line.status, line.action) == ("shipping methods: standard", "")


def test_drift_is_reported(where: ShopTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "DRIFT_PAUSE_SECONDS", 0.01)
    (line,) = lines(where, "drift")
    assert (line.status.split(" in ")[0], line.action) == ("none", "")
    names: Any = {"ProjectionExpression": "PK, SK", "FilterExpression": "#type = :type"}
    names |= {"ExpressionAttributeNames": {"#type": "type"}, "ExpressionAttributeValues": {":type": {"S": "Sale"}}}
    (key, _) = where.table.client.scan(TableName=where.table.name, **names)["Items"]
    where.table.client.delete_item(TableName=where.table.name, Key=key)
    (line,) = lines(where, "drift")
    assert line.status.startswith("1 snapshot missing in ")
    assert line.action


def test_unreadable_and_constantly_changing_items_are_reported(
    where: ShopTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "DRIFT_PAUSE_SECONDS", 0.01)

    def some(drift: DriftCheck, number: int) -> None:
        drift.sweep_result.passed_over, drift.unstable = 2, 1

    monkeypatch.setattr(DriftCheck, "check_sample", some)
    (line,) = lines(where, "drift")
    assert line.status.startswith("2 unreadable, 1 changed at every check in ")
    assert line.action


def test_a_sample_of_a_table_of_unknown_size_is_not_larger_than_requested(
    where: ShopTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "approximate_item_count", lambda table: 0)
    drift = DriftCheck(where.shop, pause_seconds=0)
    drift.check_sample(10)
    assert 1 <= drift.sweep_result.read <= 10 < len(health.sample_items(where.table))


def test_an_unused_index_is_reported_unless_the_table_is_new(where: ShopTarget) -> None:
    now = datetime.now(UTC)
    (new,) = run_checks(where, [health.check_indexes], now)
    assert (new.status, new.action) == ("not read in 14 days: GSI1, GSI2, GSI3; the table is younger", "")
    (line,) = run_checks(where, [health.check_indexes], now + timedelta(days=15))
    assert line.status == "not read in 14 days: GSI1, GSI2, GSI3"
    assert line.action


def test_a_check_that_fails_is_reported_too(where: ShopTarget) -> None:
    elsewhere = ShopTarget({**where.outputs, "FailuresBucket": "of-nobody"}, where.client, where.resources)
    (line,) = (
        line for line in run_checks(elsewhere, LOCAL_CHECKS, datetime.now(UTC)) if line.subject == "failure store"
    )
    assert line.status.startswith("check failed: ")
    assert line.action


def test_the_command_exits_with_1_if_an_action_is_required(
    harness: ShopHarness, where: ShopTarget, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = fake_shop_with_buckets(harness)
    found.stack.names = where.resources
    monkeypatch.setattr(shop_client, "find", lambda _: found)
    main(["health"])
    assert capsys.readouterr().out.endswith("No problems found.\n")
    object_store.put("failures", "parked/copies_reader/1.json", b"{}", "application/json")
    with pytest.raises(SystemExit, match="1 problem found"):
        main(["health"])
    assert "!!  failure store  1 parked" in capsys.readouterr().out


def test_on_this_machine_a_lane_that_is_behind_is_named_with_how_far(where: ShopTarget) -> None:
    assert [str(line) for line in health.check_local_backlog(where, datetime.now(UTC))] == [
        "ok  backlog        no reader and no queue is behind"
    ]
    at = datetime(2026, 11, 26, 23, 41, 5).astimezone().timestamp()
    slow = [ConsumerLag("copies_reader", 340, 12.4), ConsumerLag("archive", 3, 1.0, returning=2, returns_at=at)]
    line, retries = health.check_local_backlog(replace(where, lanes=lambda: slow), datetime.now(UTC))
    assert line.status == "copies_reader is 12 s behind: 340 waiting"
    assert line.action
    assert "archive: 3 waiting, 2 of them" in retries.status
    assert "23:41:05" in retries.status
