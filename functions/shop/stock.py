"""Reserve an order's goods in the stock of each product, and put goods back into the stock.

Stock parts are the items that share the stock of one product, so that many orders can reserve pieces at the same time.
Their number can change while people buy (stock_parts.py). An order takes its pieces from an active part first, and from
any part if that part has too few pieces.

A product that can be backordered can be ordered even when it is out of stock. Such a product has only one active part,
part 0. The quantity in this part then goes below zero, and goods that are received later raise the quantity again.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from functions.dynamodb.errors import TableBusy
from functions.dynamodb.keys import Instant
from functions.dynamodb.writes import Write, WriteConflict, add_with_minimum
from functions.model.entities import Line, Order, Product, Stock, hash_to_bucket
from functions.model.errors import NotFound, OutOfStock
from functions.model.table import STOCK
from functions.shop.shop import ShopContext

MAX_STOCK_WRITES = 90
"""The maximum number of stock writes for one order.

DynamoDB allows 100 items in a transaction. When an order is cancelled or expires, the transaction also writes the
order, its refunds, its discount and its expiry marker (the item whose TTL starts the archiving).
"""
Shares = Mapping[int, int]
"""A quantity for each stock part of a product, by the number of the part.

Stock parts are the items that share the stock of a product.
"""


@dataclass(frozen=True)
class StockLevels:
    """The stock of a product as it was read, part by part. Stock parts are the items that share a product's stock."""

    parts: Sequence[Stock]

    @property
    def by_part(self) -> Shares:
        """The available pieces by the number of the part; below zero if pieces are owed (backorders)."""
        return {part.part: part.available for part in self.parts}

    @property
    def available(self) -> int:
        """How many pieces can be ordered without backorders.

        Pieces may be moved between two parts during the reads. Then the sum lacks these pieces or has them twice. The
        sum of the parts' `moved`, which is otherwise 0, then differs by the same number, so this sum is subtracted.
        """
        return max(0, sum(part.available - (part.moved or 0) for part in self.parts))


class PartOutOfStock(Exception):
    """A stock part (one of the items that share a product's stock) has fewer pieces than an order takes from it."""


class PartBusy(Exception):
    """A stock part of `product_id` is not written, because other orders change it, or DynamoDB throttles it."""

    def __init__(self, product_id: str) -> None:
        super().__init__(product_id)
        self.product_id = product_id


def assign_first_parts(order: Order, products: Mapping[str, Product]) -> Order:
    """Return the order with one stock part for each line, chosen by the order's id, without reading the stock."""
    return replace(
        order,
        lines={
            id: _with_shares(line, {_first_part(order, products[id]): line.quantity})
            for id, line in order.lines.items()
        },
    )


def leave_busy_part(order: Order, product: Product) -> Order:
    """Return the order with another stock part for the pieces of a product, without reading the stock.

    The product has at least two active parts, and the order takes all its pieces from one. The next part depends on the
    order's id too, so the orders that leave a busy part spread over the others.
    """
    line = order.lines[product.product_id]
    (busy,) = map(int, line.quantity_by_stock_part)
    step = 1 + hash_to_bucket(order.order_id, product.parts - 1)
    shares = {(busy + step) % product.parts: line.quantity}
    return replace(order, lines={**order.lines, product.product_id: _with_shares(line, shares)})


def assign_available_parts(shop: ShopContext, order: Order, products: Mapping[str, Product]) -> Order:
    """Read the stock, and choose for each order line stock parts that now have enough pieces together.

    If a product can be backordered, its missing pieces become backordered. Returns the order. Raises OutOfStock with
    the products that have too few pieces. Raises TableBusy if the goods are spread over too many parts for one
    transaction. Raises WriteConflict if pieces were moved between two parts during the reads: read everything again.
    """
    levels = get_stock_levels(shop, products, consistent=True)
    lines: dict[str, Line] = {}
    short: dict[str, int] = {}
    for id, line in order.lines.items():
        there = min(line.quantity, levels[id].available)
        held = {part: max(0, available) for part, available in levels[id].by_part.items()}
        shares = choose_fewest_shares(held, there, _first_part(order, products[id]))
        if sum(shares.values()) < there:
            raise WriteConflict(STOCK.type)
        missing = line.quantity - there
        if missing and not products[id].backorder:
            short[id] = there
        elif missing:
            shares[0] = shares.get(0, 0) + missing
        lines[id] = _with_shares(line, shares, backordered=missing)
    if short:
        raise OutOfStock(short)
    if sum(len(line.quantity_by_stock_part) for line in lines.values()) > MAX_STOCK_WRITES:
        raise TableBusy
    return replace(order, lines=lines)


def _first_part(order: Order, product: Product) -> int:
    """Return the number of the stock part from which the order takes goods first, from a hash of the order's id."""
    return hash_to_bucket(order.order_id, product.parts)


