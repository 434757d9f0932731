"""Store the index keys of an order's number in the first entries of timelines."""

from functions.model.table import TIMELINE
from ops.migration import rekey_items

MIGRATION = rekey_items(TIMELINE, "orders can be found by their number")
