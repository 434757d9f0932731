"""Tests orders of which a part was sent and the rest was cancelled: the unsent goods are released and refunded."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.model.entities import Order
from functions.model.errors import AlreadyExists, NotFound, TooMuch, WrongState
from functions.model.patterns import SHIPMENTS_OF_ORDER
from functions.shop import cancellation, discounts, refunds, shipments
from functions.shop.fulfilment import fulfil_order
from functions.shop.placing import RequestedLine, place_order
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
    place,
    set_shipping_prices,
)
from proof.support.client_faults import WireTap
from proof.support.examples import many
from proof.support.samples import moment
from proof.support.tapped_client import ManualClock
from tests.shop.test_discounts import left, offer
from tests.support import order_money
from tests.support.order_money import expiry_markers, place_largest_order, refunded_total, return_pieces


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


def parcels(shop: ShopContext, order: Order) -> list[str]:
    return [shipment.status for shipment in shop.table.query_all(SHIPMENTS_OF_ORDER, order_id=order.order_id)]


def counted(order: Order, what: str) -> dict[str, int]:
    return {id: getattr(line, what) for id, line in order.lines.items()}


# agreement of the warehouse -------------------------------------------------------------------------------------------
def test_the_rest_of_an_order_is_the_warehouses_to_stop_and_nothing_else_changes(
    shop: ShopContext, order: Order, clock: ManualClock
) -> None:
    clock.sleep(60)
    asked = cancellation.cancel_order(shop, ANN, order.order_id)
    assert asked == order_after_change(order, status="CUT_REQUESTED", version=order.version + 1, updated_at=moment(1))
    assert cancellation.cancel_order(shop, ANN, order.order_id) == asked == get_order(shop, order.order_id)
    assert (available_by_part(shop), available_by_part(shop, "pot"), refunded_total(shop, order.order_id)) == (
        [7],
        [8],
        0,
    )
    assert parcels(shop, order) == ["DISPATCHED", "REQUESTED"]


def test_a_partly_stopped_order_drops_its_rest_and_returns_goods_and_money_in_one_transaction(
    shop: ShopContext, order: Order, wire: WireTap, clock: ManualClock
) -> None:
    asked = cancellation.cancel_order(shop, ANN, order.order_id)
    clock.sleep(60)
    wire.clear()
    short = cancellation.agree_cancel(shop, WAREHOUSE, order.order_id)
    assert wire.operations == ["GetItem", "Query", "Query", "Query", "TransactWriteItems"]
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
    assert parcels(shop, order) == ["DISPATCHED", "CANCELLED"]
    assert (available_by_part(shop), available_by_part(shop, "pot")) == ([8], [10])
    assert refunded_total(shop, order.order_id) == 3750
    assert [(it.why, it.amount) for it in order_money.refunds(shop, order.order_id)] == [("CUT_SHORT", 3750)]
    assert expiry_markers(shop, order.order_id) == []
    for _ in range(2):
        assert cancellation.agree_cancel(shop, STAFF, order.order_id) == short
        assert cancellation.cancel_order(shop, ANN, order.order_id) == short, "the cancellable pieces are cancelled"
    assert refunded_total(shop, order.order_id) == 3750


def test_a_parcel_that_arrives_while_the_warehouse_is_asked_is_counted(shop: ShopContext, order: Order) -> None:
    cancellation.cancel_order(shop, ANN, order.order_id)
    assert arrive(shop, order).status == "CUT_REQUESTED"
    assert cancellation.agree_cancel(shop, WAREHOUSE, order.order_id).status == "DELIVERED"


def test_the_rest_that_the_warehouse_cannot_stop_goes_on(shop: ShopContext, order: Order) -> None:
    asked = cancellation.cancel_order(shop, ANN, order.order_id)
    goes_on = cancellation.refuse_cancel(shop, WAREHOUSE, order.order_id)
    assert goes_on == order_after_change(asked, status="PARTIALLY_SHIPPED", version=asked.version + 1)
    assert cancellation.refuse_cancel(shop, WAREHOUSE, order.order_id) == goes_on == get_order(shop, order.order_id)
    assert (available_by_part(shop), refunded_total(shop, order.order_id)) == ([7], 0)
    assert cancellation.cancel_order(shop, ANN, order.order_id).status == "CUT_REQUESTED", "the customer may ask again"


@pytest.mark.parametrize(("quantities", "reached"), [({}, "SHIPPED"), ({"pot": 1}, "PARTIALLY_SHIPPED")])
def test_the_rest_that_was_sent_before_the_warehouse_read_of_the_cancel_is_sent(
    shop: ShopContext, order: Order, quantities: dict[str, int], reached: str
) -> None:
    cancellation.cancel_order(shop, ANN, order.order_id)
    assert send(shop, order, 2, **quantities).status == reached
    with pytest.raises(WrongState) as refusal:
        cancellation.agree_cancel(shop, WAREHOUSE, order.order_id)
    assert refusal.value.state == reached
    assert (available_by_part(shop), refunded_total(shop, order.order_id)) == ([7], 0)


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


def test_the_largest_order_there_can_be_is_cut_short_in_one_transaction(shop: ShopContext, wire: WireTap) -> None:
    order = place_largest_order(shop, each=2)
    fulfil_order(shop, order.order_id)
    arrive(shop, send(shop, order, 1, p0=1))
    wire.clear()
    assert cut(shop, order).status == "DELIVERED"
    *_, made = [request.body for request in wire.requests if request.operation == "TransactWriteItems"]
    assert len(made["TransactItems"]) == 90 + len(["order", "shipment", "marker"]) + 5
    assert refunded_total(shop, order.order_id) == order.total - 1250
    assert {tuple(available_by_part(shop, id)) for id in order.lines} == {(2,), (1,)}


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
    refunds.refund_order(shop, STAFF, "sorry", order.order_id, 5000)
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
    shop: ShopContext, rival: ShopContext, order: Order, wire: WireTap, faster: str
) -> None:
    cancellation.cancel_order(shop, ANN, order.order_id)
    if faster == "the parcel":
        wire.run_before_call("TransactWriteItems", lambda: arrive(rival, order))
        assert cancellation.agree_cancel(shop, WAREHOUSE, order.order_id).status == "DELIVERED"
    else:
        wire.run_before_call("TransactWriteItems", lambda: cancellation.agree_cancel(rival, WAREHOUSE, order.order_id))
        assert arrive(shop, order).status == "DELIVERED"
    assert len(expiry_markers(shop, order.order_id)) == 1
    assert refunded_total(shop, order.order_id) == 3750
