"""Tests what follows the order of a guest: mails with a link, the copies after a move to an account, and the end."""

import re
from collections.abc import Mapping
from datetime import timedelta
from html import unescape
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

import pytest

from functions.handlers import archive_worker, customer_erasure, order_notification_worker
from functions.model.changes import parse_change
from functions.model.entities import ArchivedOrder, ErasedCustomer
from functions.model.errors import GuestLinkInvalid
from functions.model.patterns import CUSTOMER_OR_ERASED_BY_ID, ORDER_BY_ID
from functions.shop import activity, cancellation, customers, orders
from functions.shop.erasure import SETTLE_PERIOD
from functions.shop.fulfilment import fulfil_order
from functions.shop.guest_links import authenticate_guest
from functions.shop.guests import GuestOrder, join_orders, renew_link
from functions.shop.lists import ListRequest
from functions.shop.order_notifications import list_notifications_of_order
from functions.shop.shop import Caller
from local.world.harness import STAFF, ShopHarness
from ops.repair.copy_checks import find_order_discrepancies
from ops.repair.rebuild import republish_events
from proof.support.actors import place_guest_order
from proof.support.client_faults import crash_at
from tests.support.handlers import failed_ids, published

EMAIL = "gil@example.com"


@pytest.fixture
def made(harness: ShopHarness) -> GuestOrder:
    """Place an order as a guest, whose event then waits in the queue."""
    harness.open_shop()
    return place_guest_order(harness.shop, email=EMAIL)


def register_gil(harness: ShopHarness) -> Caller:
    customers.register_customer(harness.shop, Caller("gil"), EMAIL, "Gil Gray")
    return Caller("gil")


def link_in(mail: str) -> str:
    (link,) = re.findall(r'href="([^"]*/guest/[^"]*)"', mail)
    return unescape(link)


def token_in(mail: str) -> str:
    return parse_qs(urlsplit(link_in(mail)).query)["token"][0]


# mails ----------------------------------------------------------------------------------------------------------------
def test_each_mail_has_a_link_that_opens_the_order(harness: ShopHarness, made: GuestOrder) -> None:
    harness.pay_order(made.placed.order.order_id)
    harness.process_all()
    placed, paid = harness.sent_mails()
    for mail in (placed, paid):
        link = urlsplit(link_in(mail.body))
        assert link.path == f"/guest/orders/{made.placed.order.order_id}/page"
        caller = authenticate_guest(harness.shop, token_in(mail.body))
        assert caller.id == made.placed.order.customer_id
    assert placed.destinations["ToAddresses"] == [EMAIL]


def test_a_registered_customer_gets_no_such_link(harness: ShopHarness) -> None:
    harness.open_shop()
    harness.place_order()
    harness.process_all()
    assert "/guest/" not in harness.sent_mails()[0].body


def test_a_renewed_link_comes_by_mail(harness: ShopHarness, made: GuestOrder) -> None:
    harness.process_all()
    renew_link(harness.shop, STAFF, made.placed.order.order_id)
    harness.process_all(times=2)
    _, mail = harness.sent_mails()
    assert mail.subject.startswith("The new link to your order")
    assert authenticate_guest(harness.shop, token_in(mail.body)).id == made.placed.order.customer_id


def test_a_mail_about_an_event_before_the_move_goes_to_the_account_once(harness: ShopHarness, made: GuestOrder) -> None:
    (message,) = published(harness, "order_notification")
    gil = register_gil(harness)
    customers.change_email(harness.shop, gil, gil.id, lambda: "Gil@example.com")
    assert join_orders(harness.shop, gil, gil.id).order_ids == [made.placed.order.order_id]
    for _ in range(2):
        assert failed_ids(order_notification_worker, message) == []
    (mail,) = harness.sent_mails()
    assert mail.destinations["ToAddresses"] == ["Gil@example.com"]
    assert "/guest/" not in mail.body


def test_a_mail_that_was_sent_before_the_move_is_not_sent_again(harness: ShopHarness, made: GuestOrder) -> None:
    (message,) = published(harness, "order_notification")
    assert failed_ids(order_notification_worker, message) == []
    gil = register_gil(harness)
    assert join_orders(harness.shop, gil, gil.id).order_ids == [made.placed.order.order_id]
    assert failed_ids(order_notification_worker, message) == []
    assert len(harness.sent_mails()) == 1
    found = list_notifications_of_order(harness.shop, ListRequest(gil, 10), made.placed.order.order_id).items
    assert [one.event for one in found] == ["OrderPlaced"]


