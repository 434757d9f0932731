"""Totals as the copies' reader keeps them on a real stream's records: every order counts once, whatever comes again."""

import random
from dataclasses import replace
from typing import Any

import pytest

from functions import copies
from functions.dynamodb.writes import put
from functions.model import counters, entities
from functions.model.entities import BestSeller, Counted, Metric
from functions.model.lives import METRIC_DAYS
from functions.model.table import BEST_SELLER, BY_TYPE, COUNTED, METRIC, ORDER, RETURN, REVIEW
from functions.shop import discounts, ending, placing, products, returns, reviews, shipments
from functions.shop.placing import MOST_PRODUCTS
from ops.recover import recover_copies, redrive
from tests.functions.faults import counted, dying, losing_the_answer, meanwhile, refusing
from tests.model.samples import SAMPLES
from tests.shopfloor import ANN, HOME, STAFF, WAREHOUSE, Shopfloor

Record = dict[str, Any]


def items(floor: Shopfloor) -> list[Any]:
    """All that lies in the table, read."""
    images = floor.shop.table.client.scan(TableName=floor.shop.table.name, ConsistentRead=True)["Items"]
    return [BY_TYPE[image["type"]["S"]].read(image) for image in images]


def units(floor: Shopfloor) -> dict[str, int]:
    return {item.product_id: item.units for item in items(floor) if isinstance(item, BestSeller)}


def metric(floor: Shopfloor) -> tuple[int, int, int]:
    """Orders, pieces and revenue, of all minutes and shards."""
    points = [item for item in items(floor) if isinstance(item, Metric)]
    return sum(p.orders for p in points), sum(p.units for p in points), sum(p.revenue for p in points)


def is_what_the_primaries_add_up_to(floor: Shopfloor) -> bool:
    there = items(floor)
    primaries = {row: [item for item in there if isinstance(item, row.entity)] for row in (ORDER, RETURN, REVIEW)}
    totals = {
        counters.place(row, item): counters.amounts_of(row, item)
        for row in counters.AMOUNTS
        for item in there
        if isinstance(item, row.entity)
    }
    made_anew = counters.folded(primaries)
    return {k: v for k, v in made_anew.items() if any(v.values())} == {
        k: v for k, v in totals.items() if any(v.values())
    }


def handle(*records: Record) -> dict[str, Any]:
    return copies.handler({"Records": list(records)}, None)


def paid(floor: Shopfloor, key: str = "key-1", **quantities: int) -> str:
    order_id = floor.place(key, **quantities)
    floor.pay(order_id, f"evt_{key}", f"pi_{key}")
    return order_id


@pytest.fixture
def opened(floor: Shopfloor) -> Shopfloor:
    floor.open_shop(available=100)
    floor.settle(("copies",))
    return floor


# what counts ----------------------------------------------------------------------------------------------------------
def test_an_order_counts_once_it_is_paid(opened: Shopfloor) -> None:
    order_id = opened.place(mug=2, pot=1)
    opened.settle(("copies",))
    assert (units(opened), metric(opened)) == ({}, (0, 0, 0))
    opened.pay(order_id)
    opened.settle(("copies",))
    assert (units(opened), metric(opened)) == ({"mug": 2, "pot": 1}, (1, 3, 3750))
    assert is_what_the_primaries_add_up_to(opened)


def test_what_is_cancelled_after_it_was_paid_counts_no_more(opened: Shopfloor) -> None:
    paid(opened, "one", mug=3)
    cancelled = paid(opened, "two", mug=1, pot=2)
    opened.settle(("copies",))
    assert units(opened) == {"mug": 4, "pot": 2}
    ending.cancel_order(opened.shop, ANN, cancelled)
    opened.settle(("copies",))
    assert (units(opened), metric(opened)) == ({"mug": 3, "pot": 0}, (1, 3, 3750))
    assert is_what_the_primaries_add_up_to(opened)


