"""Tests shipments: of whole orders and of parts, which together have the ordered pieces, at every concurrency."""

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.model.entities import Line, Order, Shipment
from functions.model.errors import AlreadyExists, CommandRejected, InvalidInput, NotFound, TooMuch, WrongState
from functions.model.patterns import SHIPMENTS_OF_ORDER
from functions.shop import shipments
from functions.shop.fulfilment import fulfil_order
from functions.shop.shipments import MAX_SHIPMENTS
from functions.shop.shop import Caller, ShopContext
from proof.support.actors import (
    ANN,
    BOB,
    STAFF,
    WAREHOUSE,
    advance_to_status,
    archive_order,
    available_by_part,
    create_stocked_product,
    get_order,
    order_after_change,
    place,
    place_order_as,
    run_in_threads,
)
from proof.support.examples import many
from proof.support.samples import moment
from tests.shop.conftest import TappedShop
from tests.support.order_money import expiry_markers


@pytest.fixture
def order(shop: ShopContext) -> Order:
    """An order of three mugs and two pots whose shipment was requested."""
    return advance_to_status(shop, place(shop, mug=3, pot=2), "FULFILLING")


def send(shop: ShopContext, order: Order, parcel: int, number: str = "", /, **quantities: int) -> Shipment:
    """Dispatch these pieces of a shipment as the warehouse, by default all."""
    id = f"{order.order_id}-{parcel}"
    return shipments.dispatch_shipment(
        shop, WAREHOUSE, order.order_id, id, "dhl", number or str(parcel), quantities or None
    )


def deliver(shop: ShopContext, order: Order, parcel: int) -> Shipment:
    return shipments.deliver_shipment(shop, WAREHOUSE, order.order_id, f"{order.order_id}-{parcel}")


def parcels(shop: ShopContext, order: Order) -> dict[str, tuple[str, dict[str, int]]]:
    """Return the status and the pieces of each shipment, by the last part of its id."""
    found = shipments.list_shipments_of_order(shop, STAFF, order.order_id)
    return {it.shipment_id.rpartition("-")[2]: (it.status, dict(it.quantities)) for it in found}


def pieces(shop: ShopContext, order: Order, what: str) -> dict[str, int]:
    return {id: getattr(line, what) for id, line in get_order(shop, order.order_id).lines.items()}


def agrees(shop: ShopContext, order: Order) -> None:
    """Check that shipments and lines agree, that all ordered pieces are in shipments, and that the status follows."""
    now = get_order(shop, order.order_id)
    found = list(shop.table.query_all(SHIPMENTS_OF_ORDER, order_id=order.order_id))
    for id, line in now.lines.items():
        of = dict.fromkeys(("REQUESTED", "DISPATCHED", "DELIVERED"), 0)
        for shipment in found:
            of[shipment.status] += shipment.quantities.get(id, 0)
        assert sum(of.values()) == line.quantity
        assert (line.shipped, line.delivered) == (of["DISPATCHED"] + of["DELIVERED"], of["DELIVERED"])
    assert now.parcels == len(found) == len({shipment.shipment_id for shipment in found})
    ordered = sum(line.quantity for line in now.lines.values())
    if now.delivered == ordered:
        assert now.status == "DELIVERED"
    elif now.shipped == ordered:
        assert now.status == "SHIPPED"
    else:
        assert now.status == ("PARTIALLY_SHIPPED" if now.shipped else "FULFILLING")
    assert len(expiry_markers(shop, order.order_id)) == (now.status == "DELIVERED")


# partial shipments ----------------------------------------------------------------------------------------------------
def test_a_part_is_sent_and_the_rest_is_asked_for_in_the_same_transaction(shop: TappedShop, order: Order) -> None:
    shop.clock.sleep(60)
    shop.wire.clear()
    sent = send(shop, order, 1, mug=2)
    assert shop.wire.operations == ["Query", "TransactWriteItems"]
    assert (sent.status, sent.quantities, sent.tracking_number, sent.version) == ("DISPATCHED", {"mug": 2}, "1", 2)
    first, rest = shipments.list_shipments_of_order(shop, STAFF, order.order_id)
    assert first == sent
    assert rest == Shipment(
        order_id=order.order_id,
        shipment_id=f"{order.order_id}-2",
        customer_id="ann",
        status="REQUESTED",
        quantities={"mug": 1, "pot": 2},
        created_at=moment(1),
        updated_at=moment(1),
    )
    now = get_order(shop, order.order_id)
    assert now == order_after_change(
        order, status="PARTIALLY_SHIPPED", lines=now.lines, parcels=2, version=4, updated_at=moment(1)
    )
    assert pieces(shop, order, "shipped") == {"mug": 2, "pot": 0}
    assert pieces(shop, order, "delivered") == {"mug": 0, "pot": 0}


