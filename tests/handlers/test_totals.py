"""Tests the totals that the copies reader writes: each order counts once, under every redelivery of its records."""

import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.dynamodb.writes import put_if_absent
from functions.handlers import copies_reader
from functions.model import entities, totals
from functions.model.entities import BestSeller, Contribution, SalesMinute
from functions.model.retention import METRIC_DAYS
from functions.model.table import REVIEW, ROWS_BY_TYPE
from functions.runtime import clients
from functions.shop import cancellation, discounts, placing, returns, reviews, shipments
from functions.shop.fulfilment import fulfil_order
from functions.shop.placing import MAX_PRODUCTS
from local.world.harness import ANN, HOME_ADDRESS, STAFF, WAREHOUSE, ShopHarness
from ops.repair.rebuild import rebuild_copies
from proof.support.actors import create_stocked_product
from proof.support.client_faults import crash_at, fail_calls, lose_response, record_calls, run_before_call
from proof.support.lambda_context import FakeContext
from proof.support.late_replica import late_replica
from proof.support.samples import SAMPLES

Record = dict[str, Any]


def items(harness: ShopHarness) -> list[Any]:
    images = harness.shop.table.client.scan(TableName=harness.shop.table.name, ConsistentRead=True)["Items"]
    return [ROWS_BY_TYPE[image["type"]["S"]].decode(image) for image in images]


def pieces_sold(harness: ShopHarness) -> dict[str, int]:
    return {item.product_id: item.pieces for item in items(harness) if isinstance(item, BestSeller)}


def metric(harness: ShopHarness) -> tuple[int, int, int]:
    """Return orders, pieces and revenue, added up over all minutes and shards."""
    points = [item for item in items(harness) if isinstance(item, SalesMinute)]
    return sum(p.orders for p in points), sum(p.pieces for p in points), sum(p.revenue for p in points)


def handle(*records: Record) -> dict[str, Any]:
    return copies_reader.handler({"Records": list(records)}, None)


def paid(harness: ShopHarness, key: str = "key-1", **quantities: int) -> str:
    order_id = harness.place_order(key, **quantities)
    harness.pay_order(order_id, f"evt_{key}", f"pi_{key}")
    return order_id


def bought(harness: ShopHarness) -> str:
    """Deliver a paid order of a mug. Return its id."""
    order_id = paid(harness, mug=1)
    harness.process_all()
    harness.dispatch_order(order_id)
    harness.deliver_order(order_id)
    harness.process_all()
    return order_id


@pytest.fixture
def opened(harness: ShopHarness) -> ShopHarness:
    harness.open_shop(available=100)
    harness.process_all(("copies_reader",))
    return harness


# orders ---------------------------------------------------------------------------------------------------------------
def cut_short(harness: ShopHarness, order_id: str) -> None:
    fulfil_order(harness.shop, order_id)
    shipments.dispatch_shipment(harness.shop, WAREHOUSE, order_id, f"{order_id}-1", "dhl", "1", {"pot": 1, "mug": 1})
    cancellation.cancel_order(harness.shop, ANN, order_id)
    cancellation.agree_cancel(harness.shop, WAREHOUSE, order_id)


def take_back_two(harness: ShopHarness, order_id: str) -> None:
    fulfil_order(harness.shop, order_id)
    harness.dispatch_order(order_id)
    harness.deliver_order(order_id)
    returns.return_goods(harness.shop, STAFF, "back", order_id, {"mug": returns.ReturnedGoods(2, restock=True)})


