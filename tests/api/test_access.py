"""Who may ask what: every route, by its owner, another customer, nobody, the wrong group, and with a token of others.

A token's signature, time and issuer are looked at before the function is called, by API Gateway: see
tests/stacks/test_template.py for what it is told, tests/laptop/test_tokens.py for one that does it.
"""

import re
from typing import Any

import pytest

from functions.api.context import PUBLIC, groups_of
from tests.api.asking import ANN, BOB, STAFF, WAREHOUSE, Api, Token, answer_to, event
from tests.api.every_route import (
    FOR_STAFF,
    FOR_WAREHOUSE,
    OF_SOMEBODY,
    OF_WHO_ASKS,
    ROUTES,
    SIGNED,
    THEIRS_ALONE,
    ask,
)

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
def test_a_route_that_is_not_public_needs_an_access_token(bare: Api, token: Token | None) -> None:
    for key in sorted(set(ROUTES) - PUBLIC):
        ids = re.findall("{(.*?)}", key)
        refused = ask(bare, dict.fromkeys(ids, "x"), key, token)
        assert (refused.status, refused.problem) == (401, "unauthenticated"), key
        assert refused.headers["www-authenticate"] == "Bearer", key
    assert bare.contents() == []


def test_a_public_route_needs_none(api: Api, world: dict[str, str]) -> None:
    assert set(ROUTES) >= PUBLIC
    for key in sorted(PUBLIC):
        assert ask(api, world, key, None).status == (400 if key in SIGNED else 200), key


def test_what_is_anothers_answers_like_what_there_is_not(api: Api, world: dict[str, str]) -> None:
    api.register(BOB)
    before = api.contents()
    for key in sorted(OF_SOMEBODY):
        anothers = ask(api, world, key, BOB)
        nobodys = ask(api, dict.fromkeys(world, "nobody"), key, BOB)
        assert (anothers.status, anothers.problem) == (404, "not-found"), key
        assert anothers.said == nobodys.said or key == "GET /shipments", key
        assert api.contents() == before, key


@pytest.mark.parametrize("key", sorted(key for key in OF_SOMEBODY - THEIRS_ALONE if not key.startswith("POST")))
def test_what_is_ones_own_is_shown_to_them_and_to_staff(api: Api, world: dict[str, str], key: str) -> None:
    done = 202 if key == "DELETE /customers/{customer_id}" else 200
    assert ask(api, world, key, ANN).status == done
    assert ask(api, world, key, STAFF).status == done


def test_what_is_ones_own_alone_is_not_for_staff(api: Api, world: dict[str, str]) -> None:
    before = api.contents()
    for key in sorted(THEIRS_ALONE):
        refused = ask(api, world, key, STAFF)
        assert (refused.status, refused.problem) == (403, "not-allowed"), key
    assert api.contents() == before


def test_what_is_somebodys_is_kept_by_no_cache(api: Api) -> None:
    for token in (ANN, BOB):
        answered = api.ask("GET", "/customers/me", token)
        assert answered.headers["cache-control"] == "no-store"
        assert answered.headers["x-content-type-options"] == "nosniff"


def test_every_route_is_for_somebody_that_is_named(api: Api, world: dict[str, str]) -> None:
    """A new route is in one of these, or this fails: then the tests here ask it as everybody."""
    kinds = (PUBLIC, FOR_STAFF, FOR_WAREHOUSE, OF_SOMEBODY, OF_WHO_ASKS)
    assert {key: [key in kind for kind in kinds].count(True) for key in ROUTES} == dict.fromkeys(ROUTES, 1)
    assert set(ROUTES) >= FOR_STAFF | FOR_WAREHOUSE | OF_WHO_ASKS


@pytest.mark.parametrize("key", sorted(OF_WHO_ASKS))
def test_what_is_for_whoever_is_signed_in_is_about_themselves_or_about_nobody(
    api: Api, world: dict[str, str], key: str
) -> None:
    before = api.contents()
    assert ask(api, world, key, None).problem == "unauthenticated"
    assert api.contents() == before
    refused = ask(api, world, key, Token("stranger"))  # who has an account at the pool, and is no customer
    assert refused.status < 500
    after = api.contents()
    assert [image for image in before if "ann" in str(image) and image not in after] == []
    assert not {"ann@example.com", world["order_id"], world["account_id"]} & set(re.findall(r"[\w@.]+", refused.text))


@pytest.mark.parametrize("key", sorted(FOR_STAFF))
def test_what_is_for_staff_is_for_nobody_else(api: Api, world: dict[str, str], key: str) -> None:
    before = api.contents()
    for token in (ANN, WAREHOUSE, Token("carl", ("Staff", "staff-x", "nostaff"))):
        refused = ask(api, world, key, token)
        assert (refused.status, refused.problem) == (403, "not-allowed"), token
    assert api.contents() == before
    assert ask(api, world, key, STAFF).status in (200, 201, 202)


def test_what_is_for_the_warehouse_is_for_no_customer(api: Api, world: dict[str, str]) -> None:
    before = api.contents()
    for key in sorted(FOR_WAREHOUSE):
        for token in (ANN, BOB, Token("carl", ("Warehouse", "warehouses"))):
            refused = ask(api, world, key, token)
            assert (refused.status, refused.problem) == (403, "not-allowed"), key
    assert api.contents() == before


@pytest.mark.parametrize("key", sorted(FOR_WAREHOUSE))
def test_what_is_for_the_warehouse_it_may_ask(api: Api, world: dict[str, str], key: str) -> None:
    assert ask(api, world, key, WAREHOUSE).status in (200, 201, 409), "409: the order is in another state"


def test_orders_of_everybody_are_for_staff(api: Api) -> None:
    assert api.ask("GET", "/orders", ANN, status="PENDING").problem == "not-allowed"
    assert api.ask("GET", "/orders", WAREHOUSE, status="PENDING").problem == "not-allowed"


def test_the_warehouse_sees_no_customers_orders(api: Api, world: dict[str, str]) -> None:
    for key in ("GET /orders/{order_id}", "GET /orders/{order_id}/whole", "GET /customers/{customer_id}"):
        assert ask(api, world, key, WAREHOUSE).problem == "not-found"


@pytest.mark.parametrize(
    ("claim", "groups"),
    [
        ("[staff warehouse]", {"staff", "warehouse"}),
        ("[staff]", {"staff"}),
        ("staff", {"staff"}),
        ("[staff, warehouse]", {"staff", "warehouse"}),
        (["staff", "warehouse"], {"staff", "warehouse"}),
        ("[]", set()),
        ("", set()),
        (None, set()),
        ([], set()),
    ],
)
def test_groups_are_read_as_an_http_api_renders_them_and_as_a_list(claim: Any, groups: set[str]) -> None:
    assert groups_of(claim) == groups


@pytest.mark.parametrize(
    "authorizer", [None, {}, {"jwt": None}, {"jwt": {}}, {"jwt": {"claims": None}}, {"lambda": {}}]
)
def test_an_event_without_claims_is_nobodys(bare: Api, authorizer: Any) -> None:
    raw = event("GET", "/orders", token=ANN)
    raw["requestContext"]["authorizer"] = authorizer
    assert answer_to(raw).problem == "unauthenticated"
