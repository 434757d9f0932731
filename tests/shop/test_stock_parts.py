"""Tests from which stock parts an order takes its goods, and that no piece is lost while their number changes."""

from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from functions.dynamodb.errors import TableBusy
from functions.dynamodb.writes import update
from functions.model import table as t
from functions.model.entities import Line, Order, Stock, hash_to_bucket
from functions.model.errors import InvalidInput, OutOfStock
from functions.shop import cancellation, products, stock
from functions.shop.lists import ListRequest
from functions.shop.placing import derive_order_id
from functions.shop.shop import ShopContext
from functions.shop.stock_parts import MOVE_SECONDS, plan_moves
from proof.support.actors import (
    ANN,
    BOB,
    STAFF,
    available_by_part,
    create_stocked_product,
    get_order,
    get_stock,
    place,
    place_order_as,
)
from proof.support.client_faults import ProcessKilled, WireTap
from tests.shop.conftest import TappedShop


def resize(shop: ShopContext, parts: int, product_id: str = "vase") -> None:
    products.update_product(shop, STAFF, product_id, parts=parts)


def filled(shop: ShopContext, product_id: str = "vase") -> dict[int, int]:
    """Return the available pieces of the stock parts that are not empty, by the number of the part."""
    return {part.part: part.available for part in get_stock(shop, product_id) if part.available}


def total(shop: ShopContext) -> int:
    parts = get_stock(shop, "vase")
    assert not sum(part.moved or 0 for part in parts)
    assert min(part.available for part in parts) >= 0
    return sum(part.available for part in parts)


def hold(shop: ShopContext, *pieces: int) -> None:
    """Set the available pieces of each stock part."""
    for part, available in zip(get_stock(shop, "vase"), pieces, strict=True):
        shop.table.write(update(t.STOCK, part, replace(part, available=available, version=part.version + 1)))


# more and fewer parts -------------------------------------------------------------------------------------------------
def test_a_raised_number_spreads_the_goods_and_a_lowered_one_collects_them(shop: ShopContext) -> None:
    create_stocked_product(shop, "vase", 41)
    resize(shop, 20)
    assert sorted(available_by_part(shop, "vase")) == [2] * 19 + [3]
    resize(shop, 3)
    assert set(filled(shop)) == {0, 1, 2}
    assert sorted(filled(shop).values()) == [13, 14, 14]
    resize(shop, 1)
    assert filled(shop) == {0: 41}
    assert len(get_stock(shop, "vase")) == 20, "a part is never deleted"
    resize(shop, 4)
    assert set(filled(shop)) == {0, 1, 2, 3}
    assert products.get_product(shop, "vase").parts_created == 20


def test_the_largest_number_of_parts_is_made_and_drained_within_the_time_limit(shop: TappedShop) -> None:
    create_stocked_product(shop, "vase", 400)
    resize(shop, 90)
    assert (len(get_stock(shop, "vase")), total(shop)) == (90, 400)
    products.receive_stock(shop, STAFF, "more", "vase", 500)
    shop.wire.clear()
    resize(shop, 1)
    assert filled(shop) == {0: 900}
    assert len(shop.wire.operations) < 100, "at 20 ms each, it is far from the limit of 15 seconds"


def test_a_resize_that_takes_too_long_ends_as_busy_and_is_completed_by_the_next(shop: TappedShop) -> None:
    create_stocked_product(shop, "vase", 40)
    shop.wire.run_before_call("TransactWriteItems", *[lambda: shop.clock.sleep(MOVE_SECONDS / 2) for _ in range(4)])
    with pytest.raises(TableBusy):
        resize(shop, 20)
    assert 2 < len(filled(shop)) < 20
    resize(shop, 20)
    assert available_by_part(shop, "vase") == [2] * 20


@pytest.mark.parametrize(
    ("held", "active", "after"),
    [
        ({0: 9, 1: 0, 2: 0}, 3, {0: 3, 1: 3, 2: 3}),
        ({0: 3, 1: 4, 2: 3}, 3, {0: 3, 1: 4, 2: 3}),
        ({0: 0, 1: 5, 2: 5}, 1, {0: 10, 1: 0, 2: 0}),
        ({0: -5, 1: 3}, 1, {0: -2, 1: 0}),
        ({0: -5, 1: 9, 2: 2}, 2, {0: 3, 1: 3, 2: 0}),
        ({0: -5, 1: 0}, 2, {0: -5, 1: 0}),
        ({0: 0, 1: 0}, 2, {0: 0, 1: 0}),
    ],
    ids=str,
)
def test_moves_make_the_active_parts_equal_and_take_nothing_that_is_not_there(
    held: dict[int, int], active: int, after: dict[int, int]
) -> None:
    result = dict(held)
    for move in plan_moves(held, active):
        assert 0 < move.quantity <= result[move.source]
        result[move.source] -= move.quantity
        result[move.target] += move.quantity
    assert result == after


