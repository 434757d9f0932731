"""Tests `python -m ops failures`: it processes failed records again, in order for each item, and is safe to repeat."""

import copy
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest

from functions.adapters.event_bus import make_publisher
from functions.dynamodb.errors import Permanent
from functions.handlers import customer_erasure, event_publisher, fulfilment_worker
from functions.model import changes
from functions.model.patterns import AUDIT_OF_ITEM
from functions.model.retention import MAX_REPLAY_AGE_DAYS
from functions.runtime import clients, dead_letters
from functions.shop import customers
from functions.shop.erasure import erase_customer
from functions.shop.shop import Caller
from local.world.harness import READERS, ShopHarness
from ops import targets
from ops.__main__ import main
from ops.failures import failure_store as tool
from ops.failures import redrive as redrives
from ops.failures.failure_store import FailureEntry, FailureRepository
from ops.failures.redrive import RedriveResult
from ops.repair import rebuild
from ops.targets import ShopTarget
from proof.support.client_faults import crash_at, fail_calls, record_calls
from proof.support.examples import many
from tests.ops.conftest import add_dead_letters
from tests.ops.test_rebuild import delivered_in_part_returned, derived, is_as_the_reader_makes_it

WITH_DEAD_LETTERS = ("fulfilment", "order_notification")


@pytest.fixture
def store(harness: ShopHarness) -> FailureRepository:
    """The failure repository of this shop. Two of its queues have dead-letter queues."""
    urls: list[str] = []
    for name in WITH_DEAD_LETTERS:
        urls += [harness.queues[name], add_dead_letters(harness.queues[name], f"{name}-dead")]
    return FailureRepository(clients.client("s3"), clients.client("sqs"), "failures", urls)


def arn_of(url: str) -> str:
    found = clients.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return str(found["Attributes"]["QueueArn"])


def redrive(harness: ShopHarness, store: FailureRepository, *keys: str, **settings: Any) -> RedriveResult:
    """Redrive the failures with these keys, by default all failures that were not redriven before."""

    def chosen(entry: FailureEntry) -> bool:
        return entry.key in keys if keys else not entry.redriven

    return redrives.redrive_entries(
        store,
        harness.shop,
        make_publisher(harness.shop.table.new_backoff, clients.client("events"), "shop"),
        chosen,
        **settings,
    )


@contextmanager
def older_code() -> Iterator[None]:
    """Make all records unreadable."""
    with mock.patch.object(changes, "_parse_change", side_effect=Permanent("of a newer version")):
        yield


def parked(harness: ShopHarness, *records: Any) -> list[str]:
    """Let both stream readers park these records. Return the keys in the failure store."""
    with older_code():
        for reader in READERS.values():
            assert reader.handler({"Records": [*records]}, None) == {"batchItemFailures": []}
    return list(harness.objects("failures"))


def give_up(*batches: Sequence[Any], whose: str = "copies_reader") -> list[str]:
    """Store batches that a mapping gave up, as Lambda does. Return their keys."""
    keys = [f"aws/lambda/{whose}-mapping/shard/2026/11/21/{number}" for number, _ in enumerate(batches)]
    context = {"functionArn": f"arn:aws:lambda:eu-central-1:1:function:{whose}", "condition": "RetryAttemptsExhausted"}
    for key, records in zip(keys, batches, strict=True):
        document = {"requestContext": context, "payload": json.dumps({"Records": [*records]})}
        clients.client("s3").put_object(Bucket="failures", Key=key, Body=json.dumps(document).encode())
    return keys


def marks(harness: ShopHarness) -> set[str]:
    return {key.removeprefix("redriven/") for key in harness.objects("failures") if key.startswith("redriven/")}


def dead_letter(harness: ShopHarness, name: str) -> list[dict[str, Any]]:
    """Move all messages of a queue to its dead-letter queue. Return the messages."""
    messages = harness.take_messages(name)
    for message in messages:
        send_dead(message["body"], name)
    return messages


