"""Tests guests: their orders, the limit of unpaid orders, the links, and the move of their orders to an account."""

from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from functions.dynamodb.sealed_text import seal_text
from functions.dynamodb.writes import put_if_absent, update
from functions.model.entities import Customer
from functions.model.errors import (
    GuestLinkInvalid,
    IdempotencyKeyReused,
    NotFound,
    NotRegistered,
    TooManyUnpaidOrders,
    WrongState,
)
from functions.model.patterns import CUSTOMER_BY_EMAIL, CUSTOMER_BY_ID, INVOICES_OF_ORDER
from functions.model.table import CUSTOMER, INVOICE, ORDER
from functions.shop import accounts, customers, data_export, erasure, guests, orders, placing, refunds
from functions.shop.fulfilment import fulfil_order
from functions.shop.guest_links import LINK_LIFETIME, authenticate_guest, create_token, link_to_order
from functions.shop.guests import GuestOrder, join_orders, new_guest, renew_link
from functions.shop.lists import ListRequest
from functions.shop.placing import RequestedLine
from functions.shop.shop import Caller, ShopContext
from proof.support.actors import ANN, BOB, HOME_ADDRESS, STAFF, get_order, pay, place, place_guest_order
from proof.support.samples import SAMPLES
from tests.shop.conftest import TappedShop


def get_guest(shop: ShopContext, made: GuestOrder) -> Customer:
    found = shop.table.get(CUSTOMER_BY_ID, customer_id=made.placed.order.customer_id)
    assert found is not None
    return found


# placing --------------------------------------------------------------------------------------------------------------
def test_a_guest_is_a_customer_of_one_order_without_a_claim_of_the_address(shop: ShopContext) -> None:
    made = place_guest_order(shop, email="gil@example.com")
    guest = get_guest(shop, made)
    assert (guest.name, guest.email, guest.order_id) == ("Gil", "gil@example.com", made.placed.order.order_id)
    assert get_order(shop, made.placed.order.order_id).customer_name == "Gil"
    assert shop.table.get(CUSTOMER_BY_EMAIL, email_hash=guest.email_hash) is None
    listed = customers.list_customers(shop, ListRequest(STAFF, 10)).items
    assert {customer.customer_id for customer in listed} == {"ann", "bob"}


def test_a_repeated_key_gives_the_first_order_and_token_to_the_same_address_only(shop: TappedShop) -> None:
    made = place_guest_order(shop)
    shop.clock.sleep(60)
    again = place_guest_order(shop)
    assert again.placed.replayed
    assert (again.placed.order, again.token) == (made.placed.order, made.token)
    with pytest.raises(IdempotencyKeyReused):
        place_guest_order(shop, name="Hal")
    another = place_guest_order(shop, email="hal@example.com")
    assert another.placed.order.order_id != made.placed.order.order_id


def test_unpaid_orders_of_guests_count_by_address(shop: ShopContext) -> None:
    limited = replace(shop, unpaid_orders_per_customer=2)
    first = place_guest_order(limited, "key-1")
    place_guest_order(limited, "key-2", email="ANN@example.com")
    with pytest.raises(TooManyUnpaidOrders):
        place_guest_order(limited, "key-3")
    assert place_guest_order(limited, "key-1").placed.replayed
    place_guest_order(limited, "key-3", email="gil@example.com")
    pay(shop, get_order(shop, first.placed.order.order_id))
    place_guest_order(limited, "key-3")


def test_a_guest_has_no_credit(shop: ShopContext) -> None:
    guest_id = place_guest_order(shop).placed.order.customer_id
    with pytest.raises(WrongState, match="cannot give credit: the customer is GUEST"):
        accounts.issue_store_credit(shop, STAFF, "key", guest_id, 100, "EUR")
    with pytest.raises(WrongState, match="cannot refund to credit: the customer is GUEST"):
        refunds.get_store_credit_account_id(shop, guest_id, "EUR")


# links ----------------------------------------------------------------------------------------------------------------
def test_a_link_makes_its_holder_the_guest_and_nobody_else(shop: ShopContext) -> None:
    made, another = place_guest_order(shop, "key-1"), place_guest_order(shop, "key-2")
    caller = authenticate_guest(shop, made.token)
    assert caller == Caller(made.placed.order.customer_id)
    assert orders.get_order(shop, caller, made.placed.order.order_id) == made.placed.order
    for order_id in (another.placed.order.order_id, place(shop, mug=1).order_id):
        with pytest.raises(NotFound):
            orders.get_order(shop, caller, order_id)


