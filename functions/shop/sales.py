"""Sales: list the orders in which a product was sold, and the products that a customer bought.

A Lambda that reads the table's stream writes one Sale item for each line of a paid order, and copies the lines into the
order's summary. Both lists read these copies. Lines with the quantity 0 are omitted. So a page can be shorter than its
limit although more pages follow.
"""

from dataclasses import dataclass, replace

from functions.dynamodb.keys import Instant
from functions.dynamodb.table import QueryPage
from functions.model.entities import OrderSummary, Sale
from functions.model.money import Currency
from functions.model.patterns import PURCHASES_OF_CUSTOMER, SALES_OF_PRODUCT
from functions.shop.shop import Caller, ShopContext


@dataclass(frozen=True)
class PurchasedProduct:
    """A product that a customer bought. `price`: the price of one piece, in minor units of the order's currency."""

    product_id: str
    name: str
    quantity: int
    returned: int
    price: int


@dataclass(frozen=True)
class Purchase:
    """The products that a customer bought in one order."""

    order_id: str
    placed_at: Instant
    currency: Currency
    products: tuple[PurchasedProduct, ...]


def list_sales_of_product(
    shop: ShopContext, caller: Caller, product_id: str, since: str, until: str, limit: int, after: str | None
) -> QueryPage[Sale]:
    """Return the order lines in which a product was sold, newest first (access pattern A17).

    Only orders placed from `since` until just before `until` are included, and only in the last SALE_DAYS. Archived
    orders are included, too. Raises NotAllowed if the caller is not staff.
    """
    caller.require_group("staff")
    page = shop.table.query(SALES_OF_PRODUCT, product_id=product_id, since=since, until=until, limit=limit, after=after)
    return replace(page, items=tuple(sale for sale in page.items if sale.quantity))


def list_purchases_of_customer(
    shop: ShopContext, caller: Caller, customer_id: str, since: str, until: str, limit: int, after: str | None
) -> QueryPage[Purchase]:
    """Return the products that a customer bought, by order, newest first (access pattern A18).

    Only orders placed from `since` until just before `until` are included. Orders that are not paid, were cancelled or
    are archived are left out. `limit`: the maximum number of orders. Raises NotFound if the caller may not see the
    customer.
    """
    caller.require_access(customer_id)
    page = shop.table.query(
        PURCHASES_OF_CUSTOMER, customer_id=customer_id, since=since, until=until, limit=limit, after=after
    )
    purchases = (_purchase_of(summary) for summary in page.items)
    return QueryPage(tuple(purchase for purchase in purchases if purchase.products), page.after)


def _purchase_of(summary: OrderSummary) -> Purchase:
    products = tuple(
        PurchasedProduct(id, line.name, line.quantity, line.returned, line.price)
        for id, line in sorted((summary.lines or {}).items())
        if line.quantity
    )
    return Purchase(summary.order_id, summary.placed_at, summary.currency, products)
