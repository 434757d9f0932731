"""Tests the copies of a customer's name on open orders: their cost, their pages, and concurrent changes."""

from dataclasses import replace
from datetime import timedelta

import pytest

from functions.dynamodb.keys import to_instant
from functions.dynamodb.writes import WriteConflict, put_if_absent
from functions.model.copies import order_summary
from functions.model.entities import Order, ReactionProgress
from functions.model.patterns import REACTION_PROGRESS_BY_ID
from functions.model.table import ORDER, ORDER_SUMMARY, REACTION_PROGRESS
from functions.shop import customer_names
from functions.shop.cancellation import cancel_order
from functions.shop.customer_names import propagate_name, refresh_name
from functions.shop.customers import change_profile
from functions.shop.erasure import erase_customer
from functions.shop.shop import ShopContext
from proof.support.actors import ANN, BOB, get_order, pay, place, place_order_as
from proof.support.client_faults import ProcessKilled
from proof.support.samples import order as sample
from proof.support.tapped_client import START
from tests.shop.conftest import TappedShop

PAGE, MORE = 5, 2
PAST_A_PAGE = PAGE + MORE
CHANGE = "change-1"


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(customer_names, "ORDERS_PER_PAGE", PAGE)


def listed(shop: ShopContext, order: Order) -> Order:
    """Write the summary of an order, as the copies reader does. Return the order."""
    (copy,) = order_summary(order)
    shop.table.write(put_if_absent(ORDER_SUMMARY, copy))
    return order


def many(shop: ShopContext, number: int) -> list[str]:
    """Create this number of open orders of Ann. Return their ids, newest first."""
    for n in range(number):
        placed_at = to_instant(START - timedelta(hours=n))
        one = sample(order_id=f"o{n:03}", placed_at=placed_at, updated_at=placed_at, status="PAID")
        shop.table.write(put_if_absent(ORDER, listed(shop, one)))
    return [f"o{n:03}" for n in range(number)]


def names_on(shop: ShopContext, ids: list[str]) -> list[str | None]:
    return [get_order(shop, id).customer_name for id in ids]


def test_a_name_on_an_order_is_one_update_of_the_order_and_its_index_entry_alone(shop: TappedShop) -> None:
    order = listed(shop, place(shop, mug=1))
    change_profile(shop, ANN, ANN.id, "Ann Elm")
    shop.wire.clear()
    assert propagate_name(shop, CHANGE, ANN.id) == 1
    assert shop.wire.operations == ["GetItem", "GetItem", "Query", "UpdateItem"]
    assert dict(shop.wire.units_of) == {"GetItem": 1.0 + 1.0, "Query": 1.0, "UpdateItem": 1.0 + 1.0}
    assert get_order(shop, order.order_id) == replace(order, customer_name="Ann Elm", customer_version=2)


def test_copying_an_unchanged_name_to_an_order_costs_one_read(shop: TappedShop) -> None:
    order = place(shop, mug=1)
    shop.wire.clear()
    refresh_name(shop, order)
    assert (shop.wire.operations, shop.wire.units) == (["GetItem"], 1.0)


def test_every_open_order_past_one_page_has_the_name_and_the_pages_are_noted(shop: TappedShop) -> None:
    ids = many(shop, PAST_A_PAGE)
    change_profile(shop, ANN, ANN.id, "Ann Elm")
    shop.wire.clear()
    assert propagate_name(shop, CHANGE, ANN.id) == PAST_A_PAGE
    assert shop.wire.operations.count("Query") == 2
    assert shop.wire.operations.count("UpdateItem") == PAST_A_PAGE
    assert shop.wire.operations.count("PutItem") == 1, "the position of the second page is stored"
    assert set(names_on(shop, ids)) == {"Ann Elm"}


def test_another_delivery_goes_on_where_the_one_before_died(shop: TappedShop) -> None:
    ids = many(shop, PAST_A_PAGE)
    change_profile(shop, ANN, ANN.id, "Ann Elm")

    shop.wire.run_before_call("PutItem", lambda: shop.wire.crash_at("Query"))
    with pytest.raises(ProcessKilled):
        propagate_name(shop, CHANGE, ANN.id)
    assert names_on(shop, ids) == ["Ann Elm"] * PAGE + ["Ann Ash"] * MORE
    shop.wire.clear()
    assert propagate_name(shop, CHANGE, ANN.id) == MORE
    assert shop.wire.operations.count("UpdateItem") == MORE, "orders that have the name already are not written again"
    assert set(names_on(shop, ids)) == {"Ann Elm"}


