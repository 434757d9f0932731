"""Sales: the products of orders that were paid for, by product and by customer."""

from functions.api.context import SignedIn, customer_named, shop
from functions.api.fields import Answer, Id, Listed
from functions.api.paging import Asked, Cursor, Limit, Since, Until, between, page
from functions.api.problems import refuses
from functions.api.routes import Router
from functions.model.errors import NotAllowed
from functions.model.patterns import A17, A18
from functions.shop import sales

router = Router()


class Sale(Answer):
    """A product in an order that was paid for; its price is the order's, each, in minor units.

    `quantity` is without what was ordered and never sent. `returned`: how many of them came back.
    """

    product_id: str
    order_id: str
    customer_id: str
    placed_at: str
    name: str
    quantity: int
    returned: int
    price: int
    currency: str


@router.get("/products/<product_id>/sales", openapi_extensions=refuses(NotAllowed))
def sales_of_product(
    caller: SignedIn,
    product_id: Id,
    since: Since = None,
    until: Until = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Listed[Sale]:
    """Sales of a product, by when their orders were placed, newest first. For staff."""
    low, high = between(since, until)
    return page(
        Asked(caller, A17, (product_id, low, high), cursor),
        lambda after: sales.sales_of_product(shop(), caller, product_id, low, high, limit, after),
        Sale.of,
    )


@router.get("/customers/<customer_id>/bought")
def bought_by_customer(
    caller: SignedIn,
    customer_id: Id,
    since: Since = None,
    until: Until = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Listed[Sale]:
    """The products that a customer bought, by when the orders were placed, newest first."""
    customer_id = customer_named(caller, customer_id)
    low, high = between(since, until)
    return page(
        Asked(caller, A18, (customer_id, low, high), cursor),
        lambda after: sales.bought_by_customer(shop(), caller, customer_id, low, high, limit, after),
        Sale.of,
    )
