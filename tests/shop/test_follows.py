"""Tests follows: one write shows in both directions, however often a customer follows and unfollows."""

from collections.abc import Callable

import pytest

from functions.dynamodb.writes import put_if_absent
from functions.model.entities import Follow
from functions.model.errors import NotAllowed, NotFound, NotRegistered
from functions.model.table import FOLLOW
from functions.shop import follows
from functions.shop.erasure import erase_customer
from functions.shop.lists import ListRequest
from functions.shop.shop import Caller, ShopContext
from proof.support.actors import ANN, BOB, STAFF, WAREHOUSE, run_concurrently
from proof.support.client_faults import WireTap
from proof.support.samples import AT, moment
from proof.support.tapped_client import ManualClock
from tests.support.pages import every_page


def followers(shop: ShopContext, product_id: str = "mug") -> list[str]:
    return [
        one.customer_id for one in follows.list_followers_of_product(shop, ListRequest(STAFF, 100), product_id).items
    ]


def followed(shop: ShopContext, caller: Caller = ANN) -> list[str]:
    return [one.product_id for one in follows.list_follows_of_customer(shop, ListRequest(caller, 100), caller.id).items]


def test_one_write_shows_in_both_directions(shop: ShopContext, wire: WireTap) -> None:
    made = follows.follow_product(shop, ANN, "mug")
    assert wire.operations == ["BatchGetItem", "PutItem"]
    assert (made.created_at, made.version) == (moment(), 1)
    follows.follow_product(shop, ANN, "pot")
    follows.follow_product(shop, BOB, "mug")
    assert (followers(shop), followers(shop, "pot")) == (["ann", "bob"], ["ann"])
    assert (followed(shop), followed(shop, BOB)) == (["mug", "pot"], ["mug"])


def test_following_twice_changes_nothing(shop: ShopContext, wire: WireTap, clock: ManualClock) -> None:
    first = follows.follow_product(shop, ANN, "mug")
    clock.sleep(60)
    wire.clear()
    assert follows.follow_product(shop, ANN, "mug") == first
    assert wire.operations == ["BatchGetItem"]


def test_one_deletion_shows_in_both_directions_and_the_next_changes_nothing(shop: ShopContext, wire: WireTap) -> None:
    follows.follow_product(shop, ANN, "mug")
    follows.follow_product(shop, BOB, "mug")
    wire.clear()
    for _ in range(2):
        follows.unfollow_product(shop, ANN, "mug")
        assert (followers(shop), followed(shop)) == (["bob"], [])
    assert wire.operations.count("DeleteItem") == 1


def test_a_customer_who_follows_again_is_a_new_follower(shop: ShopContext, clock: ManualClock) -> None:
    first = follows.follow_product(shop, ANN, "mug")
    clock.sleep(0.001)
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


def test_followed_many_times_at_once_it_is_one(shop: ShopContext) -> None:
    results = run_concurrently(*[lambda: follows.follow_product(shop, ANN, "mug")] * 5)
    assert [result.version for result in results] == [1] * 5
    assert len({result.created_at for result in results}) == 1
    assert followers(shop) == ["ann"]


def test_the_slower_of_two_follow_commands_finds_the_work_done(
    shop: ShopContext, rival: ShopContext, wire: WireTap, clock: ManualClock
) -> None:
    first = follows.follow_product(shop, ANN, "mug")
    wire.run_before_call("DeleteItem", lambda: follows.unfollow_product(rival, ANN, "mug"))
    follows.unfollow_product(shop, ANN, "mug")
    assert followers(shop) == []
    clock.sleep(1)
    wire.run_before_call("PutItem", lambda: follows.follow_product(rival, ANN, "mug"))
    assert follows.follow_product(shop, ANN, "mug").created_at > first.created_at
    assert followers(shop) == ["ann"]


@pytest.mark.parametrize("operation", ["PutItem", "DeleteItem"])
def test_a_lost_answer_changes_nothing(shop: ShopContext, patient_wire: WireTap, operation: str) -> None:
    shop.table.client = patient_wire.client
    patient_wire.lose_response(operation)
    follows.follow_product(shop, ANN, "mug")
    assert followers(shop) == ["ann"]
    follows.unfollow_product(shop, ANN, "mug")
    follows.follow_product(shop, ANN, "pot")
    assert (followers(shop), followers(shop, "pot")) == ([], ["ann"])


@pytest.mark.parametrize("caller", [BOB, WAREHOUSE], ids=lambda caller: caller.id)
def test_the_follows_of_a_customer_are_shown_to_the_customer_and_staff(shop: ShopContext, caller: Caller) -> None:
    follows.follow_product(shop, ANN, "mug")
    with pytest.raises(NotFound):
        follows.list_follows_of_customer(shop, ListRequest(caller, 10), "ann")
    with pytest.raises(NotAllowed):
        follows.list_followers_of_product(shop, ListRequest(caller, 10), "mug")
    assert len(follows.list_follows_of_customer(shop, ListRequest(STAFF, 10), "ann").items) == 1


@pytest.mark.parametrize("limit", [1, 7, 30, 100])
def test_both_lists_come_once_page_after_page(shop: ShopContext, limit: int) -> None:
    ids = [f"x{number:02}" for number in range(30)]
    for id in ids:
        shop.table.write(put_if_absent(FOLLOW, Follow(customer_id="cid", product_id=id, created_at=AT)))
        shop.table.write(put_if_absent(FOLLOW, Follow(customer_id=id, product_id="jug", created_at=AT)))
    of_customer = every_page(lambda request: follows.list_follows_of_customer(shop, request, "cid"), limit)
    of_product = every_page(lambda request: follows.list_followers_of_product(shop, request, "jug"), limit)
    assert [one.product_id for one in of_customer] == [one.customer_id for one in of_product] == ids
