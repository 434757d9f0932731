"""Orders with extras, such as a discount code, with the requests and units that each extra adds."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from functions.model.entities import hash_to_bucket
from functions.shop import discounts
from functions.shop.placing import PlacedOrder, RequestedLine, derive_order_id, place_order
from functions.shop.shop import ShopContext
from proof.support.actors import ANN, BOB, HOME_ADDRESS, STAFF, create_stocked_product, place_order_as


def place_with(shop: ShopContext, code: str) -> PlacedOrder:
    return place_order(shop, ANN, "k", {"mug": RequestedLine(1)}, HOME_ADDRESS, {}, code)


READ, WRITE = "BatchGetItem", "TransactWriteItems"


MORE: dict[str, tuple[Callable[[ShopContext], Any], list[str], dict[str, float]]] = {
    # for each extra: a function that places the order, the order's requests, and the units that the extra adds
    "an unlimited discount code": (lambda shop: place_with(shop, "SPRING"), [READ, WRITE], {READ: 1}),
    "a limited discount code": (lambda shop: place_with(shop, "FIRST40"), [READ, WRITE], {READ: 1, WRITE: 2}),
    "a limited discount code whose part is used up": (
        lambda shop: place_with(shop, "LAST"),
        [READ, WRITE, "Query", WRITE],
        {READ: 1, WRITE: 2, "Query": 1},
    ),
    "goods that the first stock part does not have": (
        lambda shop: place_order_as(shop, ANN, "k", vase=7),
        [READ, WRITE, READ, WRITE],
        {READ: 2, WRITE: 2},
    ),
    "goods that are backordered": (
        lambda shop: place_order_as(shop, ANN, "k", jug=7),
        [READ, WRITE, READ, WRITE],
        {READ: 1},
    ),
    "a limit of unpaid orders": (
        lambda shop: place_order_as(replace(shop, unpaid_orders_per_customer=20), ANN, "k", mug=1),
        [READ, "Query", WRITE],
        {"Query": 0.5},
    ),
}


def furnish(shop: ShopContext) -> None:
    """Create the products and discount codes for these orders."""
    create_stocked_product(shop, "vase", 10, parts=2)
    create_stocked_product(shop, "jug", 5, backorder=True)
    discounts.create_discount(shop, STAFF, "SPRING", 1000)
    discounts.create_discount(shop, STAFF, "FIRST40", 1000, limit=40, parts=4)
    discounts.create_discount(shop, STAFF, "LAST", 1000, limit=2, parts=2)
    part = hash_to_bucket(derive_order_id(shop, ANN.id, "k"), 2)
    theirs = next(f"k{n}" for n in range(99) if hash_to_bucket(derive_order_id(shop, BOB.id, f"k{n}"), 2) == part)
    place_order(shop, BOB, theirs, {"pot": RequestedLine(1)}, HOME_ADDRESS, {}, "LAST")