def published_paid_order(harness: ShopHarness) -> str:
    """Create a paid order whose events are in the queues. Return its id."""
    harness.open_shop()
    order_id = harness.place_order("one", mug=1)
    harness.pay_order(order_id)
    event_publisher.handler({"Records": harness.new_records()}, None)
    return order_id


def has_each_effect_once(harness: ShopHarness, order_id: str) -> None:
    harness.process_all()
    kinds = [image["type"]["S"] for image in harness.partition(f"ORDER#{order_id}")]
    assert (kinds.count("Invoice"), kinds.count("Shipment")) == (1, 1)
    assert len(harness.sent_mails()) == 2


def send_dead(body: str, name: str = "order_notification") -> None:
    """Send a message to the dead-letter queue of a queue."""
    sqs = clients.client("sqs")
    sqs.send_message(QueueUrl=sqs.get_queue_url(QueueName=f"{name}-dead")["QueueUrl"], MessageBody=body)


def told(harness: ShopHarness, queue: str) -> list[tuple[str, int]]:
    """Return the type and the version of each event in a queue."""
    details = [json.loads(message["body"])["detail"] for message in harness.take_messages(queue)]
    return [(detail["type"], detail["version"]) for detail in details]


# stream records -------------------------------------------------------------------------------------------------------
def test_a_record_parked_by_both_readers_is_redriven_once_newer_code_can_read_it(
    harness: ShopHarness, store: FailureRepository
) -> None:
    harness.open_shop()
    harness.new_records()
    order_id = harness.place_order("one", mug=2)
    harness.pay_order(order_id)
    records = harness.new_records()
    keys = parked(harness, *records)
    assert derived(harness) == []

    with older_code():
        assert redrive(harness, store).rejected.keys() == {*keys}
    assert marks(harness) == set()
    found = redrive(harness, store)
    assert ({*found.done}, found.rejected, found.retryable) == ({*keys}, {}, {})
    assert sorted(told(harness, "order_notification")) == [("OrderPaid", 2), ("OrderPlaced", 1)]

    assert is_as_the_reader_makes_it(harness, derived(harness), records)


def test_parts_of_a_bisected_batch_are_redriven_in_the_order_of_their_items(
    harness: ShopHarness, store: FailureRepository
) -> None:
    delivered_in_part_returned(harness)
    assert derived(harness) == []
    records = list(harness.all_records)
    give_up(records[1::2], records[::2])
    published: list[Any] = []
    with mock.patch.object(rebuild, "redrive_record", lambda shop, publish, record: published.append(record)):
        redrives.redrive_entries(store, harness.shop, lambda details: None, lambda entry: True, dry=False)
    numbers = [int(record["dynamodb"]["SequenceNumber"]) for record in published]
    assert numbers == sorted({int(record["dynamodb"]["SequenceNumber"]) for record in records})
    for key in marks(harness):
        clients.client("s3").delete_object(Bucket="failures", Key=f"redriven/{key}")

    assert len(redrive(harness, store).done) == 2
    assert is_as_the_reader_makes_it(harness, derived(harness), records)


def test_a_redriven_document_is_redriven_again_only_if_it_is_named(
    harness: ShopHarness, store: FailureRepository
) -> None:
    harness.open_shop()
    harness.place_order("one", mug=1)
    (key,) = give_up(harness.new_records())
    assert redrive(harness, store).done == [key]
    harness.new_records()
    harness.take_messages("order_notification")
    assert redrive(harness, store) == RedriveResult()
    before = harness.objects("failures")
    assert redrive(harness, store, key).done == [key]
    assert harness.objects("failures") == before, "the mark names the first redrive"
    assert harness.new_records() == [], "existing items are not written again"
    assert told(harness, "order_notification") == [("OrderPlaced", 1)], "a repeated event has the same id"


