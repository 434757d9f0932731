"""A record that can never be processed is parked at once, completely, with the reason. Failed parking is retried."""

import copy
import json
from typing import Any

import pytest

from functions.handlers import copies_reader, event_publisher
from functions.model.events import parse_event_detail
from functions.runtime import dead_letters
from local.world.harness import READERS, WORKERS, ShopHarness
from proof.support.client_faults import fail_calls

Record = dict[str, Any]


def spoiled(record: Record, how: str) -> Record:
    bad = copy.deepcopy(record)
    image = bad["dynamodb"]["NewImage"]
    match how:
        case "an attribute is missing":
            del image["customer_id"]
        case "an attribute has another type":
            image["version"] = {"S": "one"}
        case "its type is not known":
            image["type"] = {"S": "Parcel"}
        case "its schema is newer":
            image["schema"] = {"N": "2"}
        case "it has no image":
            del bad["dynamodb"]["NewImage"]
    return bad


WAYS = (
    "an attribute is missing",
    "an attribute has another type",
    "its type is not known",
    "its schema is newer",
    "it has no image",
)


@pytest.fixture
def records(harness: ShopHarness) -> list[Record]:
    """The records of a placed order, of another order, and of the first order's payment."""
    harness.open_shop()
    order_id = harness.place_order("one", mug=1)
    harness.place_order("two", mug=1)
    harness.pay_order(order_id)
    return [record for record in harness.new_records() if record["dynamodb"]["Keys"]["SK"] == {"S": "ORDER"}]


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("reader", READERS)
def test_a_record_that_cannot_be_processed_is_parked_completely_and_blocks_no_other(
    harness: ShopHarness, records: list[Record], reader: str, how: str
) -> None:
    placed, other, paid = records
    bad = spoiled(placed, how)
    assert READERS[reader].handler({"Records": [bad, other, paid]}, None) == {"batchItemFailures": []}
    ((name, body),) = harness.objects("failures").items()
    kept = json.loads(body)
    assert name.startswith(f"parked/{reader}/")
    assert (kept["reader"], kept["record"]) == (reader, bad)
    assert kept["reason"].startswith("UnknownSchema" if how == "its schema is newer" else "NotReadable")
    if reader == "copies_reader":
        summaries = [image for image in harness.partition("CUSTOMER#ann") if image["type"]["S"] == "OrderSummary"]
        assert sorted(image["status"]["S"] for image in summaries) == ["PAID", "PENDING"]
    else:
        told = [
            parse_event_detail(json.loads(message["body"])["detail"])
            for message in harness.take_messages("order_notification")
        ]
        assert sorted(event.name for event in told) == ["OrderPaid", "OrderPlaced"]


def test_a_record_with_an_unreadable_order_line_is_parked_before_any_write(harness: ShopHarness) -> None:
    harness.open_shop()
    harness.pay_order(harness.place_order("one", mug=1))
    placed, paid = [record for record in harness.new_records() if record["dynamodb"]["Keys"]["SK"] == {"S": "ORDER"}]
    del paid["dynamodb"]["NewImage"]["lines"]["M"]["mug"]["M"]["price"]
    assert copies_reader.handler({"Records": [placed, paid]}, None) == {"batchItemFailures": []}
    ((_, body),) = harness.objects("failures").items()
    assert (json.loads(body)["record"], json.loads(body)["reason"][:11]) == (paid, "NotReadable")
    mine = [image for image in harness.partition("CUSTOMER#ann") if image["type"]["S"] in {"OrderSummary", "Sale"}]
    assert [image["status"]["S"] for image in mine] == ["PENDING"]


# messages -------------------------------------------------------------------------------------------------------------
EVENT = {"id": "e1", "type": "OrderPaid", "schema": 1, "time": "2026-11-21T09:30:00.000Z", "version": 2, "data": {}}
BAD_BODIES: dict[str, Any] = {
    "no JSON": "{",
    "no event": {"hello": "world"},
    "a text": "detail",
    "a detail that is no object": {"detail": ["OrderPaid"]},
    "no type": {"detail": {}},
    "an unknown type": {"detail": EVENT | {"type": "OrderEaten"}},
    "a newer schema": {"detail": EVENT | {"schema": 2}},
    "data is missing": {"detail": EVENT},
    "data is no object": {"detail": EVENT | {"data": "all"}},
}


@pytest.mark.parametrize("worker", WORKERS)
def test_a_message_that_cannot_be_processed_is_parked_completely_and_the_others_are_processed(
    harness: ShopHarness, worker: str
) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=1)
    harness.pay_order(order_id)
    event_publisher.handler({"Records": harness.new_records()}, None)
    bad = [{"messageId": id, "body": body if id == "no JSON" else json.dumps(body)} for id, body in BAD_BODIES.items()]
    assert WORKERS[worker].handler({"Records": [*bad, *harness.take_messages(worker)]}, None) == {
        "batchItemFailures": []
    }
    parked = harness.objects("failures")
    assert {name.rpartition("/")[0] for name in parked} == {f"parked/{worker}"}
    kept = [json.loads(body)["record"] for body in parked.values()]
    assert sorted(kept, key=str) == sorted(bad, key=str)
    if worker == "fulfilment":
        assert "Invoice" in [image["type"]["S"] for image in harness.partition(f"ORDER#{order_id}")]
    if worker == "order_notification":
        assert len(harness.sent_mails()) == 2


@pytest.mark.parametrize("worker", WORKERS)
def test_a_message_that_cannot_even_be_parked_is_sent_again(harness: ShopHarness, worker: str) -> None:
    with fail_calls("s3", "PutObject", "SlowDown"):
        answer = WORKERS[worker].handler({"Records": [{"messageId": "bad", "body": "{"}]}, None)
    assert answer == {"batchItemFailures": [{"itemIdentifier": "bad"}]}


def test_a_parked_document_is_named_by_its_content_and_states_its_reason(harness: ShopHarness) -> None:
    park = dead_letters.dead_letter_writer("failures", "copies_reader")
    park({"eventID": "1"}, "NotReadable: total")
    park({"eventID": "1"}, "NotReadable: total")
    park({"eventID": "2"}, "NotReadable: total")
    parked = harness.objects("failures")
    assert len(parked) == 2
    assert [json.loads(body) for body in parked.values() if b'"1"' in body] == [
        {"reader": "copies_reader", "reason": "NotReadable: total", "record": {"eventID": "1"}}
    ]
