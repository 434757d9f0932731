"""Tests the cost of each command: its requests, and the units that it reads and writes.

A consistent read costs a unit for each 4 KB. A write costs a unit for each KB, in a transaction two. In each index, an
item that is added, deleted or changed costs one unit, and an item that is moved costs two. The figures do not include
rejected writes, whose cost the local engine does not report.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from functions.model.entities import Order
from functions.shop import cancellation, categories, customers, follows, products, reviews
from functions.shop.fulfilment import fulfil_order
from functions.shop.guest_links import authenticate_guest
from functions.shop.guests import join_orders
from functions.shop.lists import ListRequest
from functions.shop.shop import Caller, ShopContext
from proof.support.actors import (
    ANN,
    STAFF,
    WAREHOUSE,
    advance_to_status,
    create_stocked_product,
    ensure_category,
    place,
    place_guest_order,
    place_order_as,
    report_payment,
)
from proof.support.client_faults import WireTap
from proof.support.order_extras import MORE, READ, WRITE, furnish
from tests.shop.conftest import TappedShop


def spent(wire: WireTap, act: Callable[[], Any]) -> tuple[list[str], dict[str, float]]:
    """Return the requests of a command, and their units by kind of request."""
    wire.clear()
    act()
    return wire.operations, dict(wire.units_of)


@pytest.mark.parametrize(("products_ordered", "second_kilobyte"), [(1, 0), (2, 0), (5, 0), (20, 2)])
def test_placing_is_one_batch_get_and_one_transaction_of_3_units_and_2_for_each_product_and_further_kilobyte(
    shop: TappedShop, products_ordered: int, second_kilobyte: int
) -> None:
    ids = [f"product-{number:03}" for number in range(products_ordered)]
    for id in ids:
        create_stocked_product(shop, id, 10)
    requests, units = spent(shop.wire, lambda: place_order_as(shop, ANN, "k", **dict.fromkeys(ids, 1)))
    assert requests == ["BatchGetItem", "TransactWriteItems"]
    written = 3 + 2 * products_ordered + second_kilobyte
    assert units == {"BatchGetItem": 4 + products_ordered, "TransactWriteItems": written}


def test_the_order_of_a_guest_costs_three_units_more(shop: TappedShop) -> None:
    """The transaction also writes the guest, who is in one index."""
    requests, units = spent(shop.wire, lambda: place_guest_order(shop, mug=1))
    assert requests == ["BatchGetItem", "TransactWriteItems"]
    assert units == {"BatchGetItem": 5, "TransactWriteItems": 8}


def test_a_link_costs_one_unit_and_the_move_of_an_order_to_an_account_a_transaction(shop: TappedShop) -> None:
    made = place_guest_order(shop, mug=1)
    assert spent(shop.wire, lambda: authenticate_guest(shop, made.token)) == (["GetItem"], {"GetItem": 1})
    requests, units = spent(shop.wire, lambda: join_orders(shop, ANN, "ann"))
    assert requests == ["GetItem", "Query", "GetItem", "GetItem", "GetItem", "Query", "TransactWriteItems"]
    assert units["TransactWriteItems"] == 8


@pytest.mark.parametrize("name", MORE)
def test_the_extras_of_an_order_cost_the_recorded_units(shop: TappedShop, name: str) -> None:
    order, requests, more = MORE[name]
    furnish(shop)
    plain = {READ: 5, WRITE: 5}
    expected = {kind: plain.get(kind, 0) + more.get(kind, 0) for kind in plain | more}
    assert spent(shop.wire, lambda: order(shop)) == (requests, expected)


def placed(shop: ShopContext) -> Order:
    return place(shop, "k", mug=1, pot=1)


COSTS: dict[str, tuple[str, Callable[[ShopContext, Order], Any], dict[str, float]]] = {
    # by name: the order's status before the command, the command, and its units by request. tests/docs/test_cost.py has
    # the steps of an order's life.
    "cancel, of two products": (
        "PENDING",
        lambda shop, order: cancellation.cancel_order(shop, ANN, order.order_id),
        {"GetItem": 1, "TransactWriteItems": 2 + 1 + 2 * 2 + 2},
    ),
    "lapse, of two products": (
        "PENDING",
        lambda shop, order: cancellation.lapse_order(shop, order.order_id),
        {"GetItem": 1, "TransactWriteItems": 2 + 1 + 2 * 2 + 2},
    ),
    "a payment that comes too late: it goes back": (
        "CANCELLED",
        report_payment,
        {"Query": 1, "TransactWriteItems": 2 + 2 + 2 + 2},
    ),
    "cut short, of two products one is sent": (
        "CUT_REQUESTED",
        lambda shop, order: cancellation.agree_cancel(shop, WAREHOUSE, order.order_id),
        {"GetItem": 1, "Query": 3, "TransactWriteItems": (2 + 2) + 2 + 2 + 2},
    ),
}


@pytest.mark.parametrize("name", COSTS)
def test_a_command_costs_the_units_of_its_items_and_their_indexes(shop: TappedShop, name: str) -> None:
    status, command, expected = COSTS[name]
    order = advance_to_status(shop, placed(shop), status)
    _, units = spent(shop.wire, lambda: command(shop, order))
    assert units == expected


def test_a_customer_costs_two_items_and_a_place_in_the_list_of_customers(shop: TappedShop) -> None:
    requests, units = spent(
        shop.wire, lambda: customers.register_customer(shop, Caller("eve"), "eve@example.com", "Eve")
    )
    assert (requests, units) == (["TransactWriteItems"], {"TransactWriteItems": 5})


def test_the_first_choice_also_checks_its_customer_and_a_later_one_costs_one_write(shop: TappedShop) -> None:
    def choose(email: bool) -> Any:
        return customers.update_settings(shop, ANN, "ann", "notifications", {"email": email})

    first = (["GetItem", "GetItem", "TransactWriteItems"], {"GetItem": 2, "TransactWriteItems": 4})
    assert spent(shop.wire, lambda: choose(False)) == first
    assert spent(shop.wire, lambda: choose(True)) == (["GetItem", "UpdateItem"], {"GetItem": 1, "UpdateItem": 1})


@pytest.mark.parametrize(("quantity", "parts"), [(8, 4), (3, 3), (1, 1)])
def test_a_receipt_costs_its_memory_and_the_parts_it_fills(shop: TappedShop, quantity: int, parts: int) -> None:
    create_stocked_product(shop, "vase", 0, parts=4)
    _, units = spent(shop.wire, lambda: products.receive_stock(shop, STAFF, "r", "vase", quantity))
    assert units == {"GetItem": 2, "TransactWriteItems": 2 + 2 * parts}


@pytest.mark.parametrize("parts", [1, 20])
def test_to_show_the_stock_costs_a_unit_for_each_part(shop: TappedShop, parts: int) -> None:
    create_stocked_product(shop, "vase", 20, parts=parts)
    requests, units = spent(shop.wire, lambda: products.get_product_with_stock(shop, "vase"))
    assert (requests, units) == (["GetItem", "BatchGetItem"], {"GetItem": 1, "BatchGetItem": parts})


def test_a_larger_number_of_parts_costs_two_units_for_each_new_one_and_four_for_each_move(shop: TappedShop) -> None:
    create_stocked_product(shop, "vase", 40)
    _, units = spent(shop.wire, lambda: products.update_product(shop, STAFF, "vase", parts=20))
    assert units == {"GetItem": 2, "BatchGetItem": 1 + 19, "TransactWriteItems": (3 + 2 * 19) + 4 * 19}
    _, units = spent(shop.wire, lambda: products.update_product(shop, STAFF, "vase", parts=20))
    assert units == {"GetItem": 2, "BatchGetItem": 20}


def test_an_order_of_a_product_with_20_parts_costs_as_much_as_with_one(shop: TappedShop) -> None:
    create_stocked_product(shop, "vase", 40, parts=20)
    one, many = (spent(shop.wire, partial(place, shop, f"key {id}", **{id: 1})) for id in ("mug", "vase"))
    assert one == many


def test_a_page_of_a_category_costs_its_products_and_half_a_unit_for_each_part_of_their_stock(shop: TappedShop) -> None:
    for number in range(7):
        create_stocked_product(shop, f"jug-{number}", 1, parts=3, category="/jugs/")
    requests, units = spent(shop.wire, lambda: products.list_products_in_category(shop, ListRequest(ANN, 5), "/jugs/"))
    assert (requests, units) == (["Query", "BatchGetItem"], {"Query": 0.5, "BatchGetItem": 0.5 * 5 * 3})


def test_a_product_costs_its_stock_and_its_place_in_a_category_and_a_move_costs_two_places(shop: TappedShop) -> None:
    assert spent(shop.wire, lambda: create_stocked_product(shop, "jug", 0, parts=3))[1] == {
        "TransactWriteItems": 2 + 1 + 2 * 3
    }
    changed = spent(shop.wire, lambda: products.update_product(shop, STAFF, "jug", price=1))[1]
    assert changed == {"GetItem": 1, "UpdateItem": 1 + 1}
    ensure_category(shop, "/jugs/")
    moved = spent(shop.wire, lambda: products.update_product(shop, STAFF, "jug", category="/jugs/"))[1]
    assert moved == {"GetItem": 1 + 1, "UpdateItem": 1 + 2}, "one more read, to check that the category exists"


def test_a_category_costs_its_place_below_another_and_a_look_whether_that_is_there(shop: TappedShop) -> None:
    def make(path: str) -> Any:
        return categories.create_category(shop, STAFF, path, "Name")

    assert spent(shop.wire, lambda: make("/a/")) == (["PutItem"], {"PutItem": 1 + 1})
    assert spent(shop.wire, lambda: make("/a/b/")) == (["TransactWriteItems"], {"TransactWriteItems": (2 + 1) + 2})
    renamed = spent(shop.wire, lambda: categories.rename_category(shop, STAFF, "/a/", "Other"))[1]
    assert renamed == {"GetItem": 1, "UpdateItem": 1 + 1}


def test_a_review_costs_itself_and_its_places_with_the_product_and_the_customer(shop: TappedShop) -> None:
    order = advance_to_status(shop, placed(shop), "DELIVERED")

    def write(stars: int) -> Any:
        return reviews.write_review(shop, ANN, "mug", order.order_id, stars, "Keeps warm.")

    assert spent(shop.wire, lambda: write(5))[1] == {"BatchGetItem": 3, "PutItem": 1 + 1 + 1}
    assert spent(shop.wire, lambda: write(4))[1] == {"BatchGetItem": 3, "UpdateItem": 1 + 1 + 1}
    assert spent(shop.wire, lambda: write(4))[1] == {"BatchGetItem": 3}
    gone = spent(shop.wire, lambda: reviews.delete_review(shop, ANN, "mug", "ann"))[1]
    assert gone == {"GetItem": 1, "PutItem": 1 + 1 + 1}
    assert spent(shop.wire, lambda: write(5))[1] == {"BatchGetItem": 3, "PutItem": 1 + 1 + 1}


def test_a_follow_costs_itself_and_its_place_with_the_product(shop: TappedShop) -> None:
    assert spent(shop.wire, lambda: follows.follow_product(shop, ANN, "mug"))[1] == {
        "BatchGetItem": 3,
        "PutItem": 1 + 1,
    }
    assert spent(shop.wire, lambda: follows.follow_product(shop, ANN, "mug"))[1] == {"BatchGetItem": 3}
    assert spent(shop.wire, lambda: follows.unfollow_product(shop, ANN, "mug"))[1] == {
        "BatchGetItem": 2,
        "DeleteItem": 1 + 1,
    }


def test_repeating_a_finished_command_costs_only_reads(shop: TappedShop) -> None:
    order = advance_to_status(shop, placed(shop), "SHIPPED")
    again: list[tuple[Callable[[], Any], dict[str, float]]] = [
        (lambda: place_order_as(shop, ANN, "k", mug=1, pot=1), {"BatchGetItem": 6}),
        (lambda: products.receive_stock(shop, STAFF, "first mug", "mug", 10), {"GetItem": 1}),
        (lambda: fulfil_order(shop, order.order_id), {"Query": 1}),
        (lambda: cancellation.lapse_order(shop, order.order_id), {"GetItem": 1}),
    ]
    for act, expected in again:
        assert spent(shop.wire, act)[1] == expected
