"""Tests how orders end early: cancelled at once or by the warehouse, cut short after a part was sent, or lapsed."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.model.entities import Order
from functions.model.errors import AlreadyExists, NotFound, TooMuch, WrongState
from functions.shop import cancellation, discounts, shipments
from functions.shop.fulfilment import fulfil_order
from functions.shop.placing import RequestedLine, place_order
from functions.shop.refunds import refund_order
from functions.shop.shop import ShopContext
from proof.support.actors import (
    ANN,
    HOME_ADDRESS,
    STAFF,
    WAREHOUSE,
    advance_to_status,
    available_by_part,
    create_stocked_product,
    get_order,
    order_after_change,
    pay,
    place,
    run_concurrently,
    set_shipping_prices,
)
from proof.support.examples import many
from proof.support.samples import moment
from tests.shop.conftest import TappedShop
from tests.shop.test_discounts import bought, left, offer
from tests.support.order_money import (
    expiry_markers,
    pay_in_parts,
    place_largest_order,
    refunded_total,
    refunds,
    return_pieces,
)


def parcels(shop: ShopContext, order_id: str) -> list[str]:
    return [shipment.status for shipment in shipments.list_shipments_of_order(shop, STAFF, order_id)]


def ends_in(shop: ShopContext, order_id: str, days: int) -> bool:
    """Return whether the order's only expiry marker expires this number of days from now."""
    (marker,) = expiry_markers(shop, order_id)
    return marker.ttl == int((shop.now() + timedelta(days=days)).timestamp())


# cancellations without the warehouse ----------------------------------------------------------------------------------
def test_a_cancelled_order_gives_its_goods_back_and_says_when_it_expires(shop: TappedShop) -> None:
    create_stocked_product(shop, "vase", 8, parts=4)
    order = place(shop, mug=3, vase=5)
    shop.clock.sleep(60)
    cancelled = cancellation.cancel_order(shop, ANN, order.order_id)
    assert cancelled == order_after_change(order, status="CANCELLED", version=2, updated_at=moment(1))
    assert get_order(shop, order.order_id) == cancelled
    assert (available_by_part(shop), available_by_part(shop, "vase")) == ([10], [2, 2, 2, 2])
    assert ends_in(shop, order.order_id, 365)
    assert expiry_markers(shop, order.order_id)[0].customer_id == "ann"
    assert list(cancellation.list_unpaid_orders(shop, shop.now() + timedelta(days=1))) == [], "it leaves its queue"


def test_a_cancelled_order_gives_its_money_back_to_where_it_came_from(shop: ShopContext) -> None:
    order = pay_in_parts(shop, place(shop, mug=2), 700, 1800)
    assert order.status == "PAID"
    cancelled = cancellation.cancel_order(shop, ANN, order.order_id)
    assert (cancelled.status, cancelled.paid, cancelled.refunded) == ("CANCELLED", 2500, 2500)
    assert get_order(shop, order.order_id) == cancelled
    found = refunds(shop, order.order_id)
    assert sorted(refund.amount for refund in found) == [700, 1800]
    assert {(refund.why, refund.status, refund.customer_id) for refund in found} == {("CANCELLED", "REQUESTED", "ann")}
    assert len({refund.account_id for refund in found} - {None}) == 2, "each refund goes to its own gift card"
    assert refunded_total(shop, order.order_id) == 2500
    assert available_by_part(shop) == [10]


def test_an_order_that_cost_nothing_is_cancelled_without_a_refund(shop: ShopContext) -> None:
    offer(shop, rate=10000)
    order = bought(shop, "SPRING")
    assert order.status == "PAID"
    assert cancellation.cancel_order(shop, ANN, order.order_id).status == "CANCELLED"
    assert refunded_total(shop, order.order_id) == 0


@pytest.mark.parametrize("status", ["PENDING", "PAID", "FULFILLING", "PARTIALLY_SHIPPED"])
def test_an_order_keeps_the_reason_of_its_cancellation_and_a_repeat_changes_nothing(
    shop: TappedShop, status: str
) -> None:
    order = advance_to_status(shop, place(shop), status)
    cancelled = cancellation.cancel_order(shop, STAFF, order.order_id, "another size")
    assert get_order(shop, order.order_id) == cancelled
    assert cancelled.cancel_reason == "another size"
    shop.wire.clear()
    assert cancellation.cancel_order(shop, ANN, order.order_id, "too late") == cancelled, "the first request counts"
    assert shop.wire.operations == ["GetItem"]


