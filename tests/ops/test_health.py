"""`python -m ops health`: what is not well is found, and said with what to do; what is well is not complained of."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest

from functions import objects, wiring
from functions.model.table import PROJECTED
from local import running
from local.backlog import Lane
from local.engine import REGION
from ops import health, sweep
from ops.__main__ import main
from ops.drift import Drift
from ops.health import HERE, ON_AWS, Line, look
from ops.place import Place
from tests.functions.archiving import deliver
from tests.ops.running import whole_shop
from tests.shopfloor import Shopfloor

READER = "copies-function"


@pytest.fixture
def where(floor: Shopfloor) -> Place:
    """The shop of the test, as a stack would tell of it."""
    deliver(floor)
    resources = {"AWS::Lambda::Function": [READER, "api-function"], "AWS::SQS::Queue": [*_queues(floor)]}

    def client(service: str) -> Any:
        if service == "dynamodb":
            return floor.engine.dynamodb()
        return boto3.client("cloudwatch", region_name=REGION) if service == "cloudwatch" else wiring.client(service)

    outputs = {"TableName": floor.shop.table.name, "FailuresBucket": "failures", "ArchiveBucket": "archive"}
    return Place(outputs, client, lambda kind: resources[kind])


def _queues(floor: Shopfloor) -> list[str]:
    """The queues, one of them with dead letters."""
    sqs = wiring.client("sqs")
    dead = str(sqs.create_queue(QueueName="dead-letters")["QueueUrl"])
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = f'{{"deadLetterTargetArn": "{arn}", "maxReceiveCount": 5}}'
    sqs.set_queue_attributes(QueueUrl=floor.queues["archive"], Attributes={"RedrivePolicy": policy})
    return [floor.queues["archive"], dead]


def measured(metric: str, value: float, namespace: str, at: datetime, **of: str) -> None:
    """CloudWatch knows this."""
    dimensions = [{"Name": name, "Value": text} for name, text in of.items()]
    point: Any = {"MetricName": metric, "Dimensions": dimensions, "Timestamp": at, "Value": value}
    boto3.client("cloudwatch", region_name=REGION).put_metric_data(Namespace=namespace, MetricData=[point])


def index_is_read(where: Place, at: datetime) -> None:
    for index in PROJECTED:
        of = {"TableName": where.outputs["TableName"], "GlobalSecondaryIndexName": index}
        measured("ConsumedReadCapacityUnits", 3, "AWS/DynamoDB", at, **of)


CHECKS = {
    "stream": health.lag,
    "failure store": health.put_aside,
    **dict.fromkeys(("queue", "dead letters"), health.queues),
    **dict.fromkeys(("items", "ttl", "ttl lag"), health.sample),
    "drift": health.drifted,
    "indexes": health.indexes,
}


def lines(where: Place, what: str) -> list[Line]:
    """What is said of that."""
    return [line for line in look(where, [CHECKS[what]], datetime.now(UTC)) if line.what == what]


def test_a_shop_that_is_well_is_told_so(where: Place) -> None:
    now = datetime.now(UTC)
    measured("IteratorAge", 900, "AWS/Lambda", now - timedelta(minutes=2), FunctionName=READER)
    index_is_read(where, now - timedelta(days=2))
    found = list(look(where, ON_AWS, now))
    assert [line for line in found if line.todo] == []
    assert {line.what for line in found} >= {"stream", "failure store", "queues", "dead letters", "items", "indexes"}
    assert f"ok  stream         {READER} is 1 s behind the stream" in map(str, found)


def test_a_reader_that_is_behind_is_told(where: Place) -> None:
    at = datetime.now(UTC) - timedelta(minutes=2)
    measured("IteratorAge", 3_600_000, "AWS/Lambda", at, FunctionName="behind")
    other = Place(where.outputs, where.client, lambda kind: ["behind"] if "Lambda" in kind else where.resources(kind))
    (line,) = lines(other, "stream")
    assert line.says == "behind is 3,600 s behind the stream"
    assert line.todo


def readers(where: Place, *names: str) -> Place:
    return Place(where.outputs, where.client, lambda kind: [*names] if "Lambda" in kind else where.resources(kind))


def test_a_reader_that_is_not_called_while_another_is_is_told(where: Place) -> None:
    now = datetime.now(UTC)
    measured("IteratorAge", 100, "AWS/Lambda", now - timedelta(days=3), FunctionName="off")
    for minute in range(1, 7):
        measured("IteratorAge", 100, "AWS/Lambda", now - timedelta(minutes=minute), FunctionName="on")
    silent, called = lines(readers(where, "off", "on"), "stream")
    assert silent.says == "off was not called in 15 minutes, though the table was written all the time"
    assert "is its mapping off?" in silent.todo
    assert not called.todo


def test_readers_none_of_which_is_called_though_the_table_is_written_are_told(where: Place) -> None:
    now = datetime.now(UTC)
    both = readers(where, "silent one", "silent two")
    for name in both.resources("AWS::Lambda::Function"):
        measured("IteratorAge", 100, "AWS/Lambda", now - timedelta(days=3), FunctionName=name)
    assert [bool(line.todo) for line in lines(both, "stream")] == [False, False], "nothing was written either"
    for minute in range(1, 7):
        at = now - timedelta(minutes=minute)
        measured("ConsumedWriteCapacityUnits", 5, "AWS/DynamoDB", at, TableName=where.outputs["TableName"])
    assert [bool(line.todo) for line in lines(both, "stream")] == [True, True]
    (nobody,) = lines(readers(where, "never called"), "stream")
    assert (nobody.says.partition(",")[0], bool(nobody.todo)) == ("no reader was called in 14 days", True)


def test_what_was_put_aside_and_what_is_dead_is_told(where: Place) -> None:
    objects.put("failures", "parked/copies/1.json", b"{}", "application/json")
    objects.put("failures", "aws/lambda/relay-1/2.json", b"{}", "application/json")
    wiring.client("sqs").send_message(QueueUrl=where.resources("AWS::SQS::Queue")[1], MessageBody="{}")
    (store,), (dead,) = lines(where, "failure store"), lines(where, "dead letters")
    assert (store.says, bool(store.todo)) == ("1 parked, 1 given up by a mapping", True)
    assert (dead.says, bool(dead.todo)) == ("1 in dead-letters", True)
    objects.put("failures", "redriven/parked/copies/1.json", b"{}", "application/json")
    (store,) = lines(where, "failure store")
    assert store.says == "0 parked, 1 given up by a mapping", "what was redriven is not counted"


def test_a_queue_that_fills_is_told(where: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "WAITING", 1)
    for _ in range(2):
        wiring.client("sqs").send_message(QueueUrl=where.resources("AWS::SQS::Queue")[0], MessageBody="{}")
    (line,) = lines(where, "queue")
    assert (line.says, bool(line.todo)) == ("archive: 2 wait, 0 in hand", True)


@pytest.mark.parametrize(
    ("what", "planted"),
    [
        ("ttl", {"ttl": {"N": str(1_795_253_400_000)}}),
        ("ttl lag", {"ttl": {"N": str(1_600_000_000)}}),
        ("items", {"scan": {"B": b"x" * 250_000}}),
    ],
)
def test_an_item_that_is_not_as_it_should_be_is_named(where: Place, what: str, planted: Any) -> None:
    assert not any(line.todo for line in lines(where, what))
    item = {"PK": {"S": "COMMAND#ann#1"}, "SK": {"S": "planted"}, "type": {"S": "Command"}, **planted}
    where.table.client.put_item(TableName=where.table.name, Item=item)
    (line,) = lines(where, what)
    assert "COMMAND#ann#1 / planted" in line.says
    assert line.todo


def test_of_a_large_table_only_a_sample_is_read(where: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "PAGE", 4)
    monkeypatch.setattr(health, "SAMPLE_ITEMS", 6)
    assert len(health.sampled(where.table)) == 6


def test_what_has_drifted_is_told(where: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "DRIFT_PAUSE_SECONDS", 0.01)
    (line,) = lines(where, "drift")
    assert (line.says.split(" in ")[0], line.todo) == ("nothing", "")
    names: Any = {"ProjectionExpression": "PK, SK", "FilterExpression": "#type = :type"}
    names |= {"ExpressionAttributeNames": {"#type": "type"}, "ExpressionAttributeValues": {":type": {"S": "OrderLine"}}}
    (key, _) = where.table.client.scan(TableName=where.table.name, **names)["Items"]
    where.table.client.delete_item(TableName=where.table.name, Key=key)
    (line,) = lines(where, "drift")
    assert line.says.startswith("1 snapshot missing in ")
    assert line.todo


def test_what_nobody_can_read_and_what_changes_all_the_time_is_told(
    where: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "DRIFT_PAUSE_SECONDS", 0.01)

    def some(drift: Drift, number: int) -> None:
        drift.found.passed_over, drift.moving = 2, 1

    monkeypatch.setattr(Drift, "some", some)
    (line,) = lines(where, "drift")
    assert line.says.startswith("2 unreadable, 1 changed whenever looked at in ")
    assert line.todo


def test_a_sample_of_a_table_whose_size_nobody_knows_is_no_more_than_asked_for(
    where: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "size_of", lambda table: 0)
    drift = Drift(where.shop, pause_seconds=0)
    drift.some(10)
    assert 1 <= drift.found.read <= 10 < len(health.sampled(where.table))


def test_an_index_that_nobody_reads_is_told(where: Place) -> None:
    (line,) = lines(where, "indexes")
    assert line.says == "GSI1, GSI2, GSI3 not read in 14 days"
    assert line.todo


def test_what_cannot_be_looked_at_is_a_line_too(where: Place) -> None:
    elsewhere = Place({**where.outputs, "FailuresBucket": "of-nobody"}, where.client, where.resources)
    (line,) = (line for line in look(elsewhere, HERE, datetime.now(UTC)) if line.what == "put_aside")
    assert line.says.startswith("cannot be looked at: ")
    assert line.todo


def test_the_command_ends_with_1_where_something_is_to_be_done(
    floor: Shopfloor, where: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = whole_shop(floor)
    found.stack.names = where.resources
    monkeypatch.setattr(running, "find", lambda: found)
    main(["health"])
    assert capsys.readouterr().out.endswith("All is well.\n")
    objects.put("failures", "parked/copies/1.json", b"{}", "application/json")
    with pytest.raises(SystemExit, match="1 to look at"):
        main(["health"])
    assert "!!  failure store  1 parked" in capsys.readouterr().out


def test_on_this_machine_a_lane_that_is_behind_is_named_with_how_far(where: Place) -> None:
    assert [str(line) for line in health.lanes(where, datetime.now(UTC))] == [
        "ok  lanes          no reader and no queue is behind"
    ]
    slow = [Lane("copies", 340, 12.4), Lane("archive", 3, 1.0)]
    (line,) = health.lanes(replace(where, lanes=lambda: slow), datetime.now(UTC))
    assert line.says == "copies is 12 s behind: 340 wait"
    assert line.todo
