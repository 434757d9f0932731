"""Sales: which orders a product was sold in, and what a customer has bought. Both are copies: they follow the order.

Of a line that is none any more (nothing of it was sent, or its order was cancelled) nobody is told: for that a page may
be shorter than its limit, though more follow.
"""

from dataclasses import replace

from functions.dynamodb.store import Page
from functions.model.entities import OrderLine
from functions.model.errors import NotFound
from functions.model.patterns import A17, A18
from functions.shop.shop import Caller, Shop


def sales_of_product(
    shop: Shop, caller: Caller, product_id: str, since: str, until: str, limit: int, after: str | None
) -> Page[OrderLine]:
    """A17: sales of orders placed in [since, until), newest first. For staff. Raises NotAllowed."""
    caller.must_be("staff")
    return _sold(shop.table.query(A17, product_id=product_id, since=since, until=until, limit=limit, after=after))


def bought_by_customer(
    shop: Shop, caller: Caller, customer_id: str, since: str, until: str, limit: int, after: str | None
) -> Page[OrderLine]:
    """A18: what a customer bought with orders placed in [since, until), newest first. Raises NotFound."""
    if not caller.sees(customer_id):
        raise NotFound("customer")
    return _sold(shop.table.query(A18, customer_id=customer_id, since=since, until=until, limit=limit, after=after))


def _sold(page: Page[OrderLine]) -> Page[OrderLine]:
    return replace(page, items=tuple(sale for sale in page.items if sale.quantity))