# orders during a change -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1)])
def test_two_buyers_of_the_last_piece_while_it_is_moved_and_one_has_it(
    shop: TappedShop, before: int, after: int
) -> None:
    create_stocked_product(shop, "vase", 0, parts=before)
    hold(shop, *[0] * (before - 1), 1)  # a decrease must then move the only piece

    def buy() -> None:
        place_order_as(shop.rival, ANN, "one", vase=1)
        with pytest.raises(OutOfStock):
            place_order_as(shop.rival, BOB, "two", vase=1)

    shop.wire.run_before_call("TransactWriteItems", lambda: None, buy)
    resize(shop, after)
    with suppress(OutOfStock):
        buy_all = place_order_as(shop, BOB, "three", vase=1)
        assert buy_all is None, "the piece was sold twice"
    assert total(shop) == 0 if before > after else total(shop) <= 1


def test_pieces_that_are_sold_just_before_they_are_moved_are_not_moved(shop: TappedShop) -> None:
    create_stocked_product(shop, "vase", 3, parts=3)
    shop.meanwhile(lambda rival: place_order_as(rival, ANN, "one", vase=3))
    resize(shop, 1)
    assert available_by_part(shop, "vase") == [0, 0, 0]


def test_a_piece_that_is_moved_between_two_reads_is_not_out_of_stock(shop: TappedShop) -> None:
    """One read of the stock sees one part after a move of the piece, and the other part before the move."""
    create_stocked_product(shop, "vase", 0, parts=3)
    hold(shop, 0, 0, 1)
    seen: list[Any] = []

    def torn(keys: Any, *, consistent: bool = False) -> list[Any]:
        found = read(keys, consistent=consistent)
        if not seen and any(isinstance(item, Stock) for item in found):
            seen.append(found)
            resize(shop.rival, 1)
            again = {item.part: item for item in read(keys, consistent=True)}
            return [item if item.part == 0 else again[item.part] for item in found]
        return found

    read = shop.table.batch_get
    shop.table.batch_get = torn  # type: ignore[method-assign]
    key = next(f"k{n}" for n in range(99) if hash_to_bucket(derive_order_id(shop, "ann", f"k{n}"), 3) == 1)
    placed = place_order_as(shop, ANN, key, vase=1)
    assert isinstance(placed.order, Order)
    assert seen
    assert total(shop.rival) == 0


@pytest.mark.parametrize(("before", "after"), [(1, 4), (4, 1), (4, 2), (2, 4)])
def test_a_resize_killed_at_each_write_loses_no_piece_and_is_completed_by_the_next(
    shop: TappedShop, before: int, after: int
) -> None:
    create_stocked_product(shop, "vase", 40, parts=before)
    order = place(shop, vase=7)
    for killed_at in count():
        shop.wire.crash_at("TransactWriteItems", killed_at + 1)
        try:
            resize(shop, after)
        except ProcessKilled:
            assert total(shop) == 33
            assert products.get_product_with_stock(shop, "vase").available == 33
        else:
            break
        resize(shop, after)
        assert (len(filled(shop)), total(shop)) == (after, 33)
        resize(shop, before)
        assert len(filled(shop)) == before
    assert shop.wire.pop_unused_replies() == ["TransactWriteItems"]
    assert (killed_at > 1, len(filled(shop)), total(shop)) == (True, after, 33)
    cancellation.cancel_order(shop, ANN, order.order_id)
    assert total(shop) == 40


# returned goods -------------------------------------------------------------------------------------------------------
def test_goods_given_back_to_a_part_that_is_not_active_any_more_are_shown_and_sold_again(shop: ShopContext) -> None:
    create_stocked_product(shop, "vase", 20, parts=20)
    orders = [place(shop, f"k{n}", vase=1) for n in range(20)]
    assert filled(shop) == {}
    resize(shop, 1)
    for order in orders[:5]:
        cancellation.cancel_order(shop, ANN, order.order_id)
    assert sum(filled(shop).values()) == 5
    assert products.get_product_with_stock(shop, "vase").available == 5
    (listed,) = [
        one
        for one in products.list_products_in_category(shop, ListRequest(ANN, 9), "/").items
        if one.product.product_id == "vase"
    ]
    assert listed.available == 5
    assert place(shop, "all", vase=5).lines["vase"].quantity == 5
    assert total(shop) == 0


