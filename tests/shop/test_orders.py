"""Tests orders: the search by phone, archived orders, changes of the address, and the timeline."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from functions.dynamodb.codec import Image
from functions.dynamodb.errors import TableBusy
from functions.dynamodb.writes import put_if_newer
from functions.model.copies import number_of_order
from functions.model.entities import (
    ArchivedOrder,
    EarlierTimeline,
    ExpiryMarker,
    Order,
    Payment,
    Refund,
    Return,
    Shipment,
)
from functions.model.errors import InvalidInput, NotAllowed, NotFound
from functions.model.patterns import ORDER_ITEM_COLLECTION
from functions.model.table import ORDER_NUMBER
from functions.model.timelines import KEPT_ENTRIES, MAX_ENTRIES, merge_timeline
from functions.shop import credit_payments, orders, refunds, returns, shipments
from functions.shop.erasure import point_stub_to_object, remove_address_from_order
from functions.shop.lists import ListRequest
from functions.shop.placing import RequestedLine, place_order
from functions.shop.refunds import MAX_PAYMENTS
from functions.shop.shop import ArchiveUnavailable, ShopContext
from proof.support.actors import (
    ANN,
    BOB,
    HOME_ADDRESS,
    STAFF,
    WAREHOUSE,
    advance_to_status,
    archive_order,
    archive_with_object,
    get_order,
    order_after_change,
    pay,
    place,
    place_order_as,
    report_payment,
)
from proof.support.samples import moment
from proof.support.tapped_client import ManualClock
from tests.shop.conftest import TappedShop
from tests.shop.test_discounts import offer
from tests.support.order_money import deliver_order, place_largest_order, return_pieces
from tests.support.pages import every_page

ELSEWHERE = replace(HOME_ADDRESS, street="2 Oak Lane", city="Graz", postcode="8010")


# by phone -------------------------------------------------------------------------------------------------------------
def place_with_phone(shop: ShopContext, key: str, phone: str | None) -> Order:
    address = replace(HOME_ADDRESS, phone=phone)
    order = place_order(shop, ANN, key, {"mug": RequestedLine(1)}, address, {"key": key}).order
    assert isinstance(order, Order)
    return copied(shop, order)


def copied(shop: ShopContext, order: Order) -> Order:
    """Write the copy of an order that finds it by phone, as the stream's reader does."""
    shop.table.write(put_if_newer(ORDER_NUMBER, next(number_of_order(order))))
    return order


def found_by_phone(shop: ShopContext, phone: str) -> list[str]:
    found = every_page(lambda request: orders.list_orders_by_phone(shop, request, phone), 2)
    return [order.order_id for order in found]


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_staff_find_the_orders_with_a_phone_number_with_or_without_the_countrys_prefix(
    shop: TappedShop, count: int
) -> None:
    placed: list[str] = []
    for phone in ("+43 1 234567", "01/234 567", "0043 (0)1 234567")[:count]:
        placed.insert(0, place_with_phone(shop, phone, phone).order_id)
        shop.clock.sleep(60)
    place_with_phone(shop, "none", None)
    place_with_phone(shop, "same end", "+49 30 1 234567")
    place_with_phone(shop, "short", "01 234")
    for phone in ("+43 1 234567", "01 234567", "+43 (0)1 234567", " 43 1 234567"):
        assert found_by_phone(shop, phone) == placed, phone
    assert found_by_phone(shop, "+43 1 234568") == []


def test_only_staff_search_by_phone_and_only_a_number_that_is_long_enough(shop: ShopContext) -> None:
    for caller in (ANN, WAREHOUSE):
        with pytest.raises(NotAllowed):
            orders.list_orders_by_phone(shop, ListRequest(caller, 10), "+43 1 234567")
    with pytest.raises(InvalidInput) as refusal:
        orders.list_orders_by_phone(shop, ListRequest(STAFF, 10), "01 2345")
    assert refusal.value.field == "phone"


