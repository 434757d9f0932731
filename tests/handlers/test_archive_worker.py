"""Tests the archiving of expired items: each is archived once and unchanged, even after a crash at any step."""

import gzip
import hashlib
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.dynamodb import table
from functions.handlers import copies_reader, event_publisher
from functions.handlers.archive_worker import parse_archive, serialize_archive
from functions.model import entities
from functions.model.copies import feed_entry_of_payment
from functions.model.entities import ArchivedOrder, Order
from functions.model.patterns import ORDER_ITEM_COLLECTION
from functions.model.table import FEED_ENTRY, PAYMENT
from functions.model.totals import ContributionChange
from functions.runtime import clients
from functions.shop import cancellation, credit_notes, orders, payments, refund_processing, refunds, returns
from functions.shop.shop import ShopContext
from local.world.expiry import expire_until, kept_items
from local.world.harness import ANN, STAFF, WAREHOUSE, ShopHarness
from proof.support.actors import report_dispute
from proof.support.archiving import (
    Image,
    Message,
    archive_key,
    archived_objects,
    assert_archived,
    assert_not_archived,
    create_delivered_order,
    expire_everything,
    images_to_archive,
    order_messages,
    order_partition,
    run_archive,
)
from proof.support.client_faults import crash_at, fail_calls, run_before_call
from tests.support.handlers import published
from tests.support.saved import reused

delivered_order = reused(create_delivered_order)


@pytest.fixture
def order_id(harness: ShopHarness) -> str:
    return delivered_order(harness)


# an order -------------------------------------------------------------------------------------------------------------
STEPS = (  # service, operation, number of the call
    ("dynamodb", "UpdateItem", 1),  # the order gets the status ARCHIVING
    ("s3", "PutObject", 1),
    ("dynamodb", "BatchWriteItem", 1),  # delete items of the order
    ("dynamodb", "BatchWriteItem", 2),
    ("dynamodb", "PutItem", 1),  # put the stub, which replaces the order
)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("service", "operation", "call"), STEPS)
def test_an_archive_that_dies_at_any_step_is_finished_by_the_next_delivery_with_the_same_bytes(
    harness: ShopHarness,
    order_id: str,
    monkeypatch: pytest.MonkeyPatch,
    service: str,
    operation: str,
    call: int,
    when: Any,
) -> None:
    monkeypatch.setattr(table, "BATCH_WRITE_LIMIT", 1)
    before = order_partition(harness, order_id)
    deleted = [
        image["type"]["S"] for image in images_to_archive(before) if image["type"]["S"] not in ("Order", "Invoice")
    ]
    assert deleted == ["Payment", "Shipment"], "one item needs two requests of deletes"
    (message,) = order_messages(expire_everything(harness))
    with crash_at(service, operation, when, call):
        run_archive(message)
    written = archived_objects(harness, "orders/")
    assert run_archive(message) == []
    assert_archived(harness, order_id, before)
    assert written in ({}, archived_objects(harness, "orders/")), "an object is written once"
    at_rest = order_partition(harness, order_id)
    assert run_archive(message) == []
    assert order_partition(harness, order_id) == at_rest


@pytest.mark.parametrize("step", [step[:2] for step in STEPS if step[2] == 1])
def test_two_workers_that_archive_the_same_order_at_once_reach_one_result(
    harness: ShopHarness, order_id: str, step: tuple[str, str]
) -> None:
    before = order_partition(harness, order_id)
    (message,) = order_messages(expire_everything(harness))
    with run_before_call(*step, lambda: run_archive(message)):
        assert run_archive(message) == []
    assert_archived(harness, order_id, before)