def test_a_record_in_two_documents_is_worked_once_and_both_are_done(
    harness: ShopHarness, store: FailureRepository
) -> None:
    harness.open_shop()
    harness.new_records()
    harness.place_order("one", mug=1)
    records = harness.new_records()
    keys = {*give_up(records), *give_up(records, whose="event_publisher")}
    assert {*redrive(harness, store).done} == keys == marks(harness)
    assert told(harness, "order_notification") == [("OrderPlaced", 1)]


def test_a_document_with_an_unreadable_record_stays_and_its_other_records_are_redriven(
    harness: ShopHarness, store: FailureRepository
) -> None:
    harness.open_shop()
    order_id = harness.place_order("one", mug=1)
    harness.pay_order(order_id)
    records = copy.deepcopy(harness.new_records())
    spoiled = next(one for one in records if one["dynamodb"]["Keys"]["SK"] == {"S": "ORDER"})
    spoiled["dynamodb"]["NewImage"]["version"] = {"S": "one"}
    (key,) = give_up(records)
    found = redrive(harness, store)
    assert found.done == []
    assert found.rejected[key].startswith("Unreadable: Order")
    assert ("OrderPaid", 2) in told(harness, "order_notification")
    assert marks(harness) == set()


def test_a_temporary_failure_delays_later_records_of_its_item_and_no_others(
    harness: ShopHarness, store: FailureRepository
) -> None:
    harness.open_shop()
    harness.new_records()
    first = harness.place_order("one", mug=1)
    harness.pay_order(first)
    harness.place_order("two", pot=1)
    records = [one for one in harness.new_records() if one["dynamodb"]["Keys"]["SK"] == {"S": "ORDER"}]
    keys = give_up(*([one] for one in records))
    publish, down = make_publisher(harness.shop.table.new_backoff, clients.client("events"), "shop"), [True]

    def stumbling(details: Any) -> None:
        if down and details[0]["data"]["order_id"] == first:
            raise ConnectionError(down.pop())
        publish(details)

    found = redrives.redrive_entries(store, harness.shop, stumbling, lambda entry: True)
    assert {*found.retryable} == {*keys[:2]}
    assert found.done == [keys[2]]
    assert told(harness, "order_notification") == [("OrderPlaced", 1)]
    assert {*redrive(harness, store).done} == {*keys[:2]}
    assert sorted(told(harness, "order_notification")) == [("OrderPaid", 2), ("OrderPlaced", 1)]


@pytest.mark.thorough
@pytest.mark.parametrize("call", range(1, 8, many(1, 3)))
@pytest.mark.parametrize(("service", "operation"), [("events", "PutEvents"), ("s3", "PutObject")])
def test_after_a_crash_the_next_run_reaches_the_same_result(
    harness: ShopHarness, store: FailureRepository, service: str, operation: str, call: int
) -> None:
    order_id = delivered_in_part_returned(harness)
    records = [one for one in harness.all_records if changes.parse_change(one)]
    give_up(*([one] for one in records))
    with crash_at(service, operation, "after", call):
        redrive(harness, store)
    redrive(harness, store)
    assert len(marks(harness)) == len(records)
    harness.process_all(readers=("event_publisher",))
    assert is_as_the_reader_makes_it(harness, derived(harness), harness.all_records)
    subjects = [mail.subject for mail in harness.sent_mails()]
    assert len(subjects) == len({*subjects}) > 3, "no mail is sent again"
    kinds = [image["type"]["S"] for image in harness.partition(f"ORDER#{order_id}")]
    assert (kinds.count("Invoice"), kinds.count("Shipment")) == (2, 1), "an invoice and a credit note"


def test_a_document_older_than_the_replay_limit_is_rejected(harness: ShopHarness, store: FailureRepository) -> None:
    harness.open_shop()
    harness.place_order("one", mug=1)
    (key,) = give_up(harness.new_records())
    harness.clock_offset = timedelta(days=MAX_REPLAY_AGE_DAYS + 1)
    assert "its effect could be repeated" in redrive(harness, store).rejected[key]
    assert marks(harness) == set()
    harness.clock_offset = timedelta(days=MAX_REPLAY_AGE_DAYS - 1)
    assert redrive(harness, store).done == [key]