# cancellations by the warehouse ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    # the status of an order, the status that asks for a stop, and the statuses of its shipments
    ("status", "stopping", "sent"),
    [
        ("FULFILLING", "CANCEL_REQUESTED", ["REQUESTED"]),
        ("PARTIALLY_SHIPPED", "CUT_REQUESTED", ["DISPATCHED", "REQUESTED"]),
    ],
)
def test_cancelling_an_order_at_the_warehouse_requests_a_stop_and_the_order_continues_if_it_is_refused(
    shop: TappedShop, status: str, stopping: str, sent: list[str]
) -> None:
    order = advance_to_status(shop, place(shop), status)
    cancel = partial(cancellation.cancel_order, shop, ANN, order.order_id)
    refuse = partial(cancellation.refuse_cancel, shop, WAREHOUSE, order.order_id)
    for minute, (act, after) in enumerate([(cancel, stopping), (refuse, status), (cancel, stopping)], 1):
        shop.clock.sleep(60)
        now = act()
        assert now == order_after_change(order, status=after, version=order.version + 1, updated_at=moment(minute))
        assert act() == now == get_order(shop, order.order_id)
        assert (available_by_part(shop), parcels(shop, order.order_id)) == ([8], sent)
        assert [*refunds(shop, order.order_id), *expiry_markers(shop, order.order_id)] == []
        order = now


def test_an_order_stopped_by_the_warehouse_is_cancelled_with_its_shipment(shop: TappedShop) -> None:
    offer(shop, limit=1)
    order = advance_to_status(shop, bought(shop, "SPRING"), "CANCEL_REQUESTED")
    shop.clock.sleep(60)
    ended = cancellation.agree_cancel(shop, WAREHOUSE, order.order_id)
    after = {"status": "CANCELLED", "version": 5, "updated_at": moment(1)}
    assert ended == order_after_change(order, **after, refunded=order.total, credited=order.total)
    assert get_order(shop, order.order_id) == ended
    assert (available_by_part(shop), left(shop), parcels(shop, order.order_id)) == ([10], [1], ["CANCELLED"])
    assert refunded_total(shop, order.order_id) == order.total
    assert ends_in(shop, order.order_id, 365)
    for _ in range(2):
        assert cancellation.agree_cancel(shop, STAFF, order.order_id) == ended
    assert (available_by_part(shop), left(shop), len(refunds(shop, order.order_id))) == ([10], [1], 1)


@pytest.mark.parametrize(("quantities", "reached"), [(None, "SHIPPED"), ({"mug": 1}, "PARTIALLY_SHIPPED")])
@pytest.mark.parametrize(("stopping", "parcel"), [("CANCEL_REQUESTED", 1), ("CUT_REQUESTED", 2)])
def test_a_parcel_sent_before_the_warehouse_read_the_stop_request_stays_sent(
    shop: ShopContext, quantities: Any, reached: str, stopping: str, parcel: int
) -> None:
    order = advance_to_status(shop, place(shop, mug=parcel + 1), stopping)
    shipment_id = f"{order.order_id}-{parcel}"
    shipments.dispatch_shipment(shop, WAREHOUSE, order.order_id, shipment_id, "dhl", "42", quantities)
    assert get_order(shop, order.order_id).status == reached
    with pytest.raises(WrongState) as refusal:
        cancellation.agree_cancel(shop, WAREHOUSE, order.order_id)
    assert refusal.value.state == reached
    assert (available_by_part(shop), refunds(shop, order.order_id)) == ([9 - parcel], [])


# races ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("faster", ["cancel", "fulfil"])
def test_a_paid_order_that_is_cancelled_and_requested_concurrently_is_either_cancelled_or_shipped(
    shop: TappedShop, faster: str
) -> None:
    order = advance_to_status(shop, place(shop), "PAID")
    if faster == "cancel":
        shop.meanwhile(lambda rival: cancellation.cancel_order(rival, ANN, order.order_id))
        assert fulfil_order(shop, order.order_id) is None
        assert (get_order(shop, order.order_id).status, parcels(shop, order.order_id)) == ("CANCELLED", [])
    else:
        shop.meanwhile(lambda rival: fulfil_order(rival, order.order_id))
        assert cancellation.cancel_order(shop, ANN, order.order_id).status == "CANCEL_REQUESTED"
        assert (refunds(shop, order.order_id), available_by_part(shop)) == ([], [8])