@pytest.mark.parametrize("how", ["it is missing there", "it was another then"])
def test_an_item_that_the_object_lacks_is_not_deleted(harness: ShopHarness, order_id: str, how: str) -> None:
    before = images_to_archive(order_partition(harness, order_id))
    order = harness.shop.table.decode(next(image for image in before if image["type"]["S"] == "Order"))
    written = [image for image in before if image["type"]["S"] != "Payment"]
    if how == "it was another then":
        written = [{**image, "method": {"S": "CASH"}} if image["type"]["S"] == "Payment" else image for image in before]
    body = serialize_archive(order, written)
    key = archive_key(order)
    clients.client("s3").put_object(Bucket="archive", Key=key, Body=body)
    assert run_archive(*order_messages(expire_everything(harness))) == []
    assert archived_objects(harness, "orders/") == {key: body}, "the object is not replaced either"
    left = [image for image in order_partition(harness, order_id) if image["type"]["S"] != "Order"]
    assert left == [image for image in before if image["type"]["S"] != "Order"]
    ((name, document),) = harness.objects("failures").items()
    assert name.startswith("parked/mismatch/")
    assert json.loads(document)["reason"] == f"Mismatch: {key} lacks 1 items that the table has"


def test_an_object_with_more_items_than_the_table_is_accepted(harness: ShopHarness, order_id: str) -> None:
    before = images_to_archive(order_partition(harness, order_id))
    order = harness.shop.table.decode(next(image for image in before if image["type"]["S"] == "Order"))
    more = {**before[-1], "SK": {"S": "SHIPMENT#9"}}
    body = serialize_archive(order, [*before, more])
    key = archive_key(order)
    clients.client("s3").put_object(Bucket="archive", Key=key, Body=body)
    assert run_archive(*order_messages(expire_everything(harness))) == []
    assert archived_objects(harness, "orders/") == {key: body}
    assert [image["type"]["S"] for image in order_partition(harness, order_id)] == ["Invoice", "ArchivedOrder"]
    stub = orders.get_order(harness.shop, ANN, order_id)
    assert isinstance(stub, ArchivedOrder)
    assert stub.sha256 == hashlib.sha256(body).hexdigest()


def test_an_order_whose_copies_are_behind_is_archived_later(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=1)
    harness.process_all()
    cancellation.cancel_order(harness.shop, ANN, order_id)
    order = orders.get_order(harness.shop, ANN, order_id)
    (message,) = order_messages(expire_everything(harness, readers=(event_publisher.handler,)))
    assert run_archive(message) == [message["messageId"]]
    assert orders.get_order(harness.shop, ANN, order_id) == order
    assert archived_objects(harness, "orders/") == {}
    copies_reader.handler({"Records": harness.all_records}, None)
    before = order_partition(harness, order_id)
    assert run_archive(message) == []
    ((_, body),) = archived_objects(harness, "orders/").items()
    assert parse_archive(body) == before
    assert [image["type"]["S"] for image in order_partition(harness, order_id)] == ["ArchivedOrder"]


def test_an_order_whose_payment_is_not_in_the_list_of_payments_is_archived_later(
    harness: ShopHarness, order_id: str
) -> None:
    images = order_partition(harness, order_id)
    (payment,) = [PAYMENT.decode(image) for image in images if image["type"]["S"] == PAYMENT.type]
    harness.shop.table.batch_delete([FEED_ENTRY.key_of(entry) for entry in feed_entry_of_payment(payment)])
    (message,) = order_messages(expire_everything(harness))
    assert run_archive(message) == [message["messageId"]]
    copies_reader.handler({"Records": harness.all_records}, None)
    assert run_archive(message) == []


def test_an_order_that_is_not_closed_is_never_archived(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=1)
    harness.process_all()
    before = order_partition(harness, order_id)
    order = orders.get_order(harness.shop, ANN, order_id)
    assert isinstance(order, Order)
    harness.shop.table.write(cancellation.put_expiry_marker(harness.shop, order, days=0))
    (message,) = order_messages(expire_everything(harness))
    assert run_archive(message) == [message["messageId"]]
    assert (order_partition(harness, order_id), archived_objects(harness, "orders/")) == (before, {})


