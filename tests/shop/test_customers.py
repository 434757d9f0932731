"""Customers: one registration with a unique address, also when addresses change, settings, and access."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from functions.dynamodb.errors import TableBusy
from functions.dynamodb.writes import put_if_absent
from functions.model import table as t
from functions.model.entities import Customer
from functions.model.errors import AlreadyExists, EmailTaken, NotFound, NotRegistered, WrongState
from functions.model.patterns import CUSTOMER_BY_EMAIL, CUSTOMER_BY_ID
from functions.shop import customers, erasure
from functions.shop.lists import ListRequest
from functions.shop.orders import list_orders_of_customer
from functions.shop.shop import Caller, ShopContext
from functions.shop.unsubscribe import create_unsubscribe_token, unsubscribe
from proof.support.actors import ANN, BOB, STAFF, place, run_in_threads
from proof.support.samples import SAMPLES, moment
from tests.shop.conftest import TappedShop, everything

EVE = Caller("eve")


def test_a_customer_registers_in_one_transaction(shop: TappedShop) -> None:
    made = customers.register_customer(shop, EVE, "Eve@Example.com", "Eve Elder")
    assert shop.wire.operations == ["TransactWriteItems"]
    assert made == customers.get_customer(shop, EVE, "eve")
    assert (made.name, made.email, made.created_at, made.version) == ("Eve Elder", "Eve@Example.com", moment(), 1)
    shop.clock.sleep(60)
    assert customers.register_customer(shop, EVE, "Eve@Example.com", "Eve Elder") == made, "as it is stored"


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


def test_of_two_concurrent_registrations_with_one_address_only_one_succeeds(shop: TappedShop) -> None:
    other = Caller("eva")
    shop.meanwhile(lambda rival: customers.register_customer(rival, other, "eve@example.com", "Eva"))
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


def test_a_name_is_changed_and_nothing_else(shop: TappedShop) -> None:
    before = customers.get_customer(shop, ANN, "ann")
    shop.clock.sleep(60)
    after_it = customers.change_profile(shop, ANN, "ann", "Ann Oak")
    assert after_it == replace(before, name="Ann Oak", version=2, updated_at=moment(1))


# settings ---------------------------------------------------------------------------------------------------
KINDS = ("order_changes", "shipments", "refunds", "product_alerts")


def test_a_choice_leaves_the_others_and_the_profile_as_they_are(shop: TappedShop) -> None:
    profile = customers.get_customer(shop, ANN, "ann")
    assert customers.list_settings_of_customer(shop, ANN, "ann") == ()
    assert all(customers.wants_mails((), kind) for kind in KINDS), "by default"
    customers.update_settings(shop, ANN, "ann", "notifications", {"refunds": False})
    chosen = customers.update_settings(shop, ANN, "ann", "notifications", {"email": False})
    assert chosen.choices == {"email": False, **dict.fromkeys(KINDS, True), "refunds": False}
    assert customers.list_settings_of_customer(shop, ANN, "ann") == (chosen,)
    assert customers.get_customer(shop, ANN, "ann") == profile
    assert not any(customers.wants_mails((chosen,), kind) for kind in KINDS)
    shop.wire.clear()
    assert customers.update_settings(shop, ANN, "ann", "notifications", {"email": False}) == chosen
    assert shop.wire.operations == ["GetItem"], "a command without a change writes nothing"


def test_each_kind_of_mails_can_be_turned_off_alone_and_a_choice_of_before_is_ignored(shop: ShopContext) -> None:
    settings = customers.update_settings(shop, ANN, "ann", "notifications", {"shipments": False})
    older = replace(settings, choices={"email": True, "sms": True, "shipments": False})
    for stored in (settings, older):
        assert [kind for kind in KINDS if not customers.wants_mails((stored,), kind)] == ["shipments"]
        assert customers.notification_choices((stored,)).keys() == {"email", *KINDS}


def test_an_unsubscribe_link_does_not_undo_a_later_choice(shop: TappedShop) -> None:
    def choices() -> Mapping[str, bool]:
        return customers.notification_choices(customers.list_settings_of_customer(shop, ANN, "ann"))

    old = create_unsubscribe_token(shop, "ann", "product_alerts")
    shop.clock.sleep(1)
    customers.update_settings(shop, ANN, "ann", "notifications", {"refunds": False})
    assert unsubscribe(shop, old)
    assert not choices()["product_alerts"], "a choice about other mails does not change this choice"
    shop.clock.sleep(1)
    customers.update_settings(shop, ANN, "ann", "notifications", {"product_alerts": True})
    assert not unsubscribe(shop, old)
    assert choices()["product_alerts"]
    shop.clock.sleep(1)
    assert unsubscribe(shop, create_unsubscribe_token(shop, "ann", "product_alerts"))
    assert not choices()["product_alerts"]


def test_only_a_registered_customer_can_choose_settings(shop: ShopContext) -> None:
    with pytest.raises(NotFound):
        customers.update_settings(shop, EVE, "eve", "notifications", {"email": False})


@pytest.mark.parametrize("first", [{}, {"refunds": True}], ids=["the first ever", "later"])
def test_two_choices_at_once_are_both_kept(shop: TappedShop, first: dict[str, bool]) -> None:
    if first:
        customers.update_settings(shop, ANN, "ann", "notifications", first)
    no_refunds = {"refunds": False}
    other = partial(customers.update_settings, shop.rival, ANN, "ann", "notifications", no_refunds)
    shop.wire.run_before_call("UpdateItem" if first else "TransactWriteItems", other)
    chosen = customers.update_settings(shop, ANN, "ann", "notifications", {"email": False})
    assert chosen.choices == {"email": False, **dict.fromkeys(KINDS, True), "refunds": False}


def test_a_choice_and_an_erasure_at_once_leave_no_settings(shop: TappedShop) -> None:
    shop.meanwhile(lambda rival: erasure.erase_customer(rival, ANN, "ann"))
    with pytest.raises(NotFound):
        customers.update_settings(shop, ANN, "ann", "notifications", {"email": False})
    assert customers.list_settings_of_customer(shop, ANN, "ann") == ()


def test_an_erasure_sees_the_choice_that_is_made_just_before_it(shop: TappedShop) -> None:
    no_refunds = {"refunds": False}
    other = partial(customers.update_settings, shop.rival, ANN, "ann", "notifications", no_refunds)
    shop.wire.run_before_call("TransactWriteItems", other)
    erasure.erase_customer(shop, ANN, "ann")
    assert customers.list_settings_of_customer(shop, ANN, "ann") == ()


# the page ---------------------------------------------------------------------------------------------------
def summarise(shop: ShopContext, number: int) -> None:
    for n in range(number):
        summary = replace(SAMPLES[t.ORDER_SUMMARY], order_id=f"o{n}", placed_at=moment(n))
        shop.table.write(put_if_absent(t.ORDER_SUMMARY, summary))


def test_a_page_is_profile_settings_and_newest_orders_in_one_query(shop: TappedShop) -> None:
    customers.update_settings(shop, ANN, "ann", "notifications", {"refunds": False})
    summarise(shop, 5)
    shop.table.write(
        put_if_absent(t.NOTIFICATION, SAMPLES[t.NOTIFICATION]), put_if_absent(t.ACTIVITY, SAMPLES[t.ACTIVITY])
    )
    shop.wire.clear()
    page = customers.get_customer_overview(shop, ListRequest(ANN, 5), "ann")
    assert shop.wire.operations == ["Query"]
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


# changes of the e-mail address ----------------------------------------------------------------------------------------
OLD, NEW = "ann@example.com", "ann@new.example"


def change(shop: ShopContext, caller: Caller, email: str) -> Customer:
    return customers.change_email(shop, caller, caller.id, lambda: email)


def holder(shop: ShopContext, email: str) -> str | None:
    claim = shop.table.get(CUSTOMER_BY_EMAIL, email_hash=customers.hash_email(shop, email))
    return None if claim is None else claim.customer_id


def claims(shop: ShopContext) -> dict[str, str]:
    """Return the customer of each claim, by the hash of the address."""
    images = [image for image in everything(shop) if image["type"] == {"S": "EmailClaim"}]
    return {image["email_hash"]["S"]: image["customer_id"]["S"] for image in images}


def by_profiles(shop: ShopContext, *ids: str) -> dict[str, str]:
    """Return the expected claims for the profiles of these customers."""
    found = [shop.table.get(CUSTOMER_BY_ID, customer_id=id) for id in ids]
    return {profile.email_hash: profile.customer_id for profile in found if profile}


def fail() -> str:
    pytest.fail("this test reads no verified address")


# changes one after the other ------------------------------------------------------------------------------------------
def test_the_claim_moves_with_the_profile_in_one_transaction(shop: TappedShop) -> None:
    before = customers.get_customer(shop, ANN, "ann")
    shop.clock.sleep(60)
    shop.wire.clear()
    changed = change(shop, ANN, NEW)
    assert shop.wire.operations == ["GetItem", "TransactWriteItems"]
    hashed = customers.hash_email(shop, NEW)
    assert changed == replace(before, email=NEW, email_hash=hashed, version=2, updated_at=moment(1))
    assert customers.get_customer(shop, ANN, "ann") == changed
    assert (holder(shop, NEW), holder(shop, OLD)) == ("ann", None)
    assert customers.get_customer_by_email(shop, STAFF, NEW) == changed
    with pytest.raises(NotFound):
        customers.get_customer_by_email(shop, STAFF, OLD)


def test_the_old_address_is_free_for_all_customers(shop: ShopContext) -> None:
    change(shop, ANN, NEW)
    change(shop, ANN, OLD)
    change(shop, ANN, NEW)
    customers.register_customer(shop, EVE, OLD, "Eve")
    with pytest.raises(EmailTaken):
        change(shop, ANN, OLD)
    assert (holder(shop, OLD), holder(shop, NEW)) == ("eve", "ann")


@pytest.mark.parametrize("spelling", [" ANN@example.com\t", "Ann@Example.COM", "\uff41nn@example.com"], ids=ascii)
def test_another_spelling_of_the_same_address_is_stored_without_a_new_claim(shop: TappedShop, spelling: str) -> None:
    before = claims(shop)
    shop.wire.clear()
    assert change(shop, ANN, spelling).email == spelling
    assert shop.wire.operations == ["GetItem", "UpdateItem"]
    assert claims(shop) == before


def test_staff_change_their_own_address_if_they_are_registered(shop: ShopContext) -> None:
    with pytest.raises(NotFound):
        customers.change_email(shop, STAFF, STAFF.id, fail)
    customers.register_customer(shop, STAFF, "staff@example.com", "Stella")
    assert change(shop, STAFF, "stella@example.com").email == "stella@example.com"


# two changes at once --------------------------------------------------------------------------------------------------
def test_of_a_registration_and_a_change_to_one_address_only_one_succeeds(shop: TappedShop) -> None:
    shop.meanwhile(lambda rival: customers.register_customer(rival, EVE, NEW, "Eve"))
    with pytest.raises(EmailTaken):
        change(shop, ANN, NEW)
    assert (holder(shop, NEW), holder(shop, OLD)) == ("eve", "ann")
    shop.meanwhile(lambda rival: change(rival, ANN, "ann@third.example"))
    with pytest.raises(EmailTaken):
        customers.register_customer(shop, Caller("eva"), "ann@third.example", "Eva")
    assert holder(shop, "ann@third.example") == "ann"


def test_two_identical_concurrent_changes_do_not_report_the_address_as_taken(shop: TappedShop) -> None:
    theirs: list[Customer] = []
    shop.meanwhile(lambda rival: theirs.append(change(rival, ANN, NEW)))
    assert change(shop, ANN, NEW) == theirs[0]
    assert claims(shop) == by_profiles(shop, "ann", "bob")


def test_of_two_changes_at_once_the_address_that_was_verified_last_stays(shop: TappedShop) -> None:
    """The provider's address changes before the first of two requests writes the address that it has read."""
    says = [NEW]

    def provider() -> str:
        return says[-1]

    def overtake() -> None:
        says.append("ann@third.example")
        customers.change_email(shop.rival, ANN, "ann", provider)

    shop.wire.run_before_call("TransactWriteItems", overtake)
    assert customers.change_email(shop, ANN, "ann", provider).email == "ann@third.example"
    assert claims(shop) == by_profiles(shop, "ann", "bob")
    assert (holder(shop, NEW), holder(shop, "ann@third.example")) == (None, "ann")


