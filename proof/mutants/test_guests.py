"""Guests: a link opens only its own order, until it expires or is revoked."""

from datetime import timedelta

import pytest

from functions.model.errors import GuestLinkInvalid
from functions.shop import customers
from functions.shop.guest_links import authenticate_guest
from functions.shop.guests import join_orders, renew_link
from functions.shop.shop import Caller
from local.world.harness import ANN, STAFF, ShopHarness
from proof.mutants.test_access import open_api
from proof.support.actors import place_guest_order
from proof.support.http_client import Token


def test_a_link_opens_no_other_order(harness: ShopHarness) -> None:
    harness.open_shop()
    foreign = harness.place_order()
    made, other = (place_guest_order(harness.shop, key, email=f"{key}@example.com") for key in ("one", "two"))
    with open_api(harness) as api:
        guest = Token("ann", bearer=made.token)
        asked = [made.placed.order.order_id, other.placed.order.order_id, foreign]
        assert [api.call("GET", f"/guest/orders/{id}", guest).status for id in asked] == [200, 404, 404]


def test_a_link_of_ninety_days_ends(harness: ShopHarness) -> None:
    harness.open_shop()
    made = place_guest_order(harness.shop)
    harness.clock_offset += timedelta(days=91)
    with pytest.raises(GuestLinkInvalid):
        authenticate_guest(harness.shop, made.token)


def test_a_revoked_link_opens_nothing(harness: ShopHarness) -> None:
    harness.open_shop()
    made = place_guest_order(harness.shop)
    renew_link(harness.shop, STAFF, made.placed.order.order_id)
    with pytest.raises(GuestLinkInvalid):
        authenticate_guest(harness.shop, made.token)


def test_a_customer_joins_only_orders_with_their_own_address(harness: ShopHarness) -> None:
    harness.open_shop()
    customers.register_customer(harness.shop, Caller("bob"), "bob@example.com", "Bob Birch")
    place_guest_order(harness.shop, email="bob@example.com")
    assert join_orders(harness.shop, ANN, ANN.id).order_ids == []
    assert len(join_orders(harness.shop, Caller("bob"), "bob").order_ids) == 1
