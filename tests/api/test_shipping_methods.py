"""Staff read and replace the shipping methods, and a quote shows those that can send an order."""

from typing import Any

from functions.api.routes.shipping_methods import MAX_METHODS
from functions.shop.shipping_methods import MAX_RATES
from ops.item_size import item_bytes
from proof.support.http_client import ANN, STAFF, ApiHarness, order_body

AUSTRIA = {"destination": "AT", "currency": "EUR", "price": 490}
PARCEL = {"id": "standard", "name": "Parcel", "days": {"min": 2, "max": 4}, "rates": [AUSTRIA]}
COLLECT = {"id": "shop", "name": "Shop", "pickup": True, "rates": [{**AUSTRIA, "destination": "*", "price": 0}]}
GERMANY = {"id": "de", "name": "DE", "rates": [{**AUSTRIA, "destination": "DE"}]}


def put(api: ApiHarness, *methods: Any) -> Any:
    return api.call("PUT", "/shipping-methods", STAFF, {"methods": methods})


def test_staff_replace_the_methods_and_read_them(api: ApiHarness) -> None:
    empty: dict[str, Any] = {"methods": [], "updated_at": None, "version": 0}
    assert api.call("GET", "/shipping-methods", STAFF).body == empty
    stored = put(api, {**PARCEL, "free_from": {"EUR": 5000}}, COLLECT)
    assert stored.status == 200
    assert stored.body["version"] == 1
    assert stored.body["methods"][0] == {
        **PARCEL,
        "pickup": False,
        "by": "value",
        "free_from": {"EUR": 5000},
        "rates": [{**AUSTRIA, "from": 0}],
    }
    assert (stored.body["methods"][1]["pickup"], stored.body["methods"][1]["days"]) == (True, None)
    assert api.call("GET", "/shipping-methods", STAFF).body == stored.body


def test_the_longest_delivery_is_not_shorter_than_the_shortest(api: ApiHarness) -> None:
    assert list(put(api, COLLECT, {**PARCEL, "days": {"min": 4, "max": 2}}).field_errors) == ["methods.1.days"]


def test_the_largest_table_fits_into_30_kilobytes(api: ApiHarness) -> None:
    rate = {"destination": "US-CAL", "currency": "EUR", "price": 10**9}
    limits = dict.fromkeys(("CHF", "EUR", "GBP", "JPY", "USD"), 10**9)
    method = {"name": "\u20ac" * 60, "days": {"min": 100, "max": 365}, "by": "weight", "free_from": limits}
    count = MAX_RATES // MAX_METHODS
    methods = [
        {**method, "id": f"{id:032}", "rates": [{**rate, "from": 10**8 + number} for number in range(count)]}
        for id in range(MAX_METHODS)
    ]
    assert put(api, *methods).status == 200
    (stored,) = [image for image in api.table_images() if image["type"]["S"] == "ShippingTable"]
    assert 20_000 < item_bytes(stored) < 30_000


# quotes and orders ----------------------------------------------------------------------------------------------------
def test_a_quote_lists_the_methods_and_an_order_shows_its_own(api: ApiHarness) -> None:
    body = order_body(mug=2)
    free = api.call("POST", "/orders/quote", ANN, body).body
    assert (free["shipping"], free["shipping_method"], free["shipping_methods"]) == (0, None, [])
    put(api, PARCEL, GERMANY, COLLECT)
    quoted = api.call("POST", "/orders/quote", ANN, body).body
    parcel = {"id": "standard", "name": "Parcel", "pickup": False, "days": {"min": 2, "max": 4}}
    collect = {"id": "shop", "name": "Shop", "pickup": True, "days": None}
    assert quoted["shipping_methods"] == [{**parcel, "price": 490}, {**collect, "price": 0}]
    assert (quoted["shipping"], quoted["shipping_method"]) == (490, "standard")
    collected = api.call("POST", "/orders/quote", ANN, {**body, "shipping_method": "shop"}).body
    assert (collected["shipping"], collected["shipping_method"]) == (0, "shop")
    placed = api.call("POST", "/orders", ANN, body, key="one").body
    assert (placed["shipping"], placed["shipping_method"]) == (490, parcel)
    placed = api.call("POST", "/orders", ANN, {**body, "shipping_method": "shop"}, key="two").body
    assert (placed["shipping"], placed["shipping_method"]) == (0, collect)
