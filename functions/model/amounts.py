"""What an order costs, what is contained in that, and what comes back for a part of it: whole minor units throughout.

Every division is rounded once, and parts are differences of running totals, so that they add up to the whole exactly.
"""

from collections.abc import Mapping

from functions.model.entities import Line, Order, TaxLine

HUNDRED_PERCENT = 10_000
"""A rate of 100 %, in hundredths of a percent."""


def goods_total(lines: Mapping[str, Line]) -> int:
    """The price of all pieces together."""
    return sum(line.price * line.quantity for line in lines.values())


def discount_amount(goods_amount: int, percent: int) -> int:
    """What so many percent take off: rounded down, in the shop's favour by less than one minor unit."""
    return goods_amount * percent // 100


def order_total(goods_amount: int, discount: int, shipping: int) -> int:
    """What an order costs: its goods less the discount, and shipping, which no discount is for."""
    return goods_amount - discount + shipping


def included_tax(amount: int, rate: int) -> TaxLine:
    """The tax contained in an amount at this rate (hundredths of a percent), rounded half up."""
    tax = (2 * amount * rate + HUNDRED_PERCENT + rate) // (2 * (HUNDRED_PERCENT + rate))
    return TaxLine(rate=rate, net=amount - tax, tax=tax)


def format_percent(rate: int) -> str:
    """A rate for a person: 1950 → 19.5."""
    return f"{rate / 100:g}"


def discounted_value(order: Order, quantities: Mapping[str, int]) -> int:
    """What so many pieces of an order's products were paid with: their prices less their share of the discount.

    Of all pieces it is exactly what the goods cost less the discount.
    """
    price = sum(order.lines[id].price * quantity for id, quantity in quantities.items())
    whole = goods_total(order.lines)
    taken_off = order.discount.amount if order.discount else 0
    return price - taken_off * price // whole


def refund_due(before: Order, after: Order) -> int:
    """What is to be given back for the pieces that came back, or were dropped, from one to the other: the worth of all
    that have by then, less the worth of those that had before."""
    return discounted_value(after, _returned_or_dropped(after)) - discounted_value(before, _returned_or_dropped(before))


def _returned_or_dropped(order: Order) -> dict[str, int]:
    """What of an order the customer neither has nor gets, by product."""
    return {id: line.returned + line.dropped for id, line in order.lines.items()}
