"""Change the number of a product's stock parts while people buy (a resize).

Stock parts are the items that share the stock of one product. A part is never deleted. One write changes the number of
active parts and creates missing parts. Then transactions move pieces between the parts, so that the active parts have
equal quantities and all other parts are empty.

Each transaction takes pieces from a part only if they are still there. So this resize can end at any point: no piece is
sold twice or lost, and the pieces in every part can be ordered. To complete the resize, repeat the command.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from functions.dynamodb.errors import TableBusy
from functions.dynamodb.keys import Instant
from functions.dynamodb.writes import Write, add_with_minimum, put_if_absent
from functions.model.entities import Product, Stock
from functions.model.patterns import PRODUCT_BY_ID
from functions.model.table import STOCK
from functions.shop.shop import ShopContext, require_found
from functions.shop.stock import PartOutOfStock, add_to_part, get_stock_levels

MOVE_ROUNDS = 4
"""How often a resize reads the stock and moves pieces. It repeats this if buyers took the pieces before the move."""
MOVE_SECONDS = 8
"""After this time a resize starts no more moves.

The last move may be retried for 2.5 seconds. So the resize ends within the API's timeout of 15 seconds.
"""


@dataclass(frozen=True)
class Move:
    """Pieces to move between two stock parts of a product. `source`, `target`: the numbers of these parts."""

    source: int
    target: int
    quantity: int


def with_part_count(product: Product, count: int) -> Product:
    """Return the product with `count` active stock parts. Nothing is written."""
    return replace(product, parts=count, parts_created=max(count, product.parts_created))


def create_parts(
    product: Product, before: Product | None, shares: Mapping[int, int], at: Instant
) -> Iterator[Write[Stock]]:
    """Yield the writes that create the stock parts of a product which the product `before`, or None, does not have yet.

    `shares`: the received pieces by the number of the part. `at`: the time of the change.
    """
    for part in range(before.parts_created if before else 0, product.parts_created):
        share = shares.get(part, 0)
        made = Stock(
            product_id=product.product_id,
            part=part,
            available=share,
            received=share,
            created_at=at,
            added_at=at,
        )
        yield put_if_absent(STOCK, made)


def spread_stock(shop: ShopContext, product_id: str, wait: Callable[[], None] = lambda: None) -> None:
    """Move the pieces of a product until its active parts have equal quantities and all other parts are empty.

    `wait` is called before each move, to limit the rate. Safe to repeat, and to end at any point. Buyers may take
    pieces meanwhile, so some may stay in other parts. They can still be ordered. Raises NotFound, and TableBusy if the
    time is over.
    """
    end = shop.now() + timedelta(seconds=MOVE_SECONDS)
    for _ in range(MOVE_ROUNDS):
        product = require_found(shop.table.get(PRODUCT_BY_ID, product_id=product_id), "product")
        levels = get_stock_levels(shop, {product_id: product}, consistent=True)[product_id]
        missed = 0
        for move in plan_moves(levels.by_part, product.parts):
            if shop.now() > end:
                raise TableBusy
            wait()
            try:
                shop.table.write(*_move_pieces(product_id, move, shop.now_instant()))
            except PartOutOfStock:
                missed += 1
        if not missed:
            return


def plan_moves(by_part: Mapping[int, int], active: int) -> list[Move]:
    """Return the moves that make the active stock parts equal, up to a difference of 1, and empty all other parts.

    `by_part`: the available pieces in each part, below zero if pieces are owed (backorders). `active`: the number of
    active parts, which have the lowest numbers. If pieces are owed, part 0 owes them then. There are fewer moves than
    parts.
    """
    total = sum(by_part.values())
    fullest_first = sorted(range(active), key=lambda part: -by_part[part])
    wanted = {part: total // active + (n < total % active) for n, part in enumerate(fullest_first)}
    if total < 0:
        wanted = {0: total}
    surplus = {part: min(has, has - wanted.get(part, 0)) for part, has in by_part.items()}
    sources = [[part, extra] for part, extra in surplus.items() if extra > 0]
    moves = []
    for target, has in by_part.items():
        missing = wanted.get(target, 0) - has
        while missing > 0 and sources:
            source, extra = sources[-1]
            quantity = min(missing, extra)
            moves.append(Move(source, target, quantity))
            missing -= quantity
            sources[-1][1] -= quantity
            if extra == quantity:
                sources.pop()
    return moves


def _move_pieces(product_id: str, move: Move, at: Instant) -> Iterator[Write[Stock]]:
    """Yield the writes of one move. The first write raises PartOutOfStock if the source has too few pieces now."""
    yield add_with_minimum(
        STOCK,
        STOCK.key(product_id=product_id, part=move.source),
        add={"available": -move.quantity, "moved": -move.quantity},
        at_least={"available": move.quantity},
        condition_error=lambda found: PartOutOfStock(),
        from_zero=("moved",),
    )
    yield add_to_part(product_id, move.target, move.quantity, at, "moved")