def test_of_a_concurrent_stop_and_dispatch_one_succeeds(shop: ShopContext) -> None:
    for number in range(6):
        order = advance_to_status(shop, place(shop, f"k{number}", mug=1), "CANCEL_REQUESTED")
        id = order.order_id
        stopped, sent = run_concurrently(
            lambda id=id: cancellation.agree_cancel(shop, WAREHOUSE, id),  # type: ignore[misc]
            lambda id=id: shipments.dispatch_shipment(shop, WAREHOUSE, id, f"{id}-1", "dhl", "42"),  # type: ignore[misc]
        )
        now = get_order(shop, id)
        assert isinstance(stopped, WrongState) != isinstance(sent, WrongState)
        if isinstance(sent, WrongState):
            assert (now.status, parcels(shop, id), refunded_total(shop, id)) == ("CANCELLED", ["CANCELLED"], 1250)
        else:
            assert (now.status, parcels(shop, id), refunded_total(shop, id)) == ("SHIPPED", ["DISPATCHED"], 0)


# unpaid orders that lapse ---------------------------------------------------------------------------------------------
def test_an_order_that_is_not_paid_in_time_lapses(shop: TappedShop) -> None:
    early = place(shop, "early", mug=2)
    shop.clock.sleep(60)
    late = place(shop, "late", mug=3)

    def unpaid(**later: int) -> list[str]:
        return [it.order_id for it in cancellation.list_unpaid_orders(shop, shop.clock.now + timedelta(**later))]

    assert unpaid() == [early.order_id], "an order at the limit itself is not before the limit"
    assert unpaid(milliseconds=1) == [early.order_id, late.order_id]
    assert cancellation.lapse_order(shop, early.order_id)
    assert get_order(shop, early.order_id) == order_after_change(
        early, status="LAPSED", version=2, updated_at=moment(1)
    )
    assert available_by_part(shop) == [7]
    assert ends_in(shop, early.order_id, 365)
    assert unpaid(days=1) == [late.order_id]


def test_the_payments_and_the_discount_of_an_expired_order_are_given_back(shop: ShopContext) -> None:
    offer(shop, limit=1)
    order = pay_in_parts(shop, bought(shop, "SPRING"), 300, 400)
    assert cancellation.lapse_order(shop, order.order_id)
    assert not cancellation.lapse_order(shop, order.order_id)
    assert {refund.why for refund in refunds(shop, order.order_id)} == {"LAPSED"}
    assert (refunded_total(shop, order.order_id), left(shop), available_by_part(shop)) == (700, [1], [10])


@pytest.mark.parametrize("meanwhile", ["paid", "cancelled"])
def test_an_order_that_is_paid_or_cancelled_just_then_does_not_lapse(shop: TappedShop, meanwhile: str) -> None:
    order = place(shop)
    act = {
        "paid": lambda: pay(shop.rival, order),
        "cancelled": lambda: cancellation.cancel_order(shop.rival, ANN, order.order_id),
    }
    shop.wire.run_before_call("TransactWriteItems", act[meanwhile])
    assert not cancellation.lapse_order(shop, order.order_id)
    assert get_order(shop, order.order_id).status == meanwhile.upper()
    assert available_by_part(shop) == [8 if meanwhile == "paid" else 10]


# orders of which a part was sent -------------------------------------------------------------------------------------
@pytest.fixture
def order(shop: ShopContext) -> Order:
    """An order of three mugs and two pots, of which two mugs were sent."""
    return send(shop, advance_to_status(shop, place(shop, mug=3, pot=2), "FULFILLING"), 1, mug=2)


def send(shop: ShopContext, order: Order, parcel: int, /, **quantities: int) -> Order:
    """Dispatch these pieces of a shipment as the warehouse, by default all."""
    id = order.order_id
    shipments.dispatch_shipment(shop, WAREHOUSE, id, f"{id}-{parcel}", "dhl", f"{parcel}-{id}", quantities or None)
    return get_order(shop, id)


def arrive(shop: ShopContext, order: Order, parcel: int = 1) -> Order:
    shipments.deliver_shipment(shop, WAREHOUSE, order.order_id, f"{order.order_id}-{parcel}")
    return get_order(shop, order.order_id)


def cut(shop: ShopContext, order: Order) -> Order:
    """Cancel the unsent goods of an order as the customer, and agree as the warehouse."""
    cancellation.cancel_order(shop, ANN, order.order_id)
    return cancellation.agree_cancel(shop, WAREHOUSE, order.order_id)