def test_an_order_is_found_by_its_present_number_until_it_is_archived_or_its_customer_erased(shop: ShopContext) -> None:
    order = place_with_phone(shop, "moved", "+43 1 234567")
    moved = replace(HOME_ADDRESS, phone="+43 1 765432")
    copied(shop, orders.change_address(shop, ANN, order.order_id, moved))
    assert (found_by_phone(shop, "+43 1 234567"), found_by_phone(shop, "+43 1 765432")) == ([], [order.order_id])
    other = place_with_phone(shop, "archived", "+43 1 765432")
    for one in (order, other):
        copied(shop, advance_to_status(shop, get_order(shop, one.order_id), "CANCELLED"))
    archive_order(shop, other.order_id, to_stub=True)
    stub = orders.get_order(shop, ANN, other.order_id)
    assert isinstance(stub, ArchivedOrder)
    shop.table.write(put_if_newer(ORDER_NUMBER, next(number_of_order(stub))))
    assert found_by_phone(shop, "+43 1 765432") == [order.order_id]
    erased, _ = remove_address_from_order(shop, order.order_id)
    assert isinstance(erased, Order)
    (image,) = (ORDER_NUMBER.encode(next(number_of_order(one))) for one in [copied(shop, erased)])
    assert not {"GSI3PK", "phone_hash"} & image.keys(), "an order without a phone number costs no write of the index"
    assert erased.phone_hash is None


# archived orders ------------------------------------------------------------------------------------------------------
def test_an_archived_order_is_read_from_its_object_by_its_customer_and_staff_alone(shop: ShopContext) -> None:
    order = advance_to_status(shop, place(shop), "RETURNED")
    id = order.order_id
    before = list(shop.table.query_all(ORDER_ITEM_COLLECTION, order_id=id))
    kept = {(type(item).__name__, item.version) for item in before if not isinstance(item, Order | ExpiryMarker)}
    assert {"Invoice", "Payment", "Shipment", "Return", "Refund"} <= {name for name, _ in kept}
    shop = archive_with_object(shop, id)
    reads: list[str] = []
    read = shop.read_archive

    def counted(key: str) -> Sequence[Image]:
        reads.append(key)
        return read(key)

    shop = replace(shop, read_archive=counted)
    for caller in (ANN, STAFF):
        found, stub = orders.get_order_with_lines(shop, caller, id)
        assert (found, stub) == (order, orders.get_order(shop, caller, id))
        pages = {
            Payment: credit_payments.list_payments_of_order(shop, ListRequest(caller, 10), id).items,
            Refund: refunds.list_refunds_of_order(shop, ListRequest(caller, 10), id).items,
            Return: returns.list_returns_of_order(shop, ListRequest(caller, 10), id).items,
            Shipment: shipments.list_shipments_of_order(shop, caller, id),
        }
        for kind, items in pages.items():
            assert list(items) == [item for item in before if isinstance(item, kind)] != []
    assert reads == ["orders/x.json"] * 10, "each read takes one object"
    for caller in (BOB, WAREHOUSE):
        with pytest.raises(NotFound):
            orders.get_order_with_lines(shop, caller, id)
        with pytest.raises(NotFound):
            orders.get_order_item_collection(shop, ListRequest(caller, 10), id)
    assert len(reads) == 10, "the stub shows who may see the order"


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_a_whole_archived_order_has_each_item_once_and_a_late_payment_of_the_table(
    shop: ShopContext, limit: int
) -> None:
    order = advance_to_status(shop, place(shop), "RETURNED")
    before = list(shop.table.query_all(ORDER_ITEM_COLLECTION, order_id=order.order_id))
    shop = archive_with_object(shop, order.order_id)
    report_payment(shop, order, payment_id="pi_late")
    found: list[Any] = []
    cursor: str | None = None
    while True:
        page = orders.get_order_item_collection(shop, ListRequest(ANN, limit, cursor), order.order_id)
        found += page.items
        if (cursor := page.cursor) is None:
            break
    assert found[:2] == [orders.get_order(shop, ANN, order.order_id), order]
    late = [item for item in found if isinstance(item, Payment) and item.payment_id == "pi_late"]
    assert [item.status for item in late] == ["UNMATCHED"]
    others = [item for item in before if not isinstance(item, Order | ExpiryMarker)]
    assert [item for item in found[2:] if item not in late] == others


def test_an_object_that_is_missing_is_named_and_one_that_was_just_replaced_is_read_again(shop: ShopContext) -> None:
    order = advance_to_status(shop, place(shop), "CANCELLED")
    restored = archive_with_object(shop, order.order_id)
    stub = orders.get_order(shop, ANN, order.order_id)
    assert isinstance(stub, ArchivedOrder)
    with pytest.raises(ArchiveUnavailable):
        orders.get_order_with_lines(shop, ANN, order.order_id)

    def replaced(key: str) -> Any:
        point_stub_to_object(shop, stub, "orders/y.json", "01")
        raise ArchiveUnavailable("its object is missing")

    with pytest.raises(TableBusy):
        orders.get_order_with_lines(replace(restored, read_archive=replaced), ANN, order.order_id)


