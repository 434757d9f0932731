"""Requests and deliveries that come twice, late, or at the same moment: each has its effect once."""

import json
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from unittest import mock

from functions.model.entities import Address
from functions.runtime import clients
from functions.shop import customers, follows, orders, products, reviews
from functions.shop.shop import Caller
from local.world.harness import ANN, READERS, STAFF, WORKERS, ShopHarness
from ops.commands import restore
from proof.mutants.items import before_put_of, number, stored_items, stored_order, text
from proof.mutants.test_stock_parts import available_by_part, create_vases
from proof.support.archiving import (
    create_delivered_order,
    expire_everything,
    order_messages,
    run_archive,
)
from proof.support.client_faults import crash_at, fail_calls, run_before_call


# idempotency keys -----------------------------------------------------------------------------------------------------
def test_receipts_with_different_keys_all_add_to_the_stock_and_a_repeated_one_does_not(harness: ShopHarness) -> None:
    products.create_product(harness.shop, STAFF, "mug", "Blue mug", 1250, "EUR", 1)
    for key in ("1", "2", "3", "4", "10", "11", "2", "11"):
        products.receive_stock(harness.shop, STAFF, key, "mug", 7)
    (stock,) = stored_items(harness, "Stock")
    assert (number(stock, "available"), number(stock, "received")) == (42, 42)


def test_two_receipts_add_to_the_stock_although_the_hashes_of_their_keys_begin_alike(harness: ShopHarness) -> None:
    """The first 16 bits of the keyed hashes of these two keys are equal."""
    products.create_product(harness.shop, STAFF, "mug", "Blue mug", 1250, "EUR", 1)
    for key in ("key-383", "key-384"):
        products.receive_stock(harness.shop, STAFF, key, "mug", 7)
    (stock,) = stored_items(harness, "Stock")
    assert number(stock, "available") == 14


def test_two_orders_are_placed_although_the_hashes_of_their_keys_begin_alike(harness: ShopHarness) -> None:
    """The first 16 bits of the keyed hashes from which these two orders get their ids are equal."""
    harness.open_shop(available=10)
    for key in ("key-197", "key-348"):
        harness.place_order(key, mug=2)
    assert len(stored_items(harness, "Order")) == 2
    assert sum(number(stock, "available") for stock in stored_items(harness, "Stock")) == 16


# names ----------------------------------------------------------------------------------------------------------------
def test_an_order_gets_the_new_name_if_its_customer_is_renamed_just_before_its_summary_is_written(
    harness: ShopHarness,
) -> None:
    harness.open_shop()
    harness.process_all()
    order_id = harness.place_order()
    records = harness.new_records()

    def rename() -> None:
        customers.change_profile(harness.shop, ANN, ANN.id, "Ann Birch")
        renamed = harness.new_records()
        READERS["event_publisher"].handler({"Records": renamed}, None)
        assert (
            WORKERS["customer_name"].handler({"Records": harness.take_messages("customer_name")}, None)[
                "batchItemFailures"
            ]
            == []
        )

    with before_put_of("OrderSummary", rename):
        READERS["copies_reader"].handler({"Records": records}, None)
    harness.process_all()
    assert text(stored_order(harness, order_id), "customer_name") == "Ann Birch"


