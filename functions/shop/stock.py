"""Reserve an order's goods in the stock of each product, and put goods back into the stock.

Stock parts are the items that share the stock of one product, so that many orders can reserve pieces at the same time.
A product that can be backordered can be ordered even when it is out of stock. Such a product has only one stock part.
The quantity in this part then goes below zero, and goods that are received later raise the quantity again.
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

DynamoDB allows 100 items in a transaction. When an order is cancelled or expires, the transaction also writes the
order, its refunds, its discount and its expiry marker (the item whose TTL starts the archiving).
"""
Shares = Mapping[int, int]
"""A quantity for each stock part of a product, by the number of the part.

Stock parts are the items that share the stock of a product.
"""


class PartOutOfStock(Exception):
    """A stock part (one of the items that share a product's stock) has fewer pieces than an order takes from it."""


def assign_first_parts(order: Order, products: Mapping[str, Product]) -> Order:
    """Choose one stock part for each order line, without reading the stock.

    Stock parts are the items that share a product's stock. A line takes all its pieces from the chosen part, which
    depends on the order's id. Returns the order with the chosen parts.
    """
    return replace(
        order,
        lines={
            id: _with_shares(line, {_first_part(order, products[id]): line.quantity})
            for id, line in order.lines.items()
        },
    )


def assign_available_parts(shop: Shop, order: Order, products: Mapping[str, Product]) -> Order:
    """Read the stock, and choose for each order line stock parts that now have enough pieces together.

    Stock parts are the items that share a product's stock. If a product can be backordered, its missing pieces become
    backordered. Returns the order with the chosen parts. If any other products have too few pieces, raises OutOfStock
    with these products. Raises TableBusy if the goods are spread over too many stock parts for one transaction.
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

    Stock parts are the items that share a product's stock. The number comes from a hash of the order's id. So an order
    always gets the same part, and the orders are spread evenly over the parts.
    """
    return hash_to_bucket(order.order_id, product.parts)


def get_available_by_part(
    shop: Shop, products: Mapping[str, Product], *, consistent: bool
) -> dict[str, dict[int, int]]:
    """Return the available pieces in each stock part, by product id and number of the stock part.

    Stock parts are the items that share a product's stock. A quantity below zero (backorders) is returned as 0. One
    BatchGetItem is sent for each 100 stock parts.
    """
    held = {id: dict.fromkeys(range(product.parts), 0) for id, product in products.items()}
    keys = [STOCK.key(product_id=id, part=part) for id, parts in held.items() for part in parts]
    stock: list[Stock] = shop.table.batch_get(keys, consistent=consistent)
    for part in stock:
        held[part.product_id][part.part] = max(0, part.available)
    return held


def _choose_fewest_shares(held: Shares, wanted: int, first: int) -> dict[int, int]:
    """Return how many pieces to take from each stock part, so that as few parts as possible are used.

    Stock parts are the items that share a product's stock. `held`: the available pieces in each part. If all parts
    together have fewer pieces than `wanted`, all pieces are taken.

    The parts with the most pieces are used first. All parts that have at least `wanted` pieces count as equal. Equal
    parts are used in the order of their numbers: from `first` to the highest number, and then from 0.
    """
    shares: dict[int, int] = {}
    missing = wanted
    for part in sorted(held, key=lambda part: (-min(wanted, held[part]), (part - first) % len(held))):
        if share := min(missing, held[part]):
            shares[part] = share
            missing -= share
    return shares


def _with_shares(line: Line, shares: Shares, backordered: int = 0) -> Line:
    """Return the order line with the quantity that it takes from each stock part, and its backordered quantity.

    Stock parts are the items that share a product's stock. If all pieces come from stock part 0, the line's field
    `taken` is None, which keeps the order item small.
    """
    all_from_0 = shares == {0: line.quantity}
    taken = None if all_from_0 else {str(part): share for part, share in shares.items()}
    return replace(line, taken=taken, backordered=backordered)


def reserve(order: Order) -> Iterator[Write[Stock]]:
    """Yield the writes that reserve an order's goods.

    A write raises PartOutOfStock if its stock part (one of the items with the product's stock) has too few pieces.
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
    """Yield the writes that put an order's goods back into the stock.

    The goods go back to the stock parts (the items that share a product's stock) from which the order took them.
    """
    for id, line in order.lines.items():
        for part, quantity in line.quantity_by_stock_part.items():
            yield _add_to_part(id, int(part), quantity)


def restock(order: Order, quantities: Mapping[str, int]) -> Iterator[Write[Stock]]:
    """Yield the writes that put these quantities back into the stock, one write for each product.

    `quantities`: the number of pieces by product id. A product's stock can be split over several items (stock parts).
    All pieces of a product go to the part from which the order line took the most pieces. So a return needs only one
    write for each product.
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