def test_a_new_name_and_a_new_address_at_once_are_both_kept(shop: TappedShop) -> None:
    shop.meanwhile(lambda rival: customers.change_profile(rival, ANN, "ann", "Ann Oak"))
    changed = change(shop, ANN, NEW)
    assert (changed.name, changed.email, changed.version) == ("Ann Oak", NEW, 3)
    shop.meanwhile(lambda rival: change(rival, ANN, OLD), "UpdateItem")
    renamed = customers.change_profile(shop, ANN, "ann", "Ann Elm")
    assert (renamed.name, renamed.email, renamed.version) == ("Ann Elm", OLD, 5)
    assert claims(shop) == by_profiles(shop, "ann", "bob")


def test_a_customer_who_is_erased_during_an_address_change_stays_erased(shop: TappedShop) -> None:
    shop.meanwhile(lambda rival: erasure.erase_customer(rival, ANN, "ann"))
    with pytest.raises(NotFound):
        change(shop, ANN, NEW)
    assert claims(shop) == by_profiles(shop, "bob")
    with pytest.raises(WrongState):
        customers.register_customer(shop, ANN, NEW, "Ann")


@pytest.mark.parametrize(("at", "call"), [("GetItem", 1), ("GetItem", 2), ("GetItem", 3), ("TransactWriteItems", 1)])
def test_an_address_change_during_an_erasure_leaves_neither_claim(shop: TappedShop, at: str, call: int) -> None:
    shop.meanwhile(lambda rival: change(rival, ANN, NEW), at, call=call)
    erasure.erase_customer(shop, ANN, "ann")
    assert claims(shop) == by_profiles(shop, "bob")
    customers.register_customer(shop, EVE, NEW, "Eve")
    customers.register_customer(shop, Caller("eva"), OLD, "Eva")


