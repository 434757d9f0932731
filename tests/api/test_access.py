"""Calls each route as the owner of its data, as other users with and without a token, and as users of a wrong group.

API Gateway checks a token's signature, time and issuer before it calls the function. tests/stacks/test_template.py
checks these settings.
"""

import re
from typing import Any

import pytest

from functions.api.http.context import PUBLIC_ROUTES, authenticate_caller, parse_groups
from functions.model.public_routes import GUEST_ROUTES, ROUTES_WITHOUT_AUTHORIZER
from functions.runtime.environment import load_environment
from proof.support.actors import archive_order
from proof.support.every_route import (
    CALLER_ROUTES,
    CUSTOMER_DATA_ROUTES,
    OWNER_ONLY_ROUTES,
    ROUTES,
    SIGNED_ROUTES,
    STAFF_ROUTES,
    WAREHOUSE_ROUTES,
    call_route,
)
from proof.support.http_client import ANN, BOB, STAFF, WAREHOUSE, ApiHarness, Token, http_event, invoke_api

CONFLICTS: dict[str, tuple[int, ...]] = {
    "DELETE /companies/{company_id}": (409,),  # the company has members
    "POST /orders/{order_id}/payments/{payment_id}/reverse": (409,),  # a card payment
    "POST /orders/{order_id}/payments/{payment_id}/assign": (404,),  # the order in the body does not exist
}
NOBODYS = {
    "no token": None,
    "an ID token": Token("ann", token_use="id"),
    "a refresh token": Token("ann", token_use="refresh"),
    "of another client": Token("ann", client_id="another-shops"),
    "of no client": Token("ann", client_id=""),
    "of staff of another client": Token("staff-1", ("staff",), client_id="another-shops"),
    "of nobody": Token("", ()),
    "of who cannot be": Token("a#b"),
    "of who is called me": Token("me"),
}


@pytest.mark.parametrize("token", NOBODYS.values(), ids=NOBODYS)
def test_a_route_that_is_not_public_needs_an_access_token(bare: ApiHarness, token: Token | None) -> None:
    for key in sorted(set(ROUTES) - ROUTES_WITHOUT_AUTHORIZER.keys()):
        ids = re.findall("{(.*?)}", key)
        refused = call_route(bare, dict.fromkeys(ids, "x"), key, token)
        assert (refused.status, refused.problem_type) == (401, "unauthenticated"), key
        assert refused.headers["www-authenticate"] == "Bearer", key
    assert bare.table_images() == []


def test_a_public_route_needs_none(api: ApiHarness, world: dict[str, str]) -> None:
    assert set(ROUTES) >= PUBLIC_ROUTES
    for key in sorted(PUBLIC_ROUTES):
        expected = 400 if key in SIGNED_ROUTES else 201 if key == "POST /guest/orders" else 200
        assert call_route(api, world, key, None).status == expected, key


def test_data_of_another_customer_is_answered_like_missing_data(api: ApiHarness, world: dict[str, str]) -> None:
    api.register_customer(BOB)
    before = api.table_images()
    for key in sorted(CUSTOMER_DATA_ROUTES):
        anothers = call_route(api, world, key, BOB)
        nobodys = call_route(api, dict.fromkeys(world, "nobody"), key, BOB)
        assert (anothers.status, anothers.problem_type) == (404, "not-found"), key
        assert anothers.body == nobodys.body or key == "GET /shipments", key
        assert api.table_images() == before, key


def test_an_unknown_id_in_a_path_is_not_found_by_staff(api: ApiHarness, world: dict[str, str]) -> None:
    api.register_customer(STAFF)  # so that no route answers that staff are not customers
    before = api.table_images()
    for key in sorted(set(ROUTES) - SIGNED_ROUTES - set(GUEST_ROUTES)):  # a signed route answers only who has its link
        for name in re.findall("{(.*?)}", key):
            answered = call_route(api, world | {name: "nobody"}, key, STAFF)
            assert (answered.status, answered.problem_type) == (404, "not-found"), (key, name)
    assert api.call("GET", "/orders/nobody/shipments", WAREHOUSE).problem_type == "not-found"
    assert api.table_images() == before


