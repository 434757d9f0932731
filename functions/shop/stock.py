"""Reserve an order's goods from the stock parts of each product, and put them back.

A product that can be backordered can be ordered when it is out of stock. It has a single stock part, whose quantity
then goes below zero. Goods that are received later fill this gap first.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from functions.dynamodb.errors import TableBusy
from functions.dynamodb.writes import Write, adjust
from functions.model.entities import Line, Order, Product, Stock, hash_to_bucket
from functions.model.errors import NotFound, OutOfStock
from functions.model.table import STOCK
from functions.shop.shop import Shop

MAX_STOCK_WRITES = 90
"""The maximum number of stock writes for one order.

A transaction allows 100 items. When an order is cancelled or expires, it also writes the order, its refunds, its
discount and its expiry marker.
"""
Shares = Mapping[int, int]
"""The quantity in each stock part of a product, by the number of the stock part."""


class PartOutOfStock(Exception):
    """A stock part holds less than the quantity that an order takes from it."""


def assign_first_parts(order: Order, products: Mapping[str, Product]) -> Order:
    """Return the order with each line's goods assigned to the order's first stock part. The stock is not read."""
    return replace(
        order,
        lines={
            id: _with_shares(line, {_first_part(order, products[id]): line.quantity})
            for id, line in order.lines.items()
        },
    )


def assign_available_parts(shop: Shop, order: Order, products: Mapping[str, Product]) -> Order:
    """Return the order with its goods assigned to the stock parts that hold enough now. It reads the stock.

    Raises OutOfStock with all products that have too little stock. Raises TableBusy if the goods are spread over too
    many stock parts.
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
    """Return the number of the stock part from which the order takes goods first.

    The number is derived from the hash of the order's id. So it is always the same for an order, and evenly distributed
    over the orders.
    """
    return hash_to_bucket(order.order_id, product.parts)


def get_available_by_part(
    shop: Shop, products: Mapping[str, Product], *, consistent: bool
) -> dict[str, dict[int, int]]:
    """Return the available quantity in each stock part of each product, at least 0.

    It sends one BatchGetItem per 100 stock parts.
    """
    held = {id: dict.fromkeys(range(product.parts), 0) for id, product in products.items()}
    keys = [STOCK.key(product_id=id, part=part) for id, parts in held.items() for part in parts]
    stock: list[Stock] = shop.table.batch_get(keys, consistent=consistent)
    for part in stock:
        held[part.product_id][part.part] = max(0, part.available)
    return held


def _choose_fewest_shares(held: Shares, wanted: int, first: int) -> dict[int, int]:
    """Choose the fewest stock parts that hold the wanted quantity.

    If there is too little stock, choose all that is held. Stock parts that hold more come first. If several hold
    enough, the one at `first` or closest after it comes first.
    """
    shares: dict[int, int] = {}
    missing = wanted
    for part in sorted(held, key=lambda part: (-min(wanted, held[part]), (part - first) % len(held))):
        if share := min(missing, held[part]):
            shares[part] = share
            missing -= share
    return shares


def _with_shares(line: Line, shares: Shares, backordered: int = 0) -> Line:
    """Return the line with the quantity that it takes from each stock part, and its backordered quantity.

    If all goods come from stock part 0, `taken` is None to keep the item small.
    """
    all_from_0 = shares == {0: line.quantity}
    taken = None if all_from_0 else {str(part): share for part, share in shares.items()}
    return replace(line, taken=taken, backordered=backordered)


def reserve(order: Order) -> Iterator[Write[Stock]]:
    """Return the writes that reserve an order's goods.

    A write raises PartOutOfStock if its stock part holds too little.
    """
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
    """Return the writes that put an order's goods back, each piece into the stock part that it was taken from."""
    for id, line in order.lines.items():
        for part, quantity in line.quantity_by_stock_part.items():
            yield _add_to_part(id, int(part), quantity)


def restock(order: Order, quantities: Mapping[str, int]) -> Iterator[Write[Stock]]:
    """Return the writes that put these quantities back into the stock, one write per product.

    All pieces of a product go to the stock part from which its line took the most. This keeps a return at one write per
    product. The pieces need not go back to the stock part that they came from.
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
