"""The oracle's rules for prices: the cost of an order, as shown to the customer, and its discounts."""

from collections import Counter
from collections.abc import Iterator
from math import inf
from typing import Any

from proof.oracle.arithmetic import (
    MAX_USES,
    RATES_OFF,
    currency_of,
    discount_on,
    price_of_goods,
    sums_by_rate,
)
from proof.oracle.books import Books, OrderRecord
from proof.simulation.faults import MAX_REPLICA_LAG_SECONDS

POOL_TYPE = "RedemptionPool"
"""The type of the items that count the uses of a code, and its former name, which a migration may restore."""


def orders_cost_what_their_products_cost(books: Books) -> Iterator[str]:
    """Check each order: prices that were valid when it was placed, less the discount, plus shipping, with the taxes."""
    for order in books.orders.values():
        item, asked = order.item, order.placed_by
        if not asked:
            yield f"no request placed order {order.id} of {order.customer}"
            continue
        since = min(one.asked_at for one in asked)
        until = min((one.answered_at for one in asked if one.succeeded), default=inf)
        for product, line in item["lines"].items():
            books.count_premise("the price of an order line was known")
            if line["price"] in _values_between(books, product, "price", since, until):
                continue
            # An order is placed with an eventually consistent read of its products.
            valid = _values_between(books, product, "price", since - MAX_REPLICA_LAG_SECONDS, until)
            yield from books.violation_unless(
                f"order {order.id}: a {product} costs {line['price']}, but the price was one of {sorted(valid)}",
                {"the price was replaced a moment before the order": line["price"] in valid},
            )
        if not any({it["product_id"]: it["quantity"] for it in one.body["lines"]} == order.ordered for one in asked):
            yield f"order {order.id} has the pieces {dict(order.ordered)}, which no request contains"
        code = asked[0].body.get("discount_code", "").upper()
        goods = price_of_goods(item["lines"])
        off = discount_on(goods, RATES_OFF[code]) if code else 0
        kept = item.get("discount") or {"code": "", "amount": 0, "rate": 0}
        if (kept["code"], kept["amount"], kept["rate"]) != (code, off, RATES_OFF.get(code, 0)):
            yield f"order {order.id}: the code {code!r} takes {off} off {goods}, but the order has {kept}"
        method, shipping = books.shipping_of(order)
        books.count_premise("the price of a shipping method was known", bool(method))
        books.count_premise("a shipping method was free", bool(method) and not shipping)
        if str(item["shipping_method"] or "").partition(" ")[0] != method:
            yield f"order {order.id} is sent with {item['shipping_method']!r} instead of {method!r}"
        expected = (sum(row.gross for row in books.rows_of(order)), shipping, currency_of(item["lines"]))
        books.count_premise("taxes were added to the prices", bool(item["net_prices"]))
        if (item["total"], item["shipping"], item["currency"]) != expected:
            yield f"order {order.id} costs {item['total']} instead of {expected}"
        _count_discount(books, goods, code)


def _count_discount(books: Books, goods: int, code: str) -> None:
    books.count_premise("an order had a discount", bool(code))
    books.count_premise("a discount was rounded", goods * RATES_OFF.get(code, 0) % 10_000 > 0)


def ended_products_are_not_sold(books: Books) -> Iterator[str]:
    """Check that each product of an order was sold at some time between the order's request and its answer."""
    for order in books.orders.values():
        since = min((one.asked_at for one in order.placed_by), default=inf)
        until = min((one.answered_at for one in order.placed_by if one.succeeded), default=inf)
        for product in order.item["lines"]:
            ended = _values_between(books, product, "discontinued", since, until)
            before = _values_between(books, product, "discontinued", since - MAX_REPLICA_LAG_SECONDS, until)
            books.count_premise("a product's sale ended or began near an order", before == {True, False})
            if ended == {True}:
                yield from books.violation_unless(
                    f"order {order.id} contains a discontinued {product}",
                    {"the sale ended a moment before the order": before != {True}},
                )
    for _, request in books.asked("POST", "(?:/guest)?/orders"):
        refused = "discontinued" in (request.answer or {}).get("type", "")
        books.count_premise("an order was refused because a sale had ended", refused)


