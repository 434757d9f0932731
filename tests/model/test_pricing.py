"""Tests the price of an order, its tax, and the refund of a part of it: rounding creates and loses no money."""

from collections.abc import Mapping
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
RATES = st.integers(0, 10_000)


def lines(most: int = 200) -> st.SearchStrategy[dict[str, Line]]:
    """Return a strategy for the lines of an order, each with at most this number of pieces."""
    line = st.builds(Line, name=st.just("x"), price=st.integers(1, 10**9), quantity=st.integers(1, most))
    return st.dictionaries(st.sampled_from(["cup", "jug", "mug", "pot", "vase"]), line, min_size=1)


@st.composite
def orders(draw: st.DrawFn, most: int = 200) -> Order:
    """Draw an order with prices and shipping, and sometimes a discount."""
    ordered = draw(lines(most))
    goods = pricing.goods_total(ordered)
    rate = draw(st.none() | RATE)
    discount = rate and Discounted(code="SPRING", rate=rate, amount=pricing.discount_amount(goods, rate))
    shipping = draw(st.integers(0, 2000))
    total = pricing.order_total(goods, discount.amount if discount else 0, shipping)
    return order(lines=ordered, discount=discount or None, shipping=shipping, total=total)


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
    assert pricing.order_total(3499, 524, 490) == 3465


@given(lines())
def test_the_price_of_goods_is_the_sum_of_their_pieces(ordered: Mapping[str, Line]) -> None:
    assert pricing.goods_total(ordered) == sum(
        price for line in ordered.values() for price in [line.price] * line.quantity
    )


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
def test_a_total_is_never_below_shipping(placed: Order) -> None:
    assert placed.shipping <= placed.total <= pricing.goods_total(placed.lines) + placed.shipping


# the included tax -----------------------------------------------------------------------------------------------------
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
    assert pricing.included_tax(amount, rate) == TaxLine(rate=rate, net=net, tax=tax)


@given(AMOUNTS, RATES)
def test_net_and_tax_are_the_amount_and_tax_is_its_rate_of_net(amount: int, rate: int) -> None:
    line = pricing.included_tax(amount, rate)
    assert line.net + line.tax == amount
    assert min(line.net, line.tax) >= 0
    exact = Fraction(amount * rate, pricing.HUNDRED_PERCENT + rate)
    assert exact - Fraction(1, 2) < line.tax <= exact + Fraction(1, 2)


# returns --------------------------------------------------------------------------------------------------------------
@given(orders())
def test_all_pieces_together_are_worth_the_amount_paid_for_the_goods(placed: Order) -> None:
    pieces = {id: line.quantity for id, line in placed.lines.items()}
    assert pricing.discounted_value(placed, pieces) == placed.total - placed.shipping
    assert pricing.discounted_value(placed, {}) == pricing.discounted_value(placed, dict.fromkeys(pieces, 0)) == 0


@given(returns())
def test_the_refunds_of_all_returns_add_up_to_the_amount_paid_for_the_goods(
    whole: tuple[Order, list[Mapping[str, int]]],
) -> None:
    placed, returned_by_then = whole
    worth = [0, *(pricing.discounted_value(placed, pieces) for pieces in returned_by_then)]
    refunds = [after - before for before, after in pairwise(worth)]
    taken_off = placed.discount.amount if placed.discount else 0
    assert sum(refunds) == pricing.goods_total(placed.lines) - taken_off
    assert min(refunds) >= 0


@given(returns())
def test_a_return_is_worth_at_least_its_share_and_less_than_one_unit_more(
    whole: tuple[Order, list[Mapping[str, int]]],
) -> None:
    placed, (first, *_) = whole
    goods = pricing.goods_total(placed.lines)
    paid_for_goods = goods - (placed.discount.amount if placed.discount else 0)
    share = Fraction(sum(placed.lines[id].price * many for id, many in first.items()) * paid_for_goods, goods)
    assert share <= pricing.discounted_value(placed, first) < share + 1