def test_a_link_expires(shop: TappedShop) -> None:
    made = place_guest_order(shop)
    shop.clock.sleep((LINK_LIFETIME - timedelta(seconds=2)).total_seconds())
    authenticate_guest(shop, made.token)
    shop.clock.sleep(2)
    with pytest.raises(GuestLinkInvalid, match="has expired: use the link in the latest mail"):
        authenticate_guest(shop, made.token)
    authenticate_guest(shop, create_token(shop, get_guest(shop, made)))


def test_a_text_that_the_shop_did_not_seal_as_a_link_is_no_token(shop: ShopContext) -> None:
    text = f"{place_guest_order(shop).placed.order.customer_id} 1 9999999999"
    for wrong in ("", "x", seal_text(b"another", "guest_link", text), seal_text(shop.digest("x"), "x", text)):
        with pytest.raises(GuestLinkInvalid, match="is wrong: copy the whole link"):
            authenticate_guest(shop, wrong)


def test_a_renewed_link_revokes_the_earlier_links_also_after_a_repeated_order(shop: ShopContext) -> None:
    made = place_guest_order(shop)
    renew_link(shop, STAFF, made.placed.order.order_id)
    assert place_guest_order(shop).token == made.token
    with pytest.raises(GuestLinkInvalid, match="was revoked: use the link in the latest mail"):
        authenticate_guest(shop, made.token)
    renewed = create_token(shop, get_guest(shop, made))
    renew_link(shop, authenticate_guest(shop, renewed), made.placed.order.order_id)
    with pytest.raises(GuestLinkInvalid):
        authenticate_guest(shop, renewed)


def test_only_links_of_ones_own_guest_order_are_renewed(shop: ShopContext) -> None:
    made, another = place_guest_order(shop, "key-1"), place_guest_order(shop, "key-2")
    with pytest.raises(NotFound):
        renew_link(shop, authenticate_guest(shop, another.token), made.placed.order.order_id)
    with pytest.raises(WrongState, match="cannot renew the link: the customer is REGISTERED"):
        renew_link(shop, STAFF, place(shop, mug=1).order_id)
    authenticate_guest(shop, made.token)


def test_the_link_opens_the_page_and_without_a_page_the_api(shop: ShopContext) -> None:
    guest = replace(new_guest(shop, "key", "gil@example.com", "Gil"), order_id="o1")
    assert link_to_order(guest, "t", "https://elm.example/", "https://api") == "https://elm.example/#/guest/o1?token=t"
    assert link_to_order(guest, "t", "", "https://api") == "https://api/guest/orders/o1/page?token=t"


# joining --------------------------------------------------------------------------------------------------------------
def test_the_orders_of_guests_with_the_address_join_the_account(shop: ShopContext) -> None:
    assert join_orders(shop, ANN, "ann").order_ids == []
    first, second = place_guest_order(shop, "key-1"), place_guest_order(shop, "key-2")
    elsewhere = place_guest_order(shop, "key-3", email="gil@example.com").placed.order
    order_id = first.placed.order.order_id
    pay(shop, get_order(shop, order_id))
    assert fulfil_order(shop, order_id)
    joined = join_orders(shop, ANN, "ann")
    assert set(joined.order_ids) == {order_id, second.placed.order.order_id}
    assert not joined.more
    order = get_order(shop, order_id)
    assert (order.customer_id, order.customer_name, order.status) == ("ann", "Ann Ash", "FULFILLING")
    (invoice,) = shop.table.query(INVOICES_OF_ORDER, order_id=order_id).items
    assert invoice.customer_id == "ann"
    items = orders.get_order_item_collection(shop, ListRequest(ANN, 100), order_id).items
    assert {item.customer_id for item in items if getattr(item, "customer_id", None)} == {"ann"}
    for made in (first, second):
        with pytest.raises(GuestLinkInvalid, match="sign in if you have an account"):
            authenticate_guest(shop, made.token)
    with pytest.raises(WrongState, match="the order is JOINED"):
        place_guest_order(shop, "key-1")
    assert join_orders(shop, ANN, "ann").order_ids == []
    assert get_order(shop, elsewhere.order_id) == elsewhere


def test_an_order_of_another_address_with_the_same_hash_does_not_join(shop: ShopContext) -> None:
    made = place_guest_order(shop, email="ann@strasse.example")
    guest = shop.table.get(CUSTOMER_BY_ID, customer_id=made.placed.order.customer_id)
    ann = shop.table.get(CUSTOMER_BY_ID, customer_id="ann")
    assert guest is not None
    assert ann is not None
    other = replace(ann, email="ann@stra\u00dfe.example", email_hash=guest.email_hash, version=ann.version + 1)
    shop.table.write(update(CUSTOMER, ann, other))
    assert join_orders(shop, ANN, "ann").order_ids == []