def test_of_an_order_that_was_cut_short_counts_what_was_sent(opened: Shopfloor) -> None:
    order_id = paid(opened, mug=3, pot=1)
    opened.settle(("copies",))
    shipments.request_shipment(opened.shop, order_id)
    shipments.dispatch(opened.shop, WAREHOUSE, order_id, f"{order_id}-1", "dhl", "1", {"pot": 1, "mug": 1})
    ending.cancel_order(opened.shop, ANN, order_id)
    ending.agree_cancel(opened.shop, WAREHOUSE, order_id)
    opened.settle(("copies",))
    assert (units(opened), metric(opened)) == ({"mug": 1, "pot": 1}, (1, 2, 2500))
    assert is_what_the_primaries_add_up_to(opened)


def test_what_comes_back_is_taken_off_when_it_does(opened: Shopfloor) -> None:
    order_id = paid(opened, mug=3)
    opened.settle()
    opened.ship(order_id)
    opened.deliver(order_id)
    returns.return_goods(opened.shop, STAFF, "back", order_id, {"mug": returns.Back(2, restock=True)})
    opened.settle()
    assert (units(opened), metric(opened)) == ({"mug": 1}, (1, 1, 1250))
    assert is_what_the_primaries_add_up_to(opened)


def test_an_order_that_costs_nothing_counts_too(opened: Shopfloor) -> None:
    discounts.create_discount(opened.shop, STAFF, "FREE", 100)
    placing.place_order(opened.shop, ANN, "free", {"mug": placing.Wanted(2)}, HOME, {"key": "free"}, "FREE")
    opened.settle(("copies",))
    assert (units(opened), metric(opened)) == ({"mug": 2}, (1, 2, 0))
    assert is_what_the_primaries_add_up_to(opened)


def test_what_the_archive_does_to_an_order_sells_nothing_and_takes_nothing_back(opened: Shopfloor) -> None:
    order_id = paid(opened, mug=3)
    opened.settle()
    opened.ship(order_id)
    opened.deliver(order_id)
    opened.settle()
    before = units(opened)
    opened.wait(400)
    opened.settle(times=2)
    assert "ArchivedOrder" in {image["type"]["S"] for image in opened.partition(f"ORDER#{order_id}")}
    assert units(opened) == before == {"mug": 3}


def test_minutes_end_after_thirty_days_and_months_stay(opened: Shopfloor) -> None:
    order_id = paid(opened, mug=3)
    opened.settle()
    opened.wait(METRIC_DAYS + 1)
    assert not [item for item in items(opened) if isinstance(item, Metric)]
    ending.cancel_order(opened.shop, ANN, order_id)
    ending.agree_cancel(opened.shop, WAREHOUSE, order_id)
    opened.settle(("copies",))
    assert units(opened) == {"mug": 0}
    assert not [item for item in items(opened) if isinstance(item, Metric)], (
        "a minute that has ended does not come back"
    )


def test_a_month_is_final_sixty_days_after_its_end(opened: Shopfloor) -> None:
    order_id = paid(opened, mug=3)
    opened.settle()
    opened.wait(31 + 61)
    ending.cancel_order(opened.shop, ANN, order_id)
    ending.agree_cancel(opened.shop, WAREHOUSE, order_id)
    opened.settle(("copies",))
    assert units(opened) == {"mug": 3}


# ratings --------------------------------------------------------------------------------------------------------------
def bought(floor: Shopfloor) -> str:
    order_id = paid(floor, mug=1)
    floor.settle()
    floor.ship(order_id)
    floor.deliver(order_id)
    floor.settle()
    return order_id


def rating(floor: Shopfloor) -> tuple[int, int]:
    found = reviews.rating_of_product(floor.shop, "mug")
    assert is_what_the_primaries_add_up_to(floor)
    return found.reviews, found.stars


def test_a_rating_follows_what_is_written_changed_taken_back_and_written_anew(opened: Shopfloor) -> None:
    order_id = bought(opened)
    assert rating(opened) == (0, 0)
    for stars in (2, 5):
        reviews.write_review(opened.shop, ANN, "mug", order_id, stars, "Well.")
        opened.settle(times=2)
        assert rating(opened) == (1, stars)
    reviews.delete_review(opened.shop, ANN, "mug", ANN.id)
    opened.settle(times=2)
    assert rating(opened) == (0, 0)
    opened.wait(days=0.001)
    reviews.write_review(opened.shop, ANN, "mug", order_id, 4, "After all.")
    opened.settle(times=2)
    assert rating(opened) == (1, 4)
    handle(*opened.seen)
    assert rating(opened) == (1, 4), "the old review's end comes again and does not end the new one"