def test_a_shipment_says_which_of_its_pieces_were_not_there_when_they_were_ordered(shop: ShopContext) -> None:
    create_stocked_product(shop, "jug", 2, backorder=True)
    order = advance_to_status(shop, place(shop, jug=5, mug=1), "FULFILLING")

    def missing() -> list[Any]:
        return [shipment.backordered for shipment in shop.table.query_all(SHIPMENTS_OF_ORDER, order_id=order.order_id)]

    assert missing() == [{"jug": 3}]
    send(shop, order, 1, jug=2)
    assert missing() == [None, {"jug": 3}], "the available pieces were sent first"
    send(shop, order, 2, jug=2)
    assert missing() == [None, None, {"jug": 1}]
    send(shop, order, 3, jug=1)
    assert missing() == [None, None, None, None], "the mug was available"
    assert send(shop, order, 3, jug=1).backordered is None, "a repeated report changes nothing"
    agrees(shop, order)


# repeated reports -----------------------------------------------------------------------------------------------------
def test_a_repeated_warehouse_report_changes_nothing_and_has_the_same_answer(shop: TappedShop, order: Order) -> None:
    first = send(shop, order, 1, mug=2)
    for _ in range(2):
        assert send(shop, order, 1, mug=2) == first
    second = send(shop, order, 2)
    assert send(shop, order, 2) == second
    arrived = deliver(shop, order, 1)
    assert deliver(shop, order, 1) == arrived
    assert send(shop, order, 1, mug=2) == arrived, "a late repeated report has the same answer"
    assert shop.wire.operations.count("TransactWriteItems") == 6, (
        "placed, paid, fulfilled, shipped twice, delivered once"
    )
    agrees(shop, order)


@pytest.mark.parametrize("report", [send, deliver])
def test_a_repeated_report_that_reads_a_new_order_and_an_old_parcel_reads_again(
    shop: TappedShop, order: Order, report: Any
) -> None:
    """A query is no transaction: it may read one item before a change, and another one after it."""
    if report is deliver:
        send(shop, order, 1)
    read = shop.table.get_neighbours
    (old,) = shop.table.query_all(SHIPMENTS_OF_ORDER, order_id=order.order_id)
    first = report(shop.rival, order, 1)
    torn = iter([(get_order(shop, order.order_id), old)])
    shop.table.get_neighbours = lambda *keys: next(torn, None) or read(*keys)  # type: ignore[method-assign]
    assert report(shop, order, 1) == first


@pytest.mark.parametrize("status", ["DISPATCHED", "DELIVERED"])
@pytest.mark.parametrize(
    ("quantities", "carrier", "number"),
    [
        *(({**other}, "dhl", "1") for other in ({"mug": 1}, {"mug": 3}, {"mug": 2, "pot": 1}, {"pot": 2})),
        ({"mug": 2}, "ups", "1"),
        ({"mug": 2}, "dhl", "2"),
    ],
)
def test_a_parcel_that_is_sent_is_not_sent_again_with_something_else_or_another_way(
    shop: ShopContext, order: Order, status: str, quantities: dict[str, int], carrier: str, number: str
) -> None:
    sent = send(shop, order, 1, mug=2)
    if status == "DELIVERED":
        deliver(shop, order, 1)
    before = shipments.list_shipments_of_order(shop, STAFF, order.order_id)
    with pytest.raises(WrongState) as refusal:
        shipments.dispatch_shipment(shop, WAREHOUSE, order.order_id, sent.shipment_id, carrier, number, quantities)
    assert (refusal.value.what, refusal.value.command, refusal.value.state) == ("shipment", "dispatch", status)
    assert shipments.list_shipments_of_order(shop, STAFF, order.order_id) == before


