"""What an order costs, what is contained in that, and what comes back for a part of it: whole minor units throughout.

Every division is rounded once, and parts are differences of running totals, so that they add up to the whole exactly.
"""

from collections.abc import Mapping

from functions.model.entities import Line, Order, TaxLine

WHOLE = 10_000
"""A rate of 100 %, in hundredths of a percent."""


def goods(lines: Mapping[str, Line]) -> int:
    """The price of all pieces together."""
    return sum(line.price * line.quantity for line in lines.values())


def off(goods_cost: int, percent: int) -> int:
    """What so many percent take off: rounded down, in the shop's favour by less than one minor unit."""
    return goods_cost * percent // 100


def total(goods_cost: int, discount: int, shipping: int) -> int:
    """What an order costs: its goods less the discount, and shipping, which no discount is for."""
    return goods_cost - discount + shipping


def tax_in(amount: int, rate: int) -> TaxLine:
    """The tax contained in an amount at this rate (hundredths of a percent), rounded half up."""
    tax = (2 * amount * rate + WHOLE + rate) // (2 * (WHOLE + rate))
    return TaxLine(rate=rate, net=amount - tax, tax=tax)


def in_percent(rate: int) -> str:
    """A rate for a person: 1950 → 19.5."""
    return f"{rate / 100:g}"


def worth(order: Order, pieces: Mapping[str, int]) -> int:
    """What so many pieces of an order's products were paid with: their prices less their share of the discount.

    Of all pieces it is exactly what the goods cost less the discount.
    """
    price = sum(order.lines[id].price * quantity for id, quantity in pieces.items())
    whole = goods(order.lines)
    taken_off = order.discount.amount if order.discount else 0
    return price - taken_off * price // whole


def freed(before: Order, after: Order) -> int:
    """What is to be given back for the pieces that came back, or were dropped, from one to the other: the worth of all
    that have by then, less the worth of those that had before."""
    return worth(after, _gone(after)) - worth(before, _gone(before))


def _gone(order: Order) -> dict[str, int]:
    """What of an order the customer neither has nor gets, by product."""
    return {id: line.returned + line.dropped for id, line in order.lines.items()}