def test_foreign_documents_are_named_and_block_no_other(harness: ShopHarness, store: FailureRepository) -> None:
    harness.open_shop()
    (sound,) = give_up(harness.new_records())
    bodies = {"0": b"", "1": b"[]", "2": b"{}", "3": b'{"payload": "{"}', "4": b'{"record": 7}', "5": b'{"record": {}}'}
    for key, body in bodies.items():
        clients.client("s3").put_object(Bucket="failures", Key=key, Body=body)
    found = redrive(harness, store)
    assert (found.done, {*found.rejected}) == ([sound], {*bodies})
    assert all(found.rejected.values())
    listed, _ = store.list_page(100)
    assert {one["reader"] for one in listed if one["key"] in bodies} == {"unknown"}


def test_an_erasure_rewrites_redriven_documents_and_ignores_their_marks(
    harness: ShopHarness, store: FailureRepository
) -> None:
    harness.open_shop()
    person = Caller("zoe")
    customers.register_customer(harness.shop, person, "zoe@example.com", "Zoe Zander")
    (key,) = give_up(harness.new_records())
    redrive(harness, store)
    harness.process_all()
    assert b"Zander" in harness.objects("failures")[key]
    erase_customer(harness.shop, person, person.id)
    customer_erasure.handler({"time": harness.now().isoformat()}, None)
    assert not any(b"Zander" in body or b"zoe@" in body for body in harness.objects("failures").values())
    assert marks(harness) == {key}
    assert redrive(harness, store, key).done == [key]


# messages -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("operation", ["SendMessage", "DeleteMessage"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_during_a_redrive_of_dead_letters_loses_none_and_repeats_no_effect(
    harness: ShopHarness, store: FailureRepository, operation: str, when: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "VISIBILITY_SECONDS", 0)  # so that a second run need not wait
    order_id = published_paid_order(harness)
    for name in WITH_DEAD_LETTERS:
        dead_letter(harness, name)
    with crash_at("sqs", operation, when, 2):
        redrive(harness, store)
    redrive(harness, store)
    assert redrive(harness, store) == RedriveResult()
    has_each_effect_once(harness, order_id)


def test_dead_letters_of_one_item_are_sent_in_the_order_of_their_versions(
    harness: ShopHarness, store: FailureRepository
) -> None:
    published_paid_order(harness)
    messages = sorted(
        harness.take_messages("order_notification"), key=lambda one: -json.loads(one["body"])["detail"]["version"]
    )
    for message in messages:
        send_dead(message["body"])
    redrive(harness, store)
    assert told(harness, "order_notification") == [("OrderPlaced", 1), ("OrderPaid", 2)]


def test_a_dead_letter_that_could_not_be_sent_stays_in_its_queue(
    harness: ShopHarness, store: FailureRepository
) -> None:
    harness.open_shop()
    harness.place_order("one", mug=1)
    event_publisher.handler({"Records": harness.new_records()}, None)
    dead_letter(harness, "order_notification")
    with fail_calls("sqs", "SendMessage", "RequestThrottled"):
        assert len(redrive(harness, store).retryable) == 1
    assert len(redrive(harness, store).done) == 1


def test_a_message_parked_by_its_worker_is_redriven_once_it_can_be_read(
    harness: ShopHarness, store: FailureRepository
) -> None:
    published_paid_order(harness)
    messages = [
        one | {"eventSourceARN": arn_of(harness.queues["fulfilment"])} for one in harness.take_messages("fulfilment")
    ]
    with mock.patch("functions.runtime.queue_batch.parse_event_detail", side_effect=Permanent("of a newer version")):
        fulfilment_worker.handler({"Records": messages}, None)
        assert len(redrive(harness, store).rejected) == 1
    assert harness.take_messages("fulfilment") == []
    assert len(redrive(harness, store).done) == 1
    assert redrive(harness, store) == RedriveResult()
    assert told(harness, "fulfilment") == [("OrderPaid", 2)]


