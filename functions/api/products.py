"""Products, their stock and their sales."""

from typing import Annotated, Self

from aws_lambda_powertools.event_handler import Response
from pydantic import ConfigDict, Field, model_validator

from functions.api.context import SignedIn, shop
from functions.api.fields import Answer, Body, Id, IdempotencyKey, Listed, Name, Price
from functions.api.paging import Asked, Cursor, Limit, Since, Until, between, page
from functions.api.problems import refuses
from functions.api.routes import Router
from functions.model.errors import AlreadyExists, NotAllowed
from functions.model.money import Currency
from functions.model.patterns import A17
from functions.shop import products
from functions.shop.orders import sales_of_product as sales_of

router = Router()
MOST_PARTS = 20


class NewProduct(Body):
    """Something to sell. `parts`: over how many items its stock is spread; more than one if it will sell very fast."""

    product_id: Id
    name: Name
    price: Price
    currency: Currency
    parts: Annotated[int, Field(ge=1, le=MOST_PARTS)] = 1
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"product_id": "mug", "name": "Blue mug", "price": 1250, "currency": "EUR"}]}
    )


class ProductChange(Body):
    """What changes; what is left out stays. Orders keep the price they were placed at."""

    name: Name | None = None
    price: Price | None = None
    model_config = ConfigDict(json_schema_extra={"examples": [{"price": 1390}]})

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.name is None and self.price is None:
            raise ValueError("changes nothing: give name, price or both")
        return self


class Receipt(Body):
    """Goods that came in."""

    quantity: Annotated[int, Field(ge=1, le=1_000_000)]
    model_config = ConfigDict(json_schema_extra={"examples": [{"quantity": 100}]})


class ProductAnswer(Answer):
    """A product; its price is in minor units."""

    product_id: str
    name: str
    price: int
    currency: str
    created_at: str
    updated_at: str
    version: int


class StockAnswer(Answer):
    """How many can be ordered now."""

    product_id: str
    available: int


class ReceiptAnswer(Answer):
    """How many came in."""

    product_id: str
    quantity: int


class Sale(Answer):
    """A product in an order that was paid for; its price is the order's, each, in minor units."""

    product_id: str
    order_id: str
    customer_id: str
    placed_at: str
    name: str
    quantity: int
    price: int
    currency: str


@router.post("/products", status_code=201, openapi_extensions=refuses(NotAllowed, AlreadyExists))
def create_product(caller: SignedIn, new: NewProduct) -> Response[ProductAnswer]:
    """Offer a new product; there is none in stock yet. For staff."""
    product = products.create_product(shop(), caller, new.product_id, new.name, new.price, new.currency, new.parts)
    where = {"Location": f"/products/{product.product_id}"}
    return Response(201, "application/json", ProductAnswer.of(product), headers=where)


@router.patch("/products/<product_id>", openapi_extensions=refuses(NotAllowed))
def update_product(caller: SignedIn, product_id: Id, change: ProductChange) -> ProductAnswer:
    """Change a product's name or price. For staff."""
    return ProductAnswer.of(products.update_product(shop(), caller, product_id, change.name, change.price))


@router.get("/products/<product_id>")
def product(product_id: Id) -> ProductAnswer:
    """A product."""
    return ProductAnswer.of(products.product(shop(), product_id))


@router.get("/products/<product_id>/stock")
def stock_of_product(product_id: Id) -> StockAnswer:
    """How many of a product can be ordered now."""
    parts = products.stock_of_product(shop(), product_id)
    return StockAnswer(product_id=product_id, available=sum(part.available for part in parts))


@router.post("/products/<product_id>/receipts", status_code=201, openapi_extensions=refuses(NotAllowed))
def receive_stock(caller: SignedIn, product_id: Id, key: IdempotencyKey, receipt: Receipt) -> Response[ReceiptAnswer]:
    """Put goods that came in into stock, once for each Idempotency-Key. For staff."""
    done = products.receive_stock(shop(), caller, key, product_id, receipt.quantity)
    status, headers = (200, {"Idempotent-Replayed": "true"}) if done.replayed else (201, {})
    return Response(status, "application/json", ReceiptAnswer.model_validate(done.result), headers=headers)


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
        lambda after: sales_of(shop(), caller, product_id, low, high, limit, after),
        Sale.of,
    )
