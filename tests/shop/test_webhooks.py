"""Tests what staff do with webhooks. test_webhook_deliveries.py tests what is sent to them."""

import pytest

from functions.dynamodb.actors import Actor, acting_as
from functions.dynamodb.keys import to_instant
from functions.model.errors import InvalidInput, WrongState
from functions.shop.audit import list_audit_of_item
from functions.shop.lists import ListRequest
from functions.shop.shop import ShopContext
from functions.shop.webhooks import (
    change_webhook,
    create_webhook,
    delete_webhook,
    derive_secret,
    list_webhooks,
    replay,
    rotate_secret,
)
from proof.support.actors import STAFF
from tests.shop.conftest import TappedShop

URL = "https://hooks.example.com/"


def create(shop: ShopContext, key: str = "k", url: str = URL, *events: str, **where: str) -> str:
    return str(create_webhook(shop, STAFF, key, url, events, where).result["webhook_id"])


@pytest.mark.parametrize("count", [0, 1, 2, 101])
def test_all_webhooks_are_listed(shop: ShopContext, count: int) -> None:
    made = {create(shop, str(number)) for number in range(count)}
    assert {found.webhook_id for found in list_webhooks(shop, STAFF)} == made


@pytest.mark.parametrize(
    ("events", "where", "field"),
    [
        (["OrderPayed"], {}, "events"),
        (["ActivityExpired"], {}, "events"),
        ([], {"colour": "red"}, "where"),
        (["OrderPaid"], {"carrier": "dhl"}, "where"),
    ],
)
def test_an_unknown_event_or_attribute_is_rejected(
    shop: ShopContext, events: list[str], where: dict[str, str], field: str
) -> None:
    webhook_id = create(shop)
    for act in (
        lambda: create_webhook(shop, STAFF, "new", URL, events, where),
        lambda: change_webhook(shop, STAFF, webhook_id, event_names=events, where=where),
    ):
        with pytest.raises(InvalidInput) as rejected:
            act()
        assert rejected.value.field == field


def test_a_change_keeps_what_it_does_not_name_and_can_be_repeated(shop: ShopContext) -> None:
    webhook_id = create(shop, "k", URL, "OrderPaid", currency="EUR")
    for _ in range(2):
        changed = change_webhook(shop, STAFF, webhook_id, where={})
        assert (changed.url, changed.event_names, changed.where, changed.version) == (URL, ("OrderPaid",), {}, 2)
    for _ in range(2):
        paused = change_webhook(shop, STAFF, webhook_id, status="PAUSED")
        assert (paused.status, paused.paused_by, paused.version) == ("PAUSED", "staff", 3)
    resumed = change_webhook(shop, STAFF, webhook_id, status="ACTIVE")
    assert (resumed.status, resumed.paused_by) == ("ACTIVE", None)


def test_a_deleted_webhook_is_gone_and_the_audit_trail_says_who_deleted_it(shop: ShopContext) -> None:
    webhook_id = create(shop)
    with acting_as(Actor(by="staff:1", command="DELETE /webhooks/{webhook_id}")):
        delete_webhook(shop, STAFF, webhook_id)
    assert list_webhooks(shop, STAFF) == ()
    (entry,) = list_audit_of_item(shop, ListRequest(STAFF, 10), "WEBHOOKS").items
    assert entry.by == "staff:1"


def test_a_repeated_rotation_makes_one_new_secret(shop: ShopContext) -> None:
    webhook_id = create(shop)
    for key, number in (("one", 2), ("one", 2), ("two", 3)):
        assert rotate_secret(shop, STAFF, key, webhook_id).result["number"] == number
    secrets = {derive_secret(shop, webhook_id, number) for number in (1, 2, 3)}
    assert len({*secrets, derive_secret(shop, create(shop, "other"), 1)}) == 4


def test_a_second_replay_waits_for_the_first_one(shop: TappedShop) -> None:
    webhook_id = create(shop)
    since = to_instant(shop.clock.now)
    assert replay(shop, STAFF, webhook_id, since).is_replaying
    with pytest.raises(WrongState):
        replay(shop, STAFF, webhook_id, since)
    with pytest.raises(InvalidInput):
        replay(shop, STAFF, webhook_id, since, ["OrderPayed"])
