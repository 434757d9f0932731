"""Sales: list the orders in which a product was sold, and the products that a customer bought.

A Lambda that reads the table's stream writes one item for each order line, and both lists read these items. Lines with
the quantity 0, for example of a cancelled order, are omitted. So a page can be shorter than its limit although more
pages follow.
"""

from dataclasses import replace

from functions.dynamodb.table import QueryPage
from functions.model.entities import OrderLine
from functions.model.patterns import PURCHASES_OF_CUSTOMER, SALES_OF_PRODUCT
from functions.shop.shop import Caller, Shop


def list_sales_of_product(
    shop: Shop, caller: Caller, product_id: str, since: str, until: str, limit: int, after: str | None
) -> QueryPage[OrderLine]:
    """Return the order lines in which a product was sold, newest first (access pattern A17).

    Only orders placed from `since` until just before `until` are included. Raises NotAllowed if the caller is not
    staff.
    """
    caller.require_group("staff")
    return _without_empty_lines(
        shop.table.query(SALES_OF_PRODUCT, product_id=product_id, since=since, until=until, limit=limit, after=after)
    )


def list_purchases_of_customer(
    shop: Shop, caller: Caller, customer_id: str, since: str, until: str, limit: int, after: str | None
) -> QueryPage[OrderLine]:
    """Return the order lines of the products that a customer bought, newest first (access pattern A18).

    Only orders placed from `since` until just before `until` are included. Raises NotFound if the caller may not see
    the customer.
    """
    caller.require_access(customer_id)
    return _without_empty_lines(
        shop.table.query(
            PURCHASES_OF_CUSTOMER, customer_id=customer_id, since=since, until=until, limit=limit, after=after
        )
    )


def _without_empty_lines(page: QueryPage[OrderLine]) -> QueryPage[OrderLine]:
    return replace(page, items=tuple(sale for sale in page.items if sale.quantity))
