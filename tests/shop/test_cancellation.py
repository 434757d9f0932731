"""Tests how orders end early: cancelled at once or by the warehouse, or lapsed without payment."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.model.errors import WrongState
from functions.shop import cancellation, shipments
from functions.shop.fulfilment import fulfil_order
from functions.shop.shop import ShopContext
from proof.support.actors import (
    ANN,
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
)
from proof.support.client_faults import WireTap
from proof.support.samples import moment
from proof.support.tapped_client import ManualClock
from tests.shop.test_discounts import bought, left, offer
from tests.support.order_money import expiry_markers, pay_in_parts, place_largest_order, refunded_total, refunds


def parcels(shop: ShopContext, order_id: str) -> list[str]:
    return [shipment.status for shipment in shipments.list_shipments_of_order(shop, STAFF, order_id)]


def ends_in(shop: ShopContext, order_id: str, days: int) -> bool:
    """Return whether the order's only expiry marker expires this number of days from now."""
    (marker,) = expiry_markers(shop, order_id)
    return marker.ttl == int((shop.now() + timedelta(days=days)).timestamp())


# cancellations without the warehouse ----------------------------------------------------------------------------------
def test_a_cancelled_order_gives_its_goods_back_and_says_when_it_expires(shop: ShopContext, clock: ManualClock) -> None:
    create_stocked_product(shop, "vase", 8, parts=4)
    order = place(shop, mug=3, vase=5)
    clock.sleep(60)
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
def test_an_order_keeps_the_reason_of_its_cancellation(shop: ShopContext, status: str) -> None:
    order = advance_to_status(shop, place(shop), status)
    cancelled = cancellation.cancel_order(shop, STAFF, order.order_id, "another size")
    assert get_order(shop, order.order_id) == cancelled
    assert cancelled.cancel_reason == "another size"
    assert cancellation.cancel_order(shop, ANN, order.order_id, "too late") == cancelled, "the first request counts"


@pytest.mark.parametrize("status", ["PENDING", "PAID"])
def test_cancelling_a_cancelled_order_changes_nothing(shop: ShopContext, wire: WireTap, status: str) -> None:
    order = advance_to_status(shop, place(shop), status)
    first = cancellation.cancel_order(shop, ANN, order.order_id)
    wire.clear()
    assert cancellation.cancel_order(shop, ANN, order.order_id) == first
    assert wire.operations == ["GetItem"]
    assert available_by_part(shop) == [10]
    assert len(refunds(shop, order.order_id)) == (status == "PAID")


def test_the_largest_order_there_can_be_ends_in_one_transaction(shop: ShopContext, wire: WireTap) -> None:
    offer(shop, rate=100, limit=1)
    order = place_largest_order(shop, code="SPRING")
    fulfil_order(shop, order.order_id)
    cancellation.cancel_order(shop, ANN, order.order_id)
    wire.clear()
    assert cancellation.agree_cancel(shop, WAREHOUSE, order.order_id).status == "CANCELLED"
    (ended,) = [request.body for request in wire.requests if request.operation == "TransactWriteItems"]
    assert len(ended["TransactItems"]) == 90 + len(["order", "discount", "shipment", "marker"]) + 5
    assert refunded_total(shop, order.order_id) == order.total
    assert {tuple(available_by_part(shop, id)) for id in order.lines} == {(1,)}
    assert (left(shop), parcels(shop, order.order_id)) == ([1], ["CANCELLED"])


# cancellations by the warehouse ---------------------------------------------------------------------------------------
def test_cancelling_an_order_at_the_warehouse_only_requests_a_stop(shop: ShopContext, clock: ManualClock) -> None:
    order = advance_to_status(shop, place(shop), "FULFILLING")
    clock.sleep(60)
    asked = cancellation.cancel_order(shop, ANN, order.order_id)
    assert asked == order_after_change(order, status="CANCEL_REQUESTED", version=4, updated_at=moment(1))
    assert cancellation.cancel_order(shop, ANN, order.order_id) == asked == get_order(shop, order.order_id)
    assert (available_by_part(shop), refunds(shop, order.order_id), expiry_markers(shop, order.order_id)) == (
        [8],
        [],
        [],
    )
    assert parcels(shop, order.order_id) == ["REQUESTED"]


def test_an_order_stopped_by_the_warehouse_is_cancelled_with_its_shipment(
    shop: ShopContext, clock: ManualClock
) -> None:
    offer(shop, limit=1)
    order = advance_to_status(shop, bought(shop, "SPRING"), "CANCEL_REQUESTED")
    clock.sleep(60)
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


