"""Sales: list the orders in which a product was sold, and the products that a customer bought.

A Lambda that reads the table's stream writes one Sale item for each line of a paid order, and copies the lines into the
order's summary. Both lists read these copies. Lines with the quantity 0 are omitted. So a page can be shorter than its
limit although more pages follow.
"""

from dataclasses import dataclass, replace

from functions.dynamodb.keys import Instant
from functions.model.entities import OrderSummary, Sale
from functions.model.money import Currency
from functions.model.patterns import PURCHASES_OF_CUSTOMER, SALES_OF_PRODUCT
from functions.shop.lists import ListPage, ListRequest, read_page
from functions.shop.shop import ShopContext


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


def list_sales_of_product(shop: ShopContext, request: ListRequest, product_id: str) -> ListPage[Sale]:
    """Return the order lines in which a product was sold, newest first (access pattern A17). Raises NotAllowed.

    Only orders placed in the time range are included, also archived ones, and only in the last SALE_DAYS.
    """
    request.caller.require_group("staff")
    page = read_page(shop, request, SALES_OF_PRODUCT, product_id=product_id)
    return replace(page, items=tuple(sale for sale in page.items if sale.quantity))


def list_purchases_of_customer(shop: ShopContext, request: ListRequest, customer_id: str) -> ListPage[Purchase]:
    """Return the products that a customer bought, by order, newest first (access pattern A18). Raises NotFound.

    The time range and the limit are those of orders. Orders that are not paid, were cancelled or are archived are left
    out.
    """
    request.caller.require_access(customer_id)
    page = read_page(shop, request, PURCHASES_OF_CUSTOMER, customer_id=customer_id)
    purchases = (_purchase_of(summary) for summary in page.items)
    return ListPage(tuple(purchase for purchase in purchases if purchase.products), page.cursor)


def _purchase_of(summary: OrderSummary) -> Purchase:
    products = tuple(
        PurchasedProduct(id, line.name, line.quantity, line.returned, line.price)
        for id, line in sorted((summary.lines or {}).items())
        if line.quantity
    )
    return Purchase(summary.order_id, summary.placed_at, summary.currency, products)
