"""Tests the change of an e-mail address: its claim moves with the profile, even if others want the same address."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from functions.dynamodb.errors import TableBusy
from functions.model.entities import Customer
from functions.model.errors import AlreadyExists, EmailTaken, NotFound, WrongState
from functions.model.patterns import CUSTOMER_BY_EMAIL, CUSTOMER_BY_ID
from functions.shop import customers, erasure
from functions.shop.shop import Caller, ShopContext
from proof.support.actors import ANN, BOB, STAFF, run_in_threads
from proof.support.client_faults import WireTap
from proof.support.samples import moment
from proof.support.tapped_client import ManualClock

EVE = Caller("eve")
OLD, NEW = "ann@example.com", "ann@new.example"


def change(shop: ShopContext, caller: Caller, email: str) -> Customer:
    """Change a customer's e-mail address to their verified address."""
    return customers.change_email(shop, caller, caller.id, lambda: email)


def holder(shop: ShopContext, email: str) -> str | None:
    """Return the id of the customer who has this address."""
    claim = shop.table.get(CUSTOMER_BY_EMAIL, email_hash=customers.hash_email(shop, email))
    return None if claim is None else claim.customer_id


def claims(shop: ShopContext) -> dict[str, str]:
    """Return the customer of each claim, by the hash of the address."""
    found = shop.table.client.scan(TableName=shop.table.name, ConsistentRead=True)["Items"]
    images: list[Any] = [image for image in found if image["type"] == {"S": "EmailClaim"}]
    return {image["email_hash"]["S"]: image["customer_id"]["S"] for image in images}


def by_profiles(shop: ShopContext, *ids: str) -> dict[str, str]:
    """Return the expected claims for the profiles of these customers."""
    found = [shop.table.get(CUSTOMER_BY_ID, customer_id=id) for id in ids]
    return {profile.email_hash: profile.customer_id for profile in found if profile}


def fail() -> str:
    pytest.fail("this test reads no verified address")


# changes one after the other ------------------------------------------------------------------------------------------
def test_the_claim_moves_with_the_profile_in_one_transaction(
    shop: ShopContext, clock: ManualClock, wire: WireTap
) -> None:
    before = customers.get_customer(shop, ANN, "ann")
    clock.sleep(60)
    wire.clear()
    changed = change(shop, ANN, NEW)
    assert wire.operations == ["GetItem", "TransactWriteItems"]
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
def test_another_spelling_of_the_same_address_is_stored_without_a_new_claim(
    shop: ShopContext, wire: WireTap, spelling: str
) -> None:
    before = claims(shop)
    wire.clear()
    assert change(shop, ANN, spelling).email == spelling
    assert wire.operations == ["GetItem", "UpdateItem"]
    assert claims(shop) == before


def test_staff_change_their_own_address_if_they_are_registered(shop: ShopContext) -> None:
    with pytest.raises(NotFound):
        customers.change_email(shop, STAFF, STAFF.id, fail)
    customers.register_customer(shop, STAFF, "staff@example.com", "Stella")
    assert change(shop, STAFF, "stella@example.com").email == "stella@example.com"


# two changes at once --------------------------------------------------------------------------------------------------
def test_of_a_registration_and_a_change_to_one_address_only_one_succeeds(
    shop: ShopContext, rival: ShopContext, wire: WireTap
) -> None:
    wire.run_before_call("TransactWriteItems", lambda: customers.register_customer(rival, EVE, NEW, "Eve"))
    with pytest.raises(EmailTaken):
        change(shop, ANN, NEW)
    assert (holder(shop, NEW), holder(shop, OLD)) == ("eve", "ann")
    wire.run_before_call("TransactWriteItems", lambda: change(rival, ANN, "ann@third.example"))
    with pytest.raises(EmailTaken):
        customers.register_customer(shop, Caller("eva"), "ann@third.example", "Eva")
    assert holder(shop, "ann@third.example") == "ann"


