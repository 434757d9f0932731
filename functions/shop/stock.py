"""An order's goods: from which parts of the stock they are taken, and how they are given back."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from functions.dynamodb.patience import Busy
from functions.dynamodb.writes import Write, adjust
from functions.model.entities import Order, Product, Stock, spread
from functions.model.errors import NotFound, OutOfStock
from functions.model.table import STOCK
from functions.shop.shop import Shop

MOST_WRITES = 98
"""With the order itself, and one to spare, a transaction of 100."""
Plan = dict[str, int]
"""Quantity by part of a product's stock."""


class Short(Exception):
    """A stock part held less than was to be taken from it."""


def _first_part(order_id: str, product: Product) -> int:
    """Where an order starts to look for goods: the same place every time, spread over the parts by order."""
    return spread(order_id, product.parts)


def first_plan(order_id: str, product: Product, quantity: int) -> Plan:
    """Quantities by part, without a look at what the parts hold: all from the one the order starts at."""
    return {str(_first_part(order_id, product)): quantity}


def planned_again(shop: Shop, order: Order, products: Mapping[str, Product]) -> dict[str, Plan]:
    """The plan of each product from what every part holds now; raises OutOfStock with all that are short, Busy."""
    keys = [STOCK.key(product_id=id, part=part) for id, product in products.items() for part in range(product.parts)]
    stock: list[Stock] = shop.table.batch_get(keys, consistent=True)
    held = {(part.product_id, part.part): part.available for part in stock}
    plan: dict[str, Plan] = {}
    short: dict[str, int] = {}
    for id, product in products.items():
        wanted = missing = order.lines[id].quantity
        first = _first_part(order.order_id, product)
        gives = {part: min(wanted, held.get((id, part), 0)) for part in range(product.parts)}
        shares: Plan = {}
        # The fullest parts first, so that the shares are few; of those that give all, the one the order starts at.
        for part in sorted(gives, key=lambda part: (-gives[part], (part - first) % product.parts)):
            if share := min(missing, gives[part]):
                shares[str(part)] = share
                missing -= share
        if missing:
            short[id] = wanted - missing
        plan[id] = shares
    if short:
        raise OutOfStock(short)
    if sum(map(len, plan.values())) > MOST_WRITES:
        raise Busy
    return plan


def taking(order: Order, plan: Mapping[str, Plan]) -> Order:
    """The order with each line's plan in it, where that is not all of part 0."""
    lines = {
        id: line if plan[id] == {"0": line.quantity} else replace(line, taken=plan[id])
        for id, line in order.lines.items()
    }
    return replace(order, lines=lines)


def take(order: Order) -> Iterator[Write[Stock]]:
    """The writes that reserve an order's goods; one that is refused raises Short."""
    for id, part, quantity in _shares(order):
        key = STOCK.key(product_id=id, part=part)
        yield adjust(
            STOCK, key, add={"available": -quantity}, at_least={"available": quantity}, refused=lambda found: Short()
        )


def release(order: Order) -> Iterator[Write[Stock]]:
    """The writes that give an order's goods back."""
    for id, part, quantity in _shares(order):
        key = STOCK.key(product_id=id, part=part)
        yield adjust(STOCK, key, add={"available": quantity}, at_least={}, refused=lambda found: NotFound("product"))


def _shares(order: Order) -> Iterator[tuple[str, int, int]]:
    for id, line in order.lines.items():
        for part, quantity in line.parts.items():
            yield id, int(part), quantity