def test_what_another_says_counts_beside_it(opened: Shopfloor) -> None:
    order_id = bought(opened)
    other = replace(SAMPLES[REVIEW], customer_id="bob", stars=1)
    opened.shop.table.write(put(REVIEW, other))
    reviews.write_review(opened.shop, ANN, "mug", order_id, 4, "")
    opened.settle(("copies",))
    assert rating(opened) == (2, 5)


def test_a_review_whose_end_nobody_heard_of_is_taken_off_by_state(opened: Shopfloor) -> None:
    order_id = bought(opened)
    kept = replace(SAMPLES[REVIEW], customer_id="bob", stars=1)
    opened.shop.table.write(put(REVIEW, kept))
    reviews.write_review(opened.shop, ANN, "mug", order_id, 4, "")
    opened.settle(("copies",))
    reviews.delete_review(opened.shop, ANN, "mug", ANN.id)
    ends = opened.records()  # lost
    recover_copies(opened.shop)
    assert rating(opened) == (1, 1)
    recover_copies(opened.shop)
    handle(*ends)
    assert rating(opened) == (1, 1)
    opened.wait(days=0.001)
    reviews.write_review(opened.shop, ANN, "mug", order_id, 3, "")
    opened.settle(("copies",))
    assert rating(opened) == (2, 4)


def test_the_end_of_a_review_that_was_kept_is_redriven(opened: Shopfloor) -> None:
    order_id = bought(opened)
    reviews.write_review(opened.shop, ANN, "mug", order_id, 4, "")
    opened.settle(("copies",))
    reviews.delete_review(opened.shop, ANN, "mug", ANN.id)
    for record in opened.records():
        redrive(opened.shop, lambda _: None, record)
    assert rating(opened) == (0, 0)


def test_orders_whose_payment_nobody_heard_of_are_counted_by_state(opened: Shopfloor) -> None:
    paid(opened, "one", mug=2)
    opened.records()  # lost
    paid(opened, "two", mug=1)
    opened.settle(("copies",))
    recover_copies(opened.shop)
    recover_copies(opened.shop)
    assert units(opened) == {"mug": 3}
    assert is_what_the_primaries_add_up_to(opened)


# once -----------------------------------------------------------------------------------------------------------------
def test_records_that_come_again_in_any_batches_count_nothing_twice(opened: Shopfloor) -> None:
    cancelled = paid(opened, "one", mug=3)
    kept = paid(opened, "two", mug=2, pot=1)
    ending.cancel_order(opened.shop, ANN, cancelled)
    opened.settle(times=2)
    opened.ship(kept)
    opened.deliver(kept)
    returns.return_goods(opened.shop, STAFF, "back", kept, {"mug": returns.Back(1, restock=True)})
    opened.settle(times=3)
    before = units(opened), metric(opened)
    assert before == ({"mug": 1, "pot": 1}, (1, 2, 2500))
    dice = random.Random(7)  # noqa: S311  no secret is made of it
    for _ in range(5):
        start = dice.randrange(len(opened.seen))
        handle(*opened.seen[start:])
    assert (units(opened), metric(opened)) == before
    assert is_what_the_primaries_add_up_to(opened)


def test_a_count_whose_answer_was_lost_is_counted_once(opened: Shopfloor) -> None:
    paid(opened, mug=2)
    records = opened.records()
    with losing_the_answer("dynamodb", "TransactWriteItems"):
        answer = handle(*records)
    if answer["batchItemFailures"]:
        handle(*records)
    assert (units(opened), metric(opened)) == ({"mug": 2}, (1, 2, 2500))


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_reader_that_dies_while_it_counts_counts_once_when_it_comes_again(opened: Shopfloor, when: Any) -> None:
    paid(opened, mug=2)
    records = opened.records()
    with dying("dynamodb", "TransactWriteItems", when):
        handle(*records)
    assert handle(*records) == {"batchItemFailures": []}
    assert (units(opened), metric(opened)) == ({"mug": 2}, (1, 2, 2500))


