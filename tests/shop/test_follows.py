"""Tests follows: one write shows in both directions, however often a customer follows and unfollows."""

from collections.abc import Callable

import pytest

from functions.model.errors import NotFound, NotRegistered
from functions.shop import follows
from functions.shop.erasure import erase_customer
from functions.shop.lists import ListRequest
from functions.shop.shop import Caller, ShopContext
from proof.support.actors import ANN, BOB, STAFF
from proof.support.samples import moment
from tests.shop.conftest import TappedShop


def followers(shop: ShopContext, product_id: str = "mug") -> list[str]:
    return [
        one.customer_id for one in follows.list_followers_of_product(shop, ListRequest(STAFF, 100), product_id).items
    ]


def followed(shop: ShopContext, caller: Caller = ANN) -> list[str]:
    return [one.product_id for one in follows.list_follows_of_customer(shop, ListRequest(caller, 100), caller.id).items]


def test_one_write_shows_in_both_directions(shop: TappedShop) -> None:
    made = follows.follow_product(shop, ANN, "mug")
    assert shop.wire.operations == ["BatchGetItem", "PutItem"]
    assert (made.created_at, made.version) == (moment(), 1)
    follows.follow_product(shop, ANN, "pot")
    follows.follow_product(shop, BOB, "mug")
    assert (followers(shop), followers(shop, "pot")) == (["ann", "bob"], ["ann"])
    assert (followed(shop), followed(shop, BOB)) == (["mug", "pot"], ["mug"])


def test_one_deletion_shows_in_both_directions_and_the_next_changes_nothing(shop: TappedShop) -> None:
    follows.follow_product(shop, ANN, "mug")
    follows.follow_product(shop, BOB, "mug")
    shop.wire.clear()
    for _ in range(2):
        follows.unfollow_product(shop, ANN, "mug")
        assert (followers(shop), followed(shop)) == (["bob"], [])
    assert shop.wire.operations.count("DeleteItem") == 1


def test_a_customer_who_follows_again_is_a_new_follower(shop: TappedShop) -> None:
    first = follows.follow_product(shop, ANN, "mug")
    shop.clock.sleep(0.001)
    follows.unfollow_product(shop, ANN, "mug")
    second = follows.follow_product(shop, ANN, "mug")
    assert (first.created_at, second.created_at) == (moment(), moment(0.001 / 60))


@pytest.mark.parametrize("act", [follows.follow_product, follows.unfollow_product])
def test_a_missing_product_cannot_be_followed(shop: ShopContext, act: Callable[..., object]) -> None:
    with pytest.raises(NotFound) as refused:
        act(shop, ANN, "nothing")
    assert refused.value.what == "product"
    assert followed(shop) == []


def test_an_unregistered_or_erased_customer_follows_nothing(shop: ShopContext) -> None:
    erase_customer(shop, BOB, BOB.id)
    for caller in (Caller("eve"), BOB, STAFF):
        with pytest.raises(NotRegistered):
            follows.follow_product(shop, caller, "mug")
    assert followers(shop) == []


def test_the_slower_of_two_follow_commands_finds_the_work_done(shop: TappedShop) -> None:
    first = follows.follow_product(shop, ANN, "mug")
    shop.meanwhile(lambda rival: follows.unfollow_product(rival, ANN, "mug"), "DeleteItem")
    follows.unfollow_product(shop, ANN, "mug")
    assert followers(shop) == []
    shop.clock.sleep(1)
    shop.meanwhile(lambda rival: follows.follow_product(rival, ANN, "mug"), "PutItem")
    assert follows.follow_product(shop, ANN, "mug").created_at > first.created_at
    assert followers(shop) == ["ann"]
