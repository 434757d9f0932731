"""Tests the price of an order, its tax, and the refund of a part of it: rounding creates and loses no money."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.model import pricing
from functions.model.entities import Discounted, Line, Order, TaxLine
from functions.model.money import MAX_MINOR_UNITS
from proof.support.samples import order

RATE = st.integers(1, 10_000)
AMOUNTS = st.integers(0, MAX_MINOR_UNITS)
TAX_RATES = st.sampled_from([0, 550, 700, 1000, 1950, 2000, 10_000])


def lines(most: int = 200) -> st.SearchStrategy[dict[str, Line]]:
    """Return a strategy for the lines of an order, each with at most this number of pieces."""
    line = st.builds(
        Line,
        name=st.just("x"),
        price=st.integers(1, 10**9),
        quantity=st.integers(1, most),
        tax_rate=st.none() | TAX_RATES,
    )
    return st.dictionaries(st.sampled_from(["cup", "jug", "mug", "pot", "vase"]), line, min_size=1)


@st.composite
def orders(draw: st.DrawFn, most: int = 200) -> Order:
    """Draw an order with prices, taxes and shipping, and sometimes a discount."""
    ordered = draw(lines(most))
    goods = pricing.goods_total(ordered)
    rate = draw(st.none() | RATE)
    discount = rate and Discounted(code="SPRING", rate=rate, amount=pricing.discount_amount(goods, rate))
    shipping = draw(st.integers(0, 2000))
    placed = order(
        lines=ordered,
        discount=discount or None,
        shipping=shipping,
        tax_rate=draw(TAX_RATES),
        shipping_tax_rate=draw(st.none() | TAX_RATES),
        net_prices=draw(st.booleans()),
    )
    return replace(placed, total=pricing.order_total(placed))


@st.composite
def returns(draw: st.DrawFn) -> tuple[Order, list[Mapping[str, int]]]:
    """Draw an order and its returns: the sums of returned pieces after each return, until all pieces came back."""
    placed = draw(orders(most=8))
    pieces = [id for id, line in placed.lines.items() for _ in range(line.quantity)]
    coming = draw(st.permutations(pieces))
    cuts = sorted(draw(st.sets(st.integers(1, len(pieces)))) | {len(pieces)})
    return placed, [{id: coming[:cut].count(id) for id in placed.lines} for cut in cuts]


# the total ------------------------------------------------------------------------------------------------------------
def test_an_order_costs_its_goods_less_the_discount_and_shipping() -> None:
    ordered = {"mug": Line(name="Mug", price=1250, quantity=2), "pot": Line(name="Pot", price=999, quantity=1)}
    assert pricing.goods_total(ordered) == 3499
    assert pricing.discount_amount(3499, 1500) == 524, "524.85 rounded down"
    discount = Discounted(code="SPRING", rate=1500, amount=524)
    placed = order(lines=ordered, discount=discount, shipping=490, tax_rate=2000)
    assert pricing.order_total(placed) == 3465
    # mug 2500 - 374, pot 999 - 150: 374 is 374.4 rounded down, and the pot has the rest of 524
    shown = {id: (row.net, row.tax) for id, row in pricing.price_rows(placed).items()}
    assert shown == {"mug": (1772, 354), "pot": (707, 142), pricing.SHIPPING: (408, 82)}
    net = replace(placed, net_prices=True, shipping_tax_rate=0)
    assert pricing.tax_table(net) == (TaxLine(rate=2000, net=2975, tax=595), TaxLine(rate=0, net=490, tax=0))
    assert pricing.order_total(net) == 2975 + 595 + 490


@given(AMOUNTS, RATE)
def test_a_discount_is_less_than_one_minor_unit_below_its_rate_and_never_above(goods: int, rate: int) -> None:
    exact = Fraction(goods * rate, 10_000)
    assert exact - 1 < pricing.discount_amount(goods, rate) <= exact
    assert 0 <= pricing.discount_amount(goods, rate) <= goods


@given(AMOUNTS, AMOUNTS, RATE)
def test_a_discount_on_more_goods_or_of_a_higher_rate_is_no_less(goods: int, more: int, rate: int) -> None:
    assert pricing.discount_amount(goods, rate) <= pricing.discount_amount(goods + more, rate)
    assert pricing.discount_amount(goods, rate) <= pricing.discount_amount(goods, min(10_000, rate + 1))
    assert pricing.discount_amount(goods, 10_000) == goods


@given(orders())
def test_no_cent_is_lost_between_rows_taxes_and_total(placed: Order) -> None:
    rows, taxes = pricing.price_rows(placed), pricing.tax_table(placed)
    assert sum(row.gross for row in rows.values()) == sum(one.gross for one in taxes) == placed.total
    discount = placed.discount.amount if placed.discount else 0
    asked = pricing.goods_total(placed.lines) - discount + placed.shipping
    assert asked == sum(row.net for row in rows.values()) if placed.net_prices else placed.total


# the tax of a row -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("amount", "rate", "net", "tax"),
    [
        (12000, 2000, 10000, 2000),
        (2500, 2000, 2083, 417),  # 416.67
        (990, 1000, 900, 90),
        (1, 2000, 1, 0),  # 0.17
        (3, 2000, 2, 1),  # 0.5 is rounded up
        (9, 2000, 7, 2),  # 1.5 is rounded up
        (105, 550, 100, 5),  # 5.47
        (2500, 0, 2500, 0),
        (0, 2000, 0, 0),
        (2000, 10000, 1000, 1000),
    ],
)
def test_tax_is_contained_in_an_amount_and_rounded_half_up(amount: int, rate: int, net: int, tax: int) -> None:
    assert pricing.split_tax(amount, rate, is_net=False) == TaxLine(rate=rate, net=net, tax=tax)


@given(AMOUNTS, st.integers(0, 10_000), st.booleans())
def test_net_and_tax_are_the_amount_and_tax_is_its_rate_of_net(amount: int, rate: int, is_net: bool) -> None:
    row = pricing.split_tax(amount, rate, is_net=is_net)
    assert amount == (row.net if is_net else row.gross)
    assert min(row.net, row.tax) >= 0
    exact = Fraction(amount * rate, pricing.HUNDRED_PERCENT + (0 if is_net else rate))
    assert exact - Fraction(1, 2) < row.tax <= exact + Fraction(1, 2)


# returns --------------------------------------------------------------------------------------------------------------
@given(returns())
def test_the_refunds_of_all_returns_add_up_to_the_amount_paid_for_the_goods(
    whole: tuple[Order, list[Mapping[str, int]]],
) -> None:
    placed, returned_by_then = whole
    worth = [0, *(pricing.paid_value(placed, pieces) for pieces in returned_by_then)]
    refunds = [after - before for before, after in pairwise(worth)]
    assert sum(refunds) == placed.total - pricing.shipping_value(placed)
    assert min(refunds) >= 0


@given(returns())
def test_pieces_are_worth_their_share_of_their_row_less_at_most_one_unit(
    whole: tuple[Order, list[Mapping[str, int]]],
) -> None:
    placed, (first, *_) = whole
    rows = pricing.price_rows(placed)
    share = sum(Fraction(rows[id].gross * many, placed.lines[id].quantity) for id, many in first.items())
    assert share - len(first) < pricing.paid_value(placed, first) <= share
