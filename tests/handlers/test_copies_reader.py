"""Tests the copies reader with records of a real stream: its writes, their order, and the effect of a redelivery."""

from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest

from functions.dynamodb.actors import Actor, acting_as
from functions.handlers import copies_reader
from functions.model.table import REVIEW, ROWS
from functions.model.totals import review_contributions
from functions.shop import cancellation, products
from local.world.expiry import expire_until
from local.world.harness import ANN, STAFF, ShopHarness
from proof.support.client_faults import crash_at, fail_calls, record_calls
from proof.support.samples import SAMPLES

Record = dict[str, Any]
DERIVED = {row.type for row in ROWS if row.kind in ("snapshot", "log", "counter")} - {
    type(total).__name__ for total in review_contributions(SAMPLES[REVIEW])
}
"""The types that are derived from orders."""
SUE = Actor(by="staff:sue", command="POST /products/{product_id}/receipts")
WRITES = ("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems")


def handle(*records: Record) -> dict[str, Any]:
    return copies_reader.handler({"Records": list(records)}, None)


def again(*records: Record) -> dict[str, Any]:
    """Return the response that reports these records as failed."""
    return {"batchItemFailures": [{"itemIdentifier": record["dynamodb"]["SequenceNumber"]} for record in records]}


def type_of(record: Record) -> str:
    image = record["dynamodb"].get("NewImage") or record["dynamodb"]["OldImage"]
    return str(image["type"]["S"])


def of_order(records: Sequence[Record], order_id: str) -> list[Record]:
    """Return the records of the order's own item, in order."""
    key = {"PK": {"S": f"ORDER#{order_id}"}, "SK": {"S": "ORDER"}}
    return [record for record in records if record["dynamodb"]["Keys"] == key]


def copied(harness: ShopHarness, order_id: str) -> dict[str, list[dict[str, Any]]]:
    """Return the copies of an order, by type."""
    mine = [image for image in stored(harness) if image.get("order_id", {}).get("S") == order_id]
    return {name: [image for image in mine if image["type"]["S"] == name] for name in sorted(DERIVED)}


def stored(harness: ShopHarness) -> list[dict[str, Any]]:
    """Return all items of the table, sorted by key."""
    images = harness.shop.table.client.scan(TableName=harness.shop.table.name, ConsistentRead=True)["Items"]
    return sorted(images, key=lambda image: (str(image["PK"]), str(image["SK"])))


def summary(harness: ShopHarness, order_id: str) -> tuple[str, int]:
    (image,) = copied(harness, order_id)["OrderSummary"]
    return image["status"]["S"], int(image["version"]["N"])


def live_out(harness: ShopHarness, order_id: str, payment: str) -> None:
    harness.pay_order(order_id, f"evt_{payment}", f"pi_{payment}")
    harness.process_all()
    harness.dispatch_order(order_id)
    harness.deliver_order(order_id)
    harness.process_all()


@pytest.fixture
def told(harness: ShopHarness) -> list[Record]:
    """The records of three orders and of received goods.

    The first order is delivered and archived, the second cancelled and archived, the third in the warehouse.
    """
    harness.open_shop(available=20)
    first, second = harness.place_order("one", mug=2, pot=1), harness.place_order("two", mug=1)
    live_out(harness, first, "1")
    cancellation.cancel_order(harness.shop, ANN, second)
    harness.process_all()
    expire_until(harness.engine, harness.shop.table.name, harness.now() + timedelta(days=396))
    harness.process_all()
    third = harness.place_order("three", pot=3)
    harness.pay_order(third, "evt_3", "pi_3")
    with acting_as(SUE):
        products.receive_stock(harness.shop, STAFF, "goods", "mug", 5)
    harness.process_all()
    return list(harness.all_records)


# writes for one record ------------------------------------------------------------------------------------------------
def test_records_of_copies_cause_no_write(harness: ShopHarness, told: list[Record]) -> None:
    derived = [record for record in told if type_of(record) in DERIVED]
    assert {type_of(record) for record in derived} == DERIVED
    with ExitStack() as watching:
        calls = [watching.enter_context(record_calls("dynamodb", write)) for write in WRITES]
        assert handle(*derived) == again()
    assert calls == [[] for _ in WRITES]
    assert harness.new_records() == []


def test_only_the_change_of_staff_is_in_the_audit_trail_and_once_for_a_repeated_record(
    harness: ShopHarness, told: list[Record]
) -> None:
    assert handle(*told) == again()
    found = [image for image in stored(harness) if image["type"]["S"] == "AuditEntry"]
    assert [(image["by"]["S"], image["item"]["S"]) for image in found] == [(SUE.by, "STOCK:mug:000")]
    assert (found[0]["values_before"]["M"]["received"], found[0]["values_after"]["M"]["received"]) == (
        {"S": "20"},
        {"S": "25"},
    )


# order of the records after a failure ---------------------------------------------------------------------------------
def test_a_failed_record_holds_back_later_records_of_its_item_and_no_other(
    harness: ShopHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies_reader, "ITEMS_AT_ONCE", 1)  # so that the first write is for the first record
    harness.open_shop()
    ill, well = harness.place_order("one", mug=1), harness.place_order("two", mug=1)
    cancellation.cancel_order(harness.shop, ANN, ill)
    harness.pay_order(well)
    records = harness.new_records()
    batch = [record for record in records if record in of_order(records, ill) + of_order(records, well)]
    assert [record in of_order(records, ill) for record in batch] == [True, False, True, False]
    with fail_calls("dynamodb", "PutItem", "InternalServerError", times=1):
        assert handle(*batch) == again(batch[0], batch[2])
    events = [image["event"]["S"] for image in copied(harness, ill)["Activity"]]
    assert (copied(harness, ill)["OrderSummary"], "OrderCancelled" in events) == ([], False), "the second record waits"
    assert summary(harness, well) == ("PAID", 2)
    assert handle(*batch) == again()
    assert summary(harness, ill) == ("CANCELLED", 2)
    assert [image["event"]["S"] for image in copied(harness, ill)["Activity"]] == ["OrderPlaced", "OrderCancelled"]


def test_an_older_version_never_overwrites_a_newer_one(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=1)
    live_out(harness, order_id, "1")
    for record in reversed(of_order(harness.all_records, order_id)):
        assert handle(record) == again()
        assert summary(harness, order_id) == ("DELIVERED", 5)
    assert len(copied(harness, order_id)["Activity"]) == 5


# redelivery -----------------------------------------------------------------------------------------------------------


def test_the_summary_stays_behind_until_the_other_copies_are_written(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=2, pot=1)
    harness.process_all()
    harness.pay_order(order_id)
    (paid,) = of_order(harness.new_records(), order_id)
    for written in range(3):
        with crash_at("dynamodb", "PutItem", "before", written + 1):
            handle(paid)
        assert summary(harness, order_id) == ("PENDING", 1)
    assert handle(paid) == again()
    assert summary(harness, order_id) == ("PAID", 2)