def test_erased_customers_archived_orders_and_the_caller_are_known(api: ApiHarness) -> None:
    order_id = api.place_order().body["order_id"]
    api.call("POST", f"/orders/{order_id}/cancel", ANN)
    archive_order(api.shop, order_id, to_stub=True)
    api.call("DELETE", "/customers/ann", ANN)
    assert api.call("GET", f"/orders/{order_id}/invoices", STAFF).body["items"] == []
    of_the_profile = {f"GET /customers/{{customer_id}}/{name}" for name in ("page", "mail-suppression")}
    for key in {key for key in ROUTES if re.fullmatch(r"GET /customers/\{customer_id\}/[\w-]+", key)} - of_the_profile:
        assert call_route(api, {"customer_id": "ann"}, key, STAFF).status == 200, key
        for unregistered in (BOB, STAFF):
            assert call_route(api, {"customer_id": "me"}, key, unregistered).status == 200, key


def test_only_an_empty_first_page_costs_another_read(api: ApiHarness) -> None:
    path = "/products/mug/followers"
    with api.record_requests() as sent:
        api.call("GET", path, STAFF)
        api.call("PUT", f"{path}/me", ANN)
        cursor = api.call("GET", path, STAFF, limit=1).body["cursor"]
        assert api.call("GET", path, STAFF, limit=1, cursor=cursor).body["items"] == []
    assert sent == ["Query", "GetItem", "BatchGetItem", "PutItem", "Query", "Query"]


SHOWN_TO_STAFF = sorted(key for key in CUSTOMER_DATA_ROUTES - OWNER_ONLY_ROUTES if not key.startswith("POST"))


@pytest.mark.parametrize("method", ["GET", *(key for key in SHOWN_TO_STAFF if not key.startswith("GET"))])
def test_a_customers_data_is_shown_to_the_customer_and_to_staff(
    api: ApiHarness, world: dict[str, str], method: str
) -> None:
    for key in [key for key in SHOWN_TO_STAFF if method in (key, key.split()[0])]:
        done = 202 if key == "DELETE /customers/{customer_id}" else 200
        assert [call_route(api, world, key, token).status for token in (ANN, STAFF)] == [done, done], key


def test_every_route_declares_its_kind_of_user(api: ApiHarness, world: dict[str, str]) -> None:
    """A new route must be in one of these sets, so that the tests in this file call the route as every kind of user."""
    kinds = (PUBLIC_ROUTES, GUEST_ROUTES, STAFF_ROUTES, WAREHOUSE_ROUTES, CUSTOMER_DATA_ROUTES, CALLER_ROUTES)
    assert {key: [key in kind for kind in kinds].count(True) for key in ROUTES} == dict.fromkeys(ROUTES, 1)
    assert set(ROUTES) >= STAFF_ROUTES | WAREHOUSE_ROUTES | CALLER_ROUTES


@pytest.mark.parametrize("key", sorted(CALLER_ROUTES))
def test_routes_for_every_signed_in_user_reveal_no_data_of_other_customers(
    api: ApiHarness, world: dict[str, str], key: str
) -> None:
    before = api.table_images()
    assert call_route(api, world, key, None).problem_type == "unauthenticated"
    assert api.table_images() == before
    refused = call_route(api, world, key, Token("stranger"))  # a signed-in user who is not a customer yet
    assert refused.status < 500
    after = api.table_images()
    assert [image for image in before if "ann" in str(image) and image not in after] == []
    assert not {"ann@example.com", world["order_id"], world["account_id"]} & set(re.findall(r"[\w@.]+", refused.text))


@pytest.mark.parametrize(
    ("routes", "others"),
    [
        (OWNER_ONLY_ROUTES, [STAFF]),
        (STAFF_ROUTES, [ANN, WAREHOUSE, Token("carl", ("Staff", "staff-x", "nostaff"))]),
        (WAREHOUSE_ROUTES, [ANN, BOB, Token("carl", ("Warehouse", "warehouses"))]),
    ],
    ids=["owner", "staff", "warehouse"],
)
def test_a_route_for_one_kind_of_user_rejects_the_others(
    api: ApiHarness, world: dict[str, str], routes: set[str], others: list[Token]
) -> None:
    before = api.table_images()
    for key in sorted(routes):
        for token in others:
            refused = call_route(api, world, key, token)
            assert (refused.status, refused.problem_type) == (403, "not-allowed"), (key, token)
        assert api.table_images() == before, key


