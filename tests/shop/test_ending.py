"""How orders end before they are paid: cancelled by somebody, or lapsed when their time is over."""

from dataclasses import replace
from datetime import timedelta

import pytest

from functions.dynamodb.writes import put
from functions.model.entities import Expiry, Order
from functions.model.errors import NotAllowed, NotFound, WrongState
from functions.model.patterns import A12b
from functions.model.table import ORDER_LINE
from functions.shop import orders
from functions.shop.shop import Caller, Shop
from tests.dynamodb.fixtures import Clock
from tests.dynamodb.wire import Wire, after
from tests.model.samples import SAMPLES, moment
from tests.shop.acts import ANN, BOB, STAFF, WAREHOUSE, archive, available, bring_to, order_now, pay, place, sell


def marker(shop: Shop, order_id: str) -> list[Expiry]:
    return [item for item in shop.table.every(A12b, order_id=order_id) if isinstance(item, Expiry)]


def test_a_cancelled_order_gives_its_goods_back_and_says_when_it_expires(shop: Shop, wire: Wire, clock: Clock) -> None:
    sell(shop, "vase", 8, parts=4)
    order = place(shop, mug=3, vase=5)
    clock.sleep(60)
    wire.clear()
    cancelled = orders.cancel_order(shop, ANN, order.order_id)
    assert wire.operations == ["GetItem", "TransactWriteItems"]
    assert cancelled == replace(order, status="CANCELLED", version=2, updated_at=moment(1))
    assert order_now(shop, order.order_id) == cancelled
    assert (available(shop), available(shop, "vase")) == ([10], [2, 2, 2, 2])
    (expiry,) = marker(shop, order.order_id)
    assert expiry.ttl == int((clock.now + timedelta(days=365)).timestamp())
    assert expiry.customer_id == "ann"


def test_a_cancelled_order_leaves_its_queue(shop: Shop) -> None:
    order = place(shop)
    orders.cancel_order(shop, ANN, order.order_id)
    assert list(orders.unpaid(shop, shop.now() + timedelta(days=1))) == []


def test_an_order_that_is_cancelled_again_stays_as_it_is(shop: Shop, wire: Wire) -> None:
    first = bring_to(shop, place(shop), "CANCELLED")
    wire.clear()
    assert orders.cancel_order(shop, ANN, first.order_id) == first
    assert wire.operations == ["GetItem"]
    assert available(shop) == [10]


@pytest.mark.parametrize("status", ["PAID", "FULFILLING", "SHIPPED", "DELIVERED", "LAPSED", "ARCHIVING"])
def test_f8_what_is_past_waiting_for_payment_is_not_cancelled(shop: Shop, status: str) -> None:
    before = bring_to(shop, place(shop), status)
    with pytest.raises(WrongState) as refusal:
        orders.cancel_order(shop, ANN, before.order_id)
    assert (refusal.value.state, refusal.value.command) == (status, "cancel")
    assert order_now(shop, before.order_id) == before
    assert available(shop) == [10 if status == "LAPSED" else 8]


@pytest.mark.parametrize("archived", [False, True])
def test_only_its_customer_and_staff_cancel_an_order_and_others_learn_nothing(shop: Shop, archived: bool) -> None:
    order = place(shop)
    if archived:
        archive(shop, bring_to(shop, order, "CANCELLED").order_id, to_stub=True)
    for caller in (BOB, WAREHOUSE, Caller("eve")):
        for id in (order.order_id, "none"):
            with pytest.raises(NotFound) as refusal:
                orders.cancel_order(shop, caller, id)
            assert refusal.value.what == "order"
    if archived:
        with pytest.raises(WrongState) as wrong:
            orders.cancel_order(shop, ANN, order.order_id)
        assert wrong.value.state == "ARCHIVED"
    else:
        assert orders.cancel_order(shop, STAFF, order.order_id).status == "CANCELLED"


# lapse ----------------------------------------------------------------------------------------------------------
def test_an_order_that_is_not_paid_in_time_lapses(shop: Shop, clock: Clock) -> None:
    early = place(shop, "early", mug=2)
    clock.sleep(60)
    late = place(shop, "late", mug=3)
    assert list(orders.unpaid(shop, clock.now)) == [early.order_id], "at that very moment is not before it"
    assert list(orders.unpaid(shop, clock.now + timedelta(milliseconds=1))) == [early.order_id, late.order_id]
    assert orders.lapse(shop, early.order_id)
    assert order_now(shop, early.order_id) == replace(early, status="LAPSED", version=2, updated_at=moment(1))
    assert available(shop) == [7]
    (expiry,) = marker(shop, early.order_id)
    assert expiry.ttl == int((clock.now + timedelta(days=365)).timestamp())
    assert list(orders.unpaid(shop, clock.now + timedelta(days=1))) == [late.order_id]