def test_backorders_need_one_active_part_and_count_goods_that_came_back_to_others(shop: ShopContext) -> None:
    create_stocked_product(shop, "vase", 20, parts=2)
    order = place(shop, vase=20)
    with pytest.raises(InvalidInput):
        products.update_product(shop, STAFF, "vase", backorder=True)
    products.update_product(shop, STAFF, "vase", backorder=True, parts=1)
    with pytest.raises(InvalidInput):
        resize(shop, 2)
    assert place(shop, "owed", vase=4).lines["vase"].backordered == 4
    cancellation.cancel_order(shop, ANN, order.order_id)
    assert {part.part: part.available for part in get_stock(shop, "vase")} == {0: 6, 1: 10}
    late = place(shop, "late", vase=18)
    assert (late.lines["vase"].backordered, dict(late.lines["vase"].quantity_by_stock_part)) == (2, {"1": 10, "0": 8})
    assert sum(available_by_part(shop, "vase")) == -2
    assert get_order(shop, late.order_id) == late


def test_pieces_in_a_part_that_is_not_active_are_not_sold_while_more_are_owed(shop: ShopContext) -> None:
    create_stocked_product(shop, "vase", 2, parts=2)
    order = place(shop, vase=2)
    products.update_product(shop, STAFF, "vase", backorder=True, parts=1)
    place(shop, "owed", vase=9)
    cancellation.cancel_order(shop, ANN, order.order_id)
    assert sorted(available_by_part(shop, "vase")) == [-8, 1]
    assert products.get_product_with_stock(shop, "vase").available == 0
    assert place(shop, "late", vase=1).lines["vase"].backordered == 1


# written off ----------------------------------------------------------------------------------------------------------
def test_lost_pieces_are_written_off_from_the_parts_that_have_them(shop: ShopContext) -> None:
    create_stocked_product(shop, "cup", 7, parts=3)
    products.write_off_stock(shop, STAFF, "k", "cup", 6, "LOST")
    assert sorted(available_by_part(shop, "cup")) == [0, 0, 1]
    assert sum(part.received for part in get_stock(shop, "cup")) == 1


def test_a_piece_that_is_sold_while_it_is_written_off_is_not_removed_twice(shop: TappedShop) -> None:
    create_stocked_product(shop, "cup", 2, parts=1)
    shop.meanwhile(lambda rival: place_order_as(rival, ANN, "order", cup=1))
    with pytest.raises(OutOfStock) as refused:
        products.write_off_stock(shop, STAFF, "k", "cup", 2, "STOLEN")
    assert refused.value.short == {"cup": 1}
    assert available_by_part(shop, "cup") == [1]


# parts of an order ----------------------------------------------------------------------------------------------------
def taken(order: Order, product_id: str = "vase") -> dict[str, int]:
    return dict(order.lines[product_id].quantity_by_stock_part)


def test_an_order_starts_at_the_same_part_every_time_and_takes_all_from_it_if_it_can(shop: TappedShop) -> None:
    create_stocked_product(shop, "vase", 40, parts=4)
    shop.wire.clear()
    order = place(shop, vase=10)
    assert shop.wire.operations == ["BatchGetItem", "TransactWriteItems"]
    (part,) = taken(order)
    assert part == str(hash_to_bucket(order.order_id, 4))
    assert available_by_part(shop, "vase") == [0 if str(number) == part else 10 for number in range(4)]


def test_an_order_spans_parts_when_one_does_not_hold_enough(shop: TappedShop) -> None:
    create_stocked_product(shop, "vase", 40, parts=4)
    shop.wire.clear()
    order = place(shop, vase=25)
    assert shop.wire.operations == ["BatchGetItem", "TransactWriteItems", "BatchGetItem", "TransactWriteItems"]
    assert sorted(taken(order).values()) == [5, 10, 10]
    assert sorted(available_by_part(shop, "vase")) == [0, 0, 5, 10]
    assert get_order(shop, order.order_id) == order
    cancellation.cancel_order(shop, ANN, order.order_id)
    assert available_by_part(shop, "vase") == [10, 10, 10, 10], "each part gets its own pieces back"


