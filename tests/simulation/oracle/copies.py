"""The book of copies: the lists of orders and of sold goods agree with the orders."""

from collections.abc import Iterator

from tests.simulation.oracle.arithmetic import currency_of
from tests.simulation.oracle.books import Books, Item, OrderRecord


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
        if not entry.get("archived") and entry["items"] != order.ordered.total():
            yield f"the list of {order.customer} shows {entry['items']} pieces of order {order.id}"


def lists_of_goods_show_the_order(books: Books) -> Iterator[str]:
    """Check the entries of a sold order in the lists of its products: pieces, returned pieces, price and currency."""
    entries = {(item["order_id"], item["product_id"]): item for item in books.of_type("OrderLine")}
    for order in books.orders.values():
        if order.is_sold and not _is_archived(order):
            for product, line in order.item["lines"].items():
                books.count_premise("sold goods were looked up in the list of their product")
                wanted = (
                    (order.ordered - order.dropped)[product],
                    line["returned"],
                    line["price"],
                    currency_of(order.item["lines"]),
                )
                if (shown := _shown(entries.get((order.id, product)))) != wanted:
                    yield f"the list of {product} shows order {order.id} as {shown} instead of {wanted}"


def _shown(entry: Item | None) -> tuple[int, int, int, str] | None:
    if entry is None:
        return None
    return entry["quantity"], entry["returned"], entry["price"], entry["currency"]


def _is_archived(order: OrderRecord) -> bool:
    return bool(order.archived) and order.archived[-1][1] == float("inf")
