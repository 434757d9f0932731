"""Tests shipments: requested with the order's status, changed by the warehouse's reports, or assumed delivered."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.model.entities import Line, Order, Shipment
from functions.model.errors import NotAllowed, NotFound, WrongState
from functions.shop import shipments
from functions.shop.fulfilment import fulfil_order
from functions.shop.shop import Caller, ShopContext
from proof.support.actors import (
    ANN,
    BOB,
    STAFF,
    WAREHOUSE,
    advance_to_status,
    archive_order,
    available_by_part,
    get_order,
    order_after_change,
    place,
    place_order_as,
    report_payment,
)
from proof.support.client_faults import WireTap
from proof.support.samples import moment
from proof.support.tapped_client import ManualClock
from tests.support.order_money import expiry_markers


def parcel_of(shop: ShopContext, order_id: str) -> Shipment:
    (shipment,) = shipments.list_shipments_of_order(shop, STAFF, order_id)
    return shipment


def dispatch(shop: ShopContext, order: Order, carrier: str = "dhl", number: str = "42") -> Shipment:
    return shipments.dispatch_shipment(shop, WAREHOUSE, order.order_id, f"{order.order_id}-1", carrier, number)


def counted(order: Order, shipped: int, delivered: int = 0) -> dict[str, Line]:
    """Return the order's lines. Each line has these numbers of shipped and delivered pieces."""
    return {id: replace(line, shipped=shipped, delivered=delivered) for id, line in order.lines.items()}


def test_a_paid_order_goes_to_the_warehouse_with_all_its_lines(
    shop: ShopContext, wire: WireTap, clock: ManualClock
) -> None:
    order = advance_to_status(shop, place(shop, mug=2, pot=1), "PAID")
    clock.sleep(60)
    wire.clear()
    fulfilment = fulfil_order(shop, order.order_id)
    assert wire.operations == ["Query", "Query", "GetItem", "TransactWriteItems"]
    assert fulfilment is not None
    shipment = fulfilment.shipment
    assert shipment == parcel_of(shop, order.order_id)
    assert shipment == Shipment(
        order_id=order.order_id,
        shipment_id=f"{order.order_id}-1",
        customer_id="ann",
        status="REQUESTED",
        quantities={"mug": 2, "pot": 1},
        created_at=moment(1),
        updated_at=moment(1),
    )
    assert get_order(shop, order.order_id) == order_after_change(
        order, status="FULFILLING", parcels=1, version=3, updated_at=moment(1)
    )


@pytest.mark.parametrize(
    "status",
    [
        "PENDING", "CANCELLED", "LAPSED", "FULFILLING", "CANCEL_REQUESTED", "PARTIALLY_SHIPPED", "CUT_REQUESTED",
        "SHIPPED", "DELIVERED",
        "PARTIALLY_RETURNED", "RETURNED", "ARCHIVING",
    ],
)  # fmt: skip
def test_nothing_but_a_paid_order_goes_to_the_warehouse(shop: ShopContext, status: str) -> None:
    before = advance_to_status(shop, place(shop), status)
    sent = shipments.list_shipments_of_order(shop, STAFF, before.order_id)
    assert fulfil_order(shop, before.order_id) is None
    assert get_order(shop, before.order_id) == before
    assert shipments.list_shipments_of_order(shop, STAFF, before.order_id) == sent


def test_an_archived_or_missing_order_is_not_sent_to_the_warehouse(shop: ShopContext) -> None:
    order = advance_to_status(shop, place(shop), "CANCELLED")
    archive_order(shop, order.order_id, to_stub=True)
    assert fulfil_order(shop, order.order_id) is None
    assert fulfil_order(shop, "none") is None


def test_a_parcel_is_dispatched_with_its_order_and_found_by_its_number(
    shop: ShopContext, wire: WireTap, clock: ManualClock
) -> None:
    order = advance_to_status(shop, place(shop), "FULFILLING")
    before = parcel_of(shop, order.order_id)
    clock.sleep(60)
    wire.clear()
    sent = dispatch(shop, order)
    assert wire.operations == ["Query", "TransactWriteItems"]
    assert sent == replace(
        before, status="DISPATCHED", carrier="dhl", tracking_number="42", version=2, updated_at=moment(1)
    )
    assert get_order(shop, order.order_id) == order_after_change(
        order, status="SHIPPED", lines=counted(order, shipped=2), version=4, updated_at=moment(1)
    )
    for caller in (ANN, STAFF, WAREHOUSE):
        assert shipments.list_shipments_by_tracking(shop, caller, "dhl", "42") == (sent,)
    for carrier, number, caller in (("dhl", "43", ANN), ("ups", "42", ANN), ("dhl", "42", BOB)):
        with pytest.raises(NotFound):
            shipments.list_shipments_by_tracking(shop, caller, carrier, number)


