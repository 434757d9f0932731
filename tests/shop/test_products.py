"""Tests products and their stock, and that receipts are counted once."""

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from functions.model.errors import AlreadyExists, Discontinued, IdempotencyKeyReused, UnknownCategory
from functions.shop import cancellation, products
from functions.shop.lists import ListRequest
from functions.shop.shop import ShopContext
from proof.support.actors import (
    ANN,
    STAFF,
    available_by_part,
    create_stocked_product,
    ensure_category,
    get_stock,
    place,
    place_order_as,
)
from proof.support.samples import moment
from tests.shop.conftest import TappedShop


def test_a_product_is_made_with_its_stock_in_one_transaction(shop: TappedShop) -> None:
    made = products.create_product(shop, STAFF, "jug", "Blue jug", 4000, "JPY", 3)
    assert shop.wire.operations == ["TransactWriteItems"]
    assert products.get_product(shop, "jug") == made
    stock = get_stock(shop, "jug")
    assert [(part.part, part.available, part.received) for part in stock] == [(0, 0, 0), (1, 0, 0), (2, 0, 0)]


def test_a_product_is_made_once(shop: ShopContext) -> None:
    with pytest.raises(AlreadyExists):
        products.create_product(shop, STAFF, "mug", "Another mug", 1, "EUR", 1)
    assert products.get_product(shop, "mug").name == "Blue mug"


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "Red mug"},
        {"price": 999},
        {"backorder": True},
        {"category": "/mugs/"},
        {"catalog": "b2b"},
        {"name": "M", "price": 1},
    ],
)
def test_fields_that_are_not_given_stay_unchanged(shop: TappedShop, changes: dict[str, Any]) -> None:
    ensure_category(shop, "/mugs/")
    before = products.get_product(shop, "mug")
    shop.clock.sleep(60)
    changed = products.update_product(shop, STAFF, "mug", **changes)
    assert changed == replace(before, **changes, version=2, updated_at=moment(1))
    assert products.get_product(shop, "mug") == changed


# categories ---------------------------------------------------------------------------------------------------
def in_category(shop: ShopContext, category: str) -> dict[str, int]:
    """Return the available pieces of each product in a category, in the order of the list."""
    found = products.list_products_in_category(shop, ListRequest(ANN, 100), category)
    assert found.cursor is None
    return {offered.product.product_id: offered.available for offered in found.items}


def test_a_category_lists_its_products_by_id_with_their_stock(shop: ShopContext) -> None:
    create_stocked_product(shop, "jug", 3, parts=4, category="/kitchen/")
    create_stocked_product(shop, "ewer", 0, category="/kitchen/")
    create_stocked_product(shop, "cup", 5, category="/kitchen/cups/")
    assert in_category(shop, "/") == {"mug": 10, "pot": 10}
    assert list(in_category(shop, "/kitchen/").items()) == [("ewer", 0), ("jug", 3)]
    assert in_category(shop, "/kitchen/cups/") == {"cup": 5}
    assert in_category(shop, "/garden/") == {}


def test_a_product_whose_category_changes_moves_from_one_list_to_the_other(shop: ShopContext) -> None:
    ensure_category(shop, "/kitchen/")
    products.update_product(shop, STAFF, "mug", category="/kitchen/")
    assert (in_category(shop, "/"), in_category(shop, "/kitchen/")) == ({"pot": 10}, {"mug": 10})
    products.update_product(shop, STAFF, "mug", category="/")
    assert (in_category(shop, "/"), in_category(shop, "/kitchen/")) == ({"mug": 10, "pot": 10}, {})


def test_a_list_shows_zero_for_a_product_with_owed_pieces(shop: ShopContext) -> None:
    create_stocked_product(shop, "jug", 2, backorder=True, category="/jugs/")
    place_order_as(shop, ANN, "k", jug=5)
    assert available_by_part(shop, "jug") == [-3]
    assert in_category(shop, "/jugs/") == {"jug": 0}


def test_a_product_needs_a_category_that_its_catalogue_has(shop: TappedShop) -> None:
    ensure_category(shop, "/kitchen/", "b2b")
    with pytest.raises(UnknownCategory) as refused:
        products.create_product(shop, STAFF, "jug", "Jug", 1, "EUR", 1, category="/kitchen/")
    assert (refused.value.field, refused.value.path) == ("category", "/kitchen/")
    with pytest.raises(UnknownCategory):
        products.update_product(shop, STAFF, "mug", category="/kitchen/")
    assert products.update_product(shop, STAFF, "mug", category="/kitchen/", catalog="b2b").category == "/kitchen/"
    shop.wire.clear()
    products.update_product(shop, STAFF, "mug", "Red mug")
    assert shop.wire.operations == ["GetItem", "UpdateItem"], "a category that does not change is not read"
    assert products.update_product(shop, STAFF, "mug", category="/", catalog="new").category == "/"


def test_a_discontinued_product_is_in_no_category_and_in_no_new_order_until_it_is_sold_again(shop: ShopContext) -> None:
    before = place(shop, "before", mug=1)
    ended = products.update_product(shop, STAFF, "mug", discontinued=True)
    assert (ended.discontinued, ended.category, in_category(shop, "/")) == (True, "/", {"pot": 10})
    with pytest.raises(Discontinued) as refused:
        place(shop, "after", mug=1, pot=1)
    assert refused.value.product_ids == ("mug",)
    cancellation.cancel_order(shop, ANN, before.order_id)
    assert available_by_part(shop) == [10]
    products.update_product(shop, STAFF, "mug", discontinued=False)
    assert in_category(shop, "/") == {"mug": 10, "pot": 10}
    assert place(shop, "after", mug=1, pot=1).lines.keys() == {"mug", "pot"}


# receipts ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("quantity", "shares"), [(1, [1, 0, 0, 0]), (4, [1, 1, 1, 1]), (10, [3, 3, 2, 2]), (401, [101, 100, 100, 100])]
)
def test_goods_are_spread_evenly_over_the_parts(shop: ShopContext, quantity: int, shares: list[int]) -> None:
    create_stocked_product(shop, "jug", 0, parts=4)
    answer = products.receive_stock(shop, STAFF, "k", "jug", quantity)
    assert (answer.result, answer.replayed) == ({"product_id": "jug", "quantity": quantity}, False)
    stock = get_stock(shop, "jug")
    assert [part.available for part in stock] == [part.received for part in stock] == shares
    assert [part.version for part in stock] == [2 if share else 1 for share in shares]


@pytest.mark.parametrize(
    # the key and the quantity of a receipt of another process, and what is then available of 10 mugs
    ("key", "quantity", "available"),
    [("other", 7, 22), ("k", 5, 15), ("k", 7, 17)],
)
def test_of_two_receipts_at_once_each_key_counts_once(
    shop: TappedShop, key: str, quantity: int, available: int
) -> None:
    shop.meanwhile(lambda rival: products.receive_stock(rival, STAFF, key, "mug", quantity))
    with pytest.raises(IdempotencyKeyReused) if available == 17 else nullcontext():
        assert products.receive_stock(shop, STAFF, "k", "mug", 5).replayed == (key == "k")
    assert available_by_part(shop) == [available]
