"""The oracle's rules for copies: the lists of orders and of sold goods agree with the orders."""

import re
from collections.abc import Iterator
from datetime import datetime

from proof.oracle.arithmetic import currency_of
from proof.oracle.books import Books, Item, OrderRecord, to_plain


def lists_show_the_order(books: Books) -> Iterator[str]:
    """Check that each order is once in the list of its customer, with its status, total, currency and pieces.

    The entry of an archived order has no number of pieces.
    """
    entries = {(item["customer_id"], item["order_id"]): item for item in books.of_type("OrderSummary")}
    for order in books.orders.values():
        entry = entries.get((order.customer, order.id))
        books.count_premise("an order was looked up in the list of its customer")
        if entry is None:
            yield f"order {order.id} is not in the list of {order.customer}"
            continue
        shown = (entry["status"], entry["total"], entry["currency"])
        wanted = (order.status, order.item["total"], currency_of(order.item["lines"]))
        if shown != wanted:
            yield f"the list of {order.customer} shows order {order.id} as {shown} instead of {wanted}"
        if entry.get("archived"):
            continue
        if entry["items"] != order.ordered.total():
            yield f"the list of {order.customer} shows {entry['items']} pieces of order {order.id}"
        wanted_lines = {product: _sold(order, product) for product in order.item["lines"]} if order.is_sold else {}
        books.count_premise("the goods of an order were looked up in the list of its customer", len(wanted_lines))
        bought = {product: _purchased(line) for product, line in (entry.get("lines") or {}).items()}
        if bought != wanted_lines:
            yield f"the list of {order.customer} shows order {order.id} with {bought} instead of {wanted_lines}"


def lists_of_goods_show_the_order(books: Books) -> Iterator[str]:
    """Check the entries of a sold order in the lists of its products: pieces, returned pieces, price and currency.

    Also check that each entry stays for 400 days after the order was placed, although the order may be archived.
    """
    for order in books.orders.values():
        if not order.is_sold:
            continue
        for product in order.item["lines"]:
            books.count_premise("sold goods were looked up in the list of their product")
            versions = books.seen.history.get((f"SALES#{product}#0", f"{order.item['placed_at']}#{order.id}"), ())
            stored = [to_plain(image) for _, image in versions if image]
            wanted = (*_sold(order, product), currency_of(order.item["lines"]))
            shown = (*_shown(stored[-1]), stored[-1]["currency"]) if stored else None
            if shown != wanted:
                yield f"the list of {product} shows order {order.id} as {shown} instead of {wanted}"
            elif versions[-1][1] is None and versions[-1][0] < _seconds(order.item["placed_at"]) + 400 * 86_400:
                yield f"order {order.id} left the list of {product} too early"


def _sold(order: OrderRecord, product: str) -> tuple[int, int, int]:
    line = order.item["lines"][product]
    return (order.ordered - order.dropped)[product], line["returned"], line["price"]


def _shown(entry: Item) -> tuple[int, int, int]:
    return entry["quantity"], entry["returned"], entry["price"]


PURCHASED_LINE = re.compile(r"(\d+) x (\d+)(?:, (\d+) returned)?: .*", re.DOTALL)


def _purchased(text: str) -> tuple[int, int, int]:
    """Return pieces, returned pieces and price from the text of a line, such as "2 x 1250, 1 returned: Blue mug"."""
    found = PURCHASED_LINE.fullmatch(text)
    assert found, text
    quantity, price, returned = found.groups(default="0")
    return int(quantity), int(returned), int(price)


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()
