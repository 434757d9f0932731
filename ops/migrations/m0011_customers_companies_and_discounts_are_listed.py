"""Write the index keys by which all customers, companies and discount codes are listed."""

from functions.model.table import COMPANY, CUSTOMER, DISCOUNT
from ops.migration import Item, Migration, with_index_keys

ROWS = {row.type: row for row in (CUSTOMER, COMPANY, DISCOUNT)}


def up(item: Item) -> Item:
    return with_index_keys(ROWS[item["type"]], item)


MIGRATION = Migration(description="customers, companies and discount codes are listed", item_types=tuple(ROWS), up=up)