def counted(order: Order, what: str) -> dict[str, int]:
    return {id: getattr(line, what) for id, line in order.lines.items()}


def test_a_partly_stopped_order_drops_its_rest_and_returns_goods_and_money_in_one_transaction(
    shop: TappedShop, order: Order
) -> None:
    asked = cancellation.cancel_order(shop, ANN, order.order_id)
    shop.clock.sleep(60)
    shop.wire.clear()
    short = cancellation.agree_cancel(shop, WAREHOUSE, order.order_id)
    assert shop.wire.operations == ["GetItem", "Query", "Query", "Query", "TransactWriteItems"]
    assert short == order_after_change(
        asked,
        status="SHIPPED",
        lines=short.lines,
        refunded=3750,
        credited=3750,
        version=asked.version + 1,
        updated_at=moment(1),
    )
    assert counted(short, "dropped") == {"mug": 1, "pot": 2}
    assert counted(short, "shipped") == counted(short, "quantity_to_ship") == {"mug": 2, "pot": 0}
    assert parcels(shop, order.order_id) == ["DISPATCHED", "CANCELLED"]
    assert (available_by_part(shop), available_by_part(shop, "pot")) == ([8], [10])
    assert refunded_total(shop, order.order_id) == 3750
    assert [(it.why, it.amount) for it in refunds(shop, order.order_id)] == [("CUT_SHORT", 3750)]
    assert expiry_markers(shop, order.order_id) == []
    for _ in range(2):
        assert cancellation.agree_cancel(shop, STAFF, order.order_id) == short
        assert cancellation.cancel_order(shop, ANN, order.order_id) == short, "the cancellable pieces are cancelled"
    assert refunded_total(shop, order.order_id) == 3750


def test_a_parcel_that_arrives_while_the_warehouse_is_asked_is_counted(shop: ShopContext, order: Order) -> None:
    cancellation.cancel_order(shop, ANN, order.order_id)
    assert arrive(shop, order).status == "CUT_REQUESTED"
    assert cancellation.agree_cancel(shop, WAREHOUSE, order.order_id).status == "DELIVERED"


def test_dropped_pieces_cannot_be_sent_any_more(shop: ShopContext, order: Order) -> None:
    short = cut(shop, order)
    with pytest.raises(WrongState) as refusal:
        send(shop, order, 2)
    assert (refusal.value.what, refusal.value.state) == ("shipment", "CANCELLED")
    with pytest.raises(NotFound):
        send(shop, order, 3)
    assert get_order(shop, order.order_id) == short


# goods ----------------------------------------------------------------------------------------------------------------
def test_dropped_backordered_pieces_are_no_longer_owed(shop: ShopContext) -> None:
    create_stocked_product(shop, "jug", 2, backorder=True)
    order = send(shop, advance_to_status(shop, place(shop, jug=3), "FULFILLING"), 1, jug=2)
    assert available_by_part(shop, "jug") == [-1]
    short = cut(shop, order)
    assert (short.status, counted(short, "dropped"), available_by_part(shop, "jug")) == ("SHIPPED", {"jug": 1}, [0])
    assert refunded_total(shop, order.order_id) == 1250


@pytest.mark.parametrize("is_sent_in_part", [False, True])
def test_the_largest_order_there_can_be_ends_in_one_transaction(shop: TappedShop, is_sent_in_part: bool) -> None:
    offer(shop, rate=100, limit=1)
    order = place_largest_order(shop, each=2, code="SPRING")
    fulfil_order(shop, order.order_id)
    if is_sent_in_part:
        arrive(shop, send(shop, order, 1, p0=1))
    cancellation.cancel_order(shop, ANN, order.order_id)
    shop.wire.clear()
    ended = cancellation.agree_cancel(shop, WAREHOUSE, order.order_id)
    assert ended.status == ("DELIVERED" if is_sent_in_part else "CANCELLED")
    (made,) = [request.body for request in shop.wire.requests if request.operation == "TransactWriteItems"]
    released = ["order", "shipment", "marker", *([] if is_sent_in_part else ["discount"])]
    assert len(made["TransactItems"]) == 90 + len(released) + 5
    assert available_by_part(shop, "p0") == [2 - is_sent_in_part]
    assert {tuple(available_by_part(shop, id)) for id in order.lines if id != "p0"} == {(2,)}
    assert (left(shop), parcels(shop, order.order_id)[-1]) == ([0 if is_sent_in_part else 1], "CANCELLED")
    assert order.total - refunded_total(shop, order.order_id) in ((1237, 1238) if is_sent_in_part else (0,))


