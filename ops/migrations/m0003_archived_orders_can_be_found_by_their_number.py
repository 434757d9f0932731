"""Store the index keys of an order's number in the stubs of archived orders."""

from functions.model.table import ARCHIVED_ORDER
from ops.migration import rekey_items

MIGRATION = rekey_items(ARCHIVED_ORDER, "archived orders can be found by their number")