# limits of a shipment -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("quantities", "error", "says"),
    [
        ({"mug": 4}, TooMuch, {"field": "mug", "most": 3}),
        ({"mug": 1, "pot": 3}, TooMuch, {"field": "pot", "most": 2}),
        ({"vase": 1}, TooMuch, {"field": "vase", "most": 0}),
        *(({**empty}, InvalidInput, {"field": "quantities"}) for empty in ({}, {"mug": 0}, {"mug": 1, "pot": -1})),
    ],
)
def test_a_parcel_holds_something_of_everything_that_it_names_and_no_more_than_was_asked_for(
    shop: ShopContext, order: Order, quantities: dict[str, int], error: type[Exception], says: dict[str, Any]
) -> None:
    with pytest.raises(error) as refusal:
        shipments.dispatch_shipment(shop, STAFF, order.order_id, f"{order.order_id}-1", "dhl", "1", quantities)
    assert {name: getattr(refusal.value, name) for name in says} == says
    assert get_order(shop, order.order_id) == order


def test_an_order_is_sent_in_so_many_parcels_and_arrives_in_one_transaction(shop: TappedShop) -> None:
    create_stocked_product(shop, "pin", 100)
    order = advance_to_status(shop, place(shop, pin=92), "FULFILLING")
    for parcel in range(1, MAX_SHIPMENTS):
        send(shop, order, parcel, pin=1)
    with pytest.raises(TooMuch) as refusal:
        send(shop, order, MAX_SHIPMENTS, pin=1)
    assert (refusal.value.field, refusal.value.most) == ("parcels", MAX_SHIPMENTS)
    send(shop, order, MAX_SHIPMENTS, pin=3)
    agrees(shop, order)
    shop.wire.clear()
    assert shipments.assume_delivered(shop, order.order_id)
    (arrived,) = [request.body for request in shop.wire.requests if request.operation == "TransactWriteItems"]
    assert len(arrived["TransactItems"]) == MAX_SHIPMENTS + len(["order", "marker"])
    agrees(shop, order)


# races ----------------------------------------------------------------------------------------------------------------
def test_concurrent_dispatches_never_send_more_than_was_ordered(shop: ShopContext, order: Order) -> None:
    def hand(number: int) -> None:
        for parcel in range(1, 6):
            for act in (
                partial(send, shop, order, parcel, f"{number}", mug=1),
                partial(send, shop, order, parcel),
                partial(deliver, shop, order, parcel),
            ):
                with suppress(NotFound, CommandRejected):
                    act()

    run_in_threads(4, hand, range(4))
    agrees(shop, order)
    hand(5)
    agrees(shop, order)
    assert get_order(shop, order.order_id).status == "DELIVERED"
    assert (available_by_part(shop), available_by_part(shop, "pot")) == ([7], [8])


@settings(max_examples=many(25, 8))
@given(data=st.data())
def test_the_parcels_of_an_order_add_up_to_the_ordered_pieces(shop: ShopContext, data: st.DataObject) -> None:
    for id in ("cup", "jar"):
        with suppress(AlreadyExists):  # an earlier example has created the product
            create_stocked_product(shop, id, 1000)
    order = advance_to_status(shop, place(shop, f"k{shop.new_id()}", cup=4, jar=3), "FULFILLING")
    on_their_way: list[int] = []
    parcel = 1
    while get_order(shop, order.order_id).status != "DELIVERED":
        waiting = parcels(shop, order).get(str(parcel), ("", {}))[1]
        if waiting and (not on_their_way or data.draw(st.booleans(), label="send")):
            part = {id: data.draw(st.integers(0, many), label=id) for id, many in sorted(waiting.items())}
            send(shop, order, parcel, **{id: many for id, many in part.items() if many})
            on_their_way.append(parcel)
            parcel += 1
        else:
            deliver(shop, order, on_their_way.pop(data.draw(st.integers(0, len(on_their_way) - 1), label="arrives")))
        agrees(shop, order)


# shipments that are assumed to be delivered ---------------------------------------------------------------------------
def test_an_order_of_which_a_part_is_not_sent_is_never_assumed_delivered(shop: TappedShop, order: Order) -> None:
    send(shop, order, 1, mug=3)
    before = parcels(shop, order)
    shop.clock.sleep(60)
    assert [it.order_id for it in shipments.list_unconfirmed_orders(shop, shop.clock.now)] == []
    assert not shipments.assume_delivered(shop, order.order_id)
    assert parcels(shop, order) == before
    agrees(shop, order)


