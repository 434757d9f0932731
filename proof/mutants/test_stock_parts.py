"""No piece appears, disappears or stays behind if the number of a product's stock parts changes during orders."""

from functions.dynamodb.errors import TableBusy
from functions.model.errors import OutOfStock
from functions.shop import cancellation, products
from local.world.harness import ANN, STAFF, ShopHarness
from proof.mutants.items import number, stored_items
from proof.support.client_faults import run_before_call


def create_vases(harness: ShopHarness, available: int, parts: int) -> None:
    harness.open_shop(available=1)
    products.create_product(harness.shop, STAFF, "vase", "Blue vase", 1250, "EUR", parts)
    products.receive_stock(harness.shop, STAFF, "vases", "vase", available)


def available_by_part(harness: ShopHarness) -> dict[int, int]:
    stock = [one for one in stored_items(harness, "Stock") if one["product_id"]["S"] == "vase"]
    return {number(one, "part"): number(one, "available") for one in stock}


def test_pieces_that_are_sold_just_before_they_are_moved_are_not_moved(harness: ShopHarness) -> None:
    create_vases(harness, 6, parts=1)
    with run_before_call("dynamodb", "TransactWriteItems", lambda: harness.place_order(vase=5), call=2):
        products.update_product(harness.shop, STAFF, "vase", parts=3)
    assert sorted(available_by_part(harness).values()) == [0, 0, 1]


def test_cancelled_orders_give_their_pieces_back_to_the_parts_from_which_they_took_them(harness: ShopHarness) -> None:
    create_vases(harness, 6, parts=3)
    order_ids = [harness.place_order(key, vase=2) for key in ("key-1", "key-2", "key-3")]
    assert available_by_part(harness) == {0: 0, 1: 0, 2: 0}
    for order_id in order_ids:
        cancellation.cancel_order(harness.shop, ANN, order_id)
    assert available_by_part(harness) == {0: 2, 1: 2, 2: 2}


def test_pieces_that_come_back_to_a_part_that_is_not_active_any_more_are_shown_and_sold(harness: ShopHarness) -> None:
    create_vases(harness, 6, parts=3)
    order_id = harness.place_order("key-1", vase=6)
    products.update_product(harness.shop, STAFF, "vase", parts=1)
    cancellation.cancel_order(harness.shop, ANN, order_id)
    assert products.get_product_with_stock(harness.shop, "vase").available == 6
    try:
        harness.place_order("key-2", vase=6)
    except (OutOfStock, TableBusy):
        raise AssertionError("the pieces cannot be ordered") from None
    assert sum(available_by_part(harness).values()) == 0
