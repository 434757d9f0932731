"""Calculate the price of an order, its taxes, and partial refunds. Amounts are integers in minor units (cents).

The rows of an order are its lines, sorted by product id, and its shipping. Each row has its share of the discount and
its own tax. Shares and partial refunds are differences between two values that are rounded once: of all rows or pieces
up to one, and of those before it. So they add up exactly to the whole, and no cent is lost.
"""

from collections.abc import Mapping

from functions.model.entities import Invoice, Line, Order, TaxLine

HUNDRED_PERCENT = 10_000
"""100 % as a rate. All rates are integers in hundredths of a percent: 1950 means 19.5 %."""
SHIPPING = "#shipping"
"""The key of the row of the shipping costs. A product id has no #."""


Priced = Order | Invoice


def goods_total(lines: Mapping[str, Line]) -> int:
    """Return the price of all pieces of an order together, before the discount."""
    return sum(line.price * line.quantity for line in lines.values())


def discount_amount(goods_amount: int, rate: int) -> int:
    """Return the discount on an amount at this rate (hundredths of a percent), rounded down to whole minor units."""
    return goods_amount * rate // HUNDRED_PERCENT


def rate_of(priced: Priced, row_rate: int | None) -> int:
    """Return the tax rate of a row (hundredths of a percent): its own, or that of the order."""
    return priced.tax_rate if row_rate is None else row_rate


def price_rows(priced: Priced) -> dict[str, TaxLine]:
    """Return what the customer pays for each row, by product id and SHIPPING, with the discount and the tax.

    Shipping is never discounted. Without shipping costs, there is no row for them.
    """
    prices = {id: line.price * line.quantity for id, line in sorted(priced.lines.items())}
    shares = split_by_weight(priced.discount.amount if priced.discount else 0, prices)
    rows = {
        id: split_tax(price - shares[id], rate_of(priced, priced.lines[id].tax_rate), is_net=priced.net_prices)
        for id, price in prices.items()
    }
    if priced.shipping:
        rate = rate_of(priced, priced.shipping_tax_rate)
        rows[SHIPPING] = split_tax(priced.shipping, rate, is_net=priced.net_prices)
    return rows


def split_by_weight(amount: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Split an amount in proportion to weights. The parts add up to it, and no part exceeds its weight unless all do.

    Without any weight, all parts are 0.
    """
    whole, until, parts = sum(weights.values()) or 1, 0, {}
    for id, weight in weights.items():
        before, until = until, until + weight
        parts[id] = amount * until // whole - amount * before // whole
    return parts


def order_total(priced: Priced) -> int:
    """Return an order's total: goods less the discount, plus shipping, including the taxes."""
    return sum(row.gross for row in price_rows(priced).values())


def tax_table(priced: Priced) -> tuple[TaxLine, ...]:
    """Return the net amount and the tax of each rate, highest rate first: the sums of the rows with this rate."""
    rows = price_rows(priced).values()
    return tuple(
        TaxLine(
            rate=rate,
            net=sum(row.net for row in rows if row.rate == rate),
            tax=sum(row.tax for row in rows if row.rate == rate),
        )
        for rate in sorted({row.rate for row in rows}, reverse=True)
    )


def split_tax(amount: int, rate: int, *, is_net: bool) -> TaxLine:
    """Return an amount with its tax at this rate (hundredths of a percent). The tax is rounded half up.

    `is_net`: whether the tax is added to the amount. Otherwise the amount includes the tax.
    """
    whole = HUNDRED_PERCENT if is_net else HUNDRED_PERCENT + rate
    tax = (2 * amount * rate + whole) // (2 * whole)
    return TaxLine(rate=rate, net=amount if is_net else amount - tax, tax=tax)


def paid_value(order: Order, quantities: Mapping[str, int]) -> int:
    """Return what the customer pays for some pieces of an order, with their shares of the discount and the taxes.

    `quantities`: the number of pieces by product id. The pieces of a row have equal shares of it, rounded down once. So
    all pieces of the order together have exactly the value of all rows without shipping.
    """
    rows = price_rows(order)
    return sum(rows[id].gross * quantity // order.lines[id].quantity for id, quantity in quantities.items())


def shipping_value(order: Order) -> int:
    """Return what the customer pays for the shipping of an order, with its tax."""
    row = price_rows(order).get(SHIPPING)
    return row.gross if row else 0


def pieces_to_credit(order: Order) -> dict[str, int]:
    """Return the number of pieces that were returned or cancelled, by product."""
    if order.status == "CANCELLED":
        return {id: line.quantity for id, line in order.lines.items()}
    return _returned_or_dropped(order)


def refund_due(before: Order, after: Order) -> int:
    """Return the refund for pieces that were returned or dropped between two states of an order.

    Dropped pieces were cancelled before shipping. The refund is the value of all returned and dropped pieces in the
    state `after`, less the value of the returned and dropped pieces in the state `before`.
    """
    return paid_value(after, _returned_or_dropped(after)) - paid_value(before, _returned_or_dropped(before))


def _returned_or_dropped(order: Order) -> dict[str, int]:
    """Return the number of pieces that were returned or dropped (cancelled before shipping), by product."""
    return {id: line.returned + line.dropped for id, line in order.lines.items()}