def test_an_order_that_the_warehouse_cannot_stop_continues(shop: ShopContext, clock: ManualClock) -> None:
    order = advance_to_status(shop, place(shop), "CANCEL_REQUESTED")
    clock.sleep(60)
    goes_on = cancellation.refuse_cancel(shop, WAREHOUSE, order.order_id)
    assert goes_on == replace(order, status="FULFILLING", version=5, updated_at=moment(1), timeline=goes_on.timeline)
    assert cancellation.refuse_cancel(shop, WAREHOUSE, order.order_id) == goes_on == get_order(shop, order.order_id)
    assert (available_by_part(shop), refunds(shop, order.order_id), parcels(shop, order.order_id)) == (
        [8],
        [],
        ["REQUESTED"],
    )
    assert cancellation.cancel_order(shop, ANN, order.order_id).status == "CANCEL_REQUESTED", "they may ask again"


@pytest.mark.parametrize(("quantities", "reached"), [(None, "SHIPPED"), ({"mug": 1}, "PARTIALLY_SHIPPED")])
def test_a_parcel_sent_before_the_warehouse_read_the_stop_request_stays_sent(
    shop: ShopContext, quantities: Any, reached: str
) -> None:
    order = advance_to_status(shop, place(shop), "CANCEL_REQUESTED")
    shipments.dispatch_shipment(shop, WAREHOUSE, order.order_id, f"{order.order_id}-1", "dhl", "42", quantities)
    assert get_order(shop, order.order_id).status == reached
    with pytest.raises(WrongState) as refusal:
        cancellation.agree_cancel(shop, WAREHOUSE, order.order_id)
    assert refusal.value.state == reached
    assert (available_by_part(shop), refunds(shop, order.order_id)) == ([8], [])


# races ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("faster", ["cancel", "fulfil"])
def test_a_paid_order_that_is_cancelled_and_requested_concurrently_is_either_cancelled_or_shipped(
    shop: ShopContext, rival: ShopContext, wire: WireTap, faster: str
) -> None:
    order = advance_to_status(shop, place(shop), "PAID")
    if faster == "cancel":
        wire.run_before_call("TransactWriteItems", lambda: cancellation.cancel_order(rival, ANN, order.order_id))
        assert fulfil_order(shop, order.order_id) is None
        assert (get_order(shop, order.order_id).status, parcels(shop, order.order_id)) == ("CANCELLED", [])
    else:
        wire.run_before_call("TransactWriteItems", lambda: fulfil_order(rival, order.order_id))
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


def test_a_cancel_by_eight_at_once_gives_goods_money_and_discount_back_once(shop: ShopContext) -> None:
    offer(shop, limit=1)
    order = advance_to_status(shop, bought(shop, "SPRING", mug=3), "PAID")
    ended = run_concurrently(*[lambda: cancellation.cancel_order(shop, ANN, order.order_id)] * 8)
    assert {it.version for it in ended} == {3}
    assert (available_by_part(shop), left(shop), refunded_total(shop, order.order_id)) == ([10], [1], order.total)


# unpaid orders that lapse ---------------------------------------------------------------------------------------------
def test_an_order_that_is_not_paid_in_time_lapses(shop: ShopContext, clock: ManualClock) -> None:
    early = place(shop, "early", mug=2)
    clock.sleep(60)
    late = place(shop, "late", mug=3)
    assert [it.order_id for it in cancellation.list_unpaid_orders(shop, clock.now)] == [early.order_id], (
        "an order at the limit itself is not before the limit"
    )
    assert [it.order_id for it in cancellation.list_unpaid_orders(shop, clock.now + timedelta(milliseconds=1))] == [
        early.order_id,
        late.order_id,
    ]
    assert cancellation.lapse_order(shop, early.order_id)
    assert get_order(shop, early.order_id) == order_after_change(
        early, status="LAPSED", version=2, updated_at=moment(1)
    )
    assert available_by_part(shop) == [7]
    assert ends_in(shop, early.order_id, 365)
    assert [it.order_id for it in cancellation.list_unpaid_orders(shop, clock.now + timedelta(days=1))] == [
        late.order_id
    ]


def test_the_payments_and_the_discount_of_an_expired_order_are_given_back(shop: ShopContext) -> None:
    offer(shop, limit=1)
    order = pay_in_parts(shop, bought(shop, "SPRING"), 300, 400)
    assert cancellation.lapse_order(shop, order.order_id)
    assert not cancellation.lapse_order(shop, order.order_id)
    assert {refund.why for refund in refunds(shop, order.order_id)} == {"LAPSED"}
    assert (refunded_total(shop, order.order_id), left(shop), available_by_part(shop)) == (700, [1], [10])


@pytest.mark.parametrize("meanwhile", ["paid", "cancelled"])
def test_an_order_that_is_paid_or_cancelled_just_then_does_not_lapse(
    shop: ShopContext, rival: ShopContext, wire: WireTap, meanwhile: str
) -> None:
    order = place(shop)
    act = {
        "paid": lambda: pay(rival, order),
        "cancelled": lambda: cancellation.cancel_order(rival, ANN, order.order_id),
    }
    wire.run_before_call("TransactWriteItems", act[meanwhile])
    assert not cancellation.lapse_order(shop, order.order_id)
    assert get_order(shop, order.order_id).status == meanwhile.upper()
    assert available_by_part(shop) == [8 if meanwhile == "paid" else 10]