def test_an_event_before_the_move_can_be_published_again(harness: ShopHarness, made: GuestOrder) -> None:
    """Otherwise no parcel is sent if the reader of the stream loses the record. The simulation found this."""
    order_id = made.placed.order.order_id
    harness.pay_order(order_id)
    harness.new_records()
    fulfil_order(harness.shop, order_id)
    changed = [change for change in map(parse_change, harness.new_records()) if change]
    (lost,) = [change for change in changed if change.name == "ShipmentRequested"]
    gil = register_gil(harness)
    join_orders(harness.shop, gil, gil.id)
    published: list[Mapping[str, Any]] = []
    republish_events(harness.shop, published.extend)
    assert lost.id in [event["id"] for event in published]


# copies ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("is_behind", [False, True])
def test_the_order_moves_to_the_list_of_the_account_and_its_past_stays_with_the_guest(
    harness: ShopHarness, made: GuestOrder, times: int, *, is_behind: bool
) -> None:
    order_id = made.placed.order.order_id
    harness.pay_order(order_id)
    if not is_behind:
        harness.process_all()
    gil = register_gil(harness)
    join_orders(harness.shop, gil, gil.id)
    harness.process_all(times=times)
    listed = orders.list_orders_of_customer(harness.shop, ListRequest(gil, 10), gil.id).items
    assert [one.order_id for one in listed] == [order_id]
    entries = activity.list_activity_of_customer(harness.shop, ListRequest(gil, 10), gil.id).items
    later = {entry.event for entry in entries}
    assert later == ({"OrderJoined", "OrderFulfilling"} if is_behind else {"OrderJoined"})
    guest_id = made.placed.order.customer_id
    before = activity.list_activity_of_customer(harness.shop, ListRequest(STAFF, 10), guest_id).items
    assert {"OrderPlaced", "OrderPaid"} <= {entry.event for entry in before}
    found = find_order_discrepancies(harness.shop, order_id, harness.partition(f"ORDER#{order_id}"))
    assert list(found) == []


# the end --------------------------------------------------------------------------------------------------------------
def erase(harness: ShopHarness) -> None:
    customer_erasure.handler({"time": harness.now().strftime("%Y-%m-%dT%H:%M:%SZ")}, None)


def test_the_data_of_a_guest_is_erased_when_the_order_is_archived(harness: ShopHarness, made: GuestOrder) -> None:
    cancellation.cancel_order(harness.shop, STAFF, made.placed.order.order_id)
    harness.process_all()
    harness.advance_days(400)
    harness.process_all()
    stub = harness.shop.table.get(ORDER_BY_ID, order_id=made.placed.order.order_id)
    assert isinstance(stub, ArchivedOrder)
    with pytest.raises(GuestLinkInvalid):
        authenticate_guest(harness.shop, made.token)
    erase(harness)
    harness.clock_offset += SETTLE_PERIOD + timedelta(hours=1)
    erase(harness)
    erased = harness.shop.table.get(CUSTOMER_OR_ERASED_BY_ID, customer_id=made.placed.order.customer_id)
    assert isinstance(erased, ErasedCustomer)
    assert erased.status == "ERASED"
    items = harness.shop.table.client.scan(TableName=harness.shop.table.name)["Items"]
    hashed = customers.hash_email(harness.shop, EMAIL)
    assert not [image for image in items if hashed in str(image) or EMAIL in str(image) or "Gil" in str(image)]
    (archived,) = (body for key, body in harness.objects("archive").items() if key.startswith("orders/"))
    assert b"Elm Row" not in archived
    assert b"Gil" not in archived


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_guest_is_erased_although_the_archive_worker_died(
    harness: ShopHarness, made: GuestOrder, when: Literal["before", "after"]
) -> None:
    order_id, shop = made.placed.order.order_id, harness.shop
    cancellation.cancel_order(shop, STAFF, order_id)
    harness.process_all()
    harness.advance_days(400)
    with crash_at("dynamodb", "TransactWriteItems", when):
        archive_worker.archive_order(shop, "archive", order_id, shop.now_instant())
    assert archive_worker.archive_order(shop, "archive", order_id, shop.now_instant())
    erased = shop.table.get(CUSTOMER_OR_ERASED_BY_ID, customer_id=made.placed.order.customer_id)
    assert isinstance(erased, ErasedCustomer)
