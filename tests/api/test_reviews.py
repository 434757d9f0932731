"""Reviews: buyers write them, and all users read them."""

import base64
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from functions.dynamodb.keys import Instant
from functions.model.table import REVIEW
from functions.shop.fulfilment import fulfil_order
from proof.support.http_client import ANN, BOB, STAFF, WAREHOUSE, ApiHarness, Token
from proof.support.samples import SAMPLES, moment

MINE = "/products/mug/reviews/me"


@pytest.fixture
def bought(api: ApiHarness) -> str:
    """Deliver an order of Ann for two mugs. Return its id."""
    order_id = str(api.place_order().body["order_id"])
    api.pay(order_id)
    fulfilment = fulfil_order(api.shop, order_id)
    assert fulfilment is not None
    path = f"/orders/{order_id}/shipments/{fulfilment.shipment.shipment_id}"
    sent = {"carrier": "DHL", "tracking_number": "42"}
    assert api.call("POST", f"{path}/dispatched", WAREHOUSE, sent).status == 200
    assert api.call("POST", f"{path}/delivered", WAREHOUSE).status == 200
    return order_id


def pages(api: ApiHarness, path: str, token: Token | None, **query: Any) -> Iterator[list[Any]]:
    cursor: dict[str, Any] = {}
    while cursor != {"cursor": None}:
        said = api.call("GET", path, token, **query, **cursor).body
        yield said["items"]
        cursor = {"cursor": said["cursor"]}


def test_a_review_is_shown_to_all_users_without_its_author(api: ApiHarness, bought: str) -> None:
    body = {"order_id": bought, "stars": 4, "text": "Keeps warm.\nIt is \u201cblue\u201d."}
    written = api.call("PUT", MINE, ANN, body)
    assert (written.status, written.body | body, written.body["version"]) == (200, written.body, 1)
    read = api.call("GET", "/products/mug/reviews")
    (review,) = read.body["items"]
    assert review == {name: written.body[name] for name in ("stars", "text", "written_at", "updated_at")}
    assert "ann" not in read.text
    assert bought not in read.text
    assert api.call("GET", "/customers/me/reviews", ANN).body["items"] == [written.body]
    assert api.call("GET", "/customers/ann/reviews", STAFF).body["items"] == [written.body]


def test_a_cursor_does_not_reveal_the_author_of_a_review(bare: ApiHarness) -> None:
    for number in range(3):
        review = replace(SAMPLES[REVIEW], customer_id=f"5f0c-customer-{number}", written_at=moment(number))
        bare.shop.table.client.put_item(TableName=bare.shop.table.name, Item=REVIEW.encode(review))
    said = bare.call("GET", "/products/mug/reviews", limit=1).body
    raw = base64.urlsafe_b64decode(said["cursor"] + "==")
    assert b"5f0c" not in raw
    assert len(list(pages(bare, "/products/mug/reviews", None, limit=1))) >= 3


def test_beyond_a_megabyte_every_review_comes_once_newest_first(bare: ApiHarness) -> None:
    fat = "x" * 60_000
    for number in range(60):
        at = Instant(f"2026-11-21T09:{number // 2:02}:00.000Z")  # two reviews have the same time
        for ids in ({"customer_id": f"c{number:02}"}, {"customer_id": "ann", "product_id": f"p{number:02}"}):
            review = replace(SAMPLES[REVIEW], **ids, written_at=at, text=f"{number} {fat}")
            bare.shop.table.client.put_item(TableName=bare.shop.table.name, Item=REVIEW.encode(review))
    for path, token in (("/products/mug/reviews", None), ("/customers/me/reviews", ANN)):
        found = list(pages(bare, path, token, limit=100))
        assert [int(one["text"].split()[0]) for page in found for one in page] == list(range(59, -1, -1))
        assert len(found) > 3


def test_a_review_can_be_changed_and_deleted_repeatedly(api: ApiHarness, bought: str) -> None:
    first = api.call("PUT", MINE, ANN, {"order_id": bought, "stars": 4}).body
    second = api.call("PUT", MINE, ANN, {"order_id": bought, "stars": 1, "text": "It broke."}).body
    assert (second["version"], second["written_at"], second["stars"]) == (2, first["written_at"], 1)
    for _ in range(2):
        gone = api.call("DELETE", MINE, ANN)
        assert (gone.status, gone.body) == (200, {"product_id": "mug", "customer_id": "ann"})
        assert api.call("GET", "/products/mug/reviews").body["items"] == []


