"""Products and their stock. Stock of what sells very fast is split over several items (parts)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from functions.dynamodb.store import Page
from functions.dynamodb.writes import Write, adjust, change, put
from functions.model.entities import MAIN, ROOT, Product, Stock
from functions.model.errors import AlreadyExists, Invalid, NotFound
from functions.model.money import Currency
from functions.model.patterns import A7, A11, A7b
from functions.model.table import PRODUCT, STOCK
from functions.shop.keyed import Answer, once_per_key
from functions.shop.shop import Caller, Shop, decided_again
from functions.shop.stock import held_of


@dataclass(frozen=True)
class Offered:
    """A product, and how many of it can be ordered now."""

    product: Product
    available: int


def create_product(
    shop: Shop,
    caller: Caller,
    product_id: str,
    name: str,
    price: int,
    currency: Currency,
    parts: int,
    *,
    backorder: bool = False,
    category: str = ROOT,
    catalog: str = MAIN,
) -> Product:
    """A product with no stock yet, one stock item per part. For staff. Raises Invalid, AlreadyExists, NotAllowed.

    It may name a category that nobody has made: it is listed there all the same, and the category may come later.
    """
    caller.must_be("staff")
    now = shop.instant()
    product = Product(
        product_id=product_id,
        name=name,
        price=price,
        currency=currency,
        parts=parts,
        backorder=backorder,
        category=category,
        catalog=catalog,
        created_at=now,
        updated_at=now,
    )
    must_have_one_debt(product)
    shop.table.write(put(PRODUCT, product, refused=lambda found: AlreadyExists("product")), *first_stock(product, 0))
    return product


def must_have_one_debt(product: Product) -> None:
    """One part below zero beside another that holds some would sell these to two. Raises Invalid."""
    if product.backorder and product.parts > 1:
        raise Invalid("backorder", "is for products whose stock is one part")


def first_stock(product: Product, quantity: int) -> Iterator[Write[Stock]]:
    """The stock of a new product, one item per part."""
    for part, share in enumerate(_shares(product, quantity)):
        held = Stock(
            product_id=product.product_id, part=part, available=share, received=share, created_at=product.created_at
        )
        yield put(STOCK, held)


def more_stock(product: Product, quantity: int) -> Iterator[Write[Stock]]:
    """The writes that put goods into stock, spread evenly over its parts."""
    for part, share in enumerate(_shares(product, quantity)):
        if share:
            yield adjust(
                STOCK,
                STOCK.key(product_id=product.product_id, part=part),
                add={"available": share, "received": share},
                at_least={},
                refused=lambda found: NotFound("product"),
            )


def _shares(product: Product, quantity: int) -> list[int]:
    return [quantity // product.parts + (part < quantity % product.parts) for part in range(product.parts)]


def update_product(
    shop: Shop,
    caller: Caller,
    product_id: str,
    name: str | None = None,
    price: int | None = None,
    backorder: bool | None = None,
    category: str | None = None,
    catalog: str | None = None,
) -> Product:
    """What is None stays. For staff. Repeatable. Raises NotFound, Invalid, NotAllowed.

    What was backordered before that is switched off stays so; nobody orders more until enough has come in.
    """
    caller.must_be("staff")

    def attempt() -> Product:
        before = product(shop, product_id)
        wanted = replace(
            before,
            name=before.name if name is None else name,
            price=before.price if price is None else price,
            backorder=before.backorder if backorder is None else backorder,
            category=before.category if category is None else category,
            catalog=before.catalog if catalog is None else catalog,
        )
        must_have_one_debt(wanted)
        if wanted == before:
            return before
        after = replace(wanted, updated_at=shop.instant(), version=before.version + 1)
        shop.table.write(change(PRODUCT, before, after))
        return after

    return decided_again(shop, attempt)


def receive_stock(shop: Shop, caller: Caller, key: str, product_id: str, quantity: int) -> Answer:
    """Goods came in: spread evenly over the product's parts. Keyed, since it adds up. For staff.

    Result: {"product_id", "quantity"}. Raises NotFound, KeyReused, NotAllowed.
    """
    caller.must_be("staff")
    body = {"product_id": product_id, "quantity": quantity}

    def decide() -> tuple[list[Write[Stock]], dict[str, Any]]:
        return list(more_stock(product(shop, product_id), quantity)), body

    return once_per_key(shop, caller.id, key, "receive_stock", body, decide)


def product(shop: Shop, product_id: str) -> Product:
    """A7. Anybody may see it. Raises NotFound."""
    found = shop.table.get(A7, product_id=product_id)
    if found is None:
        raise NotFound("product")
    return found


def products_in_category(
    shop: Shop, category: str, limit: int, after: str | None, catalog: str = MAIN
) -> Page[Offered]:
    """A7b: what is for sale in just this category, by product id, and how many there are. Anybody may see it.

    What was made, moved or sold this moment may not show yet: neither the index nor the stock is read consistently.
    """
    found = shop.table.query(A7b, catalog=catalog, category=category, limit=limit, after=after)
    held = held_of(shop, {product.product_id: product for product in found.items}, consistent=False)
    return Page(tuple(Offered(product, sum(held[product.product_id].values())) for product in found.items), found.after)


def stock_of_product(shop: Shop, product_id: str) -> tuple[Stock, ...]:
    """A11: every part. Raises NotFound."""
    parts = shop.table.query(A11, product_id=product_id, limit=100).items
    if not parts:
        raise NotFound("product")
    return parts