@pytest.mark.parametrize(
    ("act", "pieces", "sales"),
    [
        (lambda harness, order_id: None, {"mug": 3, "pot": 1}, (1, 4, 5000)),
        (cut_short, {"mug": 1, "pot": 1}, (1, 2, 2500)),
        (take_back_two, {"mug": 1, "pot": 1}, (1, 2, 2500)),
        (lambda it, order_id: cancellation.cancel_order(it.shop, ANN, order_id), {"mug": 0, "pot": 0}, (0, 0, 0)),
    ],
)
def test_an_order_counts_once_it_is_paid_with_the_pieces_that_its_customer_keeps(
    opened: ShopHarness, act: Callable[[ShopHarness, str], None], pieces: dict[str, int], sales: tuple[int, int, int]
) -> None:
    order_id = opened.place_order(mug=3, pot=1)
    opened.process_all(("copies_reader",))
    assert (pieces_sold(opened), metric(opened)) == ({}, (0, 0, 0))
    opened.pay_order(order_id)
    opened.process_all(("copies_reader",))
    act(opened, order_id)
    opened.process_all(("copies_reader",))
    assert (pieces_sold(opened), metric(opened)) == (pieces, sales)


def test_an_order_that_costs_nothing_counts_too(opened: ShopHarness) -> None:
    discounts.create_discount(opened.shop, STAFF, "FREE", 10000)
    wanted = {"mug": placing.RequestedLine(2)}
    placing.place_order(opened.shop, ANN, "free", wanted, HOME_ADDRESS, {"key": "free"}, "FREE")
    opened.process_all(("copies_reader",))
    assert (pieces_sold(opened), metric(opened)) == ({"mug": 2}, (1, 2, 0))


def test_minutes_end_after_thirty_days_and_months_stay(opened: ShopHarness) -> None:
    order_id = paid(opened, mug=3)
    opened.process_all()
    opened.advance_days(METRIC_DAYS + 1)
    assert not [item for item in items(opened) if isinstance(item, SalesMinute)]
    cancellation.cancel_order(opened.shop, ANN, order_id)
    cancellation.agree_cancel(opened.shop, WAREHOUSE, order_id)
    opened.process_all(("copies_reader",))
    assert pieces_sold(opened) == {"mug": 0}
    assert not [item for item in items(opened) if isinstance(item, SalesMinute)], (
        "a minute that has ended does not come back"
    )


def test_a_month_is_final_sixty_days_after_its_end(opened: ShopHarness) -> None:
    order_id = paid(opened, mug=3)
    opened.process_all()
    opened.advance_days(31 + 61)
    cancellation.cancel_order(opened.shop, ANN, order_id)
    cancellation.agree_cancel(opened.shop, WAREHOUSE, order_id)
    opened.process_all(("copies_reader",))
    assert pieces_sold(opened) == {"mug": 3}


# ratings --------------------------------------------------------------------------------------------------------------
def rating(harness: ShopHarness) -> tuple[int, int]:
    found = reviews.get_rating_of_product(harness.shop, "mug")
    return found.reviews, found.stars


def test_a_rating_follows_reviews_that_are_written_changed_deleted_and_rewritten(opened: ShopHarness) -> None:
    order_id = bought(opened)
    assert rating(opened) == (0, 0)
    for stars in (2, 5):
        reviews.write_review(opened.shop, ANN, "mug", order_id, stars, "Well.")
        opened.process_all(times=2)
        assert rating(opened) == (1, stars)
    reviews.delete_review(opened.shop, ANN, "mug", ANN.id)
    opened.process_all(times=2)
    assert rating(opened) == (0, 0)
    opened.advance_days(days=0.001)
    reviews.write_review(opened.shop, ANN, "mug", order_id, 4, "After all.")
    opened.process_all(times=2)
    assert rating(opened) == (1, 4)
    handle(*opened.all_records)
    assert rating(opened) == (1, 4), "the repeated deletion of the old review does not delete the new one"


def test_a_review_written_again_by_a_clock_that_is_behind_counts(opened: ShopHarness) -> None:
    order_id = bought(opened)
    reviews.write_review(opened.shop, ANN, "mug", order_id, 2, "Well.")
    reviews.delete_review(opened.shop, ANN, "mug", ANN.id)
    opened.clock_offset -= timedelta(seconds=2)
    reviews.write_review(opened.shop, ANN, "mug", order_id, 4, "After all.")
    opened.process_all(("copies_reader",))
    assert rating(opened) == (1, 4)