def _values_between(books: Books, product: str, name: str, since: float, until: float) -> set[Any]:
    """Return the values of a product's field that may have been valid at some time between `since` and `until`.

    A change of the field took effect between its request and its answer. Without an answer, it may take effect later.
    """
    asked = [one for _, one in books.asked("POST", "/products") if one.body["product_id"] == product]
    asked += [one for _, one in books.asked("PATCH", f"/products/{product}") if name in one.body]
    changes = [(one, one.answered_at) for one in asked if one.succeeded]
    changes += [(one, inf) for one in asked if one.is_uncertain]
    return {
        change.body.get(name, False)
        for change, done_at in changes
        if change.asked_at <= until
        and not any(later.asked_at > done_at and later_done_at < since for later, later_done_at in changes)
    }


def answers_show_the_price_of_the_order(books: Books) -> Iterator[str]:
    """Check each answer that shows a whole order: its lines, discount, shipping, total, tax and due amount agree."""
    for request in books.seen.requests:
        shown = request.answer
        if request.succeeded and isinstance(shown, dict) and shown.get("lines") and "due" in shown:
            books.count_premise("an answer showed the price of an order")
            yield from (f"{request.method} {request.path}: {wrong}" for wrong in _wrong_amounts(books, shown))


def _wrong_amounts(books: Books, shown: dict[str, Any]) -> Iterator[str]:
    lines = {line["product_id"]: line for line in shown["lines"]}
    goods = price_of_goods(lines)
    off = discount_on(goods, RATES_OFF[shown["discount"]["code"]]) if shown["discount"] else 0
    order = books.orders.get(shown["order_id"])
    shipping = books.shipping_of(order)[1] if order and order.placed_by else shown["shipping"]
    taxes = sums_by_rate(books.rows_of(order)) if order and order.placed_by else shown["taxes"]
    total = sum(one["net"] + one["tax"] for one in taxes)
    due = total - shown["paid"] if shown["status"] == "PENDING" else 0
    if (shown["total"], shown["shipping"], shown["due"]) != (total, shipping, due):
        yield f"the total is {shown['total']} with {shown['due']} due, instead of {total} with {due} due"
    if shown["taxes"] != taxes:
        yield f"the taxes are {shown['taxes']} instead of {taxes}"
    if not shown["net_prices"] and total != goods - off + shipping:
        yield f"the total is {total} instead of {goods} - {off} + {shipping}"


def later_states_keep_the_price(books: Books) -> Iterator[str]:
    """Check that all versions of an order, and the answers and events about it, have the total of the first version.

    Credit notes have a total of their own.
    """
    told = {id: order.versions[0][1]["total"] for id, order in books.orders.items()}
    shown = [(one.answer, one.path) for one in books.seen.requests if one.succeeded and isinstance(one.answer, dict)]
    events = [(event["data"], event["type"]) for event in books.seen.events if event["type"].startswith("Order")]
    for data, where in [*shown, *events]:
        if data.get("order_id") in told and "total" in data and data.get("kind") != "CREDIT_NOTE":
            books.count_premise("the total of an order was shown again")
            if data["total"] != told[data["order_id"]]:
                yield f"{where}: order {data['order_id']} costs {data['total']}, but earlier {told[data['order_id']]}"
    for order in books.orders.values():
        if {item["total"] for _, item in order.versions} != {order.item["total"]}:
            yield f"order {order.id} had the totals {[item['total'] for _, item in order.versions]}"


def codes_are_used_as_often_as_allowed(books: Books) -> Iterator[str]:
    """Check that the remaining uses of each code are its limit minus the orders with the code that still count."""
    uses = Counter(order.code for order in books.orders.values() if not _is_undone(order))
    for code, limit in MAX_USES.items():
        pools = books.of_type(POOL_TYPE)
        left = sum(item["left"] for item in pools if item["code"] == code)
        books.count_premise("the uses of a discount code were counted", bool(uses[code]))
        if left != limit - uses[code] or left < 0:
            yield f"{code}: {left} of {limit} uses are left, but {uses[code]} orders use the code"
    for versions in books.versions_of(POOL_TYPE):
        if min(item["left"] for _, item in versions) < 0:
            yield f"{versions[0][1]['code']} was once used too often"


def _is_undone(order: OrderRecord) -> bool:
    return order.status in ("CANCELLED", "LAPSED", "RETURNED")
