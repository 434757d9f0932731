"""Tests reviews: one for each buyer who has the product. The author can change and delete it."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from functions.model import changes
from functions.model.entities import Review
from functions.model.errors import NotBought, NotFound, NotRegistered, WrongState
from functions.model.table import REVIEW
from functions.shop import reviews, shipments
from functions.shop.erasure import erase_customer
from functions.shop.lists import ListRequest
from functions.shop.shop import Caller, ShopContext
from proof.support.actors import (
    ANN,
    BOB,
    STAFF,
    WAREHOUSE,
    advance_to_status,
    archive_order,
    place,
    run_concurrently,
    ship_part_then_cancel,
)
from proof.support.samples import moment
from tests.shop.conftest import TappedShop


@pytest.fixture
def bought(shop: TappedShop) -> str:
    """Deliver an order of Ann with two mugs. Return its id."""
    order = advance_to_status(shop, place(shop), "DELIVERED")
    shop.wire.clear()
    return order.order_id


def write(shop: ShopContext, order_id: str, stars: int = 5, text: str = "Keeps warm.", caller: Caller = ANN) -> Review:
    return reviews.write_review(shop, caller, "mug", order_id, stars, text)


def shown(shop: ShopContext, product_id: str = "mug") -> list[tuple[str, int, str]]:
    found = reviews.list_reviews_of_product(shop, ListRequest(ANN, 100), product_id).items
    return [(review.customer_id, review.stars, review.text) for review in found]


# authors --------------------------------------------------------------------------------------------------------------
def test_a_buyer_reviews_a_delivered_product_with_one_read_and_one_write(shop: TappedShop, bought: str) -> None:
    written = write(shop, bought)
    assert shop.wire.operations == ["BatchGetItem", "PutItem"]
    assert (written.written_at, written.created_at, written.version) == (moment(), moment(), 1)
    assert shown(shop) == [("ann", 5, "Keeps warm.")]
    assert reviews.list_reviews_by_customer(shop, ListRequest(ANN, 10), "ann").items == (written,)


NOT_YET = ["PENDING", "PAID", "FULFILLING", "CANCEL_REQUESTED", "PARTIALLY_SHIPPED", "SHIPPED", "CANCELLED", "LAPSED"]


@pytest.mark.parametrize("status", NOT_YET)
def test_an_undelivered_product_cannot_be_reviewed(shop: ShopContext, status: str) -> None:
    order = advance_to_status(shop, place(shop), status)
    with pytest.raises(NotBought):
        write(shop, order.order_id)
    assert shown(shop) == []


@pytest.mark.parametrize("status", ["DELIVERED", "PARTIALLY_RETURNED", "RETURNED"])
def test_a_buyer_who_has_or_returned_the_product_may_review_it(shop: ShopContext, status: str) -> None:
    order = advance_to_status(shop, place(shop), status)
    assert write(shop, order.order_id).stars == 5


def test_a_review_requires_one_delivered_piece_of_the_product_itself(shop: ShopContext) -> None:
    order = place(shop, mug=2, pot=1)
    advance_to_status(shop, order, "FULFILLING")
    ship_part_then_cancel(shop, order.order_id, {"mug": 1})
    with pytest.raises(NotBought):
        write(shop, order.order_id)
    shipments.deliver_shipment(shop, WAREHOUSE, order.order_id, f"{order.order_id}-1")
    assert write(shop, order.order_id).stars == 5
    for product_id in ("pot", "nothing"):
        with pytest.raises(NotBought):
            reviews.write_review(shop, ANN, product_id, order.order_id, 5, "")


@pytest.mark.parametrize("caller", [BOB, replace(STAFF, id="bob"), replace(WAREHOUSE, id="bob")], ids=str)
def test_an_order_of_another_customer_cannot_be_used_for_a_review_even_by_staff(
    shop: ShopContext, bought: str, caller: Caller
) -> None:
    with pytest.raises(NotFound) as refused:
        write(shop, bought, caller=caller)
    assert refused.value.what == "order"
    with pytest.raises(NotFound):
        write(shop, "none", caller=caller)
    assert shown(shop) == []


def test_an_unregistered_or_erased_customer_leaves_no_review(shop: ShopContext, bought: str) -> None:
    erase_customer(shop, ANN, ANN.id)
    for caller in (ANN, Caller("eve")):
        with pytest.raises(NotRegistered):
            write(shop, bought, caller=caller)
    assert shown(shop) == []


def test_for_an_archived_order_only_existing_reviews_can_be_changed(shop: ShopContext, bought: str) -> None:
    write(shop, bought)
    archive_order(shop, bought, to_stub=True)
    assert write(shop, bought, 2, "It broke.").stars == 2
    reviews.delete_review(shop, ANN, "mug", "ann")
    with pytest.raises(WrongState) as refused:
        write(shop, bought)
    assert (refused.value.what, refused.value.state) == ("order", "ARCHIVED")


# one review for each author -------------------------------------------------------------------------------------------
def test_a_rewritten_review_changes_and_keeps_its_place(shop: TappedShop, bought: str) -> None:
    first = write(shop, bought)
    shop.clock.sleep(60)
    second = write(shop, bought, 3, "It stains.")
    assert second == replace(first, stars=3, text="It stains.", updated_at=moment(1), version=2)
    assert shown(shop) == [("ann", 3, "It stains.")]


def test_a_second_order_of_the_product_changes_the_same_review(shop: ShopContext, bought: str) -> None:
    again = place(shop, "again", mug=1)
    write(shop, bought)
    with pytest.raises(NotBought):
        write(shop, again.order_id)
    advance_to_status(shop, again, "DELIVERED")
    assert write(shop, again.order_id, 4).version == 2
    assert shown(shop) == [("ann", 4, "Keeps warm.")]


def test_two_concurrent_versions_of_a_review_are_stored_one_after_the_other(shop: ShopContext, bought: str) -> None:
    run_concurrently(*[partial(write, shop, bought, stars) for stars in (1, 2, 3)])
    ((_, stars, _),) = shown(shop)
    (review,) = reviews.list_reviews_by_customer(shop, ListRequest(ANN, 10), "ann").items
    assert (review.version, review.stars) == (3, stars)


def test_a_change_concurrent_with_a_deletion_creates_a_new_review(shop: TappedShop, bought: str) -> None:
    first = write(shop, bought)
    shop.clock.sleep(60)
    shop.meanwhile(lambda rival: reviews.delete_review(rival, ANN, "mug", "ann"), "UpdateItem")
    written = write(shop, bought, 1)
    assert (written.version, written.written_at > first.written_at) == (3, True)


# deleted reviews ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("caller", [ANN, STAFF], ids=lambda caller: caller.id)
def test_the_author_and_staff_can_delete_a_review_and_a_repeat_does_nothing(
    shop: ShopContext, bought: str, caller: Caller
) -> None:
    write(shop, bought)
    for _ in range(2):
        reviews.delete_review(shop, caller, "mug", "ann")
        assert shown(shop) == []
    assert reviews.list_reviews_by_customer(shop, ListRequest(ANN, 10), "ann").items == ()


def test_a_review_written_after_a_deletion_has_a_new_change_id(shop: TappedShop, bought: str) -> None:
    first = write(shop, bought)
    shop.clock.sleep(0.001)
    reviews.delete_review(shop, ANN, "mug", "ann")
    second = write(shop, bought)
    assert (second.version, second.written_at, second.created_at) == (3, moment(0.001 / 60), first.created_at)
    ids = {changes.parse_change(made(review)).id for review in (first, second)}  # type: ignore[union-attr]
    assert len(ids) == 2, "the two reviews have different change ids"
    assert changes.parse_change(made(first)) == changes.parse_change(made(first))


def made(review: Review) -> Any:
    """Return the stream record of a new review."""
    image = REVIEW.encode(review)
    keys = {name: image[name] for name in ("PK", "SK")}
    return {"eventName": "INSERT", "dynamodb": {"Keys": keys, "NewImage": image, "SequenceNumber": "1"}}
