"""Calculate the price of an order, the included tax, and partial refunds. Amounts are integers in minor units (cents).

Each calculation divides and rounds only once, so that rounding errors do not add up. A partial refund is the difference
between two values: the value of all refunded pieces, including the pieces of this refund, and the value of the pieces
refunded before. So the partial refunds of an order add up exactly to the refund for all pieces.
"""

from collections.abc import Mapping

from functions.model.entities import Line, Order, TaxLine

HUNDRED_PERCENT = 10_000
"""100 % as a rate. All rates are integers in hundredths of a percent: 1950 means 19.5 %."""


def goods_total(lines: Mapping[str, Line]) -> int:
    """Return the price of all pieces of an order together, before the discount."""
    return sum(line.price * line.quantity for line in lines.values())


def discount_amount(goods_amount: int, rate: int) -> int:
    """Return the discount on an amount at this rate (hundredths of a percent), rounded down to whole minor units."""
    return goods_amount * rate // HUNDRED_PERCENT


def order_total(goods_amount: int, discount: int, shipping: int) -> int:
    """Return an order's total: goods less the discount, plus shipping. Shipping is never discounted."""
    return goods_amount - discount + shipping


def included_tax(amount: int, rate: int) -> TaxLine:
    """Return the tax included in an amount at this rate (hundredths of a percent), rounded half up."""
    tax = (2 * amount * rate + HUNDRED_PERCENT + rate) // (2 * (HUNDRED_PERCENT + rate))
    return TaxLine(rate=rate, net=amount - tax, tax=tax)


def format_percent(rate: int) -> str:
    """Format a rate (hundredths of a percent) for display: 1950 becomes "19.5"."""
    return f"{rate / 100:g}"


def discounted_value(order: Order, quantities: Mapping[str, int]) -> int:
    """Return the price of some pieces of an order, less their proportional share of the order's discount.

    `quantities`: the number of pieces by product id. If it contains all pieces of the order, the result is exactly the
    price of all goods less the discount.
    """
    price = sum(order.lines[id].price * quantity for id, quantity in quantities.items())
    whole = goods_total(order.lines)
    taken_off = order.discount.amount if order.discount else 0
    return price - taken_off * price // whole


def refund_due(before: Order, after: Order) -> int:
    """Return the refund for pieces that were returned or dropped between two states of an order.

    Dropped pieces were cancelled before shipping. The refund is the value of all returned and dropped pieces in the
    state `after`, less the value of the returned and dropped pieces in the state `before`.
    """
    return discounted_value(after, _returned_or_dropped(after)) - discounted_value(before, _returned_or_dropped(before))


def _returned_or_dropped(order: Order) -> dict[str, int]:
    """Return the number of pieces that were returned or dropped (cancelled before shipping), by product."""
    return {id: line.returned + line.dropped for id, line in order.lines.items()}
