"""No piece appears, disappears or stays behind if the number of a product's stock parts changes during orders."""

from functions.shop import products
from local.world.harness import STAFF, ShopHarness
from proof.mutants.items import number, stored_items


def create_vases(harness: ShopHarness, available: int, parts: int) -> None:
    harness.open_shop(available=1)
    products.create_product(harness.shop, STAFF, "vase", "Blue vase", 1250, "EUR", parts)
    products.receive_stock(harness.shop, STAFF, "vases", "vase", available)


def available_by_part(harness: ShopHarness) -> dict[int, int]:
    stock = [one for one in stored_items(harness, "Stock") if one["product_id"]["S"] == "vase"]
    return {number(one, "part"): number(one, "available") for one in stock}
