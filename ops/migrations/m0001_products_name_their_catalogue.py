"""Products were found by their category alone before there were catalogues; those are of the main one."""

from functions.model.entities import MAIN, ROOT
from functions.model.table import PRODUCT
from ops.migrate import Item, Migration, with_keys


def up(item: Item) -> Item:
    return with_keys(PRODUCT, {"catalog": MAIN, **item})


def down(item: Item) -> Item:
    """By its category again. Of which other catalogue a product is stays in it, for the way up."""
    if item.get("catalog") == MAIN:
        del item["catalog"]
    return {**item, "GSI1PK": f"CATEGORY#{item.get('category', ROOT)}"}


MIGRATION = Migration(says="products name their catalogue, and are found by it", of="Product", up=up, down=down)
