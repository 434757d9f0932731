"""Tests that the archive has unchanged items, with all attribute types, and has activity entries grouped by day."""

import gzip
import hashlib
import json
from datetime import timedelta

import pytest

from functions.handlers import event_publisher
from local.world.harness import ShopHarness
from proof.support.archiving import (
    Image,
    archived_objects,
    assert_archived,
    create_delivered_order,
    expire_everything,
    order_messages,
    order_partition,
    run_archive,
)
from proof.support.client_faults import fail_calls


def test_unknown_attributes_are_archived_and_restored_too(harness: ShopHarness) -> None:
    order_id = create_delivered_order(harness)
    (payment,) = [image for image in order_partition(harness, order_id) if image["type"]["S"] == "Payment"]
    strange: Image = {
        "s": {"S": "Grüße 🫖"},
        "n": {"N": "0.1234567890123456789012345678901234567"},
        "b": {"B": b"\x00\xff"},
        "ss": {"SS": ["a", "b"]},
        "ns": {"NS": ["1", "2.5"]},
        "bs": {"BS": [b"\x01", b"\x02"]},
        "m": {"M": {"B": {"S": "no bytes"}, "deep": {"L": [{"NULL": True}, {"B": b"\x03"}, {"BOOL": False}]}}},
    }
    harness.shop.table.client.put_item(TableName=harness.shop.table.name, Item={**payment, **strange})
    before = order_partition(harness, order_id)
    assert run_archive(*order_messages(expire_everything(harness))) == []
    assert_archived(harness, order_id, before)


PAID = {"S": "OrderPaid"}


# activity -------------------------------------------------------------------------------------------------------------
@pytest.fixture
def two_days(harness: ShopHarness) -> list[Image]:
    """Create activity of a customer on two days. Return its items."""
    harness.clock_offset = timedelta(days=-2)
    harness.open_shop()
    harness.place_order("one", mug=1)
    harness.clock_offset = timedelta(days=-1)
    harness.place_order("two", mug=1)
    harness.pay_order(harness.place_order("three", mug=1))
    harness.process_all()
    return [image for image in harness.partition("CUSTOMER#ann") if image["type"]["S"] == "Activity"]


def lines(harness: ShopHarness) -> dict[str, list[Image]]:
    """Return the archived activity entries by day."""
    found = archived_objects(harness, "activity/")
    texts = {name: gzip.decompress(body) for name, body in found.items()}
    for name, text in texts.items():
        assert name.split("/")[2] == f"{hashlib.sha256(text).hexdigest()}.ndjson.gz", "named by its content"
    return {name.split("/")[1]: [json.loads(line) for line in text.splitlines()] for name, text in texts.items()}


def by_id(images: list[Image]) -> list[Image]:
    return sorted(images, key=lambda image: str(image["change_id"]))


def test_expired_activity_is_archived_by_day_unchanged(harness: ShopHarness, two_days: list[Image]) -> None:
    messages = expire_everything(harness)
    assert run_archive(*messages) == []
    days = {f"day={image['at']['S'][:10]}" for image in two_days}
    assert len(days) == 2
    found = lines(harness)
    assert set(found) == days
    for day, images in found.items():
        assert by_id(images) == by_id([image for image in two_days if day == f"day={image['at']['S'][:10]}"])
    assert "Activity" not in {image["type"]["S"] for image in harness.partition("CUSTOMER#ann")}


def test_activity_redelivered_in_another_batch_is_archived_twice_with_the_same_ids(
    harness: ShopHarness, two_days: list[Image]
) -> None:
    run_archive(*expire_everything(harness))
    paid = [record for record in harness.all_records if record["dynamodb"].get("OldImage", {}).get("event") == PAID]
    assert event_publisher.handler({"Records": paid}, None) == {"batchItemFailures": []}
    assert run_archive(*harness.take_messages("archive")) == []
    texts = [gzip.decompress(body) for body in archived_objects(harness, "activity/").values()]
    ids = [json.loads(line)["change_id"]["S"] for text in texts for line in text.splitlines()]
    assert len(ids) == len(two_days) + 1
    assert set(ids) == {image["change_id"]["S"] for image in two_days}


def test_activity_of_one_day_that_cannot_be_written_holds_back_no_other_day(
    harness: ShopHarness, two_days: list[Image]
) -> None:
    messages = expire_everything(harness)
    with fail_calls("s3", "PutObject", "SlowDown", times=1):
        waiting = run_archive(*messages)
    assert 0 < len(waiting) < len(messages)
    assert len(lines(harness)) == 1
    assert run_archive(*[message for message in messages if message["messageId"] in waiting]) == []
    assert sum(map(len, lines(harness).values())) == len(two_days)
