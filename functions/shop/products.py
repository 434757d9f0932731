"""Products and their stock: create and change products, add received goods, write off lost goods.

The stock of a product that sells very fast is split over several items, called stock parts. Then many orders can
reserve pieces at the same time without conflicts on one item.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from functions.dynamodb.keys import Instant
from functions.dynamodb.writes import Write, put_if_absent, update
from functions.model.entities import DEFAULT_CATALOG, ROOT_CATEGORY, STANDARD_CLASS, Product, Stock
from functions.model.errors import AlreadyExists, InvalidInput, UnknownCategory
from functions.model.money import Currency
from functions.model.patterns import CATEGORY_BY_PATH, PRODUCT_BY_ID, PRODUCTS_OF_CATEGORY
from functions.model.table import PRODUCT
from functions.shop.idempotency import IdempotentResult, run_idempotently
from functions.shop.lists import ListPage, ListRequest, read_page
from functions.shop.shop import Caller, ShopContext, require_found, retry_on_conflict
from functions.shop.stock import add_to_part, get_stock_levels, write_off
from functions.shop.stock_parts import create_parts, spread_stock, with_part_count


@dataclass(frozen=True)
class ProductWithStock:
    """A product. `available`: the number of pieces in stock that no order has reserved."""

    product: Product
    available: int


def create_product(
    shop: ShopContext,
    caller: Caller,
    product_id: str,
    name: str,
    price: int,
    currency: Currency,
    parts: int,
    *,
    backorder: bool = False,
    category: str = ROOT_CATEGORY,
    catalog: str = DEFAULT_CATALOG,
    tax_class: str = STANDARD_CLASS,
    weight: int = 0,
) -> Product:
    """Create a product with no pieces in stock. Only staff may call this command.

    `price`: in minor units. `parts`: the number of items that share the stock. `backorder`: True if more pieces may be
    ordered than are in stock. `category`: a path, for example /kitchen/mugs/. `weight`: of one piece, in grams. Raises
    InvalidInput, UnknownCategory, AlreadyExists, NotAllowed.
    """
    caller.require_group("staff")
    now = shop.now_instant()
    product = Product(
        product_id=product_id,
        name=name,
        price=price,
        currency=currency,
        backorder=backorder,
        category=category,
        catalog=catalog,
        tax_class=tax_class,
        weight=weight,
        created_at=now,
        updated_at=now,
    )
    product = with_part_count(product, parts)
    check_backorder_parts(product)
    check_category(shop, product)
    shop.table.write(
        put_if_absent(PRODUCT, product, condition_error=lambda found: AlreadyExists("product")),
        *create_stock(product, 0),
    )
    return product


def check_backorder_parts(product: Product) -> None:
    """Raise InvalidInput if a product that can be backordered has more than one active stock part.

    One part could be below zero (backorders) while new orders take the pieces of another part, for which others wait.
    """
    if product.backorder and product.parts > 1:
        raise InvalidInput("backorder", "is possible only for products with one stock part")


def check_category(shop: ShopContext, product: Product, before: Product | None = None) -> None:
    """Raise UnknownCategory if a product is put into a category that does not exist. The root path always exists.

    Nothing is read if the category is that of `before`, the stored product. The write has no condition on the category
    item, because lines of an import would conflict on it (docs/decisions/reads.md#d60).
    """
    place = {"catalog": product.catalog, "path": product.category}
    stays = before is not None and (before.catalog, before.category, before.discontinued) == (
        product.catalog,
        product.category,
        product.discontinued,
    )
    if product.category != ROOT_CATEGORY and not stays and shop.table.get(CATEGORY_BY_PATH, **place) is None:
        raise UnknownCategory("category", product.category)


def create_stock(product: Product, quantity: int) -> Iterator[Write[Stock]]:
    """Yield the writes that create the stock items of a new product, with `quantity` spread evenly over the items."""
    return create_parts(product, None, _split_evenly(product, quantity), product.created_at)


def add_stock(product: Product, quantity: int, at: Instant, before: Product | None = None) -> Iterator[Write[Stock]]:
    """Yield the writes that add `quantity` pieces to a product's stock, spread evenly over its active stock parts.

    `before`: the stored product, if the same transaction changes the number of parts. Then missing parts are created,
    too.
    """
    existing = (before or product).parts_created
    shares = _split_evenly(product, quantity)
    yield from create_parts(product, before or product, shares, at)
    for part, share in shares.items():
        if share and part < existing:
            yield add_to_part(product.product_id, part, share, at, "received")


def _split_evenly(product: Product, quantity: int) -> Mapping[int, int]:
    share, rest = divmod(quantity, product.parts)
    return {part: share + (part < rest) for part in range(product.parts)}


def update_product(
    shop: ShopContext,
    caller: Caller,
    product_id: str,
    name: str | None = None,
    price: int | None = None,
    backorder: bool | None = None,
    category: str | None = None,
    catalog: str | None = None,
    parts: int | None = None,
    discontinued: bool | None = None,
    tax_class: str | None = None,
    weight: int | None = None,
) -> Product:
    """Change the given attributes of a product; None leaves an attribute unchanged. Only staff may call it.

    `discontinued`: True ends the sale of the product, False starts it again. A discontinued product is in no category,
    its followers get no mails, and new orders with it are rejected. Existing orders continue, and its stock stays.

    `parts`: the number of items that share the stock, which stock_parts.py then spreads evenly. Safe to repeat: do so
    if the command was interrupted, or raised TableBusy. If backordering is switched off, existing backorders stay, and
    new orders are rejected until the stock suffices. Raises NotFound, InvalidInput, UnknownCategory, NotAllowed,
    TableBusy.
    """
    caller.require_group("staff")

    def attempt() -> Product:
        before = get_product(shop, product_id)
        wanted = replace(
            before,
            name=before.name if name is None else name,
            price=before.price if price is None else price,
            backorder=before.backorder if backorder is None else backorder,
            category=before.category if category is None else category,
            catalog=before.catalog if catalog is None else catalog,
            discontinued=before.discontinued if discontinued is None else discontinued,
            tax_class=before.tax_class if tax_class is None else tax_class,
            weight=before.weight if weight is None else weight,
        )
        if parts is not None:
            wanted = with_part_count(wanted, parts)
        check_backorder_parts(wanted)
        check_category(shop, wanted, before)
        if wanted == before:
            return before
        after = replace(wanted, updated_at=shop.now_instant(), version=before.version + 1)
        shop.table.write(update(PRODUCT, before, after), *add_stock(after, 0, after.updated_at, before))
        return after

    changed = retry_on_conflict(shop, attempt)
    if parts is not None:
        spread_stock(shop, product_id)
    return changed


def receive_stock(shop: ShopContext, caller: Caller, key: str, product_id: str, quantity: int) -> IdempotentResult:
    """Add received goods to the stock of a product, spread evenly over its stock parts. Only staff may call it.

    `key`: the idempotency key. The result is {"product_id", "quantity"}. Raises NotFound, IdempotencyKeyReused,
    NotAllowed.
    """
    caller.require_group("staff")
    body = {"product_id": product_id, "quantity": quantity}

    def decide(shop: ShopContext) -> tuple[list[Write[Stock]], dict[str, Any]]:
        return list(add_stock(get_product(shop, product_id), quantity, shop.now_instant())), body

    return run_idempotently(shop, caller.id, key, "receive_stock", body, decide)


WriteOffReason = Literal["DAMAGED", "EXPIRED", "LOST", "MISCOUNTED", "STOLEN"]


def write_off_stock(
    shop: ShopContext, caller: Caller, key: str, product_id: str, quantity: int, reason: WriteOffReason
) -> IdempotentResult:
    """Remove damaged or missing pieces, but no reserved ones, from the stock of a product. Only staff may call it.

    `key`: the idempotency key. The result is {"product_id", "quantity", "reason"}. Raises NotFound, OutOfStock if fewer
    pieces are available, IdempotencyKeyReused, NotAllowed.
    """
    caller.require_group("staff")
    body = {"product_id": product_id, "quantity": quantity, "reason": reason}

    def decide(shop: ShopContext) -> tuple[list[Write[Stock]], dict[str, Any]]:
        product = get_product(shop, product_id)
        levels = get_stock_levels(shop, {product_id: product}, consistent=True)[product_id]
        return list(write_off(product_id, levels, quantity)), body

    return run_idempotently(shop, caller.id, key, "write_off_stock", body, decide)


def get_product(shop: ShopContext, product_id: str) -> Product:
    """Return a product (access pattern A7). Anyone may call it. Raises NotFound."""
    return require_found(shop.table.get(PRODUCT_BY_ID, product_id=product_id), "product")


def list_products_in_category(
    shop: ShopContext, request: ListRequest, category: str, catalog: str = DEFAULT_CATALOG
) -> ListPage[ProductWithStock]:
    """Return the products directly in a category with their stock, sorted by product id (access pattern A7b).

    `category`: the path of the category. The index and the stock are eventually consistent.
    """
    found = read_page(shop, request, PRODUCTS_OF_CATEGORY, catalog=catalog, offered_in=category)
    levels = get_stock_levels(shop, {product.product_id: product for product in found.items}, consistent=False)
    return ListPage(
        tuple(ProductWithStock(product, levels[product.product_id].available) for product in found.items), found.cursor
    )


def get_product_with_stock(shop: ShopContext, product_id: str) -> ProductWithStock:
    """Return a product with its stock. Anyone may call it. Raises NotFound."""
    product = get_product(shop, product_id)
    levels = get_stock_levels(shop, {product_id: product}, consistent=True)
    return ProductWithStock(product, levels[product_id].available)