def test_a_review_whose_deletion_record_was_lost_is_subtracted_by_its_state(opened: ShopHarness) -> None:
    order_id = bought(opened)
    kept = replace(SAMPLES[REVIEW], customer_id="bob", stars=1)
    opened.shop.table.write(put_if_absent(REVIEW, kept))
    reviews.write_review(opened.shop, ANN, "mug", order_id, 4, "")
    opened.process_all(("copies_reader",))
    reviews.delete_review(opened.shop, ANN, "mug", ANN.id)
    ends = opened.new_records()  # these records are lost until they are handled below
    rebuild_copies(opened.shop)
    assert rating(opened) == (1, 1)
    rebuild_copies(opened.shop)
    handle(*ends)
    assert rating(opened) == (1, 1)
    opened.advance_days(days=0.001)
    reviews.write_review(opened.shop, ANN, "mug", order_id, 3, "")
    opened.process_all(("copies_reader",))
    assert rating(opened) == (2, 4)


# repeated deliveries --------------------------------------------------------------------------------------------------
def test_records_that_come_again_in_any_batches_count_nothing_twice(opened: ShopHarness) -> None:
    cancelled = paid(opened, "one", mug=3)
    kept = paid(opened, "two", mug=2, pot=1)
    cancellation.cancel_order(opened.shop, ANN, cancelled)
    opened.process_all(times=2)
    opened.dispatch_order(kept)
    opened.deliver_order(kept)
    returns.return_goods(opened.shop, STAFF, "back", kept, {"mug": returns.ReturnedGoods(1, restock=True)})
    opened.process_all(times=3)
    before = pieces_sold(opened), metric(opened)
    assert before == ({"mug": 1, "pot": 1}, (1, 2, 2500))
    dice = random.Random(7)  # noqa: S311  no secret is made of it
    for _ in range(5):
        start = dice.randrange(len(opened.all_records))
        handle(*opened.all_records[start:])
    assert (pieces_sold(opened), metric(opened)) == before


def test_totals_add_up_though_all_their_eventual_reads_are_outdated(opened: ShopHarness) -> None:
    paid(opened, "key-1", mug=2, pot=1)
    opened.process_all(("copies_reader",))
    with late_replica(clients.client("dynamodb"), opened.shop.table.name, opened.engine.dynamodb()):
        changed = [paid(opened, f"key-{number}", mug=number) for number in (2, 3)]
        opened.process_all(("copies_reader",), times=2)
        cancellation.cancel_order(opened.shop, ANN, changed[0])
        opened.process_all(("copies_reader",), times=2)
    assert (pieces_sold(opened), metric(opened)[:2]) == ({"mug": 5, "pot": 1}, (2, 6))


@pytest.mark.parametrize(
    "fault",
    [
        lambda: lose_response("dynamodb", "TransactWriteItems"),
        lambda: crash_at("dynamodb", "TransactWriteItems", "before"),
        lambda: crash_at("dynamodb", "TransactWriteItems", "after"),
        lambda: fail_calls("dynamodb", "TransactWriteItems", "AccessDeniedException"),
    ],
    ids=["a lost answer", "a crash before", "a crash after", "a missing permission"],
)
def test_a_count_that_a_fault_interrupts_is_made_once_when_it_comes_again(
    opened: ShopHarness, fault: Callable[[], AbstractContextManager[Any]]
) -> None:
    paid(opened, mug=2)
    records = opened.new_records()
    with fault():
        handle(*records)
    assert handle(*records) == {"batchItemFailures": []}
    assert (pieces_sold(opened), metric(opened)) == ({"mug": 2}, (1, 2, 2500))


def test_a_later_record_that_changes_no_amount_is_not_undone_by_a_slower_earlier_one(opened: ShopHarness) -> None:
    order_id = bought(opened)
    batches = []
    for stars in (2, 5, 2):
        reviews.write_review(opened.shop, ANN, "mug", order_id, stars, "Well.")
        batches.append(opened.new_records())
    first, second, third = batches
    handle(*first)
    with run_before_call("dynamodb", "TransactWriteItems", lambda: handle(*third)):
        assert handle(*second) == {"batchItemFailures": []}
    assert rating(opened) == (1, 2)