def test_an_expired_item_is_archived_but_an_item_deleted_by_a_user_is_not(harness: ShopHarness) -> None:
    harness.open_shop()
    by_hand, by_time = harness.place_order("one", mug=1), harness.place_order("two", mug=1)
    for order_id in (by_hand, by_time):
        cancellation.cancel_order(harness.shop, ANN, order_id)
    key = {"PK": {"S": f"ORDER#{by_hand}"}, "SK": {"S": "EXPIRY"}}
    harness.process_all()
    harness.shop.table.client.delete_item(TableName=harness.shop.table.name, Key=key)
    assert run_archive(*expire_everything(harness)) == []
    assert isinstance(orders.get_order(harness.shop, ANN, by_hand), Order)
    assert isinstance(orders.get_order(harness.shop, ANN, by_time), ArchivedOrder)
    assert [name.split("/")[2] for name in archived_objects(harness, "orders/")] == [by_time]


# returns and refunds --------------------------------------------------------------------------------------------------
def take_back(harness: ShopHarness, order_id: str, *, to: Any = "original", **quantities: int) -> str:
    """Record that these pieces came back, and issue the credit note. Return the id of the refund.

    The refund is not processed yet.
    """
    lines = {id: returns.ReturnedGoods(quantity, restock=True) for id, quantity in quantities.items()}
    done = returns.return_goods(harness.shop, WAREHOUSE, f"back {sorted(quantities)}", order_id, lines, to=to)
    credit_notes.issue_credit_note(harness.shop, order_id)
    harness.process_all(("copies_reader",))
    return str(done.result["refund_ids"][0])


def set_attribute(harness: ShopHarness, order_id: str, sort_key: str, name: str, value: Any) -> None:
    """Change an attribute of an item of the order."""
    harness.shop.table.client.update_item(
        TableName=harness.shop.table.name,
        Key={"PK": {"S": f"ORDER#{order_id}"}, "SK": {"S": sort_key}},
        UpdateExpression="SET #name = :value",
        ConditionExpression="attribute_exists(PK)",
        ExpressionAttributeNames={"#name": name},
        ExpressionAttributeValues={":value": value},
    )


def set_refund(harness: ShopHarness, order_id: str, refund_id: str, status: str) -> None:
    set_attribute(harness, order_id, f"REFUND#{refund_id}", "status", {"S": status})


def expire_now(harness: ShopHarness, order_id: str) -> Message:
    """Let an order expire while the totals of its month are not final. Return the message for the archive."""
    set_attribute(harness, order_id, "EXPIRY", "ttl", {"N": str(int(harness.now().timestamp()))})
    harness.advance_days(days=0.01)
    expire_until(harness.engine, harness.shop.table.name, harness.now())
    (message,) = order_messages(published(harness, "archive"))
    return message


