"""Tests each alarm with its runbook: a failure raises the alarm, and the commands of the runbook end it."""

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

import boto3
import pytest
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.sqs.models import sqs_backends

from functions.adapters import webhook_sender
from functions.api.http import context
from functions.dynamodb.errors import Permanent
from functions.handlers import fulfilment_worker, order_notification_worker
from functions.handlers.archive_worker import parse_archive
from functions.handlers.backlog_metrics import handler as measure_backlogs
from functions.handlers.webhook_retries import handler as retry_webhooks
from functions.model import changes
from functions.model.metrics import MetricDefinition
from functions.model.patterns import UNMATCHED_PAYMENTS_BY_DATE
from functions.runtime import clients, environment, secrets
from functions.shop.webhook_deliveries import Answer
from functions.shop.webhooks import ACTIVE_AFTER, create_webhook
from local.world.dynamodb_engine import REGION
from local.world.harness import READERS, STAFF, ShopHarness
from ops import targets
from ops.failures.failure_store import FailureRepository
from proof.support.actors import report_dispute, report_external_refund
from proof.support.alarm_model import (
    STAFF_TOKEN,
    EmittedMetrics,
    alarm_state,
    capture_metrics,
    error_rate,
    run_command,
    runbook_commands,
)
from proof.support.api_variables import VARIABLES
from proof.support.archiving import expire_everything, order_messages, run_archive
from proof.support.client_faults import crash_at, fail_calls
from proof.support.http_client import WEBHOOK_SECRETS, ApiHarness, payment_event, post_webhook
from stacks.alarm_definitions import ALARMS, LAG_LEVELS, AlarmDefinition
from tests.support.handlers import published

SECONDS = dict(LAG_LEVELS)
NO_CODE = base64.b64decode("UEsFBgAAAAAAAAAAAAAAAAAAAAAAAA==")  # an empty zip file
DEAD = {"fulfilment": "fulfilment-dead", "archive": "archive-dead"}


@dataclass
class Scene:
    """A shop in which a failure is planted. `known`: the values of the runbook's placeholders. `trouble`: the faults
    that a deploy removes. `values`: by the name of an AWS metric, a function that returns the metric's values.
    """

    harness: ShopHarness
    told: EmittedMetrics
    trouble: ExitStack
    known: dict[str, str]
    values: dict[str, Callable[[], Sequence[float]]] = field(default_factory=dict)
    statuses: list[int] = field(default_factory=list)
    late: list[dict[str, Any]] = field(default_factory=list)

    def seen(self, alarm: AlarmDefinition) -> Sequence[float]:
        """Return the values of an alarm's metric since the last evaluation. Measure the backlogs before."""
        if isinstance(alarm.metric, MetricDefinition):
            measure_backlogs({}, None)
            return self.told.values(alarm.metric, **({"function": alarm.function} if alarm.function else {}))
        return self.values[alarm.metric]()

    def queue(self, name: str) -> str:
        return str(clients.client("sqs").get_queue_url(QueueName=name)["QueueUrl"])

    def oldest(self, name: str) -> Sequence[float]:
        """Return how long the messages of a queue have waited. As in the metric of SQS, leave out messages that were
        received three times.
        """
        messages = sqs_backends[DEFAULT_ACCOUNT_ID][REGION].queues[name].messages
        untouched = [message for message in messages if message.approximate_receive_count < 3]
        return [self.harness.now().timestamp() - message.sent_timestamp / 1000 for message in untouched]  # type: ignore[operator]

    def off(self, function: str) -> None:
        """Disable the event source mapping of a function."""
        self.create_mapping(function, enabled=False)

    def create_mapping(self, function: str, *, enabled: bool = True) -> None:
        """Create the event source mapping of a function. The mapping's source is a queue instead of the stream."""
        client, source = clients.client("lambda"), clients.client("sqs").create_queue(QueueName=f"{function}-source")
        if function not in [one["FunctionName"] for one in client.list_functions()["Functions"]]:
            role = clients.client("iam").create_role(RoleName=function, AssumeRolePolicyDocument="{}")["Role"]["Arn"]
            code = {"ZipFile": NO_CODE}
            client.create_function(FunctionName=function, Runtime="python3.13", Role=role, Handler="a.b", Code=code)
        made = client.create_event_source_mapping(
            FunctionName=function, EventSourceArn=_arn(source["QueueUrl"]), Enabled=enabled
        )
        self.known["MAPPING"] = made["UUID"]

    @property
    def reads(self) -> bool:
        """Whether the event source mapping is enabled."""
        found = clients.client("lambda").get_event_source_mapping(UUID=self.known["MAPPING"])
        return bool(found["State"] == "Enabled")

    def runs(self, rule: str) -> bool:
        """Return whether the rule of a schedule is enabled."""
        return bool(clients.client("events").describe_rule(Name=rule)["State"] == "ENABLED")

    def waiting(self, name: str) -> int:
        asked = clients.client("sqs").get_queue_attributes(
            QueueUrl=self.queue(name), AttributeNames=["ApproximateNumberOfMessages"]
        )
        return int(asked["Attributes"]["ApproximateNumberOfMessages"])