def test_a_number_that_a_carrier_gave_twice_finds_each_customer_their_own(shop: ShopContext) -> None:
    mine = dispatch(shop, advance_to_status(shop, place(shop, "one"), "FULFILLING"))
    other = place_order_as(shop, BOB, "two", mug=1).order
    assert isinstance(other, Order)
    theirs = dispatch(shop, advance_to_status(shop, other, "FULFILLING"))
    assert mine.tracking_number == theirs.tracking_number
    assert shipments.list_shipments_by_tracking(shop, ANN, "dhl", "42") == (mine,)
    assert shipments.list_shipments_by_tracking(shop, BOB, "dhl", "42") == (theirs,)
    for caller in (STAFF, WAREHOUSE):
        found = shipments.list_shipments_by_tracking(shop, caller, "dhl", "42")
        assert {one.order_id for one in found} == {mine.order_id, theirs.order_id}
    with pytest.raises(NotFound):
        shipments.list_shipments_by_tracking(shop, Caller("eve"), "dhl", "42")


@pytest.mark.parametrize("asked", ["dhl", "DHL", "Dhl "])
def test_a_carrier_is_the_same_however_it_is_typed(shop: ShopContext, asked: str) -> None:
    order = advance_to_status(shop, place(shop), "FULFILLING")
    parcel = f"{order.order_id}-1"
    sent = shipments.dispatch_shipment(shop, WAREHOUSE, order.order_id, parcel, " DHL", "42")
    assert sent.carrier == "dhl"
    assert shipments.dispatch_shipment(shop, WAREHOUSE, order.order_id, parcel, asked, "42") == sent, "a repeat"
    assert shipments.list_shipments_by_tracking(shop, ANN, asked, "42") == (sent,)


def test_a_delivered_order_says_when_it_expires_and_leaves_its_queue(
    shop: ShopContext, wire: WireTap, clock: ManualClock
) -> None:
    order = advance_to_status(shop, place(shop), "SHIPPED")
    clock.sleep(60)
    wire.clear()
    arrived = shipments.deliver_shipment(shop, WAREHOUSE, order.order_id, f"{order.order_id}-1")
    assert wire.operations == ["Query", "TransactWriteItems"]
    assert (arrived.status, arrived.version, arrived.updated_at) == ("DELIVERED", 3, moment(1))
    assert get_order(shop, order.order_id) == order_after_change(
        order,
        status="DELIVERED",
        lines=counted(order, shipped=2, delivered=2),
        delivered_at=moment(1),
        version=5,
        updated_at=moment(1),
    )
    (expiry,) = expiry_markers(shop, order.order_id)
    assert expiry.ttl == int((clock.now + timedelta(days=365 + 30)).timestamp()), "retention starts after the returns"
    assert [it.order_id for it in shipments.list_unconfirmed_orders(shop, clock.now + timedelta(days=99))] == []


@pytest.mark.parametrize("status", ["SHIPPED", "DELIVERED"])
@pytest.mark.parametrize(("carrier", "number"), [("ups", "42"), ("dhl", "43")])
def test_a_parcel_is_not_sent_a_second_time_another_way(
    shop: ShopContext, status: str, carrier: str, number: str
) -> None:
    order = advance_to_status(shop, place(shop), "FULFILLING")
    dispatch(shop, order)
    if status == "DELIVERED":
        shipments.deliver_shipment(shop, WAREHOUSE, order.order_id, f"{order.order_id}-1")
    with pytest.raises(WrongState) as refusal:
        dispatch(shop, order, carrier, number)
    assert (refusal.value.what, refusal.value.command) == ("shipment", "dispatch")
    assert parcel_of(shop, order.order_id).tracking_number == "42"


def test_a_parcel_is_not_delivered_before_it_is_sent(shop: ShopContext) -> None:
    order = advance_to_status(shop, place(shop), "FULFILLING")
    with pytest.raises(WrongState) as refusal:
        shipments.deliver_shipment(shop, WAREHOUSE, order.order_id, f"{order.order_id}-1")
    assert refusal.value.state == "REQUESTED"
    assert get_order(shop, order.order_id) == order


