"""The erasure of a customer's data: the data it deletes, the data it keeps, and the condition for its end."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any

from functions.dynamodb import writes
from functions.handlers import customer_erasure
from functions.runtime import clients
from functions.runtime.scheduled_jobs import RunIncomplete
from functions.shop import erasure
from functions.shop.erasure import erase_customer
from local.world.harness import ANN, ShopHarness
from ops.commands.restore import make_archive_fetcher, restore_order
from proof.mutants.edits import detects, edit_code
from proof.mutants.items import stored_order, text
from proof.simulation.mutations import patch_attribute, without_condition
from proof.support.archiving import create_delivered_order, expire_everything, order_messages, run_archive
from proof.support.client_faults import crash_at, run_before_call

DELIVERED_ORDER_TYPES = {"Order", "Payment", "Shipment"}
"""The types of items that the archive object of a delivered order must contain, among others."""


def run_erasure(harness: ShopHarness) -> dict[str, int]:
    return customer_erasure.handler({"time": harness.now().strftime("%Y-%m-%dT%H:%M:%SZ")}, None)


def archive_expired_orders(harness: ShopHarness) -> None:
    assert run_archive(*order_messages(expire_everything(harness))) == []


def restore_from_archive(harness: ShopHarness, order_id: str) -> None:
    """Restore an order an hour after it was archived, which is longer than a restore must wait."""
    harness.clock_offset += timedelta(hours=1)
    restore_order(harness.shop, make_archive_fetcher(clients.client("s3"), "archive"), order_id)


def archived_item_types(harness: ShopHarness, order_id: str) -> set[str]:
    """Return the types of the items in the archive object of the order's stub. {} if the object is lost."""
    body: Any = harness.objects("archive").get(text(stored_order(harness, order_id), "object_key"), b'{"items": []}')
    return {image["type"]["S"] for image in json.loads(body)["items"]}


@detects(
    "erasure deletes the next archive object",
    edit_code(customer_erasure._delete_earlier_archives, ("> order.version", "> order.version + 1")),
)
def test_an_erasure_keeps_the_object_of_a_restored_order_that_is_archived_again_meanwhile(harness: ShopHarness) -> None:
    order_id = create_delivered_order(harness)
    archive_expired_orders(harness)
    restore_from_archive(harness, order_id)
    harness.process_all()
    erase_customer(harness.shop, ANN, ANN.id)
    run_erasure(harness)
    harness.process_all()
    messages = order_messages(expire_everything(harness))
    with run_before_call("s3", "ListObjectVersions", lambda: run_archive(*messages)):
        run_erasure(harness)
    assert archived_item_types(harness, order_id) >= DELIVERED_ORDER_TYPES


@detects(
    "erasure deletes every archive object but the one it knows",
    edit_code(
        customer_erasure._rewrite_archive_without_address,
        (
            "_delete_earlier_archives(bucket, stub, key)",
            "object_store.delete_all_versions(bucket, archive_prefix(stub), lambda other: other == key)",
        ),
    ),
)
def test_an_erasure_keeps_the_object_of_an_order_that_is_restored_and_archived_meanwhile(harness: ShopHarness) -> None:
    order_id = create_delivered_order(harness)
    archive_expired_orders(harness)
    harness.process_all()
    erase_customer(harness.shop, ANN, ANN.id)
    run_erasure(harness)

    def restore_and_archive() -> None:
        restore_from_archive(harness, order_id)
        harness.process_all()
        archive_expired_orders(harness)

    with (
        ThreadPoolExecutor(1) as process,
        run_before_call("s3", "ListObjectVersions", lambda: process.submit(restore_and_archive).result()),
    ):
        run_erasure(harness)
    assert archived_item_types(harness, order_id) >= DELIVERED_ORDER_TYPES


@detects(
    "erasure deletes the object of an order that is being archived",
    edit_code(customer_erasure.remove_address, (' or order.status == "ARCHIVING"', "")),
)
def test_an_erasure_keeps_the_object_of_a_restored_order_whose_archiving_was_interrupted(harness: ShopHarness) -> None:
    order_id = create_delivered_order(harness)
    archive_expired_orders(harness)
    restore_from_archive(harness, order_id)
    harness.process_all()
    erase_customer(harness.shop, ANN, ANN.id)
    run_erasure(harness)
    harness.process_all()
    messages = order_messages(expire_everything(harness))
    with crash_at("dynamodb", "BatchWriteItem"):
        run_archive(*messages)
    run_erasure(harness)
    assert run_archive(*messages) == []
    assert archived_item_types(harness, order_id) >= DELIVERED_ORDER_TYPES


@detects(
    "erasure updates a stub without a condition", patch_attribute(erasure, "update", without_condition(writes.update))
)
def test_an_erasure_does_not_write_its_object_key_into_an_order_that_is_restored_meanwhile(
    harness: ShopHarness,
) -> None:
    order_id = create_delivered_order(harness)
    archive_expired_orders(harness)
    harness.process_all()
    erase_customer(harness.shop, ANN, ANN.id)
    harness.process_all()
    with (
        run_before_call("dynamodb", "UpdateItem", lambda: restore_from_archive(harness, order_id)),
        suppress(RunIncomplete),
    ):
        run_erasure(harness)
    order = stored_order(harness, order_id)
    assert (text(order, "type"), "object_key" in order) == ("Order", False)


@detects(
    "settle period counts from the request",
    edit_code(erasure.finish_erasure, ("< erased.updated_at", "< erased.erased_at")),
)
def test_an_erasure_ends_14_days_after_the_last_data_was_removed_and_not_after_the_request(
    harness: ShopHarness,
) -> None:
    harness.open_shop()
    order_id = harness.place_order()
    harness.pay_order(order_id)
    harness.process_all()
    erase_customer(harness.shop, ANN, ANN.id)
    finished_by_day = {}
    for day in (1, 10, 15, 23, 25):
        if day == 10:
            harness.dispatch_order(order_id)
            harness.deliver_order(order_id)
        harness.process_all()
        harness.clock_offset = timedelta(days=day)
        finished_by_day[day] = run_erasure(harness)["finished"]
    assert finished_by_day == {1: 0, 10: 0, 15: 0, 23: 0, 25: 1}