@pytest.fixture
def scene(harness: ShopHarness, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """An open shop on AWS. Two of its queues and one schedule have dead-letter queues, and its API answers."""
    sqs = clients.client("sqs")
    urls = [runs := sqs.create_queue(QueueName="order_deadlines-dead")["QueueUrl"]]
    queues = sqs_backends[DEFAULT_ACCOUNT_ID][REGION].queues
    queues["order_deadlines-dead"].last_purged_at = None  # SQS allows one purge a minute
    for name, dead in DEAD.items():
        url = sqs.create_queue(QueueName=dead)["QueueUrl"]
        urls += [harness.queues[name], url]
        policy = {"deadLetterTargetArn": _arn(url), "maxReceiveCount": 5}
        sqs.set_queue_attributes(QueueUrl=harness.queues[name], Attributes={"RedrivePolicy": json.dumps(policy)})
    outputs = {"TableName": harness.shop.table.name, "FailuresBucket": "failures", "ArchiveBucket": "archive"}
    outputs["StackName"] = "orderstream-prod"
    resources = {"AWS::SQS::Queue": urls, "AWS::Events::EventBus": ["shop"], "AWS::Lambda::Function": []}
    table = harness.engine.dynamodb()
    there = targets.ShopTarget(
        outputs, lambda name: table if name == "dynamodb" else clients.client(name), lambda kind: resources[kind]
    )
    monkeypatch.setattr(targets, "_find_deployed_target", lambda name, region: there)
    find = FailureRepository.for_target
    # moto reports the length of a queue without a delay
    monkeypatch.setattr(FailureRepository, "for_target", lambda there, **_: find(there))
    figures = _figures("cloudwatch"), _figures("dynamodb"), harness.shop.table.name
    monkeypatch.setattr(targets, "resolve_metrics", lambda args: figures)
    secretsmanager = clients.client("secretsmanager")
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    secretsmanager.create_secret(Name="pepper", SecretString="pepper of the tests")
    secretsmanager.create_secret(Name="webhook", SecretString=json.dumps(WEBHOOK_SECRETS))
    secrets.get_secret.cache_clear()
    environment.load_environment.cache_clear()
    context.shop.cache_clear()
    for rule in ("order_deadlines", "backlog_metrics"):
        clients.client("events").put_rule(Name=rule, ScheduleExpression="rate(1 minute)", State="ENABLED")
    known = {
        "STACK": "orderstream-prod",
        "STAGE": "prod",
        "ORDER_DEADLINES_RULE": "order_deadlines",
        "SCHEDULE_RULE": "backlog_metrics",
        "TABLE": harness.shop.table.name,
        "API": "",
        "STAFF_TOKEN": STAFF_TOKEN,
        "SCHEDULE_DEAD_LETTERS": runs,
        "ARCHIVE_BUCKET": "archive",
        "BUS_NAME": "shop",
        "WEBHOOK_SECRET": "webhook",
        "WHSEC": WEBHOOK_SECRETS["current"],
    }
    harness.open_shop()
    harness.process_all()
    with capture_metrics() as told, ExitStack() as trouble:
        yield Scene(harness, told, trouble, known)
    context.shop.cache_clear()
    secrets.get_secret.cache_clear()


def _figures(service: str, **_: Any) -> Any:
    """Return a CloudWatch client, or a DynamoDB client without Contributor Insights, which the engine lacks."""
    if service == "cloudwatch":
        return boto3.client("cloudwatch", region_name=REGION)
    return SimpleNamespace(describe_contributor_insights=lambda **_: {"ContributorInsightsStatus": "DISABLED"})


def _arn(url: str) -> str:
    found = clients.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return str(found["Attributes"]["QueueArn"])


# failures, each with its repair ---------------------------------------------------------------------------------------
Incident = Iterator[None]
"""A planted failure. At its first yield, the shop is healthy. At its second yield, the alarm's condition holds, and the
test runs the runbook's commands. Then the shop continues by itself: this code does nothing that the commands must do.
The faults of a deploy are in `trouble`, and end with the deploy that the runbook requires.
"""


def standing(scene: Scene, alarm: AlarmDefinition) -> Incident:
    """The mapping of event_publisher was disabled for longer than the stream keeps records. No metric shows it."""
    harness = scene.harness
    order_id = harness.place_order(mug=1)
    yield
    scene.off("event_publisher")
    harness.pay_order(order_id)
    harness.new_records()
    harness.clock_offset += timedelta(minutes=11)
    yield
    assert scene.reads
    harness.process_all()
    assert [image["status"]["S"] for image in _orders(harness)] == ["FULFILLING"]
    assert len(harness.sent_mails()) == 1, "no mail is sent about a status that the order has left"


def lagging(scene: Scene, alarm: AlarmDefinition) -> Incident:
    """The mapping of fulfilment was left disabled. A message had failed at all its deliveries before."""
    harness = scene.harness
    scene.values[alarm.metric] = lambda: scene.oldest("fulfilment")  # type: ignore[index]
    yield
    scene.off("fulfilment")
    for key in ("dead", "waits"):
        harness.pay_order(harness.place_order(key, mug=1), f"evt_{key}", f"pi_{key}")
        READERS["event_publisher"].handler({"Records": harness.new_records()}, None)
        if key == "dead":
            (message,) = harness.take_messages("fulfilment")
            clients.client("sqs").send_message(QueueUrl=scene.queue("fulfilment-dead"), MessageBody=message["body"])
    harness.clock_offset = timedelta(seconds=SECONDS[alarm.name.removeprefix("lag-")] + 60)
    yield
    if scene.reads:
        harness.process_all(("event_publisher",))
    assert {image["status"]["S"] for image in _orders(harness)} == {"FULFILLING"}


def stream_lagging(scene: Scene, alarm: AlarmDefinition) -> Incident:
    """A deploy removed a permission of copies_reader. The batches that its mapping gave up are in the failure store."""
    harness = scene.harness

    def delivered() -> Sequence[float]:
        """Call the reader again with the late records, as its mapping does. Return the records' ages in ms."""
        behind = [harness.now().timestamp() - it["dynamodb"]["ApproximateCreationDateTime"] for it in scene.late]
        scene.late = failing(READERS["copies_reader"].handler({"Records": scene.late}, None), scene.late)
        return [1000 * seconds for seconds in behind]

    scene.values[alarm.metric] = delivered  # type: ignore[index]
    scene.create_mapping("copies_reader")
    yield
    harness.place_order("given up", mug=1)
    given_up(harness.new_records())
    harness.place_order("late", mug=1)
    scene.late = harness.new_records()
    scene.trouble.enter_context(fail_calls("dynamodb", "PutItem", "AccessDeniedException"))
    harness.clock_offset = timedelta(seconds=SECONDS[alarm.name.removeprefix("stream-lag-")] + 60)
    yield
    delivered()
    summaries = [image for image in harness.partition("CUSTOMER#ann") if image["type"]["S"] == "OrderSummary"]
    assert len(summaries) == 2


def given_up_on(scene: Scene, alarm: AlarmDefinition) -> Incident:
    yield
    scene.harness.place_order(mug=1)
    given_up(scene.harness.new_records())
    yield


def parked(scene: Scene, alarm: AlarmDefinition) -> Incident:
    """After a rollback, the older code cannot read items that the newer code wrote."""
    yield
    scene.harness.place_order(mug=1)
    records = scene.harness.new_records()
    older_code = mock.patch.object(changes, "_parse_change", side_effect=Permanent("of a newer version"))
    scene.trouble.enter_context(older_code)
    assert READERS["copies_reader"].handler({"Records": records}, None) == {"batchItemFailures": []}
    yield


def dead_letters(scene: Scene, alarm: AlarmDefinition) -> Incident:
    """A deploy removed a permission. A message failed at all its deliveries, and a run of a schedule failed."""
    harness = scene.harness
    scene.values[alarm.metric] = lambda: [  # type: ignore[index]
        scene.waiting(name) for name in ("fulfilment-dead", "order_deadlines-dead")
    ]
    yield
    order_id = harness.place_order(mug=1)
    harness.pay_order(order_id)
    (message,) = published(harness, "fulfilment")
    scene.trouble.enter_context(fail_calls("dynamodb", "TransactWriteItems", "AccessDeniedException"))
    assert fulfilment_worker.handler({"Records": [message]}, None)["batchItemFailures"]
    clients.client("sqs").send_message(QueueUrl=scene.queue("fulfilment-dead"), MessageBody=message["body"])
    clients.client("sqs").send_message(QueueUrl=scene.queue("order_deadlines-dead"), MessageBody='{"time": "then"}')
    yield
    harness.process_all(("event_publisher",))
    assert [image["status"]["S"] for image in _orders(harness)] == ["FULFILLING"]


def unmatched(scene: Scene, alarm: AlarmDefinition) -> Incident:
    """A payment of an order that does not exist arrives."""
    yield
    answered = post_webhook(ApiHarness(scene.harness.shop), payment_event("nobodys", 2500, payment_id="pi_9"))
    assert answered.body["status"] == "UNMATCHED"
    scene.known |= {"ORDER_ID": "nobodys", "PAYMENT_ID": "pi_9"}
    yield
    scene.harness.process_all()
    assert scene.harness.shop.table.query(UNMATCHED_PAYMENTS_BY_DATE, open_status="UNMATCHED").items == ()


def unaccepting(scene: Scene, alarm: AlarmDefinition) -> Incident:
    """The receiver of a webhook is down for more than three days. Then it is there again."""
    harness, send = scene.harness, scene.trouble.enter_context(mock.patch.object(webhook_sender, "send"))
    send.return_value = Answer(None, "no answer", 1)
    made = create_webhook(harness.shop, STAFF, "k", "http://127.0.0.1:9/", ["OrderPlaced"], {})
    scene.known["WEBHOOK_ID"] = str(made.result["webhook_id"])
    harness.clock_offset += ACTIVE_AFTER
    harness.place_order(mug=1)
    harness.process_all()
    yield
    for _ in range(5):
        harness.clock_offset += timedelta(hours=20)
        retry_webhooks({}, None)
    yield
    send.return_value = Answer(204, None, 1)
    assert retry_webhooks({}, None)["sent"] == 1


def over_refunding(scene: Scene, alarm: AlarmDefinition) -> Incident:
    """A person refunds a payment at the provider, and then the shop loses a dispute of the same payment."""
    harness = scene.harness
    order_id = harness.place_order(mug=1)
    harness.pay_order(order_id)
    report_external_refund(harness.shop, "pi_1", 500)
    harness.process_all()
    yield
    report_dispute(harness.shop, "pi_1", "lost")
    scene.known["ORDER_ID"] = order_id
    harness.process_all()
    yield
    harness.process_all()


def faulty_api(scene: Scene, alarm: AlarmDefinition) -> Incident:
    """The webhook's secret was stored as plain text instead of JSON, so the API cannot check webhooks."""
    harness, api = scene.harness, ApiHarness(scene.harness.shop)
    order_id = harness.place_order(mug=1)
    assert alarm.rate
    rate = partial(error_rate, alarm.rate.expression, requests=20)
    scene.values[alarm.metric] = lambda: [rate(sum(status >= 500 for status in scene.statuses))]  # type: ignore[index]

    def webhook() -> None:
        scene.statuses.append(post_webhook(api, payment_event(order_id, 1250)).status)

    yield
    clients.client("secretsmanager").put_secret_value(SecretId="webhook", SecretString="whsec_as_it_is")
    secrets.get_secret.cache_clear()
    for _ in range(6):
        webhook()
    yield
    secrets.get_secret.cache_clear()
    scene.statuses.clear()
    webhook()
    assert [image["status"]["S"] for image in _orders(harness)] == ["PAID"]


def crashing(scene: Scene, alarm: AlarmDefinition) -> Incident:
    """A deploy removed an environment variable of all functions. The API fails at each call, and answers nothing."""
    harness, crashed = scene.harness, list[float]()
    api = ApiHarness(harness.shop)
    assert alarm.rate
    rate = partial(error_rate, alarm.rate.expression, requests=20)
    scene.values[alarm.metric] = lambda: [rate(sum(crashed))]  # type: ignore[index]

    def call() -> None:
        environment.load_environment.cache_clear()
        try:
            assert api.call("GET", "/products").status == 200
            crashed.append(0)
        except KeyError:
            crashed.append(1)

    call()
    yield
    without = scene.trouble.enter_context(pytest.MonkeyPatch.context())
    without.delenv("METRICS_NAMESPACE")
    for _ in range(3):
        call()
    yield
    crashed.clear()
    for _ in range(3):
        call()


def throttled(scene: Scene, alarm: AlarmDefinition) -> Incident:
    """The table's maximum units are too low, so it rejects the writes of copies for longer than their retries last."""
    harness = scene.harness
    harness.pass_time_while_sleeping()
    yield
    for number in range(4):
        harness.place_order(str(number), mug=1)
    records = harness.new_records()
    scene.trouble.enter_context(fail_calls("dynamodb", "PutItem", "ThrottlingException"))
    scene.late = failing(READERS["copies_reader"].handler({"Records": records}, None), records)
    assert scene.late
    given_up(scene.late)
    yield
    assert not failing(READERS["copies_reader"].handler({"Records": scene.late}, None), scene.late)


def busy(scene: Scene, alarm: AlarmDefinition) -> Incident:
    """The table's maximum units are too low, so it rejects orders for longer than their retries last."""
    scene.harness.pass_time_while_sleeping()
    context.shop.cache_clear()
    api = ApiHarness(scene.harness.shop)
    assert api.place_order("first").status == 201
    yield
    scene.trouble.enter_context(fail_calls("dynamodb", "TransactWriteItems", "ThrottlingException"))
    assert {api.place_order(str(number)).problem_type for number in range(21)} == {"busy"}
    given_up(scene.harness.new_records())
    yield
    assert api.place_order("0").status == 201


def not_lapsing(scene: Scene, alarm: AlarmDefinition) -> Incident:
    """The schedule of order_deadlines was disabled: no run fails, because no run starts."""
    harness = scene.harness
    yield
    harness.place_order(mug=1)
    clients.client("events").disable_rule(Name="order_deadlines")
    harness.clock_offset += timedelta(minutes=50)
    clients.client("sqs").send_message(QueueUrl=scene.queue("order_deadlines-dead"), MessageBody='{"time": "then"}')
    yield
    if scene.runs("order_deadlines"):
        harness.lapse(harness.now().isoformat())
    assert [image["status"]["S"] for image in _orders(harness)] == ["LAPSED"]
    assert scene.waiting("order_deadlines-dead") == 0


def not_reading(scene: Scene, alarm: AlarmDefinition) -> Incident:
    """The mapping of copies_reader was disabled. It writes no age of a record, so no alarm on the lag is raised."""
    scene.values[alarm.metric] = lambda: [0.0] if "MAPPING" not in scene.known or scene.reads else []  # type: ignore[index]
    yield
    scene.off("copies_reader")
    scene.harness.place_order(mug=1)
    yield
    scene.harness.process_all()
    assert [image for image in scene.harness.partition("CUSTOMER#ann") if image["type"]["S"] == "OrderSummary"]


def unscheduled(scene: Scene, alarm: AlarmDefinition) -> Incident:
    """The schedule of a function was disabled. So no alarm on the gauges of backlog_metrics is raised or ends."""

    def invoked() -> Sequence[float]:
        """Return one value for each run in the period of the alarm."""
        if not scene.runs("backlog_metrics"):
            return ()
        return [1.0 for _ in range(3) if measure_backlogs({}, None)]

    scene.values[alarm.metric] = invoked  # type: ignore[index]
    yield
    clients.client("events").disable_rule(Name="backlog_metrics")
    yield


def mismatching(scene: Scene, alarm: AlarmDefinition) -> Incident:
    """The archive dies after it wrote the S3 object. Then another process writes an item of the order."""
    harness = scene.harness
    yield
    order_id = harness.place_order(mug=1)
    harness.pay_order(order_id)
    harness.process_all()
    harness.dispatch_order(order_id)
    harness.deliver_order(order_id)
    harness.process_all()
    (message,) = order_messages(expire_everything(harness))
    with crash_at("s3", "PutObject"):
        run_archive(message)
    ((key, written),) = harness.objects("archive").items()
    payment = next(it for it in harness.partition(f"ORDER#{order_id}") if it["type"]["S"] == "Payment")
    mended = payment | {"reason": {"S": "checked by hand"}}
    harness.shop.table.client.put_item(TableName=harness.shop.table.name, Item=mended)
    assert run_archive(message) == []
    assert mended in harness.partition(f"ORDER#{order_id}"), "nothing is deleted"
    scene.known["OBJECT"] = key
    yield
    harness.process_all()
    body = harness.objects("archive")[key]
    assert body != written
    assert mended in parse_archive(body)


def slow(scene: Scene, alarm: AlarmDefinition) -> Incident:
    """The mapping of the Lambda was disabled for some minutes. The waiting messages are processed, but late."""
    harness, late = scene.harness, timedelta(minutes=3)
    harness.pay_order(harness.place_order("good", mug=1), "evt_good", "pi_good")
    harness.process_all()
    yield
    scene.off(alarm.function)
    harness.pay_order(harness.place_order("late", mug=1), "evt_late", "pi_late")
    records = harness.new_records()
    if alarm.function == "copies_reader":
        for record in records:
            record["dynamodb"]["ApproximateCreationDateTime"] -= late.total_seconds()
    READERS["copies_reader"].handler({"Records": records}, None)
    if alarm.function != "copies_reader":
        READERS["event_publisher"].handler({"Records": records}, None)
        harness.clock_offset += late
        harness.process_all()
    yield
    assert scene.reads
    harness.pay_order(harness.place_order("again", mug=1), "evt_again", "pi_again")
    harness.process_all()


def refused(scene: Scene, alarm: AlarmDefinition) -> Incident:
    """A deploy changed the sender to an address that SES has not verified."""
    harness = scene.harness
    harness.pass_time_while_sleeping()
    harness.place_order("good", mug=1)
    harness.process_all()
    yield
    harness.place_order("late", mug=1)
    waiting = published(harness, "order_notification")
    scene.trouble.enter_context(fail_calls("sesv2", "SendEmail", "MessageRejected", "Email address is not verified."))
    for _ in range(8):
        assert order_notification_worker.handler({"Records": waiting}, None) == {"batchItemFailures": []}
        waiting = harness.take_deferred_messages("order_notification")
    scene.late = waiting
    yield
    assert order_notification_worker.handler({"Records": scene.late}, None) == {"batchItemFailures": []}
    assert len(harness.sent_mails()) == 2


def bouncing(scene: Scene, alarm: AlarmDefinition) -> Incident:
    """An import added e-mail addresses that do not exist. The bounce rate falls some time after mails to them stop."""
    assert alarm.above
    rates = [alarm.above / 2, 2 * alarm.above, alarm.above / 2]
    scene.values[alarm.metric] = lambda: [rates[0]]  # type: ignore[index]
    scene.off("product_alert")
    yield
    rates.pop(0)
    yield
    assert scene.reads
    rates.pop(0)


INCIDENTS: Mapping[str, Callable[[Scene, AlarmDefinition], Incident]] = {
    "fulfilment-stalled": standing,
    "lag": lagging,
    "stream-lag": stream_lagging,
    "slow-effects": slow,
    "failure-store-not-empty": given_up_on,
    "parked-not-empty": parked,
    "dead-letters-not-empty": dead_letters,
    "mails-deferred": refused,
    "unmatched-payment": unmatched,
    "over-refunded": over_refunding,
    "webhook-paused": unaccepting,
    "api-5xx": faulty_api,
    "api-crashes": crashing,
    "api-busy": busy,
    "throttling": throttled,
    "overdue-orders": not_lapsing,
    "archive-mismatch": mismatching,
    "stream-reader-silent": not_reading,
    "schedule-silent": unscheduled,
    "mail-reputation": bouncing,
}
"""The failures by runbook, or by alarm if several alarms with different failures share a runbook."""
HIGHER_LEVELS = ("-1-hour", "-6-hours")


@pytest.mark.parametrize(
    "alarm",
    [pytest.param(it, id=it.name, marks=[pytest.mark.slow] * it.name.endswith(HIGHER_LEVELS)) for it in ALARMS],
)
def test_an_alarm_is_raised_by_its_condition_and_over_once_its_runbooks_commands_are_typed(
    alarm: AlarmDefinition, scene: Scene
) -> None:
    incident = INCIDENTS.get(alarm.name, INCIDENTS[alarm.runbook])(scene, alarm)
    next(incident)
    now = alarm_state(alarm, scene.seen(alarm))
    assert now == "OK"
    scene.told.clear()
    next(incident)
    now = alarm_state(alarm, scene.seen(alarm), now)
    assert now == "ALARM", "the alarm is raised before the commands run"
    scene.told.clear()
    assert not alarm.is_level or alarm_state(alarm, [], now) == "ALARM", (
        "an alarm without a new evaluation keeps its state"
    )
    for command in runbook_commands(alarm.runbook_path):
        run_command(command, scene.known, deploy=scene.trouble.close)
    next(incident, None)
    assert alarm_state(alarm, scene.seen(alarm), now) == "OK"


def given_up(records: Sequence[Mapping[str, Any]]) -> None:
    """Store a batch that the mapping of copies_reader gave up, as Lambda does."""
    told = {"functionArn": "arn:aws:lambda:eu-central-1:1:function:copies", "condition": "RetryAttemptsExhausted"}
    document = {"requestContext": told, "payload": json.dumps({"Records": [*records]})}
    key = "aws/lambda/copies_reader-mapping/shard/2026/11/21/1"
    clients.client("s3").put_object(Bucket="failures", Key=key, Body=json.dumps(document).encode())


def failing(answer: Mapping[str, Any], records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the records that the mapping sends again: from the first record that the reader reports as failed."""
    numbers = [one["itemIdentifier"] for one in answer["batchItemFailures"]]
    return [it for it in records if numbers and int(it["dynamodb"]["SequenceNumber"]) >= int(min(numbers, key=int))]


def _orders(harness: ShopHarness) -> list[dict[str, Any]]:
    found = harness.shop.table.client.scan(TableName=harness.shop.table.name, ConsistentRead=True)["Items"]
    return [image for image in found if image["type"]["S"] == "Order"]
