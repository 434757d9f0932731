"""Write the copies of orders that this version has and the previous version did not have.

These are the sales of a product, the lines in an order's summary, and the item that finds an order by its number. To
undo it, run `ops replay --from-table --copies` with the previous version: it writes the copies that it needs.
"""

from functions.model.table import ORDER
from ops.migration import rederive_copies

MIGRATION = rederive_copies(ORDER, "orders have sales, purchases and a number in their new places")