# product alerts -------------------------------------------------------------------------------------------------------
def test_a_late_page_of_an_old_campaign_sends_no_mails_to_the_followers_of_a_new_one(harness: ShopHarness) -> None:
    """Four followers are two pages. The message about the second page is delivered after the next price drop."""
    harness.open_shop()
    harness.process_all()
    for name in ("bo", "cy", "di", "ed"):
        caller = Caller(name)
        customers.register_customer(harness.shop, caller, f"{name}@example.com", name)
        follows.follow_product(harness.shop, caller, "mug")
    harness.process_all()

    def drop_price(price: int) -> list[dict[str, object]]:
        """Drop the price and notify the first page of followers. Return the messages about the second page."""
        products.update_product(harness.shop, STAFF, "mug", price=price)
        READERS["event_publisher"].handler({"Records": harness.new_records()}, None)
        assert (
            WORKERS["product_alert"].handler({"Records": harness.take_messages("product_alert")}, None)[
                "batchItemFailures"
            ]
            == []
        )
        return harness.take_messages("product_alert")

    late = drop_price(1000)
    harness.clock_offset += timedelta(days=2)
    drop_price(900)
    assert len(harness.sent_mails()) == 6
    assert WORKERS["product_alert"].handler({"Records": late}, None)["batchItemFailures"] == []
    assert len(harness.sent_mails()) == 6


# reviews --------------------------------------------------------------------------------------------------------------
def test_a_review_that_is_deleted_and_written_again_keeps_its_creation_time_and_counts_versions_on(
    harness: ShopHarness,
) -> None:
    order_id = create_delivered_order(harness)
    reviews.write_review(harness.shop, ANN, "mug", order_id, 1, "Broken.")
    (first,) = stored_items(harness, "Review")
    harness.process_all()
    harness.clock_offset += timedelta(days=1)
    reviews.delete_review(harness.shop, ANN, "mug", ANN.id)
    reviews.write_review(harness.shop, ANN, "mug", order_id, 5, "Keeps warm.")
    harness.process_all()
    (again,) = stored_items(harness, "Review")
    assert (number(first, "version"), number(again, "version")) == (1, 3)
    assert text(again, "created_at") == text(first, "created_at")
    (rating,) = stored_items(harness, "Rating")
    assert (number(rating, "reviews"), number(rating, "stars")) == (1, 5)


# the archive ----------------------------------------------------------------------------------------------------------
def test_an_order_stays_in_the_table_until_the_totals_include_it(harness: ShopHarness) -> None:
    """The copies Lambda fails each time it adds the order to the totals. The order expires before the retry."""
    harness.open_shop()
    order_id = harness.place_order(mug=2, pot=1)
    harness.pay_order(order_id)
    harness.process_all(("event_publisher",))
    harness.dispatch_order(order_id)
    harness.deliver_order(order_id)
    harness.process_all(("event_publisher",))
    with fail_calls("dynamodb", "TransactWriteItems", "AccessDeniedException"):
        for record in harness.all_records:
            READERS["copies_reader"].handler({"Records": [record]}, None)
    (expiry,) = stored_items(harness, "ExpiryMarker")
    due = {**expiry, "ttl": {"N": str(int(harness.now().timestamp()))}}
    harness.shop.table.client.put_item(TableName=harness.shop.table.name, Item=due)
    harness.advance_days(0.01)
    READERS["event_publisher"].handler({"Records": harness.new_records()}, None)
    messages = order_messages(harness.take_messages("archive"))
    assert len(run_archive(*messages)) == 1
    assert text(stored_order(harness, order_id), "type") == "Order"
    READERS["copies_reader"].handler({"Records": harness.all_records}, None)
    assert run_archive(*messages) == []
    assert text(stored_order(harness, order_id), "type") == "ArchivedOrder"
    sold = {text(total, "product_id"): number(total, "pieces") for total in stored_items(harness, "BestSeller")}
    assert sold == {"mug": 2, "pot": 1}


