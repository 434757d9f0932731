"""Reserve an order's goods from the parts of the stock, and put them back.

A product that can be backordered can be ordered when it is out of stock. Its stock is a single part, which then goes
below zero. Goods that come in fill that first.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from functions.dynamodb.patience import TableBusy
from functions.dynamodb.writes import Write, adjust
from functions.model.entities import Line, Order, Product, Stock, hash_to_bucket
from functions.model.errors import NotFound, OutOfStock
from functions.model.table import STOCK
from functions.shop.shop import Shop

MAX_STOCK_WRITES = 90
"""The most stock writes of one order.

With the order itself and the items that end it (refunds, discount, marker) they must fit in a transaction of 100.
"""
Shares = Mapping[int, int]
"""Quantity by part of a product's stock."""


class PartOutOfStock(Exception):
    """A stock part holds less than the quantity to take from it."""


def assign_first_parts(order: Order, products: Mapping[str, Product]) -> Order:
    """Take each line's goods from the order's first part, without reading the stock."""
    return replace(
        order,
        lines={
            id: _with_shares(line, {_first_part(order, products[id]): line.quantity})
            for id, line in order.lines.items()
        },
    )


def assign_available_parts(shop: Shop, order: Order, products: Mapping[str, Product]) -> Order:
    """Take the order's goods from the parts that have them now.

    Raises OutOfStock with all products that are short; TableBusy if the goods are spread over too many parts.
    """
    held = get_available_by_part(shop, products, consistent=True)
    lines: dict[str, Line] = {}
    short: dict[str, int] = {}
    for id, line in order.lines.items():
        first = _first_part(order, products[id])
        shares = _choose_fewest_shares(held[id], line.quantity, first)
        there = sum(shares.values())
        missing = line.quantity - there
        if missing and not products[id].backorder:
            short[id] = there
        elif missing:
            shares[first] = shares.get(first, 0) + missing
        lines[id] = _with_shares(line, shares, backordered=missing)
    if short:
        raise OutOfStock(short)
    if sum(len(line.quantity_by_stock_part) for line in lines.values()) > MAX_STOCK_WRITES:
        raise TableBusy
    return replace(order, lines=lines)


def _first_part(order: Order, product: Product) -> int:
    """Return the part where the order looks first: always the same for an order, and spread evenly over the orders."""
    return hash_to_bucket(order.order_id, product.parts)


def get_available_by_part(
    shop: Shop, products: Mapping[str, Product], *, consistent: bool
) -> dict[str, dict[int, int]]:
    """Return the quantity in each part of each product, at least 0. One BatchGetItem per 100 parts."""
    held = {id: dict.fromkeys(range(product.parts), 0) for id, product in products.items()}
    keys = [STOCK.key(product_id=id, part=part) for id, parts in held.items() for part in parts]
    stock: list[Stock] = shop.table.batch_get(keys, consistent=consistent)
    for part in stock:
        held[part.product_id][part.part] = max(0, part.available)
    return held


def _choose_fewest_shares(held: Shares, wanted: int, first: int) -> dict[int, int]:
    """Choose the fewest parts that hold the wanted quantity, or all there is.

    Fuller parts come first. Among the parts that hold enough, the one closest after `first` comes first.
    """
    shares: dict[int, int] = {}
    missing = wanted
    for part in sorted(held, key=lambda part: (-min(wanted, held[part]), (part - first) % len(held))):
        if share := min(missing, held[part]):
            shares[part] = share
            missing -= share
    return shares


def _with_shares(line: Line, shares: Shares, backordered: int = 0) -> Line:
    """Return the line with its shares. They are left out if all goods come from part 0."""
    all_from_0 = shares == {0: line.quantity}
    taken = None if all_from_0 else {str(part): share for part, share in shares.items()}
    return replace(line, taken=taken, backordered=backordered)


def reserve(order: Order) -> Iterator[Write[Stock]]:
    """Return the writes that reserve an order's goods. A failed condition raises PartOutOfStock."""
    for id, line in order.lines.items():
        for part, quantity in line.quantity_by_stock_part.items():
            there = quantity - line.backordered
            yield adjust(
                STOCK,
                STOCK.key(product_id=id, part=int(part)),
                add={"available": -quantity},
                at_least={"available": there} if there else {},
                condition_error=lambda found: PartOutOfStock(),
            )


def release(order: Order) -> Iterator[Write[Stock]]:
    """Return the writes that put an order's goods back, each into the part it was taken from."""
    for id, line in order.lines.items():
        for part, quantity in line.quantity_by_stock_part.items():
            yield _add_to_part(id, int(part), quantity)


def restock(order: Order, quantities: Mapping[str, int]) -> Iterator[Write[Stock]]:
    """Return the writes that put these quantities back into the stock, one per product.

    All pieces of a product go to the part that gave most of its line. This keeps a return at one write per product. A
    part need not hold again what it held before.
    """
    for id, quantity in quantities.items():
        parts = order.lines[id].quantity_by_stock_part
        if quantity:
            yield _add_to_part(id, int(max(parts, key=lambda part: parts[part])), quantity)


def _add_to_part(product_id: str, part: int, quantity: int) -> Write[Stock]:
    key = STOCK.key(product_id=product_id, part=part)
    return adjust(
        STOCK, key, add={"available": quantity}, at_least={}, condition_error=lambda found: NotFound("product")
    )