@pytest.mark.parametrize(("other", "result"), [(False, (1, 5)), (True, (2, 3))])
def test_a_review_written_while_a_rebuild_counts_one_of_its_product_is_in_the_rating(
    opened: ShopHarness, other: bool, result: tuple[int, int]
) -> None:
    """The other review is counted by the reader. A change of the same review is counted by nobody but the rebuild."""
    order_id = bought(opened)
    rebuild_copies(opened.shop)  # so that the next rebuild writes only what it counts for the review
    reviews.write_review(opened.shop, ANN, "mug", order_id, 2, "Well.")
    opened.new_records()  # these records are lost

    def meanwhile() -> None:
        if other:
            opened.shop.table.write(put_if_absent(REVIEW, replace(SAMPLES[REVIEW], customer_id="bob", stars=1)))
            handle(*opened.new_records())
        else:
            reviews.write_review(opened.shop, ANN, "mug", order_id, 5, "Very well.")

    with run_before_call("dynamodb", "TransactWriteItems", meanwhile):
        rebuild_copies(opened.shop)
    assert rating(opened) == result


def test_a_record_that_comes_before_an_earlier_one_is_counted_as_the_later(opened: ShopHarness) -> None:
    order_id = paid(opened, mug=2)
    was_paid = opened.new_records()
    cancellation.cancel_order(opened.shop, ANN, order_id)
    was_cancelled = opened.new_records()
    handle(*was_cancelled)
    handle(*was_paid)
    assert metric(opened) == (0, 0, 0)


