"""Customers: one registration with a unique address, settings, and access."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pytest

from functions.dynamodb.writes import put_if_absent
from functions.model import table as t
from functions.model.errors import AlreadyExists, EmailTaken, NotFound, NotRegistered, WrongState
from functions.shop import customers, erasure
from functions.shop.lists import ListRequest
from functions.shop.orders import list_orders_of_customer
from functions.shop.shop import Caller, ShopContext
from functions.shop.unsubscribe import create_unsubscribe_token, unsubscribe
from proof.support.actors import ANN, BOB, STAFF, place
from proof.support.client_faults import WireTap
from proof.support.samples import SAMPLES, moment
from proof.support.tapped_client import ManualClock

EVE = Caller("eve")


def test_a_customer_registers_in_one_transaction(shop: ShopContext, wire: WireTap) -> None:
    made = customers.register_customer(shop, EVE, "Eve@Example.com", "Eve Elder")
    assert wire.operations == ["TransactWriteItems"]
    assert made == customers.get_customer(shop, EVE, "eve")
    assert (made.name, made.email, made.created_at, made.version) == ("Eve Elder", "Eve@Example.com", moment(), 1)


def test_a_repeated_registration_returns_the_customer_as_stored(
    shop: ShopContext, clock: ManualClock, wire: WireTap
) -> None:
    made = customers.register_customer(shop, EVE, "eve@example.com", "Eve Elder")
    clock.sleep(60)
    wire.clear()
    assert customers.register_customer(shop, EVE, "eve@example.com", "Eve Elder") == made
    assert wire.operations == ["TransactWriteItems"]


def test_a_customer_cannot_register_twice_with_different_data(shop: ShopContext) -> None:
    with pytest.raises(AlreadyExists):
        customers.register_customer(shop, ANN, "ann@example.com", "Ann Oak")
    with pytest.raises(AlreadyExists):
        customers.register_customer(shop, ANN, "another@example.com", "Ann Oak")
    assert customers.get_customer(shop, ANN, "ann").name == "Ann Ash"
    with pytest.raises(NotFound):
        customers.get_customer_by_email(shop, STAFF, "another@example.com")


SPELLINGS = ["ann@example.com", " ANN@example.com\t", "Ann@Example.COM", "\uff41nn@example.com"]


@pytest.mark.parametrize("spelling", SPELLINGS, ids=ascii)
def test_an_address_in_any_spelling_is_one_customers_alone(shop: ShopContext, spelling: str) -> None:
    with pytest.raises(EmailTaken):
        customers.register_customer(shop, EVE, spelling, "Eve Elder")
    with pytest.raises(NotFound):
        customers.get_customer(shop, EVE, "eve")
    assert customers.get_customer_by_email(shop, STAFF, spelling).customer_id == "ann"


def test_of_two_concurrent_registrations_with_one_address_only_one_succeeds(
    shop: ShopContext, rival: ShopContext, wire: WireTap
) -> None:
    other = Caller("eva")
    wire.run_before_call(
        "TransactWriteItems", lambda: customers.register_customer(rival, other, "eve@example.com", "Eva")
    )
    with pytest.raises(EmailTaken):
        customers.register_customer(shop, EVE, "eve@example.com", "Eve")
    assert customers.get_customer_by_email(shop, STAFF, "eve@example.com").customer_id == "eva"


def test_an_address_is_hashed_with_the_pepper_of_the_shop(shop: ShopContext) -> None:
    digest = customers.hash_email(shop, "ann@example.com")
    assert digest != customers.hash_email(replace(shop, pepper=lambda: b"another"), "ann@example.com")
    assert len(digest) == 32
    assert "ann" not in digest


@pytest.mark.parametrize("caller", [ANN, STAFF], ids=lambda caller: caller.id)
def test_an_erased_customer_is_unknown_at_once_and_stays_erased(shop: ShopContext, caller: Caller) -> None:
    first = erasure.erase_customer(shop, caller, "ann")
    assert (first.status, erasure.erase_customer(shop, caller, "ann")) == ("ERASING", first)
    with pytest.raises(NotFound):
        customers.get_customer(shop, ANN, "ann")
    with pytest.raises(NotFound):
        customers.get_customer_by_email(shop, STAFF, "ann@example.com")
    with pytest.raises(NotRegistered):
        place(shop)
    with pytest.raises(WrongState):
        customers.register_customer(shop, ANN, "ann@example.com", "Ann Ash")
    customers.register_customer(shop, EVE, "ann@example.com", "Somebody new")


def test_a_name_is_changed_and_nothing_else(shop: ShopContext, clock: ManualClock, wire: WireTap) -> None:
    before = customers.get_customer(shop, ANN, "ann")
    clock.sleep(60)
    after_it = customers.change_profile(shop, ANN, "ann", "Ann Oak")
    assert after_it == replace(before, name="Ann Oak", version=2, updated_at=moment(1))
    wire.clear()
    assert customers.change_profile(shop, ANN, "ann", "Ann Oak") == after_it, "a repeated command writes nothing"
    assert wire.operations == ["GetItem"]


# settings ---------------------------------------------------------------------------------------------------
KINDS = ("order_changes", "shipments", "refunds", "product_alerts")


def test_settings_have_defaults(shop: ShopContext) -> None:
    assert customers.list_settings_of_customer(shop, ANN, "ann") == ()
    assert all(customers.wants_mails((), kind) for kind in KINDS)


def test_a_choice_leaves_the_others_and_the_profile_as_they_are(shop: ShopContext, wire: WireTap) -> None:
    profile = customers.get_customer(shop, ANN, "ann")
    customers.update_settings(shop, ANN, "ann", "notifications", {"refunds": False})
    chosen = customers.update_settings(shop, ANN, "ann", "notifications", {"email": False})
    assert chosen.choices == {"email": False, **dict.fromkeys(KINDS, True), "refunds": False}
    assert customers.list_settings_of_customer(shop, ANN, "ann") == (chosen,)
    assert customers.get_customer(shop, ANN, "ann") == profile
    assert not any(customers.wants_mails((chosen,), kind) for kind in KINDS)
    wire.clear()
    assert customers.update_settings(shop, ANN, "ann", "notifications", {"email": False}) == chosen
    assert wire.operations == ["GetItem"], "a command without a change writes nothing"


def test_each_kind_of_mails_can_be_turned_off_alone_and_a_choice_of_before_is_ignored(shop: ShopContext) -> None:
    settings = customers.update_settings(shop, ANN, "ann", "notifications", {"shipments": False})
    older = replace(settings, choices={"email": True, "sms": True, "shipments": False})
    for stored in (settings, older):
        assert [kind for kind in KINDS if not customers.wants_mails((stored,), kind)] == ["shipments"]
        assert customers.notification_choices((stored,)).keys() == {"email", *KINDS}


def test_an_unsubscribe_link_does_not_undo_a_later_choice(shop: ShopContext, clock: ManualClock) -> None:
    def choices() -> Mapping[str, bool]:
        return customers.notification_choices(customers.list_settings_of_customer(shop, ANN, "ann"))

    old = create_unsubscribe_token(shop, "ann", "product_alerts")
    clock.sleep(1)
    customers.update_settings(shop, ANN, "ann", "notifications", {"refunds": False})
    assert unsubscribe(shop, old)
    assert not choices()["product_alerts"], "a choice about other mails does not change this choice"
    clock.sleep(1)
    customers.update_settings(shop, ANN, "ann", "notifications", {"product_alerts": True})
    assert not unsubscribe(shop, old)
    assert choices()["product_alerts"]
    clock.sleep(1)
    assert unsubscribe(shop, create_unsubscribe_token(shop, "ann", "product_alerts"))
    assert not choices()["product_alerts"]


def test_only_a_registered_customer_can_choose_settings(shop: ShopContext) -> None:
    with pytest.raises(NotFound):
        customers.update_settings(shop, EVE, "eve", "notifications", {"email": False})


@pytest.mark.parametrize("first", [{}, {"refunds": True}], ids=["the first ever", "later"])
def test_two_choices_at_once_are_both_kept(
    shop: ShopContext, rival: ShopContext, wire: WireTap, first: dict[str, bool]
) -> None:
    if first:
        customers.update_settings(shop, ANN, "ann", "notifications", first)
    no_refunds = {"refunds": False}
    other = partial(customers.update_settings, rival, ANN, "ann", "notifications", no_refunds)
    wire.run_before_call("UpdateItem" if first else "TransactWriteItems", other)
    chosen = customers.update_settings(shop, ANN, "ann", "notifications", {"email": False})
    assert chosen.choices == {"email": False, **dict.fromkeys(KINDS, True), "refunds": False}


def test_a_choice_and_an_erasure_at_once_leave_no_settings(
    shop: ShopContext, rival: ShopContext, wire: WireTap
) -> None:
    wire.run_before_call("TransactWriteItems", lambda: erasure.erase_customer(rival, ANN, "ann"))
    with pytest.raises(NotFound):
        customers.update_settings(shop, ANN, "ann", "notifications", {"email": False})
    assert customers.list_settings_of_customer(shop, ANN, "ann") == ()


def test_an_erasure_sees_the_choice_that_is_made_just_before_it(
    shop: ShopContext, rival: ShopContext, wire: WireTap
) -> None:
    no_refunds = {"refunds": False}
    other = partial(customers.update_settings, rival, ANN, "ann", "notifications", no_refunds)
    wire.run_before_call("TransactWriteItems", other)
    erasure.erase_customer(shop, ANN, "ann")
    assert customers.list_settings_of_customer(shop, ANN, "ann") == ()


# the page ---------------------------------------------------------------------------------------------------
def summarise(shop: ShopContext, number: int) -> None:
    """Write this number of summaries of Ann's orders."""
    for n in range(number):
        summary = replace(SAMPLES[t.ORDER_SUMMARY], order_id=f"o{n}", placed_at=moment(n))
        shop.table.write(put_if_absent(t.ORDER_SUMMARY, summary))