# changes of the delivery address --------------------------------------------------------------------------------------
@pytest.mark.parametrize("status", ["PENDING", "PAID"])
def test_an_order_can_be_sent_elsewhere_until_the_warehouse_has_it(shop: TappedShop, status: str) -> None:
    order = advance_to_status(shop, place(shop), status)
    shop.clock.sleep(60)
    shop.wire.clear()
    moved = orders.change_address(shop, ANN, order.order_id, ELSEWHERE)
    assert shop.wire.operations == ["GetItem", "UpdateItem"]
    assert moved == order_after_change(order, address=ELSEWHERE, version=order.version + 1, updated_at=moment(1))
    assert get_order(shop, order.order_id) == moved
    for caller in (ANN, STAFF):
        assert orders.change_address(shop, caller, order.order_id, ELSEWHERE) == moved, "a repeat changes nothing"
    assert get_order(shop, order.order_id) == moved
    assert orders.change_address(shop, STAFF, order.order_id, HOME_ADDRESS).address == HOME_ADDRESS


def test_an_address_that_comes_when_the_order_was_just_paid_is_not_lost(shop: TappedShop) -> None:
    order = place(shop)
    shop.meanwhile(lambda rival: pay(rival, order), "UpdateItem")
    moved = orders.change_address(shop, ANN, order.order_id, ELSEWHERE)
    assert (moved.status, moved.address, get_order(shop, order.order_id)) == ("PAID", ELSEWHERE, moved)


# timelines ------------------------------------------------------------------------------------------------------------
def change_address(shop: ShopContext, clock: ManualClock, order_id: str, times: int) -> None:
    for number in range(times):
        clock.sleep(60)
        orders.change_address(shop, ANN, order_id, replace(HOME_ADDRESS, street=f"{clock.now} Elm Row {number}"))


def owned(shop: ShopContext, order_id: str) -> list[Any]:
    return list(shop.table.query_all(ORDER_ITEM_COLLECTION, order_id=order_id))


def test_an_order_with_many_changes_keeps_the_latest_and_moves_the_earlier_entries(shop: TappedShop) -> None:
    order_id = place_order_as(shop, ANN, "k", mug=1).order.order_id
    change_address(shop, shop.clock, order_id, MAX_ENTRIES)
    assert [type(item) for item in owned(shop, order_id)] == [Order]
    shop.wire.clear()
    change_address(shop, shop.clock, order_id, 1)
    assert [name for name in shop.wire.operations if name not in ("GetItem", "Query")] == ["TransactWriteItems"]
    earlier, order = sorted(owned(shop, order_id), key=lambda item: type(item).__name__)
    assert isinstance(earlier, EarlierTimeline)
    assert (earlier.first_version, len(earlier.entries)) == (2, MAX_ENTRIES + 1 - KEPT_ENTRIES)
    assert len(order.timeline) == KEPT_ENTRIES
    change_address(shop, shop.clock, order_id, 2 * MAX_ENTRIES)
    events = merge_timeline(owned(shop, order_id))
    assert [event.version for event in events] == list(range(1, 3 + 3 * MAX_ENTRIES))
    assert [event.event for event in events] == ["OrderPlaced", *["OrderAddressChanged"] * (1 + 3 * MAX_ENTRIES)]
    assert [event.at for event in events] == sorted({event.at for event in events})


def test_the_largest_return_of_an_order_with_many_changes_is_one_transaction(shop: TappedShop) -> None:
    offer(shop, rate=100, limit=1)
    placed = place_largest_order(shop, code="SPRING")
    others = len(["fulfilling", "shipped", "delivered"]) + MAX_PAYMENTS
    change_address(shop, shop.clock, placed.order_id, MAX_ENTRIES - others)
    order = deliver_order(shop, placed)
    shop.wire.clear()
    return_pieces(shop, order, **dict.fromkeys(order.lines, 1))
    (returned,) = (request.body for request in shop.wire.requests if request.operation == "TransactWriteItems")
    assert len(returned["TransactItems"]) == 100, "there is no room for the earlier entries"
    assert [type(item) for item in owned(shop, placed.order_id) if isinstance(item, EarlierTimeline)] == []
    events = merge_timeline(owned(shop, placed.order_id))
    assert [event.version for event in events] == list(range(1, len(events) + 1))
    assert events[-1].event == "OrderReturned"