def test_two_deliveries_at_once_do_not_hide_from_each_other_how_far_they_are(shop: TappedShop) -> None:
    ids = many(shop, 2 * PAGE + MORE)
    change_profile(shop, ANN, ANN.id, "Ann Elm")
    first = ReactionProgress(
        effect_id=CHANGE, reaction="customer_name", result="ORDER#~", created_at=shop.now_instant(), ttl=2**33
    )
    shop.table.write(put_if_absent(REACTION_PROGRESS, first))
    shop.meanwhile(lambda rival: propagate_name(rival, CHANGE, ANN.id), "PutItem")
    with pytest.raises(WriteConflict):
        propagate_name(shop, CHANGE, ANN.id)
    mark = shop.table.get(REACTION_PROGRESS_BY_ID, effect_id=CHANGE, reaction="customer_name")
    assert mark is not None
    assert mark.result.endswith(f"#o{2 * PAGE - 1:03}")
    assert set(names_on(shop, ids)) == {"Ann Elm"}
    assert propagate_name(shop, CHANGE, ANN.id) == MORE, "only the orders of the last page are written"


def test_an_older_name_never_replaces_a_newer_one(shop: TappedShop) -> None:
    """A worker that read the customer before a second rename writes to the order after all other workers."""
    order = listed(shop, place(shop, mug=1))
    change_profile(shop, ANN, ANN.id, "Ann Elm")

    def once_more() -> None:
        change_profile(shop.rival, ANN, ANN.id, "Ann Oak")
        assert propagate_name(shop.rival, "change-2", ANN.id) == 1

    shop.wire.run_before_call("Query", once_more)
    assert propagate_name(shop, CHANGE, ANN.id) == 0
    found = get_order(shop, order.order_id)
    assert (found.customer_name, found.customer_version) == ("Ann Oak", 3)


def test_a_copied_name_does_not_conflict_with_a_change_of_the_order(shop: TappedShop) -> None:
    order = listed(shop, place(shop, mug=1))
    change_profile(shop, ANN, ANN.id, "Ann Elm")
    shop.wire.clear()
    shop.meanwhile(lambda rival: propagate_name(rival, CHANGE, ANN.id))
    pay(shop, order)
    assert shop.wire.operations.count("TransactWriteItems") == 1, "the command was not decided again"
    found = get_order(shop, order.order_id)
    assert (found.status, found.version, found.customer_name) == ("PAID", order.version + 1, "Ann Elm")


def test_an_order_that_is_closed_meanwhile_keeps_the_name_it_had(shop: TappedShop) -> None:
    order = listed(shop, place(shop, mug=1))
    change_profile(shop, ANN, ANN.id, "Ann Elm")
    shop.meanwhile(lambda rival: cancel_order(rival, ANN, order.order_id), "UpdateItem")
    assert propagate_name(shop, CHANGE, ANN.id) == 0
    closed = get_order(shop, order.order_id)
    assert (closed.status, closed.customer_name) == ("CANCELLED", "Ann Ash")
    refresh_name(shop, closed)
    refresh_name(shop, order)
    assert get_order(shop, order.order_id) == closed


def test_another_customers_orders_keep_their_name(shop: ShopContext) -> None:
    theirs = place_order_as(shop, BOB, "key-1", mug=1).order
    assert isinstance(theirs, Order)
    listed(shop, theirs)
    change_profile(shop, ANN, ANN.id, "Ann Elm")
    assert propagate_name(shop, CHANGE, ANN.id) == 0
    before = get_order(shop, theirs.order_id)
    assert propagate_name(shop, CHANGE, BOB.id) == 1, "the other order has the name already"
    assert get_order(shop, theirs.order_id) == before
    assert get_order(shop, theirs.order_id).customer_name == "Bob Birch"


def test_an_order_without_a_customer_is_not_changed(shop: ShopContext) -> None:
    shop.table.write(put_if_absent(ORDER, listed(shop, sample(customer_id="nobody"))))
    assert propagate_name(shop, CHANGE, "nobody") == 0
    refresh_name(shop, get_order(shop, "o1"))
    assert get_order(shop, "o1").customer_name == "Ann Ash"


def test_an_erased_customer_has_no_name_on_open_orders(shop: ShopContext) -> None:
    order = listed(shop, place(shop, mug=1))
    erase_customer(shop, ANN, ANN.id)
    refresh_name(shop, order)
    found = get_order(shop, order.order_id)
    assert (found.customer_name, found.customer_version) == (None, 2)
    assert found.address is not None, "the order must still be sent"
