"""Delete the copies of order lines that the previous version wrote. Migration 0004 has written sales in their place."""

from functions.model.table import ORDER_LINE
from ops.migration import delete_items

MIGRATION = delete_items(ORDER_LINE, "copies of order lines are deleted: sales have replaced them")
