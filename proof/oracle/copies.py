"""The oracle's rules for copies: the lists of orders, sold goods, documents and money agree with their items."""

import re
from collections import Counter
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


def lists_by_time_have_everything_once(books: Books) -> Iterator[str]:
    """Check that each order, document, payment and refund is once in its list of the shop, at its time.

    Archived payments and refunds stay in their lists. A late webhook about an archived payment creates it again, with
    another entry.
    """
    listed = Counter(_listed(item) for item in books.current)
    expected = {("ORDERS", f"{order.item['placed_at']}#{order.id}") for order in books.orders.values()}
    for kind, name, at, id in LISTED:
        for versions in books.versions_of(kind):
            for _, item in versions:
                order_id = "" if kind == "Invoice" else f"#{item['order_id']}"
                expected.add((name, f"{item[at]}{order_id}#{item[id]}"))
    ignored = books.seen.ignored_orders
    for place in expected | {found for found in listed if found[0]}:
        if not ignored & set(place[1].split("#")):
            books.count_premise(f"an entry was looked up: {place[0]}")
            if listed[place] != (place in expected):
                yield f"{place} is {listed[place]} times in the list, expected: {place in expected}"


def pages_by_time_are_sorted(books: Books) -> Iterator[str]:
    """Check that each page of a list of orders for staff is sorted by time, and shows each order once."""
    for _, asked in books.asked("GET", "/orders"):
        if not asked.succeeded or asked.is_customer:
            continue
        shown = [(one["placed_at"], one["order_id"]) for one in asked.answer["items"]]
        books.count_premise("an order was listed", len(shown))
        if sorted(set(shown)) not in (shown, shown[::-1]):
            yield f"{asked.path} shows {shown}"
        for at, id in shown:
            if id in books.orders and books.orders[id].item["placed_at"] != at:
                yield f"{asked.path} shows order {id} at {at}"


LISTED = (
    ("Invoice", "DOCUMENTS", "issued_at", "invoice_id"),
    ("Payment", "PAYMENTS", "created_at", "payment_id"),
    ("Refund", "REFUNDS", "created_at", "refund_id"),
)
"""By item type: its list, and the attributes with the time and the id in this list."""


def _listed(item: Item) -> tuple[str, str]:
    """Return the list in which an item is an entry, and the place of the entry; ("", "") if it is none."""
    if item["type"] == "FeedEntry":
        return item["list"], item["SK"]
    is_entry = item["type"] in ("OrderNumber", "Invoice")
    return (str(item["GSI2PK"]).partition("#")[0], item["GSI2SK"]) if is_entry else ("", "")


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
