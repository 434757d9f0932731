"""Tests returned goods: the return window, the quantities, and one refund for each return, at every concurrency."""

from dataclasses import replace
from datetime import timedelta

import pytest

from functions.dynamodb.writes import put_if_newer
from functions.model.copies import feed_entry_of_payment, order_summary
from functions.model.entities import Order, Return
from functions.model.errors import InvalidInput, NotFound, ReturnWindowOver, TooMuch, WrongState
from functions.model.patterns import PAYMENTS_OF_ORDER, RETURNS_OF_ORDER
from functions.model.table import FEED_ENTRY, ORDER_SUMMARY, RETURN
from functions.shop import archive as shop_archive
from functions.shop import returns
from functions.shop.accounts import store_credit_account_id
from functions.shop.erasure import erase_customer
from functions.shop.refunds import refund_order
from functions.shop.shop import ShopContext
from proof.support.actors import (
    ANN,
    STAFF,
    advance_to_status,
    available_by_part,
    create_stocked_product,
    get_order,
    place,
    set_shipping_prices,
)
from proof.support.samples import moment
from tests.shop.conftest import TappedShop, everything
from tests.shop.test_discounts import bought, offer
from tests.support.order_money import (
    deliver_order,
    expiry_markers,
    pay_in_parts,
    refunded_total,
    refunds,
    return_pieces,
)

DAY = 24 * 60 * 60


@pytest.fixture
def order(shop: ShopContext) -> Order:
    """A delivered order of two mugs and three pots."""
    return advance_to_status(shop, place(shop, mug=2, pot=3), "DELIVERED")


# returned pieces ------------------------------------------------------------------------------------------------------
def test_a_part_that_comes_back_is_counted_restocked_and_refunded_in_one_transaction(
    shop: TappedShop, order: Order
) -> None:
    shop.clock.sleep(60)
    shop.wire.clear()
    done = return_pieces(shop, order, mug=1, pot=2)
    assert shop.wire.operations == ["GetItem", "GetItem", "Query", "Query", "TransactWriteItems"]
    now = get_order(shop, order.order_id)
    assert (now.status, now.version, now.updated_at) == ("PARTIALLY_RETURNED", order.version + 1, moment(1))
    assert {id: line.returned for id, line in now.lines.items()} == {"mug": 1, "pot": 2}
    assert (now.refunded, refunded_total(shop, order.order_id)) == (3750, 3750)
    (refund,) = refunds(shop, order.order_id)
    assert (refund.why, refund.status, refund.amount, refund.account_id) == ("RETURNED", "REQUESTED", 3750, None)
    assert (available_by_part(shop), available_by_part(shop, "pot")) == ([9], [9])
    (kept,) = shop.table.query(RETURNS_OF_ORDER, order_id=order.order_id).items
    assert kept == Return(
        order_id=order.order_id,
        return_id=done.result["return_id"],
        customer_id="ann",
        quantities={"mug": 1, "pot": 2},
        restocked={"mug": 1, "pot": 2},
        amount=3750,
        shipping=0,
        currency="EUR",
        created_at=moment(1),
    )
    assert done.result == {name: getattr(kept, name) for name in RETURN.fields} | {"refund_ids": [refund.refund_id]}


def test_an_order_is_returned_when_the_last_piece_is_back(shop: ShopContext, order: Order) -> None:
    return_pieces(shop, order, "one", mug=2, pot=2)
    assert get_order(shop, order.order_id).status == "PARTIALLY_RETURNED"
    return_pieces(shop, order, "two", pot=1)
    assert get_order(shop, order.order_id).status == "RETURNED"
    assert refunded_total(shop, order.order_id) == 6250
    assert (available_by_part(shop), available_by_part(shop, "pot")) == ([10], [10])


def test_damaged_returned_pieces_are_refunded_but_not_restocked(shop: ShopContext, order: Order) -> None:
    lines = {"mug": returns.ReturnedGoods(2, restock=False), "pot": returns.ReturnedGoods(1, restock=True)}
    returns.return_goods(shop, STAFF, "k", order.order_id, lines)
    assert (available_by_part(shop), available_by_part(shop, "pot")) == ([8], [8])
    assert refunded_total(shop, order.order_id) == 3750
    (kept,) = shop.table.query(RETURNS_OF_ORDER, order_id=order.order_id).items
    assert (kept.quantities, kept.restocked) == ({"mug": 2, "pot": 1}, {"pot": 1})


def test_a_return_puts_the_end_of_the_order_off(shop: TappedShop, order: Order) -> None:
    (before,) = expiry_markers(shop, order.order_id)
    shop.clock.sleep(10 * DAY)
    return_pieces(shop, order, "one", mug=1)
    (moved,) = expiry_markers(shop, order.order_id)
    assert moved.ttl == int((shop.clock.now + timedelta(days=365 + 30)).timestamp()) == before.ttl + 10 * DAY
    assert moved.version > before.version
    key = {"PK": {"S": f"ORDER#{order.order_id}"}, "SK": {"S": "EXPIRY"}}
    shop.table.client.delete_item(TableName=shop.table.name, Key=key)
    return_pieces(shop, order, "two", mug=1)
    assert expiry_markers(shop, order.order_id)[0].ttl == moved.ttl, "a missing marker is written again"


