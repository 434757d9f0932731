"""Reviews: buyers write them, and all users read them."""

import pytest

from proof.support.http_client import ANN, BOB, STAFF, ApiHarness
from tests.api.conftest import place_delivered

MINE = "/products/mug/reviews/me"


@pytest.fixture
def bought(api: ApiHarness) -> str:
    """Deliver an order of Ann for two mugs. Return its id."""
    return place_delivered(api)


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


def test_a_deleted_review_is_answered_with_its_ids_and_one_of_another_customer_is_not_found(
    api: ApiHarness, bought: str
) -> None:
    api.call("PUT", MINE, ANN, {"order_id": bought, "stars": 4})
    refused = api.call("DELETE", "/products/mug/reviews/ann", BOB)
    assert (refused.status, refused.problem_type, refused.body["what"]) == (404, "not-found", "review")
    gone = api.call("DELETE", MINE, ANN)
    assert (gone.status, gone.body) == (200, {"product_id": "mug", "customer_id": "ann"})
    assert api.call("GET", "/products/mug/reviews").body["items"] == []