@pytest.mark.parametrize(
    ("held", "wanted", "expected"),
    [
        ([1, 9, 0, 5], 10, {"1": 9, "3": 1}),
        ([1, 9, 0, 5], 6, {"1": 6}),
        ([3, 3, 3, 3], 12, {"0": 3, "1": 3, "2": 3, "3": 3}),
        ([0, 0, 7, 0], 7, {"2": 7}),
    ],
    ids=str,
)
def test_an_order_takes_from_as_few_parts_as_it_can(
    shop: ShopContext, held: list[int], wanted: int, expected: dict[str, int]
) -> None:
    create_stocked_product(shop, "vase", 0, parts=4)
    hold(shop, *held)
    key = next(f"k{n}" for n in range(99) if hash_to_bucket(derive_order_id(shop, "ann", f"k{n}"), 4) == 0)
    assert taken(place(shop, key, vase=wanted)) == expected


def test_goods_in_more_parts_than_one_transaction_takes_are_not_ordered_at_once(shop: ShopContext) -> None:
    ids = [f"p{number}" for number in range(46)]
    for id in ids:
        create_stocked_product(shop, id, 2, parts=2)
    with pytest.raises(TableBusy):
        place(shop, "key-1", **dict.fromkeys(ids, 2))
    place(shop, "key-1", **dict.fromkeys(ids[:45], 2))
    assert {tuple(available_by_part(shop, id)) for id in ids} == {(0, 0), (1, 1)}


@pytest.mark.parametrize(
    ("taken_from", "back_to"), [({"0": 9}, 0), ({"1": 4, "3": 5}, 3), ({"2": 4, "1": 4, "0": 1}, 2)], ids=str
)
def test_returned_stock_goes_to_the_part_with_the_most_taken_pieces(
    shop: ShopContext, taken_from: dict[str, int], back_to: int
) -> None:
    create_stocked_product(shop, "vase", 0, parts=4)
    order = place(shop, mug=2)
    line = Line(name="Vase", price=1, quantity=9, taken=taken_from)
    order = replace(order, lines={**order.lines, "vase": line})
    shop.table.write(*stock.restock(order, {"vase": 7, "mug": 0}))
    assert available_by_part(shop, "vase") == [7 if part == back_to else 0 for part in range(4)]
    assert available_by_part(shop) == [8]


def test_a_line_from_the_only_stock_part_stores_no_parts(shop: ShopContext) -> None:
    image = t.ORDER.encode(place(shop, mug=2))
    assert "taken" not in image["lines"]["M"]["mug"]["M"]


# busy parts -----------------------------------------------------------------------------------------------------------
BUSY = ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"]


def parts_of(wire: WireTap) -> list[list[str]]:
    """Return the keys of the stock parts that each transaction changes."""
    made = [request.body["TransactItems"] for request in wire.requests if request.operation == "TransactWriteItems"]
    keys = [[item["Update"]["Key"] for item in items if "Update" in item] for items in made]
    return [[f"{key['PK']['S']} {key['SK']['S']}" for key in of_one] for of_one in keys]


@pytest.mark.parametrize("code", BUSY)
def test_a_busy_part_is_left_for_another_at_once(shop: TappedShop, code: str) -> None:
    create_stocked_product(shop, "vase", 40, parts=4)
    shop.wire.clear()
    shop.wire.cancel_transactions("None", code)
    order = place(shop, vase=3)
    assert shop.wire.operations == ["BatchGetItem", "TransactWriteItems", "TransactWriteItems"], "no part is read"
    (first,), (second,) = parts_of(shop.wire)
    assert first != second
    assert shop.clock.pauses == []
    assert sorted(available_by_part(shop, "vase")) == [7, 10, 10, 10]
    assert get_order(shop, order.order_id) == order
    assert place_order_as(shop, ANN, "key-1", vase=3).order == order, "the same key is the same order"
    assert sum(available_by_part(shop, "vase")) == 37


def test_only_the_product_whose_part_is_busy_takes_another(shop: TappedShop) -> None:
    create_stocked_product(shop, "vase", 40, parts=4)
    create_stocked_product(shop, "bowl", 40, parts=4)
    shop.wire.clear()
    shop.wire.cancel_transactions("None", "None", "TransactionConflict")
    order = place(shop, vase=1, bowl=1)
    first, second = parts_of(shop.wire)
    calm, busy = order.lines
    assert [one for one in first if f"#{calm}" in one] == [one for one in second if f"#{calm}" in one]
    assert [one for one in first if f"#{busy}" in one] != [one for one in second if f"#{busy}" in one]


def test_the_only_part_of_a_product_is_tried_again_after_a_pause(shop: TappedShop) -> None:
    shop.wire.clear()
    shop.wire.cancel_transactions("None", "TransactionConflict", times=3)
    place(shop, mug=2)
    assert len(shop.clock.pauses) == 3
    assert len({tuple(parts) for parts in parts_of(shop.wire)}) == 1
    assert len({one.body["ClientRequestToken"] for one in shop.wire.requests if "ClientRequestToken" in one.body}) == 1