def test_an_order_that_was_counted_before_shards_were_added_is_archived(
    harness: ShopHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order's amounts stay in their former shard. The totals of the month are not final yet."""
    order_id = create_delivered_order(harness)
    former = entities.SALES_MINUTE_SHARDS.of(order_id)
    monkeypatch.setattr(entities, "SALES_MINUTE_SHARDS", entities.Shards(64, 64))
    assert entities.SALES_MINUTE_SHARDS.of(order_id) != former
    assert run_archive(expire_now(harness, order_id)) == []
    assert isinstance(orders.get_order(harness.shop, STAFF, order_id), ArchivedOrder)


@pytest.mark.parametrize("uncounted", ["Order", "Return"])
def test_an_order_with_an_amount_that_no_total_includes_yet_is_archived_after_it_does(
    harness: ShopHarness, monkeypatch: pytest.MonkeyPatch, uncounted: str
) -> None:
    """A rebuild died after it wrote the copies and before the totals. The totals of the month are not final yet."""
    update_totals = copies_reader.update_totals

    def update_others(shop: ShopContext, todo: ContributionChange) -> None:
        if todo.source_type != uncounted:
            update_totals(shop, todo)

    with monkeypatch.context() as patched:
        patched.setattr(copies_reader, "update_totals", update_others)
        order_id = create_delivered_order(harness)
        set_refund(harness, order_id, take_back(harness, order_id, mug=1, to="credit"), "SUCCEEDED")
    before = order_partition(harness, order_id)
    message = expire_now(harness, order_id)
    assert run_archive(message) == [message["messageId"]]
    assert_not_archived(harness, order_id, before)
    copies_reader.handler({"Records": harness.all_records}, None)
    assert run_archive(message) == []
    assert_archived(harness, order_id, before, "PARTIALLY_RETURNED")


@pytest.mark.parametrize("status", ["REQUESTED", "SENT"])
def test_an_order_with_a_pending_refund_is_archived_later(harness: ShopHarness, order_id: str, status: str) -> None:
    refund_id = take_back(harness, order_id, mug=2, pot=1)
    set_refund(harness, order_id, refund_id, status)
    before = order_partition(harness, order_id)
    assert run_archive(*order_messages(expire_everything(harness))) == []
    assert_not_archived(harness, order_id, before)
    set_refund(harness, order_id, refund_id, "SUCCEEDED")
    before = order_partition(harness, order_id)
    assert run_archive(*order_messages(expire_everything(harness))) == []
    assert_archived(harness, order_id, before, "RETURNED")


def test_an_order_stays_for_as_long_as_a_refund_to_a_card_may_come_back(harness: ShopHarness, order_id: str) -> None:
    refund_id = take_back(harness, order_id, mug=2, pot=1)
    (first,) = order_messages(expire_everything(harness))
    refund_processing.process_refund(
        harness.shop, harness.provider, order_id, refund_id
    )  # on the day on which the order expires
    before = order_partition(harness, order_id)
    assert run_archive(first) == []
    assert_not_archived(harness, order_id, before)
    (marker,) = [image for image in order_partition(harness, order_id) if image["type"]["S"] == "ExpiryMarker"]
    assert int(marker["ttl"]["N"]) == pytest.approx((harness.now() + timedelta(days=31)).timestamp(), abs=60)
    assert run_archive(first) == [], "the order now expires at another time"
    assert archived_objects(harness, "orders/") == {}
    assert run_archive(*order_messages(expire_everything(harness))) == []
    assert_archived(harness, order_id, before, "RETURNED")


@pytest.mark.parametrize("short_retention", [False, True])
def test_looking_ahead_far_enough_archives_an_order_whose_refund_was_paid_today(
    harness: ShopHarness, order_id: str, short_retention: bool
) -> None:
    """The functions' clock does not advance, as on a laptop after `python -m local advance`."""
    if short_retention:
        harness.shop = replace(harness.shop, closed_order_days=1, return_window_days=1)
    set_refund(harness, order_id, take_back(harness, order_id, mug=1), "SUCCEEDED")
    before = order_partition(harness, order_id)
    if short_retention:  # the order then expires before the refund can no longer come back
        assert run_archive(*look_ahead(harness, days=400)) == []
        assert_not_archived(harness, order_id, before)
    assert run_archive(*look_ahead(harness, days=400)) == []
    assert_archived(harness, order_id, before, "PARTIALLY_RETURNED")


def look_ahead(harness: ShopHarness, days: int) -> list[dict[str, Any]]:
    """Expire all items that are due within these days, as the local command does, without advancing the clock."""
    engine, table = harness.engine, harness.shop.table.name
    expire_until(engine, table, harness.now() + timedelta(days=days), keep=kept_items(engine, table))
    records = harness.new_records()
    for reader in (copies_reader.handler, event_publisher.handler):
        reader({"Records": records}, None)
    return order_messages(harness.take_messages("archive"))


def test_an_order_stays_while_money_that_matched_nothing_waits_for_a_person(
    harness: ShopHarness, order_id: str
) -> None:
    event = payments.ProviderPaymentEvent("evt_usd", "pi_usd", order_id, "succeeded", 3750, "USD")
    assert payments.record_payment(harness.shop, event, {"id": "evt_usd"}).result["status"] == "UNMATCHED"
    (message,) = order_messages(expire_everything(harness))
    assert run_archive(message) == []
    assert archived_objects(harness, "orders/") == {}
    assert [one.payment_id for one in payments.list_unmatched_payments(harness.shop)] == ["pi_usd"]
    done = refunds.refund_payment(harness.shop, STAFF, "back", order_id, "pi_usd")
    refund_processing.process_refund(harness.shop, harness.provider, order_id, done.result["refund_ids"][0])
    harness.advance_days(days=30)
    for _ in range(2):
        run_archive(*order_messages(expire_everything(harness)))
    assert isinstance(orders.get_order(harness.shop, ANN, order_id), ArchivedOrder)


@pytest.mark.parametrize("settled_by", ["a retry", "staff", "the bank"])
def test_an_order_stays_until_its_failed_refund_is_settled(
    harness: ShopHarness, order_id: str, settled_by: str
) -> None:
    """The bank settles it by a dispute in which it takes the whole payment back."""
    refund_id = take_back(harness, order_id, mug=2, pot=1)
    set_refund(harness, order_id, refund_id, "FAILED")
    for _ in range(2):
        assert run_archive(*order_messages(expire_everything(harness))) == []
        assert archived_objects(harness, "orders/") == {}
    if settled_by == "a retry":
        refunds.retry_refund(harness.shop, STAFF, order_id, refund_id, "credit")
        refund_processing.process_refund(harness.shop, harness.provider, order_id, refund_id)
    elif settled_by == "staff":
        refund_processing.settle_refund(harness.shop, STAFF, "settle", order_id, refund_id, "paid by bank transfer")
    else:
        assert report_dispute(harness.shop, "pi_1", "lost")["status"] == "REFUNDED"
    harness.process_all(("copies_reader",))
    assert run_archive(*order_messages(expire_everything(harness))) == []
    assert isinstance(orders.get_order(harness.shop, ANN, order_id), ArchivedOrder)


def test_a_refund_to_an_account_does_not_come_back_and_is_not_waited_for(harness: ShopHarness, order_id: str) -> None:
    refund_id = take_back(harness, order_id, mug=2, to="credit")
    (message,) = order_messages(expire_everything(harness))
    refund_processing.process_refund(harness.shop, harness.provider, order_id, refund_id)
    before = order_partition(harness, order_id)
    assert run_archive(message) == []
    assert_archived(harness, order_id, before, "PARTIALLY_RETURNED")


def test_the_archive_waits_for_a_refund_that_is_sent_again_at_the_same_time(
    harness: ShopHarness, order_id: str
) -> None:
    refund_id = take_back(harness, order_id, mug=2, pot=1)
    set_refund(harness, order_id, refund_id, "SUCCEEDED")
    (message,) = order_messages(expire_everything(harness))
    with run_before_call("dynamodb", "UpdateItem", lambda: set_refund(harness, order_id, refund_id, "REQUESTED")):
        assert run_archive(message) == [message["messageId"]]
    assert (run_archive(message), archived_objects(harness, "orders/")) == ([message["messageId"]], {})
    set_refund(harness, order_id, refund_id, "SUCCEEDED")
    before = order_partition(harness, order_id)
    assert run_archive(message) == []
    ((_, body),) = archived_objects(harness, "orders/").items()
    refunds = [image for image in parse_archive(body) if image["type"]["S"] == "Refund"]
    assert refunds == [image for image in before if image["type"]["S"] == "Refund"]


def test_an_order_that_was_returned_when_its_end_had_come_stays_until_its_new_end(
    harness: ShopHarness, order_id: str
) -> None:
    (message,) = order_messages(expire_everything(harness))
    harness.clock_offset = timedelta()
    set_refund(harness, order_id, take_back(harness, order_id, mug=1), "SUCCEEDED")
    before = order_partition(harness, order_id)
    assert run_archive(message) == []
    assert (order_partition(harness, order_id), archived_objects(harness, "orders/")) == (before, {})
    assert run_archive(*order_messages(expire_everything(harness))) == []
    assert_archived(harness, order_id, before, "PARTIALLY_RETURNED")


# events after the archiving -------------------------------------------------------------------------------------------
def test_a_late_event_without_money_leaves_nothing_beside_the_stub(harness: ShopHarness, order_id: str) -> None:
    run_archive(*expire_everything(harness))
    before = order_partition(harness, order_id)
    for outcome in ("failed", "authorised"):
        told = payments.ProviderPaymentEvent(f"evt_{outcome}", "pi_1", order_id, outcome, 3750, "EUR")
        assert payments.record_payment(harness.shop, told, {"id": outcome}).result["status"] is None
    assert order_partition(harness, order_id) == before


# many orders, and large orders ----------------------------------------------------------------------------------------
def lying(harness: ShopHarness) -> list[dict[str, Any]]:
    """Return all items of the table, sorted by key."""
    images = harness.shop.table.client.scan(TableName=harness.shop.table.name, ConsistentRead=True)["Items"]
    return sorted(images, key=lambda image: (image["PK"]["S"], image["SK"]["S"]))


def test_an_order_of_more_than_a_page_is_archived_with_all_of_it(harness: ShopHarness, order_id: str) -> None:
    """DynamoDB returns pages of one megabyte. Large additional attributes make this order larger than a page."""
    payment = next(image for image in order_partition(harness, order_id) if image["type"]["S"] == "Payment")
    for number in range(5):
        scan: Any = {**payment, "SK": {"S": f"PAYMENT#big-{number}"}, "scan": {"B": b"x" * 300_000}}
        harness.shop.table.client.put_item(TableName=harness.shop.table.name, Item=scan)
    before: list[Any] = list(harness.shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=order_id))
    assert sum(len(image.get("scan", {}).get("B", b"")) for image in before) > 1024 * 1024
    run_archive(*expire_everything(harness))
    (body,) = archived_objects(harness, "orders/").values()
    assert {image["SK"]["S"]: image for image in parse_archive(body)} == {
        image["SK"]["S"]: image for image in images_to_archive(before)
    }
    assert [image["type"]["S"] for image in order_partition(harness, order_id)] == ["Invoice", "ArchivedOrder"]