def test_a_missing_shipment_is_not_found(shop: ShopContext) -> None:
    order = advance_to_status(shop, place(shop), "FULFILLING")
    for order_id, shipment_id in ((order.order_id, "other"), ("none", f"{order.order_id}-1")):
        with pytest.raises(NotFound):
            shipments.dispatch_shipment(shop, WAREHOUSE, order_id, shipment_id, "dhl", "42")
        with pytest.raises(NotFound):
            shipments.deliver_shipment(shop, WAREHOUSE, order_id, shipment_id)
    with pytest.raises(NotFound):
        shipments.get_order_for_packing(shop, WAREHOUSE, "none")


@pytest.mark.parametrize("caller", [ANN, BOB, Caller("eve", frozenset({"customers"}))], ids=lambda caller: caller.id)
def test_only_warehouse_and_staff_move_parcels(shop: ShopContext, caller: Caller) -> None:
    order = advance_to_status(shop, place(shop), "FULFILLING")
    acts: list[Any] = [
        lambda: shipments.dispatch_shipment(shop, caller, order.order_id, f"{order.order_id}-1", "dhl", "42"),
        lambda: shipments.deliver_shipment(shop, caller, order.order_id, f"{order.order_id}-1"),
        lambda: shipments.get_order_for_packing(shop, caller, order.order_id),
    ]
    for act in acts:
        with pytest.raises(NotAllowed):
            act()
    assert get_order(shop, order.order_id) == order


def test_parcels_are_shown_to_their_customer_staff_and_the_warehouse(shop: ShopContext) -> None:
    order = advance_to_status(shop, place(shop), "FULFILLING")
    for caller in (ANN, STAFF, WAREHOUSE):
        assert len(shipments.list_shipments_of_order(shop, caller, order.order_id)) == 1
    with pytest.raises(NotFound):
        shipments.list_shipments_of_order(shop, BOB, order.order_id)


def test_the_warehouse_reads_where_to_send_an_order_until_it_is_archived(shop: ShopContext) -> None:
    order = advance_to_status(shop, place(shop), "DELIVERED")
    assert shipments.get_order_for_packing(shop, WAREHOUSE, order.order_id).address == order.address
    archive_order(shop, order.order_id, to_stub=True)
    with pytest.raises(NotFound):
        shipments.get_order_for_packing(shop, WAREHOUSE, order.order_id)


# shipments that are assumed to be delivered -----------------------------------------------------------------------
def test_an_unconfirmed_order_is_marked_as_delivered(shop: ShopContext, clock: ManualClock) -> None:
    early = advance_to_status(shop, place(shop, "early"), "SHIPPED")
    clock.sleep(60)
    late = advance_to_status(shop, place(shop, "late"), "FULFILLING")
    clock.sleep(60)
    dispatch(shop, late, number="43")
    in_between = clock.now - timedelta(seconds=30)
    assert [it.order_id for it in shipments.list_unconfirmed_orders(shop, in_between)] == [early.order_id], (
        "the order was placed long ago, but only just shipped"
    )
    assert shipments.assume_delivered(shop, early.order_id)
    assert get_order(shop, early.order_id).status == "DELIVERED"
    assert not shipments.assume_delivered(shop, early.order_id), "the order was delivered in between"
    assert get_order(shop, early.order_id).version == 5
    assert [it.order_id for it in shipments.list_unconfirmed_orders(shop, clock.now + timedelta(days=1))] == [
        late.order_id
    ]


@pytest.mark.parametrize(
    "status",
    [
        "PENDING", "FULFILLING", "CANCEL_REQUESTED", "PARTIALLY_SHIPPED", "CUT_REQUESTED", "DELIVERED", "RETURNED",
        "CANCELLED",
    ],
)  # fmt: skip
def test_an_order_that_is_not_shipped_is_not_marked_as_delivered(shop: ShopContext, status: str) -> None:
    before = advance_to_status(shop, place(shop), status)
    assert not shipments.assume_delivered(shop, before.order_id)
    assert get_order(shop, before.order_id) == before
    assert not shipments.assume_delivered(shop, "none")


def test_a_late_payment_while_a_parcel_is_sent_loses_neither(
    shop: ShopContext, rival: ShopContext, wire: WireTap
) -> None:
    order = advance_to_status(shop, place(shop), "FULFILLING")
    wire.run_before_call(
        "TransactWriteItems", lambda: report_payment(rival, order, event_id="evt_9", payment_id="pi_9")
    )
    assert dispatch(shop, order).status == "DISPATCHED"
    assert get_order(shop, order.order_id).status == "SHIPPED"
    assert available_by_part(shop) == [8]