@pytest.mark.parametrize("throttled", [False, True])
def test_a_conflict_on_the_order_and_a_throttled_request_that_names_no_part_change_no_part(
    shop: TappedShop, throttled: bool
) -> None:
    create_stocked_product(shop, "vase", 40, parts=4)
    shop.wire.clear()
    if throttled:
        shop.wire.fail_calls("TransactWriteItems", "ThrottlingException")
    else:
        shop.wire.cancel_transactions("TransactionConflict", "None")
    place(shop, vase=3)
    first, second = parts_of(shop.wire)
    assert first == second
    assert len(shop.clock.pauses) == 1


def test_if_the_other_parts_are_busy_too_the_last_one_is_tried_again_with_pauses(shop: TappedShop) -> None:
    create_stocked_product(shop, "vase", 40, parts=4)
    shop.wire.clear()
    shop.wire.cancel_transactions("None", "TransactionConflict", times=5)
    place(shop, vase=3)
    parts = [part for (part,) in parts_of(shop.wire)]
    assert len({*parts[:3]}) >= 2
    assert {*parts[2:]} == {parts[2]}
    assert len(shop.clock.pauses) == 3
    assert sorted(available_by_part(shop, "vase")) == [7, 10, 10, 10]


def test_a_part_that_is_left_for_an_empty_one_ends_with_the_parts_that_have_pieces(shop: TappedShop) -> None:
    create_stocked_product(shop, "vase", 2, parts=2)
    first = place(shop, "first", vase=1)
    (empty,) = first.lines["vase"].quantity_by_stock_part
    keys = (f"k{number}" for number in range(99))
    key = next(key for key in keys if hash_to_bucket(derive_order_id(shop, "ann", key), 2) != int(empty))
    shop.wire.clear()
    shop.wire.cancel_transactions("None", "TransactionConflict")
    place(shop, key, vase=1)
    assert shop.wire.operations == ["BatchGetItem", *["TransactWriteItems"] * 2, "BatchGetItem", "TransactWriteItems"]
    assert available_by_part(shop, "vase") == [0, 0]


# backorders -----------------------------------------------------------------------------------------------------------
def backordered(shop: ShopContext, key: str, quantity: int) -> int:
    """Place an order for jugs. Return how many pieces were missing."""
    return place(shop, key, jug=quantity).lines["jug"].backordered


def test_available_pieces_are_taken_and_the_rest_is_backordered(shop: TappedShop) -> None:
    create_stocked_product(shop, "jug", 5, backorder=True)
    assert [backordered(shop, "k1", 3), backordered(shop, "k2", 3), backordered(shop, "k3", 4)] == [0, 1, 4]
    assert available_by_part(shop, "jug") == [-5]
    products.receive_stock(shop, STAFF, "more", "jug", 7)
    assert available_by_part(shop, "jug") == [2]
    shop.wire.clear()
    assert backordered(shop, "k4", 2) == 0
    assert shop.wire.operations == ["BatchGetItem", "TransactWriteItems"], (
        "available pieces are taken without a further read"
    )


def test_after_backorders_are_disabled_orders_are_rejected_until_owed_pieces_have_arrived(shop: ShopContext) -> None:
    create_stocked_product(shop, "jug", 0, backorder=True)
    place(shop, "k1", jug=3)
    products.update_product(shop, STAFF, "jug", backorder=False)
    for received, left in ((0, 0), (2, 0), (4, 3)):
        if received:
            products.receive_stock(shop, STAFF, f"r{received}", "jug", received)
        with pytest.raises(OutOfStock) as refusal:
            place_order_as(shop, ANN, "k2", jug=4)
        assert refusal.value.short == {"jug": left}
    assert backordered(shop, "k3", 3) == 0


def test_a_product_in_several_parts_is_not_for_backorder(shop: ShopContext) -> None:
    with pytest.raises(InvalidInput) as refusal:
        create_stocked_product(shop, "vase", 0, parts=2, backorder=True)
    assert refusal.value.field == "backorder"


def test_pieces_sold_between_the_read_and_the_write_are_backordered_too(shop: TappedShop) -> None:
    create_stocked_product(shop, "jug", 5, backorder=True)
    shop.wire.run_before_call("TransactWriteItems", lambda: None, lambda: place_order_as(shop.rival, BOB, "k", jug=4))
    assert backordered(shop, "key-1", 7) == 6
    assert available_by_part(shop, "jug") == [-6]