# money ----------------------------------------------------------------------------------------------------------------
def test_the_discount_and_the_shipping_cost_stay_with_the_shipped_part(shop: ShopContext) -> None:
    offer(shop, rate=2000, limit=1)
    set_shipping_prices(shop, EUR=490)
    placed = place_order(shop, ANN, "k", {"mug": RequestedLine(3)}, HOME_ADDRESS, {}, "SPRING").order
    assert isinstance(placed, Order)
    order = send(shop, advance_to_status(shop, placed, "FULFILLING"), 1, mug=1)
    short = cut(shop, order)
    assert (short.total, short.discount) == (3 * 1000 + 490, placed.discount), "the invoice keeps total and discount"
    assert refunded_total(shop, order.order_id) == 2 * 1000
    assert left(shop) == [0], "the use of the code still counts"


def test_no_more_goes_back_than_is_kept(shop: ShopContext, order: Order) -> None:
    refund_order(shop, STAFF, "sorry", order.order_id, 5000)
    assert cut(shop, order).refunded == order.total
    assert refunded_total(shop, order.order_id) == order.total == 6250


@settings(max_examples=many(25, 8))
@given(data=st.data())
def test_wherever_an_order_is_cut_and_however_it_comes_back_goods_and_money_add_up(
    shop: ShopContext, data: st.DataObject
) -> None:
    for id, price in (("cup", 333), ("jar", 1001)):
        try:
            create_stocked_product(shop, id, 1000, price=price)
            discounts.create_discount(shop, STAFF, f"off-{id}", 1700)
        except AlreadyExists:  # an earlier example has created the product and the code
            pass
    before = {id: available_by_part(shop, id)[0] for id in ("cup", "jar")}
    set_shipping_prices(shop, EUR=490)
    wanted = {"cup": RequestedLine(4), "jar": RequestedLine(3)}
    placed = place_order(shop, ANN, f"k{shop.new_id()}", wanted, HOME_ADDRESS, {}, "OFF-CUP").order
    assert isinstance(placed, Order)
    sent = {id: data.draw(st.integers(0, line.quantity), label=id) for id, line in sorted(placed.lines.items())}
    if not 0 < sum(sent.values()) < 7:
        return
    order = send(
        shop, advance_to_status(shop, placed, "FULFILLING"), 1, **{id: many for id, many in sent.items() if many}
    )
    if data.draw(st.booleans(), label="arrives first"):
        arrive(shop, order)
        short = cut(shop, order)
    else:
        cut(shop, order)
        short = arrive(shop, order)
    assert (short.status, counted(short, "delivered")) == ("DELIVERED", sent)
    assert {id: available_by_part(shop, id)[0] for id in before} == {id: before[id] - sent[id] for id in before}
    for id, quantity in sent.items():
        with pytest.raises(TooMuch) as refusal:
            return_pieces(shop, order, f"{shop.new_id()}", **{id: quantity + 1})
        assert refusal.value.most == quantity, "dropped pieces cannot be returned"
    while any(sent.values()):
        piece = data.draw(
            st.sampled_from([id for id, quantity in sorted(sent.items()) if quantity]), label="comes back"
        )
        sent[piece] -= 1
        return_pieces(shop, order, shop.new_id(), **{piece: 1})
    now = get_order(shop, order.order_id)
    assert (now.status, refunded_total(shop, order.order_id)) == ("RETURNED", placed.total - placed.shipping)
    assert {id: available_by_part(shop, id)[0] for id in before} == before


# races ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("faster", ["the parcel", "the cut"])
def test_a_parcel_that_arrives_just_as_the_rest_is_stopped_delivers_the_order(
    shop: TappedShop, order: Order, faster: str
) -> None:
    cancellation.cancel_order(shop, ANN, order.order_id)
    if faster == "the parcel":
        shop.meanwhile(lambda rival: arrive(rival, order))
        assert cancellation.agree_cancel(shop, WAREHOUSE, order.order_id).status == "DELIVERED"
    else:
        shop.meanwhile(lambda rival: cancellation.agree_cancel(rival, WAREHOUSE, order.order_id))
        assert arrive(shop, order).status == "DELIVERED"
    assert len(expiry_markers(shop, order.order_id)) == 1
    assert refunded_total(shop, order.order_id) == 3750