def test_a_parcel_that_is_confirmed_just_then_is_delivered_once(shop: TappedShop, order: Order) -> None:
    send(shop, order, 1, mug=3)
    send(shop, order, 2)
    shop.meanwhile(lambda rival: deliver(rival, order, 1))
    assert not shipments.assume_delivered(shop, order.order_id)
    agrees(shop, order)
    assert shipments.assume_delivered(shop, order.order_id)
    agrees(shop, order)


# shipments of a whole order -------------------------------------------------------------------------------------------
def counted(order: Order, shipped: int, delivered: int = 0) -> dict[str, Line]:
    """Return the order's lines. Each line has these numbers of shipped and delivered pieces."""
    return {id: replace(line, shipped=shipped, delivered=delivered) for id, line in order.lines.items()}


def test_a_paid_order_goes_to_the_warehouse_with_all_its_lines(shop: TappedShop) -> None:
    order = advance_to_status(shop, place(shop, mug=2, pot=1), "PAID")
    shop.clock.sleep(60)
    fulfilment = fulfil_order(shop, order.order_id)
    assert fulfilment is not None
    shipment = fulfilment.shipment
    assert shipments.list_shipments_of_order(shop, STAFF, order.order_id) == (shipment,)
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


def test_a_parcel_is_dispatched_with_its_order_and_found_by_its_number(shop: TappedShop) -> None:
    order = advance_to_status(shop, place(shop), "FULFILLING")
    (before,) = shipments.list_shipments_of_order(shop, STAFF, order.order_id)
    shop.clock.sleep(60)
    sent = send(shop, order, 1, "42")
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
    mine = send(shop, advance_to_status(shop, place(shop, "one"), "FULFILLING"), 1, "42")
    other = place_order_as(shop, BOB, "two", mug=1).order
    assert isinstance(other, Order)
    theirs = send(shop, advance_to_status(shop, other, "FULFILLING"), 1, "42")
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


def test_a_delivered_order_says_when_it_expires_and_leaves_its_queue(shop: TappedShop) -> None:
    order = advance_to_status(shop, place(shop), "SHIPPED")
    shop.clock.sleep(60)
    arrived = shipments.deliver_shipment(shop, WAREHOUSE, order.order_id, f"{order.order_id}-1")
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
    assert expiry.ttl == int((shop.clock.now + timedelta(days=365 + 30)).timestamp()), (
        "retention starts after the returns"
    )
    assert [it.order_id for it in shipments.list_unconfirmed_orders(shop, shop.clock.now + timedelta(days=99))] == []


def test_a_parcel_is_not_delivered_before_it_is_sent(shop: ShopContext) -> None:
    order = advance_to_status(shop, place(shop), "FULFILLING")
    with pytest.raises(WrongState) as refusal:
        shipments.deliver_shipment(shop, WAREHOUSE, order.order_id, f"{order.order_id}-1")
    assert refusal.value.state == "REQUESTED"
    assert get_order(shop, order.order_id) == order


def test_the_warehouse_reads_where_to_send_an_order_until_it_is_archived(shop: ShopContext) -> None:
    order = advance_to_status(shop, place(shop), "DELIVERED")
    assert shipments.get_order_for_packing(shop, WAREHOUSE, order.order_id).address == order.address
    archive_order(shop, order.order_id, to_stub=True)
    with pytest.raises(NotFound):
        shipments.get_order_for_packing(shop, WAREHOUSE, order.order_id)


# unconfirmed orders ---------------------------------------------------------------------------------------------------
def test_an_unconfirmed_order_is_marked_as_delivered(shop: TappedShop) -> None:
    early = advance_to_status(shop, place(shop, "early"), "SHIPPED")
    shop.clock.sleep(60)
    late = advance_to_status(shop, place(shop, "late"), "FULFILLING")
    shop.clock.sleep(60)
    send(shop, late, 1)

    def unconfirmed(**later: int) -> list[str]:
        return [it.order_id for it in shipments.list_unconfirmed_orders(shop, shop.clock.now + timedelta(**later))]

    assert unconfirmed(seconds=-30) == [early.order_id], "the other order was placed long ago, but only just shipped"
    assert shipments.assume_delivered(shop, early.order_id)
    assert get_order(shop, early.order_id).status == "DELIVERED"
    assert not shipments.assume_delivered(shop, early.order_id), "the order was delivered in between"
    assert get_order(shop, early.order_id).version == 5
    assert unconfirmed(days=1) == [late.order_id]
