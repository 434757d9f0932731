"""Tests from which stock parts an order takes its goods, and that each part gets its own pieces back."""

from dataclasses import replace

import pytest

from functions.dynamodb.errors import TableBusy
from functions.dynamodb.writes import update
from functions.model import table as t
from functions.model.entities import Line, Order, hash_to_bucket
from functions.model.errors import OutOfStock
from functions.shop import cancellation, stock
from functions.shop.placing import derive_order_id
from functions.shop.shop import ShopContext
from proof.support.actors import (
    ANN,
    available_by_part,
    create_stocked_product,
    get_order,
    get_stock,
    place,
    place_order_as,
)
from proof.support.client_faults import WireTap


def taken(order: Order, product_id: str = "vase") -> dict[str, int]:
    return dict(order.lines[product_id].quantity_by_stock_part)


def test_an_order_starts_at_the_same_part_every_time_and_takes_all_from_it_if_it_can(
    shop: ShopContext, wire: WireTap
) -> None:
    create_stocked_product(shop, "vase", 40, parts=4)
    wire.clear()
    order = place(shop, vase=10)
    assert wire.operations == ["BatchGetItem", "TransactWriteItems"]
    (part,) = taken(order)
    assert part == str(hash_to_bucket(order.order_id, 4))
    assert available_by_part(shop, "vase") == [0 if str(number) == part else 10 for number in range(4)]


def test_orders_spread_over_the_parts(shop: ShopContext) -> None:
    create_stocked_product(shop, "vase", 400, parts=4)
    started = {next(iter(taken(place(shop, f"k{n}", vase=1)))) for n in range(20)}
    assert started == {"0", "1", "2", "3"}


def test_an_order_spans_parts_when_one_does_not_hold_enough(shop: ShopContext, wire: WireTap) -> None:
    create_stocked_product(shop, "vase", 40, parts=4)
    wire.clear()
    order = place(shop, vase=25)
    assert wire.operations == ["BatchGetItem", "TransactWriteItems", "BatchGetItem", "TransactWriteItems"]
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
    for part, available_now in zip(get_stock(shop, "vase"), held, strict=True):
        shop.table.write(update(t.STOCK, part, replace(part, available=available_now, version=2)))
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


def test_every_last_one_of_all_parts_can_be_ordered_and_no_more(shop: ShopContext) -> None:
    create_stocked_product(shop, "vase", 10, parts=4)
    quantities = [place(shop, f"k{number}", vase=3).lines["vase"].quantity for number in range(3)]
    assert sum(quantities) == 9
    with pytest.raises(OutOfStock) as refusal:
        place_order_as(shop, ANN, "k", vase=2)
    assert refusal.value.short == {"vase": 1}
    place(shop, "last", vase=1)
    assert available_by_part(shop, "vase") == [0, 0, 0, 0]


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
