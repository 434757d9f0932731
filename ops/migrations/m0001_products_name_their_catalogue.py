"""Products were found by their category alone before there were catalogues; those are of the main one."""

from functions.model.entities import DEFAULT_CATALOG, ROOT_CATEGORY
from functions.model.table import PRODUCT
from ops.migrate import Item, Migration, with_index_keys


def up(item: Item) -> Item:
    return with_index_keys(PRODUCT, {"catalog": DEFAULT_CATALOG, **item})


def down(item: Item) -> Item:
    """By its category again. Of which other catalogue a product is stays in it, for the way up."""
    if item.get("catalog") == DEFAULT_CATALOG:
        del item["catalog"]
    return {**item, "GSI1PK": f"CATEGORY#{item.get('category', ROOT_CATEGORY)}"}


MIGRATION = Migration(
    description="products name their catalogue, and are found by it", item_type="Product", up=up, down=down
)