def test_staff_can_delete_every_review_and_a_customer_only_their_own(api: ApiHarness, bought: str) -> None:
    api.register_customer(BOB)
    api.call("PUT", MINE, ANN, {"order_id": bought, "stars": 4})
    for path in ("/products/mug/reviews/ann", "/products/pot/reviews/ann", "/products/mug/reviews/nobody"):
        refused = api.call("DELETE", path, BOB)
        assert (refused.status, refused.problem_type, refused.body["what"]) == (404, "not-found", "review")
    assert api.call("DELETE", MINE, BOB).status == 200, "Bob deletes his own review, which does not exist"
    assert len(api.call("GET", "/products/mug/reviews").body["items"]) == 1
    assert api.call("DELETE", "/products/mug/reviews/ann", STAFF).status == 200
    assert api.call("GET", "/products/mug/reviews").body["items"] == []


def test_only_a_buyer_who_received_the_product_may_review_it(api: ApiHarness, bought: str) -> None:
    api.register_customer(BOB)
    waiting = str(api.place_order("key-2").body["order_id"])
    bobs = {"order_id": bought, "stars": 5}
    for token, path, body, expected in (
        (ANN, MINE, {"order_id": waiting, "stars": 5}, (409, "not-bought")),
        (ANN, "/products/pot/reviews/me", {"order_id": bought, "stars": 5}, (409, "not-bought")),
        (ANN, MINE, {"order_id": "none", "stars": 5}, (404, "not-found")),
        (BOB, MINE, bobs, (404, "not-found")),
        (Token("eve"), MINE, bobs, (409, "not-registered")),
        (None, MINE, bobs, (401, "unauthenticated")),
    ):
        refused = api.call("PUT", path, token, body)
        assert (refused.status, refused.problem_type) == expected
    assert api.call("GET", "/products/mug/reviews").body == {"items": [], "cursor": None}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("stars", stars) for stars in (0, 6, -1, 4.0, 4.5, "5", None, True)],
        *[("text", text) for text in (5, None, "x" * 4001, "a\x00b", "a\tb", "a\rb", "a\x9bb")],
        *[("order_id", id) for id in ("", "a#b", "x" * 65, None, 5)],
        ("name", "Ann"),
    ],
)
def test_invalid_fields_of_a_review_are_named(api: ApiHarness, field: str, value: Any) -> None:
    before = api.table_images()
    assert list(api.call("PUT", MINE, ANN, {"order_id": "o1", "stars": 5, field: value}).field_errors) == [field]
    assert api.table_images() == before


def test_a_cursor_of_reviews_belongs_to_its_list(bare: ApiHarness) -> None:
    for number in range(3):
        for ids in ({"customer_id": f"c{number}"}, {"customer_id": "ann", "product_id": f"p{number}"}):
            review = replace(SAMPLES[REVIEW], **ids, written_at=moment(number))
            bare.shop.table.client.put_item(TableName=bare.shop.table.name, Item=REVIEW.encode(review))
    cursor = bare.call("GET", "/products/mug/reviews", limit=1).body["cursor"]
    assert len(bare.call("GET", "/products/mug/reviews", cursor=cursor).body["items"]) == 2
    assert list(bare.call("GET", "/products/pot/reviews", cursor=cursor).field_errors) == ["cursor"]
    own = bare.call("GET", "/customers/me/reviews", ANN, limit=1).body["cursor"]
    assert list(bare.call("GET", "/customers/me/reviews", BOB, cursor=own).field_errors) == ["cursor"]
    assert list(bare.call("GET", "/customers/ann/reviews", STAFF, cursor=own).field_errors) == ["cursor"]


def test_the_reviews_of_a_customer_are_listed_only_for_that_customer(api: ApiHarness, bought: str) -> None:
    api.call("PUT", MINE, ANN, {"order_id": bought, "stars": 4})
    for customer in ("ann", "nobody"):
        refused = api.call("GET", f"/customers/{customer}/reviews", BOB)
        assert (refused.status, refused.problem_type, refused.body["what"]) == (404, "not-found", "customer")
