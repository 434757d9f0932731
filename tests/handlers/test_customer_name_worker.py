"""Tests that a customer's new name reaches every open order, but no closed order and no event."""

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from functions.handlers import copies_reader, customer_name_worker
from functions.shop import cancellation, customers, guests, orders
from functions.shop.customer_names import set_customer_name
from local.world.harness import ANN, STAFF, ShopHarness
from ops.repair.rebuild import rebuild_copies, redrive_record, republish_events
from proof.support.actors import get_order, place_guest_order
from proof.support.client_faults import run_before_call
from tests.support.handlers import failed_ids, published

Message = dict[str, Any]


def rename(harness: ShopHarness, name: str) -> None:
    customers.change_profile(harness.shop, ANN, ANN.id, name)


def name_on(harness: ShopHarness, order_id: str) -> tuple[str | None, int]:
    order = get_order(harness.shop, order_id)
    return order.customer_name, order.customer_version


handle = partial(failed_ids, customer_name_worker)


def has_gone(harness: ShopHarness, key: str, *, to_the_archive: bool = False) -> str:
    """Deliver an order, and archive it with `to_the_archive`. Return its id."""
    order_id = harness.place_order(key, mug=1)
    harness.pay_order(order_id, f"evt_{key}", f"pi_{key}")
    harness.process_all()
    harness.dispatch_order(order_id)
    harness.deliver_order(order_id)
    harness.process_all()
    if to_the_archive:
        harness.advance_days(days=396)
        harness.process_all()
    return order_id


# a new name -----------------------------------------------------------------------------------------------------------
def test_a_name_of_a_guest_does_not_reach_the_order_that_moved_to_an_account_meanwhile(harness: ShopHarness) -> None:
    """The simulation found that the guest's version can be later than the account's."""
    harness.open_shop()
    order = place_guest_order(harness.shop, email="ann@example.com", pot=1).placed.order
    guests.renew_link(harness.shop, STAFF, order.order_id)
    guest = customers.get_customer(harness.shop, STAFF, order.customer_id)
    guests.join_orders(harness.shop, ANN, ANN.id)
    joined = name_on(harness, order.order_id)
    assert joined[1] < guest.version
    assert not set_customer_name(harness.shop, order.order_id, guest)
    assert name_on(harness, order.order_id) == joined


def test_a_new_name_reaches_every_open_order_and_no_closed_one(harness: ShopHarness) -> None:
    harness.open_shop()
    archived, delivered = has_gone(harness, "one", to_the_archive=True), has_gone(harness, "two")
    cancelled, packed, waiting = (harness.place_order(key, pot=1) for key in ("three", "four", "five"))
    cancellation.cancel_order(harness.shop, ANN, cancelled)
    harness.pay_order(packed, "evt_4", "pi_4")
    harness.process_all()
    before = [get_order(harness.shop, id) for id in (packed, waiting, delivered, cancelled)]
    stub, objects = orders.get_order(harness.shop, STAFF, archived), harness.objects("archive")

    rename(harness, "Ann Elm")
    harness.process_all(times=2)

    named = {"customer_name": "Ann Elm", "customer_version": 2}
    expected = [*(replace(order, **named) for order in before[:2]), *before[2:]]  # type: ignore[arg-type]
    assert [get_order(harness.shop, order.order_id) for order in before] == expected
    assert (orders.get_order(harness.shop, STAFF, archived), harness.objects("archive")) == (stub, objects)


# concurrent changes ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("reaction", ["before the order's copies are made", "after they are made"])
def test_an_order_that_is_placed_while_its_customer_is_renamed_has_the_new_name_in_the_end(
    harness: ShopHarness, reaction: str
) -> None:
    """The order's command has read the old name. The reaction may run before the order's summary exists."""
    harness.open_shop()
    with run_before_call("dynamodb", "TransactWriteItems", lambda: rename(harness, "Ann Elm")):
        order_id = harness.place_order()
    assert name_on(harness, order_id) == ("Ann Ash", 1)
    if reaction == "before the order's copies are made":
        assert handle(*published(harness, "customer_name")) == []
        assert name_on(harness, order_id) == ("Ann Ash", 1), "the order is in no list yet"
        copies_reader.handler({"Records": harness.all_records}, None)
    else:
        harness.process_all(("copies_reader",))
    assert name_on(harness, order_id) == ("Ann Elm", 2)


# failures -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("lost", ["copies_reader", "event_publisher"])
def test_a_name_that_a_reader_lost_is_recovered_from_the_state(harness: ShopHarness, lost: str) -> None:
    harness.open_shop()
    with run_before_call("dynamodb", "TransactWriteItems", lambda: rename(harness, "Ann Elm")):
        racing = harness.place_order("racing")
    harness.process_all(("event_publisher",) if lost == "copies_reader" else ("copies_reader",))
    if lost == "event_publisher":
        rename(harness, "Ann Oak")
        harness.process_all(("copies_reader",))
    assert name_on(harness, racing)[0] != customers.get_customer(harness.shop, ANN, ANN.id).name
    if lost == "copies_reader":
        rebuild_copies(harness.shop)
    else:
        details: list[Any] = []
        republish_events(harness.shop, details.extend)
        renamed = [detail for detail in details if detail["type"] == "CustomerRenamed"]
        assert handle(*({"messageId": "m", "body": json.dumps({"detail": detail})} for detail in renamed)) == []
    assert name_on(harness, racing)[0] == customers.get_customer(harness.shop, ANN, ANN.id).name


def test_a_redriven_old_record_of_an_order_writes_the_current_name(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order()
    (placed,) = [one for one in harness.new_records() if one["dynamodb"]["Keys"]["PK"]["S"] == f"ORDER#{order_id}"]
    rename(harness, "Ann Elm")
    redrive_record(harness.shop, lambda details: None, placed)
    assert name_on(harness, order_id) == ("Ann Elm", 2)
