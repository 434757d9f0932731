"""Products and their stock: create, change, list and show products, and add received goods to stock."""

from typing import Annotated, Self

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import Field, model_validator

from functions.api.http.context import ANONYMOUS, SignedIn, shop
from functions.api.http.fields import (
    CatalogId,
    CategoryPath,
    Id,
    IdempotencyKey,
    Listed,
    Name,
    Price,
    RequestModel,
    ResponseModel,
    StaffReason,
    TaxClass,
    command_response,
    examples,
)
from functions.api.http.paging import Cursor, Limit, list_answer
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.model.entities import DEFAULT_CATALOG, ROOT_CATEGORY, STANDARD_CLASS
from functions.model.errors import AlreadyExists, NotAllowed, OutOfStock, UnknownCategory
from functions.model.money import Currency
from functions.runtime.log import log
from functions.shop import products
from functions.shop.audit import require_reason
from functions.shop.lists import ListRequest

router = Router()
MAX_STOCK_PARTS = 90
"""The maximum number of stock parts, the table items that share the stock of a product.

DynamoDB allows 100 items in a transaction. A receipt or a line of an import writes each part and a few other items.
"""
Weight = Annotated[int, Field(ge=0, le=1_000_000)]
StockParts = Annotated[int, Field(ge=1, le=MAX_STOCK_PARTS)]


class NewProduct(RequestModel):
    """A new product.

    `parts`: the number of table items that share the stock of the product. Use more than one item if the product will
    sell very fast. `backorder`: whether the product can be ordered when it is out of stock; `parts` must then be 1.
    `category`: the path of an existing category in the `catalog`, or the root if omitted. A path starts with a slash;
    the slash at its end may be omitted.
    `tax_class`: which of the rates in the tax table applies. `weight`: of one piece in grams, for shipping rates.
    """

    product_id: Id
    name: Name
    price: Price
    currency: Currency
    parts: StockParts = 1
    backorder: bool = False
    category: CategoryPath = ROOT_CATEGORY
    catalog: CatalogId = DEFAULT_CATALOG
    tax_class: TaxClass = STANDARD_CLASS
    weight: Weight = 0
    model_config = examples(
        {"product_id": "mug", "name": "Blue mug", "price": 1250, "currency": "EUR", "category": "/kitchen/mugs/"}
    )


class ProductChange(RequestModel):
    """The fields of a product to change. Omitted fields do not change. Existing orders keep their prices.

    `parts`: the number of table items that share the stock of the product. While people buy, the shop spreads the stock
    evenly over them. If the answer is 503, or if there is no answer, repeat the request. `discontinued`: true ends
    the sale of the product. It is then in no category, and no new order may contain it. `reason`: why the
    price changes; required with `price`.
    """

    name: Name | None = None
    price: Price | None = None
    backorder: bool | None = None
    category: CategoryPath | None = None
    catalog: CatalogId | None = None
    parts: StockParts | None = None
    discontinued: bool | None = None
    tax_class: TaxClass | None = None
    weight: Weight | None = None
    reason: StaffReason | None = None
    model_config = examples({"price": 1390, "reason": "new list"}, {"parts": 20}, {"discontinued": True})

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
        if all(value is None for name, value in self if name != "reason"):
            names = (name for name in type(self).model_fields if name != "reason")
            raise ValueError(f"set at least one of {', '.join(names)}")
        return self


class Receipt(RequestModel):
    """The quantity of received goods."""

    quantity: Annotated[int, Field(ge=1, le=1_000_000)]
    model_config = examples({"quantity": 100})


class WriteOff(RequestModel):
    """Damaged or missing pieces to remove from stock, and why. Pieces that are reserved for orders stay."""

    quantity: Annotated[int, Field(ge=1, le=1_000_000)]
    reason: products.WriteOffReason
    model_config = examples({"quantity": 3, "reason": "DAMAGED"})


class ProductAnswer(ResponseModel):
    """A product. `price`: in minor units (cents). `parts`: the number of table items that share its stock.

    `weight`: of one piece, in grams.
    """

    product_id: str
    name: str
    price: int
    currency: str
    backorder: bool
    discontinued: bool
    category: str
    catalog: str
    tax_class: str
    weight: int
    parts: int
    created_at: str
    updated_at: str
    version: int