def test_an_order_counted_meanwhile_in_the_same_totals_is_not_lost(opened: Shopfloor) -> None:
    paid(opened, "one", mug=2)
    first = opened.records()
    paid(opened, "two", mug=5)
    second = opened.records()
    with meanwhile("dynamodb", "TransactWriteItems", lambda: handle(*second)):
        assert handle(*first) == {"batchItemFailures": []}
    assert units(opened) == {"mug": 7}
    assert is_what_the_primaries_add_up_to(opened)


def test_a_count_that_fails_is_made_when_it_comes_again(opened: Shopfloor) -> None:
    paid(opened, mug=2)
    records = opened.records()
    with refusing("dynamodb", "TransactWriteItems", "AccessDeniedException"):
        assert handle(*records)["batchItemFailures"]
    assert units(opened) == {}
    assert handle(*records) == {"batchItemFailures": []}
    assert units(opened) == {"mug": 2}


def test_a_record_that_comes_before_an_earlier_one_is_counted_as_the_later(opened: Shopfloor) -> None:
    order_id = paid(opened, mug=2)
    was_paid = opened.records()
    ending.cancel_order(opened.shop, ANN, order_id)
    was_cancelled = opened.records()
    handle(*was_cancelled)
    handle(*was_paid)
    assert metric(opened) == (0, 0, 0)
    assert is_what_the_primaries_add_up_to(opened)


def test_f16_more_shards_lose_nothing_of_what_was_counted_with_fewer(
    opened: Shopfloor, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = [paid(opened, f"order {number}", mug=1) for number in range(6)]
    opened.settle(("copies",))
    monkeypatch.setattr(entities, "SHARDS", 64)
    for order_id in orders[:3]:
        ending.cancel_order(opened.shop, ANN, order_id)
    for number in range(5):
        paid(opened, f"later {number}", mug=1)
    opened.settle(("copies",))
    points = [item for item in items(opened) if isinstance(item, Metric)]
    assert max(int(point.shard) for point in points) > 3
    assert (units(opened), metric(opened)) == ({"mug": 8}, (8, 8, 10_000))


# what it costs --------------------------------------------------------------------------------------------------------
def test_counting_is_one_read_and_one_transaction_and_what_changes_no_total_costs_nothing(opened: Shopfloor) -> None:
    order_id = paid(opened, mug=2, pot=1)
    records = opened.records()
    with counted("dynamodb", "BatchGetItem") as reads, counted("dynamodb", "TransactWriteItems") as writes:
        handle(*records)
    (read,), (write,) = reads, writes
    assert len(read["RequestItems"][opened.shop.table.name]["Keys"]) == 4
    assert len(write["TransactItems"]) == 4
    shipments.request_shipment(opened.shop, order_id)
    opened.ship(order_id)
    records = opened.records()
    with counted("dynamodb", "BatchGetItem") as reads, counted("dynamodb", "TransactWriteItems") as writes:
        handle(*records)
    assert (reads, writes) == ([], [])


def test_the_largest_order_is_counted_in_one_transaction(opened: Shopfloor) -> None:
    for number in range(MOST_PRODUCTS):
        products.create_product(opened.shop, STAFF, f"p{number}", "One", 100, "EUR", 1)
        products.receive_stock(opened.shop, STAFF, f"first p{number}", f"p{number}", 5)
    paid(opened, "all", **{f"p{number}": 1 for number in range(MOST_PRODUCTS)})
    opened.settle(("copies",))
    assert len(units(opened)) == MOST_PRODUCTS
    assert metric(opened) == (1, MOST_PRODUCTS, 100 * MOST_PRODUCTS)


def test_what_an_item_was_counted_with_is_remembered_longer_than_its_records_can_come_again(opened: Shopfloor) -> None:
    paid(opened, mug=2)
    opened.settle(("copies",))
    (mark,) = [item for item in items(opened) if isinstance(item, Counted)]
    assert mark.ttl is not None
    assert mark.ttl > counters.season_final(mark.created_at).timestamp() + 58 * 86_400
    assert (COUNTED.kind, BEST_SELLER.kind, METRIC.kind) == ("marker", "counter", "counter")
