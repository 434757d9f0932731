"""Tests the simulated AWS services: their answers have the codes, the limits and the conditions of AWS."""

from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from functions.adapters import payment_provider
from functions.shop.payment_provider import PaymentProviderUnavailable
from local.event_source_mappings import InvocationFailed, InvocationReturned
from local.world.dynamodb_engine import Engine
from proof.simulation import botocore_clients, lambdas, rotations, wire
from proof.simulation.faults import DAY, HOUR, Strike
from proof.simulation.limits import LIMITS
from proof.simulation.scheduler import ProcessDied, SimulatedProcess, VirtualScheduler
from proof.simulation.services import QUOTA_CODES
from proof.simulation.world import Simulation


@pytest.fixture
def world(engine: Engine) -> Iterator[Simulation]:
    simulation = Simulation(engine, 1)
    simulation.table.listeners.clear()  # these listeners expect items of the shop
    with simulation._patched():
        yield simulation


def error_of(call: Callable[..., Any], **request: Any) -> Any:
    """Send a request that a simulated service must refuse, and return the parsed response with its error."""
    with pytest.raises(ClientError) as raised:
        call(**request)
    return raised.value.response


def strike_all(monkeypatch: pytest.MonkeyPatch, kind: str, share: float) -> None:
    """Let an injected fault of this kind affect every call. `share`: the random number of the fault."""
    send = wire.SimulatedWire._answer

    def answer(self: Any, service: Any, operation: str, request: Any, _: Any) -> Any:
        return send(self, service, operation, request, Strike(kind, "here", share))

    monkeypatch.setattr(wire.SimulatedWire, "_answer", answer)
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=lambda _: None))


PUT: dict[str, Any] = {"Item": {"PK": {"S": "a"}, "SK": {"S": "a"}}}
MAIL: dict[str, Any] = {
    "FromEmailAddress": "shop@example.com",
    "Destination": {"ToAddresses": ["ann@example.com"]},
    "Content": {"Simple": {"Subject": {"Data": "s"}, "Body": {"Text": {"Data": "t"}}}},
    "EmailTags": [{"Name": "effect", "Value": "e"}],
}
EVENT = {"EventBusName": "b", "Source": "s", "DetailType": "t", "Detail": '{"type": "t", "id": "1", "data": {}}'}


