"""Tests customers: registration with a verified address, settings, and the page with all data of a customer."""

from dataclasses import replace
from typing import Any

import pytest

from functions.dynamodb.writes import put_if_absent
from functions.model.table import ORDER_SUMMARY
from proof.support.http_client import ANN, STAFF, ApiHarness, Token, change_cognito_email, create_cognito_user
from proof.support.samples import SAMPLES, moment


def summarise(api: ApiHarness, count: int) -> list[str]:
    """Write summaries of Ann's orders, as the stream's reader does. Return the order ids, oldest first."""
    ids = [f"order-{number:03}" for number in range(count)]
    for number, id in enumerate(ids):
        summary = replace(SAMPLES[ORDER_SUMMARY], order_id=id, placed_at=moment(number))
        api.shop.table.write(put_if_absent(ORDER_SUMMARY, summary))
    return ids


# registration ---------------------------------------------------------------------------------------------------------
def test_a_customer_registers_with_the_address_the_identity_provider_has_verified(bare: ApiHarness) -> None:
    carol = create_cognito_user("Carol@Example.com", verified=True)
    made = bare.call("POST", "/customers", carol, {"name": "  Carol Coe "})
    assert made.status == 201
    assert made.headers["location"] == f"/customers/{carol.sub}"
    assert (made.body["customer_id"], made.body["name"]) == (carol.sub, "Carol Coe")
    assert made.body["email"].lower() == "carol@example.com"
    assert bare.call("GET", "/customers/me", carol).body == made.body


def test_an_address_that_is_not_verified_makes_no_customer(bare: ApiHarness) -> None:
    carol = create_cognito_user("carol@example.com", verified=False)
    refused = bare.call("POST", "/customers", carol, {"name": "Carol"})
    assert (refused.status, refused.problem_type) == (403, "email-not-verified")
    assert bare.table_images() == []


@pytest.mark.parametrize("sub", ["carol", "eve"], ids=["a revoked token", "a token of another user"])
def test_a_token_that_the_identity_provider_does_not_confirm_registers_no_customer(bare: ApiHarness, sub: str) -> None:
    carol = create_cognito_user("carol@example.com", verified=True)
    bearer = carol.bearer if sub == "eve" else "revoked"
    refused = bare.call("POST", "/customers", Token(sub, bearer=bearer), {"name": "Carol"})
    assert (refused.status, refused.problem_type) == (401, "unauthenticated")
    assert bare.table_images() == []


# reads ----------------------------------------------------------------------------------------------------------------
def test_staff_find_a_customer_by_address(api: ApiHarness) -> None:
    (found,) = api.call("GET", "/customers", STAFF, email="ANN@Example.com").body["items"]
    assert found == api.call("GET", "/customers/me", ANN).body
    assert api.call("GET", "/customers", STAFF, email="who@example.com").body == {"items": [], "cursor": None}
    refused = api.call("GET", "/customers", STAFF, email="ann@example.com", **{"from": "2026-11-01"})
    assert list(refused.field_errors) == ["email"]


def test_an_erased_customer_is_not_listed(api: ApiHarness) -> None:
    assert api.call("DELETE", "/customers/me", ANN).status in (200, 202)
    assert api.call("GET", "/customers", STAFF).body["items"] == []


def test_a_profile_change_changes_only_what_it_has(api: ApiHarness) -> None:
    before = api.call("GET", "/customers/me", ANN).body
    assert before["language"] is None
    after = api.call("PATCH", "/customers/me", ANN, {"language": "de"}).body
    assert (after["name"], after["language"]) == (before["name"], "de")
    assert api.call("PATCH", "/customers/me", ANN, {"name": "Ann Oak"}).body["language"] == "de"
    for empty in ({}, {"name": None}):
        assert api.call("PATCH", "/customers/me", ANN, empty).status == 400


# change of the e-mail address -----------------------------------------------------------------------------------------
@pytest.fixture
def carol(bare: ApiHarness) -> Token:
    """Register Carol with a verified address."""
    carol = create_cognito_user("carol@example.com", verified=True)
    assert bare.call("POST", "/customers", carol, {"name": "Carol"}).status == 201
    return carol


def test_a_customer_changes_to_their_currently_verified_address(bare: ApiHarness, carol: Token) -> None:
    change_cognito_email(carol, "carol@new.example")
    changed = bare.call("PUT", "/customers/me/email", carol)
    assert (changed.status, changed.body["email"], changed.body["name"]) == (200, "carol@new.example", "Carol")
    assert bare.call("GET", f"/customers/{carol.sub}", carol).body == changed.body


def test_an_address_that_is_not_verified_yet_changes_nothing(bare: ApiHarness, carol: Token) -> None:
    change_cognito_email(carol, "carol@new.example", verified=False)
    before = bare.table_images()
    refused = bare.call("PUT", "/customers/me/email", carol)
    assert (refused.status, refused.problem_type) == (403, "email-not-verified")
    assert bare.table_images() == before


def test_a_revoked_token_changes_no_address(bare: ApiHarness) -> None:
    bare.register_customer(ANN)
    before = bare.table_images()
    assert bare.call("PUT", "/customers/me/email", ANN).problem_type == "unauthenticated"
    assert bare.table_images() == before


# settings -------------------------------------------------------------------------------------------------------------
DEFAULTS = dict.fromkeys(("email", "order_changes", "shipments", "refunds", "product_alerts"), True)


def test_settings_show_the_defaults_until_something_is_chosen(api: ApiHarness) -> None:
    assert api.call("GET", "/customers/me/settings", ANN).body == {"notifications": DEFAULTS}
    chosen = api.call("PUT", "/customers/me/settings/notifications", ANN, {"refunds": False}).body
    assert chosen == {**DEFAULTS, "refunds": False}
    assert api.call("GET", "/customers/me/settings", ANN).body == {"notifications": chosen}


@pytest.mark.parametrize("choices", [{}, {"email": None}])
def test_settings_are_not_changed_without_a_choice(api: ApiHarness, choices: Any) -> None:
    assert api.call("PUT", "/customers/me/settings/notifications", ANN, choices).problem_type == "malformed"


# the page, and lists --------------------------------------------------------------------------------------------------
def test_the_page_shows_profile_settings_and_newest_orders_in_one_request(api: ApiHarness) -> None:
    ids = summarise(api, 3)
    api.call("PUT", "/customers/me/settings/notifications", ANN, {"refunds": False})
    with api.record_requests() as sent:
        page = api.call("GET", "/customers/me/page", ANN).body
    assert sent == ["Query"]
    assert page["customer"] == api.call("GET", "/customers/me", ANN).body
    assert page["settings"] == {"notifications": {**DEFAULTS, "refunds": False}}
    assert [order["order_id"] for order in page["orders"]] == ids[::-1]
    assert page["cursor"] is None


def test_a_list_holds_twenty_unless_asked_otherwise(api: ApiHarness) -> None:
    summarise(api, 21)
    page = api.call("GET", "/orders", ANN).body
    assert len(page["items"]) == 20
    assert page["cursor"]
