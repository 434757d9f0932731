"""What an order costs, the tax included, and the refund for a part of it, in whole minor units.

Every division is rounded once. Parts are differences of running totals, so they add up to the whole exactly.
"""

from collections.abc import Mapping

from functions.model.entities import Line, Order, TaxLine

HUNDRED_PERCENT = 10_000
"""A rate of 100 %, in hundredths of a percent."""


def goods_total(lines: Mapping[str, Line]) -> int:
    """Return the price of all pieces together."""
    return sum(line.price * line.quantity for line in lines.values())


def discount_amount(goods_amount: int, percent: int) -> int:
    """Return the discount on an amount, rounded down to whole minor units."""
    return goods_amount * percent // 100


def order_total(goods_amount: int, discount: int, shipping: int) -> int:
    """Return an order's total: goods less the discount, plus shipping. Shipping is never discounted."""
    return goods_amount - discount + shipping


def included_tax(amount: int, rate: int) -> TaxLine:
    """Return the tax included in an amount at this rate (hundredths of a percent), rounded half up."""
    tax = (2 * amount * rate + HUNDRED_PERCENT + rate) // (2 * (HUNDRED_PERCENT + rate))
    return TaxLine(rate=rate, net=amount - tax, tax=tax)


def format_percent(rate: int) -> str:
    """Format a rate for display: 1950 → 19.5."""
    return f"{rate / 100:g}"


def discounted_value(order: Order, quantities: Mapping[str, int]) -> int:
    """Return what the customer paid for these pieces: their prices less their share of the discount.

    For all pieces it is exactly the goods total less the discount.
    """
    price = sum(order.lines[id].price * quantity for id, quantity in quantities.items())
    whole = goods_total(order.lines)
    taken_off = order.discount.amount if order.discount else 0
    return price - taken_off * price // whole


def refund_due(before: Order, after: Order) -> int:
    """Return the refund for the pieces returned or dropped between two states of an order.

    It is the value of all such pieces after, less the value of those before.
    """
    return discounted_value(after, _returned_or_dropped(after)) - discounted_value(before, _returned_or_dropped(before))


def _returned_or_dropped(order: Order) -> dict[str, int]:
    """Return the quantities that were returned or dropped, by product."""
    return {id: line.returned + line.dropped for id, line in order.lines.items()}
