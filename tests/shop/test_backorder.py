"""Tests backorders: a product without stock can be ordered, and the line has the number of missing pieces."""

import pytest

from functions.model.errors import InvalidInput, OutOfStock
from functions.shop import cancellation, products
from functions.shop.shop import ShopContext
from proof.support.actors import (
    ANN,
    BOB,
    STAFF,
    available_by_part,
    create_stocked_product,
    get_order,
    place,
    place_order_as,
    run_in_threads,
)
from proof.support.client_faults import WireTap


def backordered(shop: ShopContext, key: str, quantity: int) -> int:
    """Place an order for jugs. Return how many pieces were missing."""
    return place(shop, key, jug=quantity).lines["jug"].backordered


def test_available_pieces_are_taken_and_the_rest_is_backordered(shop: ShopContext, wire: WireTap) -> None:
    create_stocked_product(shop, "jug", 5, backorder=True)
    assert [backordered(shop, "k1", 3), backordered(shop, "k2", 3), backordered(shop, "k3", 4)] == [0, 1, 4]
    assert available_by_part(shop, "jug") == [-5]
    products.receive_stock(shop, STAFF, "more", "jug", 7)
    assert available_by_part(shop, "jug") == [2]
    wire.clear()
    assert backordered(shop, "k4", 2) == 0
    assert wire.operations == ["BatchGetItem", "TransactWriteItems"], (
        "available pieces are taken without a further read"
    )


def test_an_order_keeps_its_backordered_pieces(shop: ShopContext) -> None:
    create_stocked_product(shop, "jug", 1, backorder=True)
    order = place(shop, mug=1, jug=3)
    assert {id: line.backordered for id, line in order.lines.items()} == {"mug": 0, "jug": 2}
    assert get_order(shop, order.order_id) == order


def test_an_order_is_rejected_if_one_of_its_products_cannot_be_backordered(shop: ShopContext) -> None:
    create_stocked_product(shop, "jug", 0, backorder=True)
    with pytest.raises(OutOfStock) as refusal:
        place_order_as(shop, ANN, "k", jug=5, mug=11)
    assert refusal.value.short == {"mug": 10}
    assert (available_by_part(shop, "jug"), available_by_part(shop)) == ([0], [10])


def test_a_backorder_is_given_back_as_it_was_taken(shop: ShopContext) -> None:
    create_stocked_product(shop, "jug", 1, backorder=True)
    order = place(shop, jug=3)
    cancellation.cancel_order(shop, ANN, order.order_id)
    assert available_by_part(shop, "jug") == [1]


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
    create_stocked_product(shop, "vase", 5, parts=2)
    with pytest.raises(InvalidInput):
        products.update_product(shop, STAFF, "vase", backorder=True)
    assert not products.get_product(shop, "vase").backorder


def test_pieces_sold_between_the_read_and_the_write_are_backordered_too(
    shop: ShopContext, rival: ShopContext, wire: WireTap
) -> None:
    create_stocked_product(shop, "jug", 5, backorder=True)
    wire.run_before_call("TransactWriteItems", lambda: None, lambda: place_order_as(rival, BOB, "k", jug=4))
    assert backordered(shop, "key-1", 7) == 6
    assert available_by_part(shop, "jug") == [-6]


def test_concurrent_orders_beyond_the_stock_show_their_exact_backordered_pieces(shop: ShopContext) -> None:
    create_stocked_product(shop, "jug", 20, backorder=True)

    def order(number: int) -> int:
        return backordered(shop, f"k{number}", 3)

    missing = sum(run_in_threads(6, order, range(12)))
    assert available_by_part(shop, "jug") == [20 - 12 * 3]
    assert missing == 12 * 3 - 20
