"""Tests that customers follow products, and that staff see the followers."""

from proof.support.http_client import ANN, BOB, STAFF, ApiHarness

MINE = "/products/mug/followers/me"


def test_a_customer_follows_a_product_and_does_not_any_more_as_often_as_they_like(api: ApiHarness) -> None:
    first, again = api.call("PUT", MINE, ANN), api.call("PUT", MINE, ANN)
    assert (first.status, again.status) == (200, 200)
    assert first.body == again.body
    assert first.body["product_id"] == "mug"
    assert api.call("GET", "/customers/me/follows", ANN).body == {"items": [first.body], "cursor": None}
    assert api.call("GET", "/customers/ann/follows", STAFF).body["items"] == [first.body]
    seen = api.call("GET", "/products/mug/followers", STAFF).body
    assert seen == {"items": [{"customer_id": "ann"}], "cursor": None}, "the list shows only the ids of followers"
    for _ in range(2):
        gone = api.call("DELETE", MINE, ANN)
        assert (gone.status, gone.body) == (200, {"product_id": "mug"})
        assert api.call("GET", "/products/mug/followers", STAFF).body["items"] == []
        assert api.call("GET", "/customers/me/follows", ANN).body["items"] == []


def test_only_customers_follow(api: ApiHarness) -> None:
    assert api.call("PUT", MINE, BOB).problem_type == "not-registered"
    assert api.call("PUT", MINE, ANN, {"customer_id": "bob"}).field_errors == {
        "customer_id": "is not a known parameter or field"
    }
    assert api.call("GET", "/products/mug/followers", STAFF).body["items"] == []


def test_a_customer_cannot_follow_for_another_customer(api: ApiHarness) -> None:
    api.register_customer(BOB)
    api.call("PUT", MINE, ANN)
    for method in ("PUT", "DELETE"):
        assert api.call(method, "/products/mug/followers/ann", BOB).problem_type == "no-such-route"
    assert api.call("DELETE", MINE, BOB).status == 200
    assert api.call("GET", "/products/mug/followers", STAFF).body["items"] == [{"customer_id": "ann"}]