@pytest.mark.parametrize("method", ["GET", *sorted(key for key in STAFF_ROUTES if not key.startswith("GET"))])
def test_staff_may_use_the_staff_routes(api: ApiHarness, world: dict[str, str], method: str) -> None:
    for key in [key for key in STAFF_ROUTES if method in (key, key.split()[0])]:
        assert call_route(api, world, key, STAFF).status in CONFLICTS.get(key, (200, 201, 202)), key


@pytest.mark.parametrize("key", sorted(WAREHOUSE_ROUTES))
def test_the_warehouse_may_use_the_warehouse_routes(api: ApiHarness, world: dict[str, str], key: str) -> None:
    assert call_route(api, world, key, WAREHOUSE).status in (200, 201, 409), "409: the order's status forbids it"


def test_the_warehouse_sees_no_customers_orders(api: ApiHarness, world: dict[str, str]) -> None:
    for key in ("GET /orders/{order_id}", "GET /orders/{order_id}/whole", "GET /customers/{customer_id}"):
        assert call_route(api, world, key, WAREHOUSE).problem_type == "not-found"


@pytest.mark.parametrize(
    ("claim", "groups"),
    [
        ("[staff warehouse]", {"staff", "warehouse"}),
        ("[staff]", {"staff"}),
        ("staff", {"staff"}),
        ("[staff, warehouse]", {"staff,", "warehouse"}),
        ("[a,staff]", {"a,staff"}),
        ("a,staff", {"a,staff"}),
        ("a staff", {"a staff"}),
        ("[staff  warehouse]", set()),
        ("[ staff]", set()),
        ("[a\u00a0staff x\tstaff]", {"a\u00a0staff", "x\tstaff"}),
        (["a,staff", "a staff"], {"a,staff", "a staff"}),
        (["staff", "warehouse"], {"staff", "warehouse"}),
        ("[staff,]", {"staff,"}),
        (5, set()),
        ({"staff": 1}, set()),
        ([["staff"], None], set()),
        ("[]", set()),
        ("", set()),
        (None, set()),
        ([], set()),
    ],
)
def test_groups_are_read_as_an_http_api_renders_them_and_as_a_list(claim: Any, groups: set[str]) -> None:
    assert parse_groups(claim) == groups


@pytest.mark.parametrize(
    "authorizer", [None, {}, {"jwt": None}, {"jwt": {}}, {"jwt": {"claims": None}}, {"lambda": {}}]
)
def test_an_event_without_claims_has_no_caller(bare: ApiHarness, authorizer: Any) -> None:
    raw = http_event("GET", "/orders", token=ANN)
    raw["requestContext"]["authorizer"] = authorizer
    assert invoke_api(raw).problem_type == "unauthenticated"


# another identity provider --------------------------------------------------------------------------------------------
def foreign_event(**claims: Any) -> dict[str, Any]:
    raw = http_event("GET", "/orders", token=ANN, query="status=PENDING")
    known = {"iss": "https://id.shop.example/", "sub": "ann", "aud": "[shop]", "roles": "[staff]"}
    raw["requestContext"]["authorizer"]["jwt"]["claims"] = known | claims
    return raw


def test_a_token_of_another_provider_has_its_groups_in_the_claim_of_the_setting(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert invoke_api(foreign_event()).problem_type == "unauthenticated"
    monkeypatch.setenv("ISSUER", "https://id.shop.example/")
    monkeypatch.setenv("GROUPS_CLAIM", "roles")
    load_environment.cache_clear()
    assert invoke_api(foreign_event()).status == 200
    assert invoke_api(foreign_event(roles="[guests]")).problem_type == "not-allowed"
    for wrong in ({"iss": "https://id.shop.example"}, {"sub": ""}, {"sub": None}):
        assert invoke_api(foreign_event(**wrong)).problem_type == "unauthenticated"
    assert authenticate_caller(foreign_event(sub="ann")).id == "ann"
    derived = authenticate_caller(foreign_event(sub="auth0|1")).id
    assert re.fullmatch("[a-z2-7]{26}", derived)
    assert derived == authenticate_caller(foreign_event(sub="auth0|1")).id
    assert derived != authenticate_caller(foreign_event(sub="auth0|2")).id
    assert authenticate_caller(foreign_event(sub="guest-1")).id != "guest-1"