def test_an_order_stays_in_the_table_until_its_copies_are_written(harness: ShopHarness) -> None:
    """The copies Lambda never gets the record of the payment, and dies while it copies the next record."""
    harness.open_shop()
    order_id = harness.place_order(mug=2, pot=1)
    harness.pay_order(order_id)
    harness.process_all(("event_publisher",))
    records = [record for record in harness.all_records if record["dynamodb"]["Keys"]["SK"] == {"S": "ORDER"}]
    placed, paid, fulfilling = records
    READERS["copies_reader"].handler({"Records": [placed]}, None)
    with crash_at("dynamodb", "PutItem", "before", 4):  # the function dies before it writes the second sale
        READERS["copies_reader"].handler({"Records": [fulfilling]}, None)
    assert len(stored_items(harness, "Sale")) == 1
    harness.dispatch_order(order_id)
    harness.deliver_order(order_id)
    harness.process_all(("event_publisher",))
    harness.advance_days(396)  # the totals are final, so the archive waits for the copies alone
    READERS["event_publisher"].handler({"Records": harness.new_records()}, None)
    messages = order_messages(harness.take_messages("archive"))
    assert len(run_archive(*messages)) == 1
    assert text(stored_order(harness, order_id), "type") == "Order"
    later = [record for record in harness.all_records if record not in (placed, paid, fulfilling)]
    READERS["copies_reader"].handler({"Records": later}, None)
    assert run_archive(*messages) == []
    assert {text(sale, "product_id"): number(sale, "quantity") for sale in stored_items(harness, "Sale")} == {
        "mug": 2, "pot": 1,
    }  # fmt: skip


def test_an_order_whose_stub_is_gone_gets_no_items_from_a_restore(harness: ShopHarness) -> None:
    """The order needs two transactions. Its stub disappears after the restore read it, before the first transaction."""
    order_id = create_delivered_order(harness)
    run_archive(*expire_everything(harness))
    harness.process_all()
    harness.clock_offset += timedelta(hours=1)
    table = harness.shop.table
    key = {"PK": {"S": f"ORDER#{order_id}"}, "SK": {"S": "ORDER"}}

    def delete_stub() -> None:
        table.client.delete_item(TableName=table.name, Key=key)

    fetch = restore.make_archive_fetcher(clients.client("s3"), "archive")
    with (
        mock.patch.object(restore, "MAX_TRANSACTION_ITEMS", 1),
        run_before_call("dynamodb", "TransactWriteItems", delete_stub),
    ):
        restore.restore_order(harness.shop, fetch, order_id)
    assert [text(image, "type") for image in harness.partition(f"ORDER#{order_id}")] == ["Invoice"]


# timelines ------------------------------------------------------------------------------------------------------------
def test_the_timeline_of_an_order_has_each_of_many_changes(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=1)
    for number_of_house in range(40):
        address = Address(name="Ann", street=f"{number_of_house} Elm Row", postcode="1010", city="Wien", country="AT")
        orders.change_address(harness.shop, ANN, order_id, address)
    timelines = [image["timeline"] for image in stored_items(harness, "Order")]
    timelines += [image["entries"] for image in stored_items(harness, "EarlierTimeline")]
    versions = [int(version) for timeline in timelines for version in timeline["M"]]
    assert sorted(versions) == list(range(2, 42)), "the order says when it was placed"


# busy stock -----------------------------------------------------------------------------------------------------------
def test_an_order_takes_its_pieces_from_another_part_if_one_is_busy(harness: ShopHarness) -> None:
    create_vases(harness, 40, parts=4)
    asked: list[object] = []

    def cancel_first(params: dict[str, Any], **_: Any) -> Any:
        asked.append(json.loads(params["body"])["TransactItems"][1]["Update"]["Key"])
        if len(asked) > 1:
            return None
        reasons = [{"Code": "None"}, {"Code": "TransactionConflict"}]
        error = {"Error": {"Code": "TransactionCanceledException", "Message": "busy"}, "CancellationReasons": reasons}
        return SimpleNamespace(status_code=400, headers={}), {**error, "ResponseMetadata": {"HTTPStatusCode": 400}}

    events = clients.client("dynamodb").meta.events
    events.register_first("before-call.dynamodb.TransactWriteItems", cancel_first)
    try:
        harness.place_order("hot", vase=1)
    finally:
        events.unregister("before-call.dynamodb.TransactWriteItems", cancel_first)
    first, second = asked
    assert first != second
    assert sorted(available_by_part(harness).values()) == [9, 10, 10, 10]
