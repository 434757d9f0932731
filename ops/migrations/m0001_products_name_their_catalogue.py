"""Store in each product the catalogue that it belongs to, and include the catalogue in the product's index key.

Products that were stored before catalogues existed have an index key with only their category. They get the main
catalogue.
"""

from functions.model.entities import DEFAULT_CATALOG, ROOT_CATEGORY
from functions.model.table import PRODUCT
from ops.migration import Item, Migration, with_index_keys


def up(item: Item) -> Item:
    return with_index_keys(PRODUCT, {"catalog": DEFAULT_CATALOG, **item})


def down(item: Item) -> Item:
    """Return the product with only its category in its index key, as the previous version of the code expects it.

    If the product is not in the main catalogue, its attribute `catalog` is kept, so that `up` can use it again.
    """
    if item.get("catalog") == DEFAULT_CATALOG:
        del item["catalog"]
    return {**item, "GSI1PK": f"CATEGORY#{item.get('category', ROOT_CATEGORY)}"}


MIGRATION = Migration(
    description="products have a catalogue and its index keys", item_types=("Product",), up=up, down=down
)
