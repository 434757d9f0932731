"""Tests refunds for returned goods: together they are exactly the paid amount."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.model.entities import Order
from functions.model.errors import AlreadyExists, NotFound
from functions.shop.accounts import store_credit_account_id
from functions.shop.erasure import erase_customer
from functions.shop.placing import RequestedLine, place_order
from functions.shop.refunds import refund_order
from functions.shop.shop import ShopContext
from proof.support.actors import (
    ANN,
    HOME_ADDRESS,
    STAFF,
    available_by_part,
    create_stocked_product,
    get_order,
    place,
    set_shipping_prices,
)
from proof.support.examples import many
from tests.shop.test_discounts import bought, offer
from tests.support.order_money import deliver_order, pay_in_parts, refunded_total, refunds, return_pieces


def test_the_money_goes_onto_the_customers_store_credit_if_that_is_asked(shop: ShopContext) -> None:
    order = deliver_order(shop, pay_in_parts(shop, place(shop, mug=2), 700, 1800))
    return_pieces(shop, order, mug=2, to="credit")
    found = refunds(shop, order.order_id)
    assert {refund.account_id for refund in found} == {store_credit_account_id(shop, "ann", "EUR")}
    assert refunded_total(shop, order.order_id) == 2500


def test_a_return_of_an_erased_customer_cannot_become_store_credit(shop: ShopContext) -> None:
    order = deliver_order(shop, place(shop, mug=2))
    erase_customer(shop, ANN, ANN.id)
    with pytest.raises(NotFound) as refusal:
        return_pieces(shop, order, mug=1, to="credit")
    assert (refusal.value.what, refunded_total(shop, order.order_id)) == ("customer", 0)
    assert return_pieces(shop, order, mug=1).result["amount"] == 1250


def test_shipping_is_given_back_once_and_only_if_that_is_asked(shop: ShopContext) -> None:
    set_shipping_prices(shop, EUR=490)
    order = deliver_order(shop, place(shop, mug=4))
    assert order.total == 5490
    asked = {"one": False, "two": True, "three": True, "four": False}
    made = [return_pieces(shop, order, key, mug=1, refund_shipping=too).result for key, too in asked.items()]
    assert [(it["amount"], it["shipping"]) for it in made] == [(1250, 0), (1740, 490), (1250, 0), (1250, 0)]
    assert get_order(shop, order.order_id).shipping_refunded
    assert refunded_total(shop, order.order_id) == 5490


@pytest.mark.parametrize("shipping", [0, 490])
def test_returned_goods_are_worth_their_paid_price_with_the_discount(shop: ShopContext, shipping: int) -> None:
    set_shipping_prices(shop, EUR=shipping)
    create_stocked_product(shop, "pin", 10, price=333)
    offer(shop, rate=700)
    order = deliver_order(shop, bought(shop, "SPRING", mug=1, pin=2))
    assert order.total == 1916 - 134 + shipping
    amounts = [return_pieces(shop, order, id, **{id: 1}).result["amount"] for id in ("mug", "pin")]
    amounts.append(return_pieces(shop, order, "last", pin=1, refund_shipping=True).result["amount"])
    assert amounts == [1163, 309, 310 + shipping]
    assert refunded_total(shop, order.order_id) == order.total


def test_goods_that_cost_nothing_are_returned_without_a_refund(shop: ShopContext) -> None:
    offer(shop, rate=10000)
    order = deliver_order(shop, bought(shop, "SPRING", mug=2))
    assert return_pieces(shop, order, mug=2).result["amount"] == 0
    assert (get_order(shop, order.order_id).status, refunds(shop, order.order_id)) == ("RETURNED", [])
    assert available_by_part(shop) == [10]


def test_no_more_is_given_back_than_is_kept(shop: ShopContext) -> None:
    set_shipping_prices(shop, EUR=490)
    order = deliver_order(shop, place(shop, mug=2))
    refund_order(shop, STAFF, "out of kindness", order.order_id, 1000)
    assert return_pieces(shop, order, "one", mug=1).result["amount"] == 1250
    two = return_pieces(shop, order, "two", mug=1, refund_shipping=True)
    assert (two.result["amount"], two.result["shipping"]) == (740, 0), "goods are refunded before shipping"
    now = get_order(shop, order.order_id)
    assert (now.refunded, now.paid, now.shipping_refunded) == (2990, 2990, True)
    assert refunded_total(shop, order.order_id) == 2990


@settings(max_examples=many(30, 10))
@given(data=st.data())
def test_all_returns_together_refund_the_paid_amount(shop: ShopContext, data: st.DataObject) -> None:
    set_shipping_prices(shop, EUR=data.draw(st.integers(0, 500), label="shipping"))
    number = shop.new_id()
    rate = 100 * data.draw(st.integers(0, 100), label="percent")
    offer(shop, f"C-{number}", rate) if rate else None
    wanted = {"cup": data.draw(st.integers(1, 4), label="cups"), "jar": data.draw(st.integers(1, 4), label="jars")}
    for id, price in (("cup", 333), ("jar", 1999)):
        with_it(shop, id, price)
    lines = {id: RequestedLine(quantity) for id, quantity in wanted.items()}
    placed = place_order(shop, ANN, number, lines, HOME_ADDRESS, {"k": number}, f"C-{number}" if rate else None).order
    assert isinstance(placed, Order)
    order = deliver_order(shop, placed)
    stock = available_by_part(shop, "cup"), available_by_part(shop, "jar")
    left, asked = dict(wanted), False
    amounts: list[int] = []
    while sum(left.values()):
        part = {id: data.draw(st.integers(0, many), label=id) for id, many in sorted(left.items())}
        part = {id: many for id, many in part.items() if many}
        if not part:
            part = {id: 1 for id, many in left.items() if many}
        asked = data.draw(st.booleans(), label="shipping too") or asked or sum(part.values()) == sum(left.values())
        amounts.append(
            return_pieces(shop, order, f"{number} {len(amounts)}", refund_shipping=asked, **part).result["amount"]
        )
        left = {id: many - part.get(id, 0) for id, many in left.items()}
        assert min(amounts) >= 0
        assert refunded_total(shop, order.order_id) == sum(amounts)
    assert sum(amounts) == order.total
    assert get_order(shop, order.order_id).status == "RETURNED"
    assert available_by_part(shop, "cup") == [stock[0][0] + wanted["cup"]]


def with_it(shop: ShopContext, id: str, price: int) -> None:
    """Create a product with much stock, unless an earlier example created it."""
    try:
        create_stocked_product(shop, id, 10_000, price=price)
    except AlreadyExists:
        return