class ProductInList(ProductAnswer):
    """A product in a list. `available`: how many pieces can be ordered now."""

    always_sent = ("product_id",)
    available: int

    @classmethod
    def from_offered(cls, offered: products.ProductWithStock) -> Self:
        return cls.combine(offered.product, available=offered.available)


class StockAnswer(ResponseModel):
    """The stock of a product. `available`: how many pieces are in stock and can be ordered now.

    `backorder`: whether customers can order more pieces than are in stock.
    """

    product_id: str
    available: int
    backorder: bool


class ReceiptAnswer(ResponseModel):
    """The quantity that was added to stock."""

    product_id: str
    quantity: int


class WriteOffAnswer(ReceiptAnswer):
    """The quantity that was removed from stock, and why."""

    reason: str


@router.post(
    "/products", status_code=201, openapi_extensions=problem_responses(NotAllowed, AlreadyExists, UnknownCategory)
)
def create_product(caller: SignedIn, new: NewProduct) -> Response[ProductAnswer]:
    """Create a product. It has no stock yet. For staff."""
    product = products.create_product(
        shop(),
        caller,
        new.product_id,
        new.name,
        new.price,
        new.currency,
        new.parts,
        backorder=new.backorder,
        category=new.category,
        catalog=new.catalog,
        tax_class=new.tax_class,
        weight=new.weight,
    )
    where = {"Location": f"/products/{product.product_id}"}
    return Response(201, "application/json", ProductAnswer.of(product), headers=where)


@router.patch("/products/<product_id>", openapi_extensions=problem_responses(NotAllowed, UnknownCategory))
def update_product(caller: SignedIn, product_id: Id, change: ProductChange) -> ProductAnswer:
    """Change a product: its name, price, category, catalogue, backorder setting or stock parts, or end its sale.

    For staff.
    """
    wanted = dict(change)
    reason = wanted.pop("reason")
    if change.price is not None:
        require_reason(reason, "the price changes")
    changed = products.update_product(shop(), caller, product_id, **wanted)
    return ProductAnswer.of(changed)


@router.get("/products")
def products_in_category(
    category: Annotated[
        CategoryPath, Query(description="The path of the category, without subcategories. Default: the root.")
    ] = ROOT_CATEGORY,
    catalog: Annotated[CatalogId, Query(description="The id of the catalogue.")] = DEFAULT_CATALOG,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Listed[ProductInList]:
    """List the products of a category with their available stock, sorted by product id.

    Products of subcategories are not included: `GET /categories/descendants` lists the subcategories. A change or a
    sale is visible after a moment.
    """
    request = ListRequest(ANONYMOUS, limit, cursor)
    page = products.list_products_in_category(shop(), request, category, catalog)
    return list_answer(page, ProductInList.from_offered)


@router.get("/products/<product_id>")
def product(product_id: Id) -> ProductAnswer:
    """Show a product."""
    return ProductAnswer.of(products.get_product(shop(), product_id))


@router.get("/products/<product_id>/stock")
def stock_of_product(product_id: Id) -> StockAnswer:
    """Show how many pieces of a product can be ordered now."""
    found = products.get_product_with_stock(shop(), product_id)
    return StockAnswer(product_id=product_id, available=found.available, backorder=found.product.backorder)


@router.post("/products/<product_id>/receipts", status_code=201, openapi_extensions=problem_responses(NotAllowed))
def receive_stock(caller: SignedIn, product_id: Id, key: IdempotencyKey, receipt: Receipt) -> Response[ReceiptAnswer]:
    """Add received goods to stock, once for each Idempotency-Key. For staff."""
    return command_response(products.receive_stock(shop(), caller, key, product_id, receipt.quantity), ReceiptAnswer)


@router.post(
    "/products/<product_id>/write-offs", status_code=201, openapi_extensions=problem_responses(NotAllowed, OutOfStock)
)
def write_off_stock(caller: SignedIn, product_id: Id, key: IdempotencyKey, lost: WriteOff) -> Response[WriteOffAnswer]:
    """Remove damaged or missing goods from stock, once for each Idempotency-Key. For staff."""
    done = products.write_off_stock(shop(), caller, key, product_id, lost.quantity, lost.reason)
    if not done.replayed:
        log.info("stock_written_off", extra=done.result)
    return command_response(done, WriteOffAnswer)