def test_dynamodb_cancels_a_transaction_because_of_one_throttled_item(
    world: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = {"Put": {"TableName": world.table.name, **PUT}}
    for share, code in ((0.1, "ThrottlingError"), (0.3, "ProvisionedThroughputExceeded")):
        strike_all(monkeypatch, "throttled", share)
        response = error_of(botocore_clients.client("dynamodb").transact_write_items, TransactItems=[put])
        assert response["Error"]["Code"] == "TransactionCanceledException"
        assert [reason["Code"] for reason in response["CancellationReasons"]] == [code]
        monkeypatch.undo()


def put_of(size: int) -> dict[str, Any]:
    """Return the parameters of a put whose item has `size` bytes, as DynamoDB counts them."""
    return {"Item": {**PUT["Item"], "x": {"S": "x" * (size - len("PKaSKax"))}}}


def transaction_of(sizes: list[int], table: str) -> dict[str, Any]:
    """Return the parameters of a transaction that puts items of these sizes in bytes."""
    puts = [put_of(size) for size in sizes]
    for number, put in enumerate(puts):
        put["Item"]["PK"] = {"S": chr(200 + number)}
    return {"TransactItems": [{"Put": {"TableName": table, **put}} for put in puts]}


def batch_of(count: int) -> list[dict[str, Any]]:
    return [{"PK": {"S": str(number)}, "SK": {"S": "a"}} for number in range(count)]


LIMITED: dict[str, tuple[str, str, str, Callable[[int, str], dict[str, Any]], int]] = {
    "an item": ("dynamodb", "put_item", "ValidationException",
                lambda size, table: {"TableName": table, **put_of(size)}, 400 * 1024),
    "items of a transaction": ("dynamodb", "transact_write_items", "ValidationException",
                               lambda count, table: transaction_of([99] * count, table), 100),
    "an item of a transaction": ("dynamodb", "transact_write_items", "ValidationException",
                                 lambda size, table: transaction_of([size - 1], table), 400 * 1024),
    "bytes of a transaction": ("dynamodb", "transact_write_items", "ValidationException",
                               lambda size, table: transaction_of([size // 16 - 1] * 16, table), 4 * 1024 * 1024),
    "a batch write": ("dynamodb", "batch_write_item", "ValidationException", lambda count, table: {
        "RequestItems": {table: [{"DeleteRequest": {"Key": key}} for key in batch_of(count)]}}, 25),
    "a batch get": ("dynamodb", "batch_get_item", "ValidationException",
                    lambda count, table: {"RequestItems": {table: {"Keys": batch_of(count)}}}, 100),
    "entries of events": ("events", "put_events", "ValidationException",
                          lambda count, _: {"Entries": [EVENT] * count}, 10),
    "bytes of events": ("events", "put_events", "ValidationException",
                        lambda size, _: {"Entries": [{**EVENT, "Detail": EVENT["Detail"] + " " * (
                            size - len(EVENT["Detail"] + "st"))}]}, 1024 * 1024),
    "a message": ("sqs", "send_message", "InvalidParameterValue",
                  lambda size, queue: {"QueueUrl": queue, "MessageBody": "x" * size}, 1024 * 1024),
    "received messages": ("sqs", "receive_message", "InvalidParameterValue", lambda count, queue: {
        "QueueUrl": queue, "MaxNumberOfMessages": count, "VisibilityTimeout": 1}, 10),
    "entries of a batch of messages": (
        "sqs", "change_message_visibility_batch", "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
        lambda count, queue: {"QueueUrl": queue, "Entries": [
            {"Id": str(number), "ReceiptHandle": "r/1", "VisibilityTimeout": 1} for number in range(count)]}, 10),
}  # fmt: skip
"""For each limit: the service, the method, the error, a function that makes a request of this size, and the limit."""


@pytest.mark.parametrize("limit", LIMITED)
def test_a_request_up_to_a_limit_of_aws_is_accepted_and_a_larger_one_is_refused(world: Simulation, limit: str) -> None:
    service, method, code, request, maximum = LIMITED[limit]
    where = world.table.name if service == "dynamodb" else next(iter(world.queues))
    call = getattr(botocore_clients.client(service), method)
    call(**request(maximum, where))
    too_large = request(maximum + (1 if maximum <= 100 else 16), where)
    assert error_of(call, **too_large)["Error"]["Code"] == code


def test_the_limits_are_tested_one_by_one() -> None:
    tested = sorted((service, method.replace("_", "")) for service, method, *_ in LIMITED.values())
    assert tested == sorted((limit.service, limit.operation.lower()) for limit in LIMITS)


def test_an_answer_above_6_mb_is_an_error_of_its_function(world: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = iter((6 * 1024 * 1024 - 2, 6 * 1024 * 1024))
    monkeypatch.setattr(lambdas, "_handler", lambda _: lambda event, context: "x" * next(sizes))
    outcomes = [world.lambdas._run_handler("copies_reader", {}, "here") for _ in range(2)]
    assert isinstance(outcomes[0], InvocationReturned)
    assert outcomes[1] == InvocationFailed("Function.ResponseSizeTooLarge")
    assert world.lambdas._run_handler("copies_reader", {"text": "x" * 6 * 1024 * 1024}, "here") == InvocationFailed(
        "RequestTooLargeException"
    )


# tokens of transactions -----------------------------------------------------------------------------------------------
def test_a_token_executes_its_transaction_once_in_ten_minutes_and_refuses_another(world: Simulation) -> None:
    dynamodb = botocore_clients.client("dynamodb")
    key = {"PK": {"S": "a"}, "SK": {"S": "a"}}

    def add(amount: int) -> dict[str, Any]:
        update = {
            "TableName": world.table.name,
            "Key": key,
            "UpdateExpression": "ADD n :n",
            "ExpressionAttributeValues": {":n": {"N": str(amount)}},
        }
        return {"TransactItems": [{"Update": update}], "ClientRequestToken": "token"}

    def total() -> int:
        return int(dynamodb.get_item(TableName=world.table.name, Key=key)["Item"]["n"]["N"])

    for _ in range(2):
        dynamodb.transact_write_items(**add(1))
    assert total() == 1
    response = error_of(dynamodb.transact_write_items, **add(2))
    assert response["Error"]["Code"] == "IdempotentParameterMismatchException"
    world.tasks.now += 599
    dynamodb.transact_write_items(**add(1))
    assert total() == 1
    world.tasks.now += 1
    dynamodb.transact_write_items(**add(1))
    assert total() == 2


def test_the_token_of_a_transaction_that_is_executed_late_is_refused_until_then(world: Simulation) -> None:
    dynamodb = botocore_clients.client("dynamodb")
    put = {"TableName": world.table.name, "Item": {"PK": {"S": "a"}, "SK": {"S": "a"}}}
    asked: dict[str, Any] = {"TransactItems": [{"Put": put}], "ClientRequestToken": "token"}
    wire: Any = world.wire
    service = wire._services["dynamodb"]
    sent = SimpleNamespace(parsed_body=asked)
    done = service.expect_late("TransactWriteItems", sent)
    response = error_of(dynamodb.transact_write_items, **asked)
    assert response["Error"]["Code"] == "TransactionInProgressException"
    other = {**asked, "ClientRequestToken": "another"}
    dynamodb.transact_write_items(**other)
    done()
    dynamodb.transact_write_items(**asked)


# conditional writes of objects ----------------------------------------------------------------------------------------
def test_refuses_a_conditional_write_while_another_one_is_under_way(
    world: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    put: dict[str, Any] = {"Bucket": "b", "Key": "k", "IfNoneMatch": "*"}
    codes: list[str] = []

    def write(body: bytes) -> None:
        try:
            botocore_clients.client("s3").put_object(Body=body, **put)
        except ClientError as error:
            codes.append(error.response["Error"]["Code"])

    monkeypatch.setattr(world.wire, "_seconds", lambda *_: 0.01)
    for number, after_seconds in enumerate((0.0, 0.0, 5.0)):
        world.tasks.start(SimulatedProcess("writer"), partial(write, str(number).encode()), after_seconds)
    world.tasks.run(world.tasks.now + 10)
    assert codes == ["ConditionalRequestConflict", "PreconditionFailed"]
    assert world.s3.buckets["b"]["k"] == b"0"


# late indexes ---------------------------------------------------------------------------------------------------------
def test_a_late_index_shows_some_items_as_they_are_and_others_as_they_were(
    world: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(number: int, text: str) -> None:
        key = {"PK": {"S": f"i{number}"}, "SK": {"S": "a"}}
        index = {"GSI1PK": {"S": "all"}, "GSI1SK": {"S": str(number)}}
        world.table.call("PutItem", Item={**key, **index, "text": {"S": text}})

    for number in range(9):
        write(number, "old")
    world.tasks.now += 600
    for number in range(9):
        write(number, "new")
    world.tasks.now += 0.1
    strike_all(monkeypatch, "late index", 0.5)
    found = botocore_clients.client("dynamodb").query(
        TableName=world.table.name,
        IndexName="GSI1",
        KeyConditionExpression="#pk = :pk",
        ExpressionAttributeNames={"#pk": "GSI1PK"},
        ExpressionAttributeValues={":pk": {"S": "all"}},
    )["Items"]
    assert {item["text"]["S"] for item in found} == {"old", "new"}


# torn reads -----------------------------------------------------------------------------------------------------------
def test_a_torn_read_shows_some_items_as_they_were_when_it_began(
    world: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(text: str) -> None:
        for number in range(9):
            world.table.call("PutItem", Item={"PK": {"S": f"i{number}"}, "SK": {"S": "a"}, "text": {"S": text}})

    def read() -> None:
        keys = [{"PK": {"S": f"i{number}"}, "SK": {"S": "a"}} for number in range(9)]
        asked = {world.table.name: {"Keys": keys, "ConsistentRead": True}}
        (items,) = botocore_clients.client("dynamodb").batch_get_item(RequestItems=asked)["Responses"].values()
        found.extend(item["text"]["S"] for item in items)

    found: list[str] = []
    write("old")
    strike_all(monkeypatch, "torn read", 0.5)
    world.tasks.start(SimulatedProcess("reader"), read)
    world.tasks.start(SimulatedProcess("writer"), partial(write, "new"), 0.5)
    world.tasks.run(world.tasks.now + 10)
    assert {*found} == {"old", "new"}


# writes that land late ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["lands late", "dies, lands late"])
@pytest.mark.parametrize("is_there", [False, True])
def test_a_write_that_lands_late_is_judged_by_its_condition_when_it_lands(
    world: Simulation, monkeypatch: pytest.MonkeyPatch, kind: str, *, is_there: bool
) -> None:
    """With `is_there`, another process writes the item before the late write lands."""
    gave_up: list[float] = []
    item = {"PK": {"S": "a"}, "SK": {"S": "a"}, "by": {"S": "late"}}

    def write() -> None:
        try:
            botocore_clients.client("dynamodb").put_item(
                TableName=world.table.name, Item=item, ConditionExpression="attribute_not_exists(PK)"
            )
        except (ReadTimeoutError, ProcessDied):
            gave_up.append(world.tasks.now)

    with monkeypatch.context() as patch:
        strike_all(patch, kind, 0.9)
        begun = world.tasks.now
        world.tasks.start(SimulatedProcess("writer", ends_at=begun + 60), write)
        world.tasks.run(begun + 60)
    assert gave_up
    assert world.table.image(("a", "a")) is None
    if is_there:
        world.table.call("PutItem", Item={**item, "by": {"S": "another"}})
    world.tasks.run(begun + 360)
    assert world.table.image(("a", "a")) == {**item, "by": {"S": "another" if is_there else "late"}}


# refused mails --------------------------------------------------------------------------------------------------------
def send_mails(world: Simulation, count: int) -> list[str]:
    """Send this number of mails one after the other, without a pause. Return the error codes of the rejected mails."""
    codes: list[str] = []

    def send() -> None:
        for _ in range(count):
            try:
                botocore_clients.client("sesv2").send_email(**MAIL)
            except ClientError as error:
                codes.append(error.response["Error"]["Code"])

    world.tasks.start(SimulatedProcess("order_notification"), send)
    world.tasks.run(world.tasks.now + 30)
    return codes


def test_ses_takes_14_mails_a_second(world: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.wire, "_seconds", lambda *_: 0.01)
    assert send_mails(world, 15) == ["TooManyRequestsException"]
    world.tasks.now += 1
    assert send_mails(world, 1) == []


def test_ses_takes_its_daily_quota_in_24_hours(world: Simulation) -> None:
    world.ses.daily_quota = 3
    assert len(refused := send_mails(world, 5)) == 2
    assert {*refused} <= {*QUOTA_CODES}
    world.tasks.now += DAY
    assert send_mails(world, 1) == []


# rules that fail ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("fails_seconds", "waiting", "dead_letters"), [(DAY - 60, 1, 0), (DAY + 60, 0, 1)], ids=["for a day", "longer"]
)
def test_a_rule_that_fails_for_more_than_a_day_sends_its_events_to_its_dead_letter_queue(
    world: Simulation, fails_seconds: float, waiting: int, dead_letters: int
) -> None:
    rule = world.template.rules[0]
    (name,) = rule.queues
    world.queues[name].on_message = world.queues[rule.dead_letters[name]].on_message = lambda at: None
    world.bus.failing_until[name] = world.tasks.now + fails_seconds
    event = {"source": next(iter(rule.sources)), "detail-type": next(iter(rule.types)), "detail": {"id": "e"}}
    world.bus.publish(event)
    world.tasks.run(world.tasks.now + 30)
    assert not world.queues[name].messages
    world.tasks.run(world.tasks.now + 2 * DAY)
    assert len(world.queues[name].messages) == waiting
    assert len(world.queues[rule.dead_letters[name]].messages) == dead_letters


def test_no_rule_of_the_stack_loses_an_event_that_it_cannot_deliver(world: Simulation) -> None:
    assert all(rule.dead_letters.keys() == set(rule.queues) for rule in world.template.rules)


# records that kill their function -------------------------------------------------------------------------------------
def test_the_visibility_of_a_message_changes_only_in_flight_by_its_last_receive_and_for_12_hours(
    world: Simulation,
) -> None:
    queue, tasks = world.queues[world.template.queue_of("fulfilment")], world.tasks
    queue.on_message = lambda at: None
    queue.send("{}")
    (message,) = queue.receive(1, 60)
    handle = message.receipt_handle
    assert queue.change_visibility(handle, 12 * HOUR + 1) == "InvalidParameterValue"
    assert queue.change_visibility(handle, 5) is None
    assert queue.receive(1) == []
    tasks.now = message.visible_at
    assert queue.change_visibility(handle, 5) == "MessageNotInflight"
    (again,) = queue.receive(1, 60)
    assert again.receives == 2, "a changed visibility gives no receive back"
    assert queue.change_visibility(handle, 5) == "ReceiptHandleIsInvalid", "it has another handle now"
    queue.delete(again)
    assert queue.change_visibility(again.receipt_handle, 5) == "ReceiptHandleIsInvalid"


def test_a_deadly_record_kills_its_function_after_the_records_before_it(
    world: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled: list[list[str]] = []

    def handle(event: Any, _: Any) -> dict[str, Any]:
        handled.append([record["eventID"] for record in event["Records"]])
        return {}

    monkeypatch.setattr(lambdas, "_handler", lambda _: handle)
    event = {"Records": [{"eventID": id} for id in "abc"]}
    world.lambdas.deadly_until["copies_reader", "b"] = world.tasks.now + 60
    assert world.lambdas._run_handler("copies_reader", event, "here") == InvocationFailed("Died")
    assert isinstance(world.lambdas._run_handler("event_publisher", event, "here"), InvocationReturned)
    world.tasks.now += 60
    assert isinstance(world.lambdas._run_handler("copies_reader", event, "here"), InvocationReturned)
    assert handled == [["a"], ["a", "b", "c"], ["a", "b", "c"]]


# rotated secrets ------------------------------------------------------------------------------------------------------
def send_webhook(world: Simulation, id: str, seconds: float) -> int:
    """Let the provider send a webhook, and run for this time. Return how many webhooks the shop has not accepted."""
    event = {"id": id, "object": "event", "type": "charge.succeeded", "data": {"object": {}}}
    world.provider._start_webhook(event, 0.0, lambda: None)
    world.tasks.run(world.tasks.now + seconds)
    return world.provider.undelivered


def test_a_webhook_with_a_new_secret_is_sent_again_until_the_cache_of_the_old_one_ends(
    world: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotations, "MAX_SWITCH_SECONDS", 0.0)
    assert send_webhook(world, "evt_1", 10) == 0
    world.environment.rotations.begin(rotations.WEBHOOK_SECRET)
    assert send_webhook(world, "evt_2", 10) == 1
    world.tasks.run(world.tasks.now + 900)
    assert world.provider.undelivered == 0
    assert not world.provider.refused_signatures


def test_a_signature_that_is_refused_after_the_caches_ended_is_a_violation(
    world: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.secrets, "write", lambda name, value: None)
    world.environment.rotations.begin(rotations.WEBHOOK_SECRET)
    world.tasks.run(world.tasks.now + 900)
    send_webhook(world, "evt_1", 10)
    assert world.provider.refused_signatures


def test_the_provider_refuses_a_revoked_key_until_the_cache_of_it_ends(
    world: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotations, "MAX_SWITCH_SECONDS", 0.0)
    name = world.environment.rotations.names[rotations.PROVIDER_KEY]
    warm = payment_provider.get_payment_provider("", name)
    world.environment.rotations.begin(rotations.PROVIDER_KEY)
    world.tasks.run(world.tasks.now + 1)
    with pytest.raises(PaymentProviderUnavailable):
        warm.refunds_of("pi_1")
    world.tasks.now += 300
    assert payment_provider.get_payment_provider("", name).refunds_of("pi_1") == []


@pytest.mark.parametrize("dies", [False, True])
def test_calls_of_a_process_run_at_the_same_time_and_die_together(dies: bool) -> None:
    tasks, ended = VirtualScheduler(0.0), list[tuple[str, float]]()

    def call(name: str, seconds: float) -> str:
        tasks.pause(seconds)
        ended.append((name, tasks.now))
        if dies:
            raise ProcessDied
        return name

    def work() -> None:
        try:
            calls = [partial(call, "slow", 3.0), partial(call, "fast", 1.0)]
            ended.append((" ".join(tasks.run_concurrently(calls)), tasks.now))
        except ProcessDied:
            ended.append(("died", tasks.now))

    tasks.start(SimulatedProcess("webhook"), work)
    tasks.run(10.0)
    assert ended == ([("fast", 1.0), ("died", 3.0)] if dies else [("fast", 1.0), ("slow", 3.0), ("slow fast", 3.0)])