def test_more_shards_keep_the_totals_of_fewer_shards(opened: ShopHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = [paid(opened, f"order {number}", mug=1) for number in range(6)]
    opened.process_all(("copies_reader",))
    monkeypatch.setattr(entities, "SALES_MINUTE_SHARDS", entities.Shards(64, 64))
    for order_id in orders[:3]:
        cancellation.cancel_order(opened.shop, ANN, order_id)
    for number in range(5):
        paid(opened, f"later {number}", mug=1)
    opened.process_all(("copies_reader",))
    points = [item for item in items(opened) if isinstance(item, SalesMinute)]
    assert max(int(point.shard) for point in points) > 3
    assert (pieces_sold(opened), metric(opened)) == ({"mug": 8}, (8, 8, 10_000))


# cost -----------------------------------------------------------------------------------------------------------------
def test_a_contribution_costs_one_read_and_one_transaction_and_an_unchanged_one_costs_nothing(
    opened: ShopHarness,
) -> None:
    order_id = paid(opened, mug=2, pot=1)
    records = opened.new_records()
    with record_calls("dynamodb", "BatchGetItem") as reads, record_calls("dynamodb", "TransactWriteItems") as writes:
        handle(*records)
    (read,), (write,) = reads, writes
    assert len(read["RequestItems"][opened.shop.table.name]["Keys"]) == 4
    assert len(write["TransactItems"]) == 4
    fulfil_order(opened.shop, order_id)
    opened.dispatch_order(order_id)
    records = opened.new_records()
    with record_calls("dynamodb", "BatchGetItem") as reads, record_calls("dynamodb", "TransactWriteItems") as writes:
        handle(*records)
    assert (reads, writes) == ([], [])


def test_the_orders_of_a_batch_are_counted_in_one_transaction(opened: ShopHarness) -> None:
    paid(opened, "key-0", mug=1)
    opened.process_all(("copies_reader",))
    for number in range(1, 9):
        paid(opened, f"key-{number}", mug=number, pot=1)
    records = opened.new_records()
    with record_calls("dynamodb", "BatchGetItem") as reads, record_calls("dynamodb", "TransactWriteItems") as writes:
        assert handle(*records) == {"batchItemFailures": []}
    (read,), (write,) = reads, writes
    changed = len(write["TransactItems"])
    assert len(read["RequestItems"][opened.shop.table.name]["Keys"]) == changed
    assert 8 + 2 < changed <= 8 + 2 + 8, "contributions, the products' totals and those of a minute"
    assert (pieces_sold(opened), metric(opened)) == ({"mug": 37, "pot": 8}, (9, 45, 45 * 1250))
    handle(*records)
    assert metric(opened) == (9, 45, 45 * 1250)


def test_more_contributions_than_fit_into_a_transaction_are_split(
    opened: ShopHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies_reader, "MAX_FOLDED_ITEMS", 6)
    for number in range(1, 6):
        paid(opened, f"key-{number}", mug=number, pot=1)
    with record_calls("dynamodb", "TransactWriteItems") as writes:
        assert handle(*opened.new_records()) == {"batchItemFailures": []}
    assert len(writes) >= 2
    assert all(len(write["TransactItems"]) <= 6 for write in writes)
    assert (pieces_sold(opened), metric(opened)) == ({"mug": 15, "pot": 5}, (5, 20, 20 * 1250))


def test_a_contribution_that_fails_holds_back_neither_others_nor_copies(opened: ShopHarness) -> None:
    for number in range(1, 4):
        paid(opened, f"key-{number}", mug=number)
    records = opened.new_records()
    with fail_calls("dynamodb", "TransactWriteItems", "InternalServerError", times=2):  # all orders, then only order 1
        (failed,) = handle(*records)["batchItemFailures"]
    assert metric(opened)[:2] == (2, 5)
    again = [record for record in records if int(record["dynamodb"]["SequenceNumber"]) >= int(failed["itemIdentifier"])]
    assert handle(*again) == {"batchItemFailures": []}
    assert (pieces_sold(opened), metric(opened)[:2]) == ({"mug": 6}, (3, 6))


def test_the_largest_order_is_counted_in_one_transaction(opened: ShopHarness) -> None:
    for number in range(MAX_PRODUCTS):
        create_stocked_product(opened.shop, f"p{number}", 5, price=100)
    paid(opened, "all", **{f"p{number}": 1 for number in range(MAX_PRODUCTS)})
    opened.process_all(("copies_reader",))
    assert len(pieces_sold(opened)) == MAX_PRODUCTS
    assert metric(opened) == (1, MAX_PRODUCTS, 100 * MAX_PRODUCTS)


def test_the_contribution_of_an_item_is_kept_longer_than_its_records_can_be_redelivered(opened: ShopHarness) -> None:
    paid(opened, mug=2)
    opened.process_all(("copies_reader",))
    (mark,) = [item for item in items(opened) if isinstance(item, Contribution)]
    assert mark.ttl is not None
    assert mark.ttl > totals.season_final_at(mark.created_at).timestamp() + 58 * 86_400


# batches whose time ends ----------------------------------------------------------------------------------------------
def test_totals_that_must_be_counted_one_by_one_wait_for_the_next_delivery_when_the_time_is_over(
    harness: ShopHarness,
) -> None:
    harness.open_shop()
    for number in range(3):
        harness.pay_order(harness.place_order(f"key-{number}", mug=1), f"evt_{number}", f"pi_{number}")
    records = harness.new_records()
    context = FakeContext(900)
    slow = run_before_call("dynamodb", "TransactWriteItems", context.spending(890, lambda: None))
    with slow, fail_calls("dynamodb", "TransactWriteItems", "InternalServerError", times=1):
        answer = copies_reader.handler({"Records": records}, context)
    left = [it["itemIdentifier"] for it in answer["batchItemFailures"]]
    assert metric(harness) == (0, 0, 0)
    assert len(left) == 3, "the latest record of each order is left"
    context.remaining_seconds = 900
    rest = [it for it in records if int(it["dynamodb"]["SequenceNumber"]) >= int(left[0])]
    assert copies_reader.handler({"Records": rest}, context) == {"batchItemFailures": []}
    assert metric(harness)[:2] == (3, 3)