def test_a_message_of_an_unknown_queue_stays(harness: ShopHarness, store: FailureRepository) -> None:
    dead_letters.dead_letter_writer("failures", "fulfilment")(
        {"messageId": "1", "body": "{}", "eventSourceARN": "arn:other"}, "any"
    )
    assert [*redrive(harness, store).rejected.values()] == ["its source queue is not a queue of this shop"]


def test_a_failed_scheduled_run_is_listed_and_stays(harness: ShopHarness) -> None:
    sqs = clients.client("sqs")
    url = sqs.create_queue(QueueName="order_deadlines-dead")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="{}")
    store = FailureRepository(clients.client("s3"), sqs, "failures", [url])
    (one,), _ = store.list_page(10)
    assert (one["kind"], one["reader"], one["reason"]) == (
        "dead letter",
        "order_deadlines-dead",
        "a scheduled run failed or did not start",
    )
    (why,) = redrive(harness, store).rejected.values()
    assert why.startswith("it has no source queue")
    assert len(store.list_page(10)[0]) == 1


def test_dead_letters_above_the_limit_are_left_for_the_next_run(harness: ShopHarness, store: FailureRepository) -> None:
    store.max_dead_letters = 10
    for number in range(13):
        send_dead(f'{{"detail": {{"version": {number}}}}}')
    first, second = redrive(harness, store), redrive(harness, store)
    assert (len(first.done), first.has_more, len(second.done), second.has_more) == (10, True, 3, False)
    assert len(harness.take_messages("order_notification")) == 13


