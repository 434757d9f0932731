"""Reviews: buyers write them, and all users read them."""

import base64
from dataclasses import replace
from typing import Any

import pytest

from functions.model.table import REVIEW
from functions.shop.fulfilment import fulfil_order
from proof.support.http_client import ANN, BOB, STAFF, WAREHOUSE, ApiHarness
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
    assert b"5f0c" not in base64.urlsafe_b64decode(said["cursor"] + "==")


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


def test_a_deleted_review_is_answered_with_its_ids_and_one_of_another_customer_is_not_found(
    api: ApiHarness, bought: str
) -> None:
    api.call("PUT", MINE, ANN, {"order_id": bought, "stars": 4})
    refused = api.call("DELETE", "/products/mug/reviews/ann", BOB)
    assert (refused.status, refused.problem_type, refused.body["what"]) == (404, "not-found", "review")
    gone = api.call("DELETE", MINE, ANN)
    assert (gone.status, gone.body) == (200, {"product_id": "mug", "customer_id": "ann"})
    assert api.call("GET", "/products/mug/reviews").body["items"] == []
