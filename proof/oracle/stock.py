"""The oracle's rules for stock: received pieces are in the stock or in an order, or were written off."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from proof.oracle.arithmetic import BACKORDERED
from proof.oracle.books import Books
from proof.oracle.observations import ObservedRequest


def received_goods_are_there_or_in_an_order(books: Books) -> Iterator[str]:
    """Check for each product that its available pieces are the received minus the ordered plus the restocked pieces."""
    received, available = _sum_stock(books, "received"), _sum_stock(books, "available")
    held: Counter[str] = Counter()
    for order in books.orders.values():
        held.update(order.kept)
        for item in order.of_type("Return"):
            held.subtract(item["restocked"])
            books.count_premise("returned goods went back to stock")
        books.count_premise("unsent pieces of a partly sent order went back to stock", bool(order.dropped))
    for product, pieces in received.items():
        books.count_premise("the stock of a product was counted")
        if pieces - held[product] != available[product]:
            yield f"{product}: orders have {held[product]} and {available[product]} are available, of {pieces} pieces"


def each_stock_item_adds_up(books: Books) -> Iterator[str]:
    """Check each stock item: its available pieces are the received and moved pieces, minus those that orders took.

    An order takes pieces from the stock items that its line names. A cancelled order returns them to the same items.
    Pieces that come back later go to the item from which the line took the most. Moves of a product add up to 0.
    """
    held: Counter[tuple[str, int]] = Counter()
    for order in books.orders.values():
        back = order.dropped + sum((Counter(item["restocked"]) for item in order.of_type("Return")), Counter())
        for product in order.kept + order.dropped:
            line = order.item["lines"][product]
            taken = line["taken"] or {"0": line["quantity"]}
            held.update({(product, int(part)): pieces for part, pieces in taken.items()})
            books.count_premise("an order took pieces from another stock item than part 0", max(map(int, taken)) > 0)
            held[product, int(max(taken, key=lambda part: taken[part]))] -= back[product]
    moved: Counter[str] = Counter()
    for item in books.of_type("Stock"):
        moved[item["product_id"]] += item["moved"]
        books.count_premise("pieces were moved from one stock item to another", item["moved"] > 0)
        has = item["received"] + item["moved"] - held[item["product_id"], item["part"]]
        if has != item["available"]:
            yield f"{item['product_id']}: part {item['part']} has {item['available']} pieces instead of {has}"
    yield from (f"{product}: {pieces} more pieces arrived than left" for product, pieces in moved.items() if pieces)


def receipts_are_counted_once(books: Books) -> Iterator[str]:
    """Check for each product that the received pieces are those of the receipts and imports, each counted once.

    Pieces that were written off (lost or damaged) are subtracted, each once, too.
    """
    least: Counter[str] = Counter()
    most: Counter[str] = Counter()
    receipts = [
        ((product, request.body["quantity"]), request)
        for (product,), request in books.asked("POST", "/products/([^/]+)/receipts")
    ]
    for (product, quantity), request in [*receipts, *_imported(books)]:
        least[product] += quantity * request.succeeded
        most[product] += quantity * (request.succeeded or request.is_uncertain)
    for (product,), request in books.asked("POST", "/products/([^/]+)/write-offs"):
        least[product] -= request.body["quantity"] * (request.succeeded or request.is_uncertain)
        most[product] -= request.body["quantity"] * request.succeeded
        books.count_premise("pieces were written off", request.succeeded)
    for product, pieces in _sum_stock(books, "received").items():
        books.count_premise("the receipts of a product were summed up")
        if not least[product] <= pieces <= most[product]:
            yield f"{product}: {least[product]} to {most[product]} pieces were received, but {pieces} are recorded"


def _imported(books: Books) -> Iterator[tuple[tuple[str, int], ObservedRequest]]:
    for _, request in books.asked("POST", "/products:import"):
        for line in map(json.loads, request.body.splitlines()):
            if "quantity" in line:
                yield (line["product_id"], line["quantity"]), request


def nothing_is_sold_that_is_not_there(books: Books) -> Iterator[str]:
    """Check that the available pieces were never below 0, except of the product that can be ordered without stock."""
    for versions in books.versions_of("Stock"):
        product, lowest = versions[0][1]["product_id"], min(item["available"] for _, item in versions)
        if product == BACKORDERED:
            books.count_premise("a product was ordered without stock", lowest < 0)
        elif lowest < 0:
            yield f"{product}: once, {lowest} pieces were available"
        elif lowest == 0:
            books.count_premise("a stock item was sold out")


def _sum_stock(books: Books, name: str) -> Mapping[str, int]:
    found: dict[str, int] = defaultdict(int)
    for item in books.of_type("Stock"):
        found[item["product_id"]] += item[name]
    return found
