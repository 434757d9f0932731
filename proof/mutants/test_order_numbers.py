"""Order numbers: an item of its own finds an order by the number that mails show, also after the order is archived."""

from functions.shop import orders
from functions.shop.lists import ListRequest
from functions.shop.shop import Caller
from local.world.harness import ANN, STAFF, ShopHarness
from proof.mutants.items import stored_items, stored_order, text
from proof.support.archiving import create_delivered_order


def found_by(harness: ShopHarness, number: str, caller: Caller = STAFF) -> list[str]:
    """Return the ids of the orders that this caller finds by a number."""
    page = orders.list_orders_by_number(harness.shop, ListRequest(caller, 10), number)
    return sorted(order.order_id for order in page.items)


def test_an_order_is_found_by_its_number_in_any_case_and_by_its_customer_and_staff_only(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order()
    harness.process_all()
    assert found_by(harness, order_id[:8].upper(), ANN) == [order_id]
    assert found_by(harness, order_id[:8].lower()) == [order_id]
    assert found_by(harness, order_id[:8], Caller("bob")) == []


def test_an_order_is_found_by_its_whole_id_before_its_number_is_written(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order()
    assert (found_by(harness, order_id.upper()), found_by(harness, order_id[:8])) == ([order_id], [])


def test_an_archived_order_is_found_by_its_number(harness: ShopHarness) -> None:
    order_id = create_delivered_order(harness)
    harness.advance_days(396)
    harness.process_all()
    assert text(stored_order(harness, order_id), "type") == "ArchivedOrder"
    assert found_by(harness, order_id[:8].upper(), ANN) == [order_id]


def test_two_orders_with_the_same_number_are_both_found_and_each_by_its_id(harness: ShopHarness) -> None:
    """No two keys of a test give the same number, so the second order is a copy of the first with another id."""
    harness.open_shop()
    one = harness.place_order()
    (image,) = stored_items(harness, "Order")
    other = one[:8] + one[8:][::-1]
    table = harness.shop.table
    copied = {**image, "PK": {"S": f"ORDER#{other}"}, "order_id": {"S": other}}
    table.client.put_item(TableName=table.name, Item=copied)
    harness.process_all()
    assert found_by(harness, one[:8]) == sorted([one, other])
    assert (found_by(harness, one), found_by(harness, other)) == ([one], [other])