def test_a_page_is_profile_settings_and_newest_orders_in_one_query(shop: ShopContext, wire: WireTap) -> None:
    customers.update_settings(shop, ANN, "ann", "notifications", {"refunds": False})
    summarise(shop, 5)
    shop.table.write(
        put_if_absent(t.NOTIFICATION, SAMPLES[t.NOTIFICATION]), put_if_absent(t.ACTIVITY, SAMPLES[t.ACTIVITY])
    )
    wire.clear()
    page = customers.get_customer_overview(shop, ListRequest(ANN, 5), "ann")
    assert wire.operations == ["Query"]
    assert (page.customer.name, [each.choices["refunds"] for each in page.settings]) == ("Ann Ash", [False])
    assert [each.order_id for each in page.orders] == ["o4", "o3", "o2"]
    older = list_orders_of_customer(shop, ListRequest(ANN, 10, page.cursor), "ann")
    assert [each.order_id for each in older.items] == ["o1", "o0"]


def test_a_page_of_a_customer_with_nothing_yet_is_the_profile(shop: ShopContext) -> None:
    page = customers.get_customer_overview(shop, ListRequest(BOB, 10), "bob")
    assert (page.customer.name, page.settings, page.orders, page.cursor) == ("Bob Birch", (), (), None)
    with pytest.raises(NotFound):
        customers.get_customer_overview(shop, ListRequest(EVE, 10), "eve")


def test_a_page_that_ends_before_the_first_order_goes_on_with_it(shop: ShopContext) -> None:
    customers.update_settings(shop, ANN, "ann", "notifications", {"refunds": False})
    summarise(shop, 2)
    page = customers.get_customer_overview(shop, ListRequest(ANN, 2), "ann")
    assert page.orders == ()
    assert [
        each.order_id for each in list_orders_of_customer(shop, ListRequest(ANN, 10, page.cursor), "ann").items
    ] == ["o1", "o0"]
