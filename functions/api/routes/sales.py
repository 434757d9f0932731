"""Sales: list the sales of one product, or the products that one customer bought."""

from collections.abc import Sequence

from functions.api.http.context import SignedIn, resolve_customer_id, shop
from functions.api.http.fields import Id, Listed, ResponseModel
from functions.api.http.paging import Cursor, Limit, Since, Until, list_answer
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.model.errors import NotAllowed
from functions.shop import sales
from functions.shop.lists import ListRequest

router = Router()


class Sale(ResponseModel):
    """A product in a paid order. `price`: the price of one piece in the order, in minor units (cents).

    `quantity`: the number of pieces, without pieces that were cancelled and never sent. `returned`: how many pieces
    came back.
    """

    always_sent = ("product_id", "order_id")
    product_id: str
    order_id: str
    customer_id: str
    placed_at: str
    name: str
    quantity: int
    returned: int
    price: int
    currency: str


class PurchasedProduct(ResponseModel):
    """A product that a customer bought. `price`: the price of one piece in the order, in minor units (cents).

    `quantity`: the number of pieces, without pieces that were cancelled and never sent. `returned`: how many pieces
    came back.
    """

    product_id: str
    name: str
    quantity: int
    returned: int
    price: int


class Purchase(ResponseModel):
    """The products that a customer bought in one order."""

    always_sent = ("order_id",)
    order_id: str
    placed_at: str
    currency: str
    products: Sequence[PurchasedProduct]


@router.get("/products/<product_id>/sales", openapi_extensions=problem_responses(NotAllowed))
def sales_of_product(
    caller: SignedIn,
    product_id: Id,
    since: Since = None,
    until: Until = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Listed[Sale]:
    """List the sales of a product in the last 400 days, sorted by the time of their orders, newest first. For staff."""
    request = ListRequest(caller, limit, cursor, since, until)
    return list_answer(sales.list_sales_of_product(shop(), request, product_id), Sale.of)


@router.get("/customers/<customer_id>/bought")
def bought_by_customer(
    caller: SignedIn,
    customer_id: Id,
    since: Since = None,
    until: Until = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Listed[Purchase]:
    """List the products that a customer bought, by order, newest first.

    Orders that are not paid, were cancelled or are archived are left out. `limit` is a number of orders.
    """
    customer_id = resolve_customer_id(caller, customer_id)
    request = ListRequest(caller, limit, cursor, since, until)
    return list_answer(sales.list_purchases_of_customer(shop(), request, customer_id), Purchase.of)