def test_only_the_customer_joins_orders_and_only_an_account(shop: ShopContext) -> None:
    guest = authenticate_guest(shop, place_guest_order(shop).token)
    with pytest.raises(NotFound):
        join_orders(shop, BOB, "ann")
    with pytest.raises(WrongState, match="cannot join orders: the customer is GUEST"):
        join_orders(shop, guest, guest.id)


def test_an_order_that_is_being_archived_stays(shop: ShopContext) -> None:
    made = place_guest_order(shop)
    order = get_order(shop, made.placed.order.order_id)
    shop.table.write(update(ORDER, order, replace(order, status="ARCHIVING", version=order.version + 1)))
    assert join_orders(shop, ANN, "ann").order_ids == []
    authenticate_guest(shop, made.token)


def test_an_order_with_too_many_items_for_a_transaction_stays(shop: ShopContext) -> None:
    order = place_guest_order(shop).placed.order
    of = {"order_id": order.order_id, "customer_id": order.customer_id}
    for number in range(98):
        shop.table.write(put_if_absent(INVOICE, replace(SAMPLES[INVOICE], invoice_id=f"i{number}", **of)))
    assert join_orders(shop, ANN, "ann").order_ids == []
    assert get_order(shop, order.order_id) == order


def test_one_call_joins_a_limited_number_of_orders(shop: ShopContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guests, "MAX_JOINED_ORDERS", 2)
    for number in range(3):
        place_guest_order(shop, f"key-{number}")
    joined = [join_orders(shop, ANN, "ann") for _ in range(2)]
    assert [(len(one.order_ids), one.more) for one in joined] == [(2, True), (1, False)]


def test_a_change_of_the_order_during_the_move_is_kept(shop: TappedShop) -> None:
    order_id = place_guest_order(shop).placed.order.order_id
    moved = replace(HOME_ADDRESS, street="2 Oak Row")
    change = partial(orders.change_address, shop.rival, STAFF, order_id, moved)
    shop.wire.run_before_call("TransactWriteItems", change)
    assert join_orders(shop, ANN, "ann").order_ids == [order_id]
    order = get_order(shop, order_id)
    assert (order.customer_id, order.address) == ("ann", moved)


# erasure and export ---------------------------------------------------------------------------------------------------
def test_erasing_a_guest_ends_the_links_and_keeps_the_claim_of_a_customer_with_the_address(shop: ShopContext) -> None:
    made = place_guest_order(shop)
    caller = authenticate_guest(shop, made.token)
    erasure.erase_customer(shop, caller, caller.id)
    with pytest.raises(GuestLinkInvalid):
        authenticate_guest(shop, made.token)
    with pytest.raises(NotFound):
        renew_link(shop, STAFF, made.placed.order.order_id)
    assert customers.get_customer_by_email(shop, STAFF, "ann@example.com").customer_id == "ann"
    assert join_orders(shop, ANN, "ann").order_ids == []


def test_the_export_of_a_guest_has_no_item_of_a_customer_with_the_address(shop: ShopContext) -> None:
    caller = authenticate_guest(shop, place_guest_order(shop).token)
    page = data_export.export_customer(shop, ListRequest(caller, 100), caller.id)
    assert [(item.type, item.data["customer_id"]) for item in page.items] == [("Customer", caller.id)]


def test_only_guests_are_erased_with_their_order(shop: ShopContext) -> None:
    guest_id = place_guest_order(shop).placed.order.customer_id
    for customer_id in ("ann", guest_id, guest_id):
        erasure.erase_guest(shop, customer_id)
    assert customers.get_customer(shop, ANN, "ann").name == "Ann Ash"
    assert [one.customer_id for one in erasure.list_unfinished_erasures(shop)] == [guest_id]


def test_a_registered_customer_whose_id_looks_like_that_of_a_guest_is_none(shop: ShopContext) -> None:
    caller = Caller("guest-1")
    with pytest.raises(NotRegistered):
        placing.place_order(shop, caller, "key", {"mug": RequestedLine(1)}, HOME_ADDRESS, {})
    customers.register_customer(shop, caller, "guest@example.com", "Guest")
    erasure.erase_guest(shop, caller.id)
    assert customers.get_customer(shop, caller, caller.id).name == "Guest"
