"""An order's goods: from which parts of the stock they are taken, and how they are given back.

What may be backordered is ordered though it is not there. The stock of such a product is one part, which is then below
zero, and what comes in fills that first.
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
"""With the order itself and whatever ends it (refunds, discount, marker), a transaction of 100."""
Shares = Mapping[int, int]
"""Quantity by part of a product's stock."""


class PartOutOfStock(Exception):
    """A stock part held less than was to be taken from it."""


def assign_first_parts(order: Order, products: Mapping[str, Product]) -> Order:
    """The order with each line's goods taken from the part it starts at, without a look at what the parts hold."""
    return replace(
        order,
        lines={
            id: _with_shares(line, {_first_part(order, products[id]): line.quantity})
            for id, line in order.lines.items()
        },
    )


def assign_available_parts(shop: Shop, order: Order, products: Mapping[str, Product]) -> Order:
    """The order with its goods taken from where they are now; raises OutOfStock with all that are short, Busy."""
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
    """Where an order starts to look for goods: the same place every time, spread over the parts by order."""
    return hash_to_bucket(order.order_id, product.parts)


def get_available_by_part(
    shop: Shop, products: Mapping[str, Product], *, consistent: bool
) -> dict[str, dict[int, int]]:
    """How many each part of each product holds; none where it is below zero. One BatchGetItem per 100 parts."""
    held = {id: dict.fromkeys(range(product.parts), 0) for id, product in products.items()}
    keys = [STOCK.key(product_id=id, part=part) for id, parts in held.items() for part in parts]
    stock: list[Stock] = shop.table.batch_get(keys, consistent=consistent)
    for part in stock:
        held[part.product_id][part.part] = max(0, part.available)
    return held


def _choose_fewest_shares(held: Shares, wanted: int, first: int) -> dict[int, int]:
    """The fewest shares that make up what is wanted, or all there is: the fullest parts first; of those that hold
    enough, the one the order starts at."""
    shares: dict[int, int] = {}
    missing = wanted
    for part in sorted(held, key=lambda part: (-min(wanted, held[part]), (part - first) % len(held))):
        if share := min(missing, held[part]):
            shares[part] = share
            missing -= share
    return shares


def _with_shares(line: Line, shares: Shares, backordered: int = 0) -> Line:
    """The line with its shares in it, where that is not all from part 0."""
    all_from_0 = shares == {0: line.quantity}
    taken = None if all_from_0 else {str(part): share for part, share in shares.items()}
    return replace(line, taken=taken, backordered=backordered)


def reserve(order: Order) -> Iterator[Write[Stock]]:
    """The writes that reserve an order's goods; one that is refused raises Short."""
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
    """The writes that give an order's goods back, each to the part it was taken from."""
    for id, line in order.lines.items():
        for part, quantity in line.quantity_by_stock_part.items():
            yield _add_to_part(id, int(part), quantity)


def restock(order: Order, quantities: Mapping[str, int]) -> Iterator[Write[Stock]]:
    """The writes that give back so many of an order's products, one for each.

    All of a product go to the part that its line took most from: what a part held once is no reason for it to hold that
    again, and a return stays one write for each product.
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
