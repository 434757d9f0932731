"""An order's goods: from which parts of the stock they are taken, and how they are given back.

What may be backordered is ordered though it is not there. The stock of such a product is one part, which is then below
zero, and what comes in fills that first.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from functions.dynamodb.patience import Busy
from functions.dynamodb.writes import Write, adjust
from functions.model.entities import Line, Order, Product, Stock, spread
from functions.model.errors import NotFound, OutOfStock
from functions.model.table import STOCK
from functions.shop.shop import Shop

MOST_WRITES = 90
"""With the order itself and whatever ends it (refunds, discount, marker), a transaction of 100."""
Shares = Mapping[int, int]
"""Quantity by part of a product's stock."""


class Short(Exception):
    """A stock part held less than was to be taken from it."""


def planned(order: Order, products: Mapping[str, Product]) -> Order:
    """The order with each line's goods taken from the part it starts at, without a look at what the parts hold."""
    return replace(
        order,
        lines={
            id: _taking(line, {_first_part(order, products[id]): line.quantity}) for id, line in order.lines.items()
        },
    )


def planned_again(shop: Shop, order: Order, products: Mapping[str, Product]) -> Order:
    """The order with its goods taken from where they are now; raises OutOfStock with all that are short, Busy."""
    held = held_of(shop, products, consistent=True)
    lines: dict[str, Line] = {}
    short: dict[str, int] = {}
    for id, line in order.lines.items():
        first = _first_part(order, products[id])
        shares = _fewest(held[id], line.quantity, first)
        there = sum(shares.values())
        missing = line.quantity - there
        if missing and not products[id].backorder:
            short[id] = there
        elif missing:
            shares[first] = shares.get(first, 0) + missing
        lines[id] = _taking(line, shares, backordered=missing)
    if short:
        raise OutOfStock(short)
    if sum(len(line.parts) for line in lines.values()) > MOST_WRITES:
        raise Busy
    return replace(order, lines=lines)


def _first_part(order: Order, product: Product) -> int:
    """Where an order starts to look for goods: the same place every time, spread over the parts by order."""
    return spread(order.order_id, product.parts)


def held_of(shop: Shop, products: Mapping[str, Product], *, consistent: bool) -> dict[str, dict[int, int]]:
    """How many each part of each product holds; none where it is below zero. One BatchGetItem per 100 parts."""
    held = {id: dict.fromkeys(range(product.parts), 0) for id, product in products.items()}
    keys = [STOCK.key(product_id=id, part=part) for id, parts in held.items() for part in parts]
    stock: list[Stock] = shop.table.batch_get(keys, consistent=consistent)
    for part in stock:
        held[part.product_id][part.part] = max(0, part.available)
    return held


def _fewest(held: Shares, wanted: int, first: int) -> dict[int, int]:
    """The fewest shares that make up what is wanted, or all there is: the fullest parts first; of those that hold
    enough, the one the order starts at."""
    shares: dict[int, int] = {}
    missing = wanted
    for part in sorted(held, key=lambda part: (-min(wanted, held[part]), (part - first) % len(held))):
        if share := min(missing, held[part]):
            shares[part] = share
            missing -= share
    return shares


def _taking(line: Line, shares: Shares, backordered: int = 0) -> Line:
    """The line with its shares in it, where that is not all from part 0."""
    all_from_0 = shares == {0: line.quantity}
    taken = None if all_from_0 else {str(part): share for part, share in shares.items()}
    return replace(line, taken=taken, backordered=backordered)


def take(order: Order) -> Iterator[Write[Stock]]:
    """The writes that reserve an order's goods; one that is refused raises Short."""
    for id, line in order.lines.items():
        for part, quantity in line.parts.items():
            there = quantity - line.backordered
            yield adjust(
                STOCK,
                STOCK.key(product_id=id, part=int(part)),
                add={"available": -quantity},
                at_least={"available": there} if there else {},
                refused=lambda found: Short(),
            )


def release(order: Order) -> Iterator[Write[Stock]]:
    """The writes that give an order's goods back, each to the part it was taken from."""
    for id, line in order.lines.items():
        for part, quantity in line.parts.items():
            yield _back(id, int(part), quantity)


def restocked(order: Order, quantities: Mapping[str, int]) -> Iterator[Write[Stock]]:
    """The writes that give back so many of an order's products, one for each.

    All of a product go to the part that its line took most from: what a part held once is no reason for it to hold that
    again, and a return stays one write for each product.
    """
    for id, quantity in quantities.items():
        parts = order.lines[id].parts
        if quantity:
            yield _back(id, int(max(parts, key=lambda part: parts[part])), quantity)


def _back(product_id: str, part: int, quantity: int) -> Write[Stock]:
    key = STOCK.key(product_id=product_id, part=part)
    return adjust(STOCK, key, add={"available": quantity}, at_least={}, refused=lambda found: NotFound("product"))