def test_repeated_archive_runs_do_not_postpone_an_expiry(harness: ShopHarness, order_id: str) -> None:
    before = order_partition(harness, order_id)
    messages = expire_everything(harness)
    for _ in range(3):
        with fail_calls("s3", "PutObject", "SlowDown"):
            assert run_archive(*messages) == [message["messageId"] for message in messages]
        kept = [image["type"]["S"] for image in order_partition(harness, order_id)]
        assert kept == [image["type"]["S"] for image in images_to_archive(before)], "nothing leaves the table"
        assert not [image for image in order_partition(harness, order_id) if image["type"]["S"] == "ExpiryMarker"]
    assert not [record for record in harness.new_records() if "ttl" in record["dynamodb"].get("NewImage", {})]
    assert run_archive(*messages) == []
    assert isinstance(orders.get_order(harness.shop, STAFF, order_id), ArchivedOrder)


def test_redelivered_records_do_not_restore_archived_items(harness: ShopHarness, order_id: str) -> None:
    begins = len(harness.all_records)
    messages = expire_everything(harness)
    assert run_archive(*messages) == []
    harness.process_all()
    after, archived = lying(harness), harness.objects("archive")
    assert len(harness.all_records) > begins + 10, "the records of the archive's writes are delivered, too"
    for _ in range(2):
        assert run_archive(*messages) == []
        for reader in (copies_reader, event_publisher):
            assert reader.handler({"Records": harness.all_records[begins:]}, None) == {"batchItemFailures": []}
        harness.process_all()
    assert lying(harness) == after
    assert harness.objects("archive") == archived


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
