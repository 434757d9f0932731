"""Tests that customers follow products, and that staff see the followers."""

from proof.support.http_client import ANN, STAFF, ApiHarness

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