def test_two_identical_concurrent_changes_do_not_report_the_address_as_taken(
    shop: ShopContext, rival: ShopContext, wire: WireTap
) -> None:
    theirs: list[Customer] = []
    wire.run_before_call("TransactWriteItems", lambda: theirs.append(change(rival, ANN, NEW)))
    assert change(shop, ANN, NEW) == theirs[0]
    assert claims(shop) == by_profiles(shop, "ann", "bob")


def test_of_two_changes_at_once_the_address_that_was_verified_last_stays(
    shop: ShopContext, rival: ShopContext, wire: WireTap
) -> None:
    """The provider's address changes before the first of two requests writes the address that it has read."""
    says = [NEW]

    def provider() -> str:
        return says[-1]

    def overtake() -> None:
        says.append("ann@third.example")
        customers.change_email(rival, ANN, "ann", provider)

    wire.run_before_call("TransactWriteItems", overtake)
    assert customers.change_email(shop, ANN, "ann", provider).email == "ann@third.example"
    assert claims(shop) == by_profiles(shop, "ann", "bob")
    assert (holder(shop, NEW), holder(shop, "ann@third.example")) == (None, "ann")


def test_a_new_name_and_a_new_address_at_once_are_both_kept(
    shop: ShopContext, rival: ShopContext, wire: WireTap
) -> None:
    wire.run_before_call("TransactWriteItems", lambda: customers.change_profile(rival, ANN, "ann", "Ann Oak"))
    changed = change(shop, ANN, NEW)
    assert (changed.name, changed.email, changed.version) == ("Ann Oak", NEW, 3)
    wire.run_before_call("UpdateItem", lambda: change(rival, ANN, OLD))
    renamed = customers.change_profile(shop, ANN, "ann", "Ann Elm")
    assert (renamed.name, renamed.email, renamed.version) == ("Ann Elm", OLD, 5)
    assert claims(shop) == by_profiles(shop, "ann", "bob")


def test_a_customer_who_is_erased_during_an_address_change_stays_erased(
    shop: ShopContext, rival: ShopContext, wire: WireTap
) -> None:
    wire.run_before_call("TransactWriteItems", lambda: erasure.erase_customer(rival, ANN, "ann"))
    with pytest.raises(NotFound):
        change(shop, ANN, NEW)
    assert claims(shop) == by_profiles(shop, "bob")
    with pytest.raises(WrongState):
        customers.register_customer(shop, ANN, NEW, "Ann")


@pytest.mark.parametrize(("at", "call"), [("GetItem", 1), ("GetItem", 2), ("GetItem", 3), ("TransactWriteItems", 1)])
def test_an_address_change_during_an_erasure_leaves_neither_claim(
    shop: ShopContext, rival: ShopContext, wire: WireTap, at: str, call: int
) -> None:
    wire.run_before_call(at, lambda: change(rival, ANN, NEW), call=call)
    erasure.erase_customer(shop, ANN, "ann")
    assert claims(shop) == by_profiles(shop, "bob")
    customers.register_customer(shop, EVE, NEW, "Eve")
    customers.register_customer(shop, Caller("eva"), OLD, "Eva")


def test_an_erasure_keeps_the_claim_of_the_new_holder_of_an_address(
    shop: ShopContext, rival: ShopContext, wire: WireTap
) -> None:
    """The erasure has read Ann's profile with an address that Ann then gives up, and Eve registers."""

    def leave_it_to_eve() -> None:
        change(rival, ANN, NEW)
        customers.register_customer(rival, EVE, OLD, "Eve")

    wire.run_before_call("TransactWriteItems", leave_it_to_eve)
    erasure.erase_customer(shop, ANN, "ann")
    assert claims(shop) == by_profiles(shop, "bob", "eve")
    assert holder(shop, OLD) == "eve"


def test_a_lookup_during_an_address_change_finds_the_current_holder(
    shop: ShopContext, rival: ShopContext, wire: WireTap
) -> None:
    def hand_over() -> None:
        change(rival, ANN, NEW)
        change(rival, BOB, OLD)

    wire.run_before_call("GetItem", hand_over, call=2)
    assert customers.get_customer_by_email(shop, STAFF, OLD).customer_id == "bob"
    wire.run_before_call("GetItem", lambda: change(rival, BOB, "bob@new.example"), call=2)
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