def test_an_erasure_keeps_the_claim_of_the_new_holder_of_an_address(shop: TappedShop) -> None:
    """The erasure has read Ann's profile with an address that Ann then gives up, and Eve registers."""

    def leave_it_to_eve() -> None:
        change(shop.rival, ANN, NEW)
        customers.register_customer(shop.rival, EVE, OLD, "Eve")

    shop.wire.run_before_call("TransactWriteItems", leave_it_to_eve)
    erasure.erase_customer(shop, ANN, "ann")
    assert claims(shop) == by_profiles(shop, "bob", "eve")
    assert holder(shop, OLD) == "eve"


def test_a_lookup_during_an_address_change_finds_the_current_holder(shop: TappedShop) -> None:
    def hand_over() -> None:
        change(shop.rival, ANN, NEW)
        change(shop.rival, BOB, OLD)

    shop.wire.run_before_call("GetItem", hand_over, call=2)
    assert customers.get_customer_by_email(shop, STAFF, OLD).customer_id == "bob"
    shop.meanwhile(lambda rival: change(rival, BOB, "bob@new.example"), "GetItem", call=2)
    with pytest.raises(NotFound):
        customers.get_customer_by_email(shop, STAFF, OLD)


# many changes at once -------------------------------------------------------------------------------------------------
def test_concurrent_address_changes_leave_every_claim_with_its_holder(shop: ShopContext) -> None:
    """Six people register, change among five addresses, and are erased."""
    people = [Caller(f"p{number}") for number in range(6)]
    acts: list[Callable[[Caller, str], object]] = [
        lambda one, email: customers.register_customer(shop, one, email, one.id),
        lambda one, email: change(shop, one, email),
        lambda one, email: change(shop, one, email),
        lambda one, email: change(shop, one, email),
        lambda one, email: erasure.erase_customer(shop, one, one.id),
    ]

    def act(number: int) -> bool:
        one, email = people[number % 6], f"{number * 7 % 5}@example.com"
        try:
            acts[number * 11 // 6 % (5 if number > 70 else 4)](one, email)
        except (AlreadyExists, EmailTaken, NotFound, WrongState):
            return False
        return True

    done = run_in_threads(6, act, range(120))
    assert sum(done) > 20
    held = claims(shop)
    assert held == by_profiles(shop, "ann", "bob", *(one.id for one in people))
    assert len(set(held.values())) == len(held)


def test_a_claim_that_is_not_theirs_is_never_deleted(shop: ShopContext) -> None:
    """The profile's claim belongs to another customer, which no command causes. Then nothing is written."""
    key: Any = {"PK": {"S": f"EMAIL#{customers.hash_email(shop, OLD)}"}, "SK": {"S": "EMAIL"}}
    shop.table.client.update_item(
        TableName=shop.table.name,
        Key=key,
        UpdateExpression="SET customer_id = :bob",
        ExpressionAttributeValues={":bob": {"S": "bob"}},
    )
    with pytest.raises(TableBusy):
        change(shop, ANN, NEW)
    assert (holder(shop, OLD), holder(shop, NEW)) == ("bob", None)
