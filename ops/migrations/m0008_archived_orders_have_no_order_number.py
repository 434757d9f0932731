"""Delete the index keys of an order's number from the stubs of archived orders."""

from functions.model.table import ARCHIVED_ORDER
from ops.migration import rekey_items

MIGRATION = rekey_items(ARCHIVED_ORDER, "archived orders have no index keys: an item of its own finds them")
