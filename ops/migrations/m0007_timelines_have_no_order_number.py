"""Delete the index keys of an order's number from the first entries of timelines."""

from functions.model.table import TIMELINE_EVENT
from ops.migration import rekey_items

MIGRATION = rekey_items(TIMELINE_EVENT, "timelines have no index keys: an item of its own finds an order by its number")