def test_dead_letters_in_flight_are_reported_and_the_command_exits_with_1(
    here: ShopHarness, store: FailureRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    send_dead("{}")
    with store.receive_dead_letters() as letters:
        assert len(letters) == 1
        for command in ("list", "redrive --all --because fixed"):
            with pytest.raises(SystemExit) as ended:
                main(["failures", *command.split()])
            assert ended.value.code
            assert "1 dead letters are in flight" in f"{capsys.readouterr().out}{ended.value.code}"
    assert len(redrive(here, store).done) == 1


def test_dead_letters_are_invisible_for_as_long_as_their_worker_may_need(
    harness: ShopHarness, store: FailureRepository
) -> None:
    for name in WITH_DEAD_LETTERS:
        send_dead("{}", name)
    with record_calls("sqs", "ReceiveMessage") as taken, record_calls("sqs", "SendMessage") as sent:
        redrive(harness, store, per_second=1000)
        assert {call["VisibilityTimeout"] for call in taken} == {
            tool.VISIBILITY_SECONDS + tool.MAX_DEAD_LETTERS // 1000
        }
    assert len(sent) == 2


# lists ----------------------------------------------------------------------------------------------------------------
def test_a_list_goes_on_page_after_page_newest_first(harness: ShopHarness, store: FailureRepository) -> None:
    harness.open_shop()
    give_up(*([one] for one in harness.new_records()))
    pages: list[Any] = []
    before = None
    while True:
        shown_now, before = store.list_page(2, before=before)
        pages += shown_now
        if before is None:
            break
    assert {one["key"] for one in pages} == {*harness.objects("failures")}
    assert [f"{one['at']} {one['key']}" for one in pages] == sorted(
        (f"{one['at']} {one['key']}" for one in pages), reverse=True
    )


# the command ----------------------------------------------------------------------------------------------------------
@pytest.fixture
def here(harness: ShopHarness, store: FailureRepository, monkeypatch: pytest.MonkeyPatch) -> ShopHarness:
    """Let the commands use the shop of the test as the local shop."""
    names = {"AWS::SQS::Queue": store._urls, "AWS::Events::EventBus": ["shop"]}
    found = ShopTarget(
        {"TableName": harness.shop.table.name, "FailuresBucket": "failures"},
        lambda service: harness.engine.dynamodb() if service == "dynamodb" else clients.client(service),
        lambda kind: names[kind],
    )
    monkeypatch.setattr(targets, "resolve_target", lambda given: found)
    return harness


def test_the_command_lists_shows_and_redrives(here: ShopHarness, capsys: pytest.CaptureFixture[str]) -> None:
    here.open_shop()
    here.place_order("one", mug=1)
    (key,) = give_up(here.new_records())
    main(["failures", "list"])
    line, name = capsys.readouterr().out.splitlines()
    assert line.endswith("given up  copies_reader: RetryAttemptsExhausted")
    assert name == f"  {key}"
    main(["failures", "show", key])
    assert json.loads(capsys.readouterr().out)["payload"]["Records"][0]["dynamodb"]
    main(["failures", "redrive", "--all", "--dry-run"])
    assert capsys.readouterr().out == "1 would be redriven.\n"
    assert (derived(here), here.take_messages("order_notification"), marks(here)) == ([], [], set())
    main(["failures", "redrive", key, "--per-second", "1000", "--because", "fixed"])
    assert capsys.readouterr().out == "1 redriven.\n"
    main(["failures", "redrive", "--since", "3d", "--because", "fixed"])
    assert capsys.readouterr().out == "0 redriven.\n"
    main(["failures", "list"])
    assert capsys.readouterr().out == "No failures.\n"
    main(["failures", "list", "--redriven"])
    assert "given up, redriven" in capsys.readouterr().out
    runs = here.shop.table.query(AUDIT_OF_ITEM, item="REDRIVE").items
    assert [(run.command, run.reason) for run in runs] == [("failures redrive", "fixed")] * 2


def test_the_command_redrives_only_the_failures_of_a_reader_and_a_reason(
    here: ShopHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    published_paid_order(here)
    [letter] = dead_letter(here, "fulfilment")
    here.place_order("two", mug=1)
    given_up = give_up(here.new_records())
    chosen = {
        ("--reader", "fulfilment"): 1,
        ("--reader", "copies_reader", "--reason", "retryattempts"): 1,
        ("--reader", "fulfilment", "--reason", "RetryAttempts"): 0,
        ("--reason", "a"): 2,
    }
    for options, count in chosen.items():
        main(["failures", "redrive", "--all", "--dry-run", *options])
        assert capsys.readouterr().out == f"{count} would be redriven.\n", options
    main(["failures", "redrive", "--since", "1d", "--reader", "fulfilment", "--because", "fixed"])
    assert capsys.readouterr().out == "1 redriven.\n"
    assert [message["body"] for message in here.take_messages("fulfilment")] == [letter["body"]]
    assert marks(here).isdisjoint(given_up)
    with pytest.raises(SystemExit) as ended:
        main(["failures", "redrive", *given_up, "--reader", "fulfilment", "--because", "fixed"])
    assert ended.value.code == 2


def test_the_command_exits_with_1_if_entries_are_left(here: ShopHarness, capsys: pytest.CaptureFixture[str]) -> None:
    clients.client("s3").put_object(Bucket="failures", Key="odd", Body=b"[]")
    with pytest.raises(SystemExit) as ended:
        main(["failures", "redrive", "--all", "--because", "fixed"])
    assert ended.value.code == 1
    assert capsys.readouterr().out.splitlines()[-1] == "0 redriven, 1 cannot be redriven."
    with pytest.raises(SystemExit) as ended:
        main(["failures", "redrive", "none", "--because", "fixed"])
    assert ended.value.code == 1
    assert capsys.readouterr().out.splitlines()[0] == "none: no failure has this key"
    with pytest.raises(SystemExit, match="no such document"):
        main(["failures", "show", "none"])
