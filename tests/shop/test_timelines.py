"""Tests the timeline of an order: an entry for each change, in the order, or in further items if there are many."""

from dataclasses import replace
from typing import Any

from functions.model.entities import EarlierTimeline, Order
from functions.model.patterns import ORDER_ITEM_COLLECTION
from functions.model.timelines import KEPT_ENTRIES, MAX_ENTRIES, merge_timeline
from functions.shop import orders
from functions.shop.placing import MAX_PRODUCTS, RequestedLine, place_order
from functions.shop.shop import ShopContext
from proof.support.actors import ANN, create_stocked_product, place_order_as
from proof.support.client_faults import WireTap
from proof.support.samples import HOME_ADDRESS
from proof.support.tapped_client import ManualClock
from tests.shop.test_discounts import offer
from tests.support.order_money import deliver_order, pay_in_parts, return_pieces


def change_address(shop: ShopContext, clock: ManualClock, order_id: str, times: int) -> None:
    for number in range(times):
        clock.sleep(60)
        orders.change_address(shop, ANN, order_id, replace(HOME_ADDRESS, street=f"{clock.now} Elm Row {number}"))


def owned(shop: ShopContext, order_id: str) -> list[Any]:
    return list(shop.table.query_all(ORDER_ITEM_COLLECTION, order_id=order_id))


def test_an_order_with_many_changes_keeps_the_latest_and_moves_the_earlier_entries(
    shop: ShopContext, clock: ManualClock, wire: WireTap
) -> None:
    order_id = place_order_as(shop, ANN, "k", mug=1).order.order_id
    change_address(shop, clock, order_id, MAX_ENTRIES)
    assert [type(item) for item in owned(shop, order_id)] == [Order]
    wire.clear()
    change_address(shop, clock, order_id, 1)
    assert [name for name in wire.operations if name not in ("GetItem", "Query")] == ["TransactWriteItems"]
    earlier, order = sorted(owned(shop, order_id), key=lambda item: type(item).__name__)
    assert isinstance(earlier, EarlierTimeline)
    assert (earlier.first_version, len(earlier.entries)) == (2, MAX_ENTRIES + 1 - KEPT_ENTRIES)
    assert len(order.timeline) == KEPT_ENTRIES
    change_address(shop, clock, order_id, 2 * MAX_ENTRIES)
    events = merge_timeline(owned(shop, order_id))
    assert [event.version for event in events] == list(range(1, 3 + 3 * MAX_ENTRIES))
    assert [event.event for event in events] == ["OrderPlaced", *["OrderAddressChanged"] * (1 + 3 * MAX_ENTRIES)]
    assert [event.at for event in events] == sorted({event.at for event in events})


def test_the_largest_return_of_an_order_with_many_changes_is_one_transaction(
    shop: ShopContext, clock: ManualClock, wire: WireTap
) -> None:
    offer(shop, rate=100, limit=1)
    ids = [f"p{number}" for number in range(MAX_PRODUCTS)]
    for id in ids:
        create_stocked_product(shop, id, 1)
    wanted = {id: RequestedLine(1) for id in ids}
    placed = place_order(shop, ANN, "k", wanted, HOME_ADDRESS, {"lines": ids}, "SPRING").order
    assert isinstance(placed, Order)
    others = len(["fulfilling", "shipped", "delivered"]) + 5
    change_address(shop, clock, placed.order_id, MAX_ENTRIES - others)
    (readdressed,) = (item for item in owned(shop, placed.order_id) if isinstance(item, Order))
    part = placed.total // 5
    order = deliver_order(shop, pay_in_parts(shop, readdressed, *[part] * 4, placed.total - 4 * part))
    wire.clear()
    return_pieces(shop, order, **dict.fromkeys(ids, 1))
    (returned,) = (request.body for request in wire.requests if request.operation == "TransactWriteItems")
    assert len(returned["TransactItems"]) == 100, "there is no room for the earlier entries"
    assert [type(item) for item in owned(shop, placed.order_id) if isinstance(item, EarlierTimeline)] == []
    events = merge_timeline(owned(shop, placed.order_id))
    assert [event.version for event in events] == list(range(1, len(events) + 1))
    assert events[-1].event == "OrderReturned"
