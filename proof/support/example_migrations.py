"""Two example migrations: one adds an attribute to an index key, and one renames a type and an attribute."""

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, cast

from functions.dynamodb.codec import Image
from functions.model.entities import DEFAULT_CATALOG, ROOT_CATEGORY
from functions.model.table import CONTRIBUTION, PRODUCT, ROWS_BY_TYPE
from ops.migration import Item, Migration, rename_stored_names, with_index_keys


# a new attribute in an index key --------------------------------------------------------------------------------------
def up(item: Item) -> Item:
    return with_index_keys(PRODUCT, {"catalog": DEFAULT_CATALOG, **item})


def down(item: Item) -> Item:
    """Return the product with only its category in its index key. `catalog` is kept, so that `up` can use it again."""
    if item.get("catalog") == DEFAULT_CATALOG:
        del item["catalog"]
    return {**item, "GSI1PK": f"CATEGORY#{item.get('category', ROOT_CATEGORY)}"}


ADD_CATALOG = Migration(
    description="products have a catalogue and its index keys", item_types=("Product",), up=up, down=down
)

# a rename -------------------------------------------------------------------------------------------------------------
FORMER_TYPE, FORMER_NAME, PRESENT_NAME = "Counted", "of", "source_type"
FORMER = {"former_types": (FORMER_TYPE,), "former_names": {PRESENT_NAME: FORMER_NAME}}
"""The fields that a rename adds to the declaration of an item type in functions/model/table.py."""


@contextmanager
def reading_former_names() -> Iterator[Migration]:
    """Declare former names of Contribution items and an attribute in a `with` block. Yield the migration."""
    rows = cast(MutableMapping[str, Any], ROWS_BY_TYPE)
    present = {name: getattr(CONTRIBUTION, name) for name in FORMER}
    _declare(FORMER)
    rows[FORMER_TYPE] = CONTRIBUTION
    try:
        yield rename_stored_names(CONTRIBUTION, description="contributions have plain names")
    finally:
        del rows[FORMER_TYPE]
        _declare(present)


def _declare(names: dict[str, Any]) -> None:
    for name, value in names.items():
        object.__setattr__(CONTRIBUTION, name, value)
    CONTRIBUTION.__dict__.pop("decode", None)  # this cached function depends on the declaration


def with_former_names(image: Image) -> Image:
    """Return an item as older code would have stored it. Only contributions differ."""
    if image["type"]["S"] != CONTRIBUTION.type:
        return image
    former = {FORMER_NAME if name == PRESENT_NAME else name: value for name, value in image.items()}
    return {**former, "type": {"S": FORMER_TYPE}}