def test_a_new_expiry_replaces_an_expired_one_that_still_exists(shop: TappedShop, order: Order) -> None:
    hasty = replace(shop, closed_order_days=0, return_window_days=400)  # the settings changed after the order
    shop.clock.sleep(396 * DAY)
    return_pieces(hasty, order, mug=1)
    assert [marker.ttl > shop.clock.now.timestamp() for marker in expiry_markers(shop, order.order_id)] == [True]


# rejected returns -----------------------------------------------------------------------------------------------------
def test_an_order_can_be_returned_until_its_window_ends(shop: TappedShop, order: Order) -> None:
    assert order.delivered_at == moment()
    shop.clock.now += timedelta(days=30, milliseconds=-1)
    assert return_pieces(shop, order, "in time", mug=1).result["amount"] == 1250
    shop.clock.now += timedelta(milliseconds=1)
    contents = everything(shop)
    with pytest.raises(ReturnWindowOver) as refusal:
        return_pieces(shop, order, "too late", mug=1)
    assert refusal.value.ended_at == moment(30 * 24 * 60)
    assert everything(shop) == contents
    assert return_pieces(shop, order, "in time", mug=1).replayed, "a return made in time has the same answer"


@pytest.mark.parametrize(
    ("quantities", "field", "most"),
    [({"mug": 3}, "mug", 2), ({"mug": 1, "pot": 4}, "pot", 3), ({"vase": 1}, "vase", 0)],
)
def test_no_more_comes_back_than_was_delivered(
    shop: ShopContext, order: Order, quantities: dict[str, int], field: str, most: int
) -> None:
    contents = everything(shop)
    with pytest.raises(TooMuch) as refusal:
        return_pieces(shop, order, **quantities)
    assert (refusal.value.field, refusal.value.most) == (field, most)
    assert everything(shop) == contents
    assert not return_pieces(shop, order, mug=2).replayed, "the rejected return did not use up its key"
    with pytest.raises(TooMuch) as refusal:
        return_pieces(shop, order, "more", mug=1)
    assert (refusal.value.field, refusal.value.most) == ("mug", 0)


def test_a_return_has_at_least_one_piece(shop: ShopContext, order: Order) -> None:
    with pytest.raises(InvalidInput) as refusal:
        return_pieces(shop, order)
    assert refusal.value.field == "lines"
    for quantity in (0, -1):
        with pytest.raises(InvalidInput) as refusal:
            returns.ReturnedGoods(quantity, restock=True)
        assert refusal.value.field == "quantity"


# repeated and concurrent returns --------------------------------------------------------------------------------------
def test_a_return_that_comes_between_is_counted(shop: TappedShop, order: Order) -> None:
    shop.meanwhile(lambda rival: return_pieces(rival, order, "rival", mug=1, pot=3))
    assert return_pieces(shop, order, mug=1).result["amount"] == 1250
    assert get_order(shop, order.order_id).status == "RETURNED"
    assert refunded_total(shop, order.order_id) == order.total


@pytest.mark.parametrize("faster", ["return", "archive"])
def test_a_return_concurrent_with_the_archive_is_accepted_or_the_order_is_archived(
    shop: TappedShop, order: Order, faster: str
) -> None:
    copy_order(shop, order)
    lie_in_wait = replace(shop, return_window_days=400)
    theirs = replace(shop.rival, return_window_days=400)
    shop.clock.sleep(396 * DAY)
    key = {"PK": {"S": f"ORDER#{order.order_id}"}, "SK": {"S": "EXPIRY"}}
    shop.table.client.delete_item(TableName=shop.table.name, Key=key)
    shop.wire.clear()
    if faster == "return":
        shop.wire.run_before_call("UpdateItem", lambda: return_pieces(theirs, order, mug=1))
        assert shop_archive.start_archiving(shop, order.order_id, shop.now_instant()) is None
        assert get_order(shop, order.order_id).status == "PARTIALLY_RETURNED"
        assert refunded_total(shop, order.order_id) == 1250
    else:
        shop.meanwhile(lambda rival: shop_archive.start_archiving(rival, order.order_id, rival.now_instant()))
        with pytest.raises(WrongState) as refusal:
            return_pieces(lie_in_wait, order, mug=1)
        assert (refusal.value.state, refunds(shop, order.order_id)) == ("ARCHIVING", [])


def copy_order(shop: ShopContext, order: Order) -> None:
    """Write the summary of an order, as the copies Lambda does after the other copies, and list its payment."""
    (summary,) = order_summary(order)
    (payment,) = shop.table.query_all(PAYMENTS_OF_ORDER, order_id=order.order_id)
    (entry,) = feed_entry_of_payment(payment)
    shop.table.write(put_if_newer(ORDER_SUMMARY, summary), put_if_newer(FEED_ENTRY, entry))


# refunds for returned goods -------------------------------------------------------------------------------------------
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