def get_stock_levels(shop: ShopContext, products: Mapping[str, Product], *, consistent: bool) -> dict[str, StockLevels]:
    """Return the stock of these products by id, with parts that are not active any more but may have goods.

    One BatchGetItem is sent for each 100 stock parts.
    """
    keys = [STOCK.key(product_id=id, part=n) for id, product in products.items() for n in range(product.parts_created)]
    parts: dict[str, list[Stock]] = defaultdict(list)
    for part in shop.table.batch_get(keys, consistent=consistent):
        parts[part.product_id].append(part)
    return {id: StockLevels(parts[id]) for id in products}


def choose_fewest_shares(held: Shares, wanted: int, first: int) -> dict[int, int]:
    """Return how many pieces to take from each stock part, so that as few parts as possible are used.

    `held`: the available pieces in each part. If they are fewer than `wanted`, all are taken. The parts with the most
    pieces are used first. All parts that have at least `wanted` pieces count as equal, and are used in the order of
    their numbers: from `first` to the highest number, and then from 0.
    """
    shares: dict[int, int] = {}
    missing = wanted
    for part in sorted(held, key=lambda part: (-min(wanted, held[part]), part < first, part)):
        if share := min(missing, held[part]):
            shares[part] = share
            missing -= share
    return shares


def _with_shares(line: Line, shares: Shares, backordered: int = 0) -> Line:
    """Return the order line with what it takes from each stock part, and its backordered quantity.

    If all pieces come from part 0, `taken` is None, which keeps the order item small.
    """
    all_from_0 = shares == {0: line.quantity}
    taken = None if all_from_0 else {str(part): share for part, share in shares.items()}
    return replace(line, taken=taken, backordered=backordered)


def reserve(order: Order, can_leave: Collection[str] = ()) -> Iterator[Write[Stock]]:
    """Yield the writes that reserve an order's goods. Backordered pieces are always taken from part 0.

    A write raises PartOutOfStock if its stock part has too few pieces, and PartBusy if it is busy and another part can
    be taken instead. `can_leave`: the ids of these products.
    """
    for id, line in order.lines.items():
        for part, quantity in line.quantity_by_stock_part.items():
            there = quantity - (line.backordered if part == "0" else 0)
            write = add_with_minimum(
                STOCK,
                STOCK.key(product_id=id, part=int(part)),
                add={"available": -quantity},
                at_least={"available": there} if there else {},
                condition_error=lambda found: PartOutOfStock(),
            )
            yield replace(write, busy_error=partial(PartBusy, id)) if id in can_leave else write


def release(order: Order) -> Iterator[Write[Stock]]:
    """Yield the writes that put an order's goods back to the stock parts from which the order took them.

    `order`: the order after the change that puts them back.
    """
    for id, line in order.lines.items():
        for part, quantity in line.quantity_by_stock_part.items():
            yield add_to_part(id, int(part), quantity, order.updated_at)


def restock(order: Order, quantities: Mapping[str, int]) -> Iterator[Write[Stock]]:
    """Yield the writes that put these quantities back into the stock, by product id: one write for each product.

    `order`: the order after the change. All pieces go to the part from which the line took the most.
    """
    for id, quantity in quantities.items():
        parts = order.lines[id].quantity_by_stock_part
        if quantity:
            yield add_to_part(id, int(max(parts, key=lambda part: parts[part])), quantity, order.updated_at)


def write_off(product_id: str, levels: StockLevels, quantity: int) -> Iterator[Write[Stock]]:
    """Yield the writes that remove damaged or missing pieces of a product, from as few stock parts as possible.

    `levels`: the stock as it was read. The pieces are subtracted from `received`, too, so that the counters of a part
    add up to its stock. Raises OutOfStock if fewer pieces are available. A write raises WriteConflict if the part has
    fewer.
    """
    if quantity > levels.available:
        raise OutOfStock({product_id: levels.available})
    held = {part: max(0, available) for part, available in levels.by_part.items()}
    shares = choose_fewest_shares(held, quantity, 0)
    if sum(shares.values()) < quantity:
        raise WriteConflict(STOCK.type)
    for part, share in shares.items():
        yield add_with_minimum(
            STOCK,
            STOCK.key(product_id=product_id, part=part),
            add={"available": -share, "received": -share},
            at_least={"available": share},
            condition_error=lambda found: WriteConflict(STOCK.type),
        )


def add_to_part(
    product_id: str, part: int, quantity: int, at: Instant, counter: Literal["received", "moved"] | None = None
) -> Write[Stock]:
    """Return the write that adds pieces to a stock part. `at`: the same time for all parts of a transaction.

    `counter`: the field that counts these pieces too. The write also stores how many pieces the part had before. From
    this, product_alerts.py decides whether the product was sold out.
    """
    return add_with_minimum(
        STOCK,
        STOCK.key(product_id=product_id, part=part),
        add=dict.fromkeys(["available", *([counter] if counter else [])], quantity),
        at_least={},
        condition_error=lambda found: NotFound("product"),
        from_zero=("moved",) if counter == "moved" else (),
        texts={"added_at": at},
        former={"available_before": "available"},
    )
