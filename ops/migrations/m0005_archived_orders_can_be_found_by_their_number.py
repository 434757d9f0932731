"""Write the item that finds an archived order by its number."""

from functions.model.table import ARCHIVED_ORDER
from ops.migration import rederive_copies

MIGRATION = rederive_copies(ARCHIVED_ORDER, "archived orders can be found by their number")