@pytest.mark.parametrize("status", ["PAID", "CANCELLED", "LAPSED", "DELIVERED"])
def test_what_did_not_wait_any_more_does_not_lapse(shop: Shop, status: str) -> None:
    before = bring_to(shop, place(shop), status)
    assert not orders.lapse(shop, before.order_id)
    assert order_now(shop, before.order_id) == before


def test_what_is_archived_or_never_was_does_not_lapse(shop: Shop) -> None:
    order = place(shop)
    archive(shop, bring_to(shop, order, "CANCELLED").order_id, to_stub=True)
    assert not orders.lapse(shop, order.order_id)
    assert not orders.lapse(shop, "none")


@pytest.mark.parametrize("meanwhile", ["paid", "cancelled"])
def test_an_order_that_is_paid_or_cancelled_just_then_does_not_lapse(
    shop: Shop, rival: Shop, wire: Wire, meanwhile: str
) -> None:
    order = place(shop)
    act = {"paid": lambda: pay(rival, order), "cancelled": lambda: orders.cancel_order(rival, ANN, order.order_id)}
    wire.next("TransactWriteItems", after(act[meanwhile]))
    assert not orders.lapse(shop, order.order_id)
    assert order_now(shop, order.order_id).status == meanwhile.upper()
    assert available(shop) == [8 if meanwhile == "paid" else 10]


def test_hundreds_of_unpaid_orders_are_all_found(shop: Shop, clock: Clock) -> None:
    sell(shop, "pin", 1000)
    placed = []
    for number in range(60):
        placed.append(place(shop, f"k{number}", pin=1).order_id)
        clock.now += timedelta(milliseconds=1)
    assert list(orders.unpaid(shop, clock.now)) == placed
    assert list(orders.unpaid(shop, clock.now - timedelta(milliseconds=10))) == placed[:50]


# reading --------------------------------------------------------------------------------------------------------
def test_an_order_is_its_customers_and_staffs_to_see(shop: Shop) -> None:
    order = place(shop)
    for caller in (ANN, STAFF):
        assert orders.order_by_id(shop, caller, order.order_id) == order
        assert orders.lines_of_order(shop, caller, order.order_id) == order.lines
        assert orders.placed_by(shop, caller, order.order_id).customer_id == "ann"
        whole = orders.whole_order(shop, caller, order.order_id, 10, None).items
        assert [item for item in whole if isinstance(item, Order)] == [order]
    for caller in (BOB, WAREHOUSE):
        for read in (orders.order_by_id, orders.lines_of_order, orders.placed_by):
            with pytest.raises(NotFound):
                read(shop, caller, order.order_id)
        with pytest.raises(NotFound):
            orders.whole_order(shop, caller, order.order_id, 10, None)
        with pytest.raises(NotFound):
            orders.orders_of_customer(shop, caller, "ann", 10, None)


def test_sales_of_a_product_are_for_staff_and_in_a_range_that_is_half_open(shop: Shop) -> None:
    for number in range(4):
        sale = replace(SAMPLES[ORDER_LINE], order_id=f"o{number}", placed_at=moment(number))
        shop.table.write(put(ORDER_LINE, sale))
    found = orders.sales_of_product(shop, STAFF, "mug", moment(1), moment(3), 10, None)
    assert [sale.order_id for sale in found.items] == ["o2", "o1"]
    for caller in (ANN, WAREHOUSE):
        with pytest.raises(NotAllowed):
            orders.sales_of_product(shop, caller, "mug", "", "", 10, None)
        with pytest.raises(NotAllowed):
            orders.orders_by_status(
                shop, caller, "PENDING", oldest_first=True, since="", until="", limit=10, after=None
            )


def test_orders_of_a_state_are_in_a_range_that_is_half_open(shop: Shop, clock: Clock) -> None:
    placed = []
    for number in range(4):
        placed.append(place(shop, f"k{number}", mug=1).order_id)
        clock.now += timedelta(minutes=1)
    for oldest_first, expected in ((True, placed[1:3]), (False, placed[2:0:-1])):
        page = orders.orders_by_status(
            shop,
            STAFF,
            "PENDING",
            oldest_first=oldest_first,
            since=moment(1),
            until=moment(3),
            limit=10,
            after=None,
        )
        assert [each.order_id for each in page.items] == expected


def test_the_lines_of_an_archived_order_lie_in_the_archive(shop: Shop) -> None:
    order = bring_to(shop, place(shop), "CANCELLED")
    archive(shop, order.order_id, to_stub=True)
    with pytest.raises(WrongState) as refusal:
        orders.lines_of_order(shop, ANN, order.order_id)
    assert refusal.value.state == "ARCHIVED"
    assert orders.placed_by(shop, ANN, order.order_id).customer_id == "ann"
