"""Tests customers: registration with a verified address, settings, and the page with all data of a customer."""

from dataclasses import replace
from typing import Any

import pytest

from functions.dynamodb.writes import put_if_absent
from functions.model.entities import OrderSummary
from functions.model.table import CUSTOMER, ORDER_SUMMARY
from proof.support.http_client import ANN, BOB, STAFF, ApiHarness, Token, change_cognito_email, create_cognito_user
from proof.support.samples import SAMPLES


def summarise(api: ApiHarness, count: int, customer_id: str = ANN.sub) -> list[str]:
    """Write summaries of orders, as the stream's reader does. Return the order ids, oldest first."""
    ids = [f"order-{number:03}" for number in range(count)]
    for number, id in enumerate(ids):
        at: Any = f"2026-11-21T09:30:00.{number:03}Z"
        summary = OrderSummary(
            customer_id=customer_id,
            order_id=id,
            placed_at=at,
            status="PENDING",
            currency="EUR",
            total=5,
            version=1,
            items=2,
        )
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


def test_an_address_in_the_body_is_rejected(bare: ApiHarness) -> None:
    carol = create_cognito_user("carol@example.com", verified=True)
    refused = bare.call("POST", "/customers", carol, {"name": "Carol", "email": "ann@example.com"})
    assert refused.field_errors == {"email": "is not a known field"}


def test_a_revoked_token_cannot_register_a_customer(bare: ApiHarness) -> None:
    refused = bare.call("POST", "/customers", Token("carol", bearer="revoked"), {"name": "Carol"})
    assert (refused.status, refused.problem_type) == (401, "unauthenticated")
    assert bare.table_images() == []


def test_a_token_of_another_user_cannot_register_a_customer(bare: ApiHarness) -> None:
    carol = create_cognito_user("carol@example.com", verified=True)
    refused = bare.call("POST", "/customers", Token("eve", bearer=carol.bearer), {"name": "Eve"})
    assert (refused.status, refused.problem_type) == (401, "unauthenticated")
    assert bare.table_images() == []


def test_a_second_registration_does_not_change_the_customer(bare: ApiHarness) -> None:
    carol = create_cognito_user("carol@example.com", verified=True)
    bare.call("POST", "/customers", carol, {"name": "Carol"})
    refused = bare.call("POST", "/customers", carol, {"name": "Caroline"})
    assert (refused.status, refused.problem_type) == (409, "already-exists")
    assert bare.call("GET", "/customers/me", carol).body["name"] == "Carol"


def test_an_address_is_one_customers_alone_however_it_is_spelled(api: ApiHarness) -> None:
    carol = create_cognito_user("ANN@example.COM", verified=True)
    before = api.table_images()
    refused = api.call("POST", "/customers", carol, {"name": "Carol"})
    assert (refused.status, refused.problem_type) == (409, "email-taken")
    assert api.table_images() == before
    assert "ann" not in refused.text.lower()


# reads ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("spelled", ["ann@example.com", "ANN@Example.com"])
def test_staff_find_a_customer_by_address(api: ApiHarness, spelled: str) -> None:
    (found,) = api.call("GET", "/customers", STAFF, email=spelled).body["items"]
    assert found == api.call("GET", "/customers/me", ANN).body


def test_an_unknown_email_address_finds_no_customer(api: ApiHarness) -> None:
    assert api.call("GET", "/customers", STAFF, email="who@example.com").body == {"items": [], "cursor": None}
    refused = api.call("GET", "/customers", STAFF, email="ann@example.com", **{"from": "2026-11-01"})
    assert list(refused.field_errors) == ["email"]


def test_staff_list_the_customers_newest_first_and_by_the_time_of_their_registration(api: ApiHarness) -> None:
    ids = [f"customer-{number}" for number in range(5)]
    for day, id in enumerate(ids, 1):
        at: Any = f"2026-01-0{day}T09:30:00.000Z"
        api.shop.table.write(put_if_absent(CUSTOMER, replace(SAMPLES[CUSTOMER], customer_id=id, created_at=at)))
    first = api.call("GET", "/customers", STAFF, limit=4).body
    rest = api.call("GET", "/customers", STAFF, limit=4, cursor=first["cursor"]).body
    assert [one["customer_id"] for one in first["items"] + rest["items"]] == [ANN.sub, *ids[::-1]]
    middle = api.call("GET", "/customers", STAFF, **{"from": "2026-01-02", "to": "2026-01-04"}).body["items"]
    assert [one["customer_id"] for one in middle] == ids[2:0:-1]


def test_an_erased_customer_is_not_listed(api: ApiHarness) -> None:
    assert api.call("DELETE", "/customers/me", ANN).status in (200, 202)
    assert api.call("GET", "/customers", STAFF).body["items"] == []


@pytest.mark.parametrize("email", ["", "ann", "a b@c", "a@" + "b" * 300, "a@b\x00"])
def test_a_malformed_email_address_is_rejected(api: ApiHarness, email: str) -> None:
    assert list(api.call("GET", "/customers", STAFF, email=email).field_errors) == ["email"]


def test_me_is_the_caller(api: ApiHarness) -> None:
    assert api.call("GET", "/customers/me", ANN).body == api.call("GET", "/customers/ann", ANN).body
    assert api.call("GET", "/customers/me", BOB).problem_type == "not-found"
    assert api.call("GET", "/customers/ann", STAFF).status == 200


def test_no_response_shows_the_stored_form_of_an_address(api: ApiHarness) -> None:
    assert sorted(api.call("GET", "/customers/me", ANN).body) == [
        "company_id",
        "created_at",
        "customer_id",
        "email",
        "name",
        "updated_at",
    ]


def test_a_customer_is_renamed(api: ApiHarness) -> None:
    assert api.call("PATCH", "/customers/me", ANN, {"name": "Ann Oak"}).body["name"] == "Ann Oak"
    assert api.call("GET", "/customers/ann", ANN).body["name"] == "Ann Oak"


@pytest.mark.parametrize("name", ["", "   ", "x" * 201, "a\nb", "a\x00b", "a\x7f", "\x9f", 5, None, ["Ann"], True])
def test_a_name_is_one_line_of_text(api: ApiHarness, name: Any) -> None:
    before = api.table_images()
    assert list(api.call("PATCH", "/customers/me", ANN, {"name": name}).field_errors) == ["name"]
    assert api.table_images() == before


@pytest.mark.parametrize("name", ["Ünï Çödé", "李小龍", "O'Neil-Smith", "x" * 200, "👩‍🚀", "<b>&amp;"])
def test_a_name_may_be_any_name(api: ApiHarness, name: str) -> None:
    assert api.call("PATCH", "/customers/me", ANN, {"name": name}).body["name"] == name


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
    assert bare.call("GET", "/customers", STAFF, email="carol@new.example").body["items"] == [changed.body]
    assert bare.call("GET", "/customers", STAFF, email="carol@example.com").body["items"] == []
    before = bare.table_images()
    assert bare.call("PUT", f"/customers/{carol.sub}/email", carol).body == changed.body
    assert bare.table_images() == before, "a repeated request writes nothing"


def test_an_address_that_another_customer_has_is_not_taken(bare: ApiHarness, carol: Token) -> None:
    bare.register_customer(ANN)
    change_cognito_email(carol, "ANN@example.com")
    before = bare.table_images()
    refused = bare.call("PUT", "/customers/me/email", carol)
    assert (refused.status, refused.problem_type) == (409, "email-taken")
    assert "ann" not in refused.text.lower()
    assert bare.table_images() == before


def test_an_address_that_is_not_verified_yet_changes_nothing(bare: ApiHarness, carol: Token) -> None:
    change_cognito_email(carol, "carol@new.example", verified=False)
    before = bare.table_images()
    refused = bare.call("PUT", "/customers/me/email", carol)
    assert (refused.status, refused.problem_type) == (403, "email-not-verified")
    assert bare.table_images() == before


def test_an_address_in_the_body_changes_nothing(bare: ApiHarness, carol: Token) -> None:
    refused = bare.call("PUT", "/customers/me/email", carol, {"email": "ann@example.com"})
    assert refused.field_errors == {"email": "is not a known parameter or field"}


def test_only_the_customer_can_change_their_address(bare: ApiHarness, carol: Token) -> None:
    bare.register_customer(ANN)
    before = bare.table_images()
    for path in (f"/customers/{carol.sub}/email", "/customers/nobody/email"):
        assert bare.call("PUT", path, ANN).problem_type == "not-found"
    assert bare.call("PUT", "/customers/ann/email", STAFF).problem_type == "not-allowed"
    assert bare.call("PUT", "/customers/me/email", ANN).problem_type == "unauthenticated", "the token is revoked"
    assert bare.table_images() == before


def test_a_user_without_registration_cannot_change_the_email_address(bare: ApiHarness) -> None:
    dave = create_cognito_user("dave@example.com", verified=True)
    assert bare.call("PUT", "/customers/me/email", dave).problem_type == "not-found"
    assert bare.table_images() == []


# settings -------------------------------------------------------------------------------------------------------------
DEFAULTS = dict.fromkeys(("email", "order_changes", "shipments", "refunds", "product_alerts"), True)


def test_settings_show_the_defaults_until_something_is_chosen(api: ApiHarness) -> None:
    assert api.call("GET", "/customers/me/settings", ANN).body == {"notifications": DEFAULTS}


def test_one_setting_is_changed_without_the_other_or_the_profile(api: ApiHarness) -> None:
    before = api.call("GET", "/customers/me", ANN).body
    chosen = api.call("PUT", "/customers/me/settings/notifications", ANN, {"refunds": False}).body
    assert chosen == {**DEFAULTS, "refunds": False}
    api.call("PUT", "/customers/me/settings/notifications", ANN, {"email": False})
    assert api.call("GET", "/customers/me/settings", ANN).body == {
        "notifications": {**DEFAULTS, "email": False, "refunds": False}
    }
    assert api.call("GET", "/customers/me", ANN).body == before


@pytest.mark.parametrize(
    "choices", [{}, {"email": None}, {"email": "yes"}, {"email": 1}, {"product_alerts": 0}, {"sms": True}]
)
def test_a_choice_is_yes_or_no_for_a_channel_there_is(api: ApiHarness, choices: Any) -> None:
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


def test_the_pages_cursor_goes_on_in_the_list_of_orders(api: ApiHarness) -> None:
    ids = summarise(api, 25)
    page = api.call("GET", "/customers/me/page", ANN, limit=10).body
    seen = [order["order_id"] for order in page["orders"]]
    cursor = page["cursor"]
    while cursor:
        rest = api.call("GET", "/customers/ann/orders", ANN, limit=7, cursor=cursor).body
        seen += [order["order_id"] for order in rest["items"]]
        cursor = rest["cursor"]
    assert seen == ids[::-1]


@pytest.mark.parametrize("limit", [9, 101, 0, -1, "x", "1.5"])
def test_the_page_is_never_too_small_for_its_profile(api: ApiHarness, limit: Any) -> None:
    assert list(api.call("GET", "/customers/me/page", ANN, limit=limit).field_errors) == ["limit"]


def test_a_list_is_cut_into_pages_that_miss_and_repeat_nothing(api: ApiHarness) -> None:
    ids = summarise(api, 23)
    seen: list[str] = []
    asked: dict[str, Any] = {}
    while True:
        page = api.call("GET", "/orders", ANN, limit=5, **asked).body
        seen += [order["order_id"] for order in page["items"]]
        if not page["cursor"]:
            break
        asked = {"cursor": page["cursor"]}
    assert seen == ids[::-1]


def test_a_list_holds_twenty_unless_asked_otherwise(api: ApiHarness) -> None:
    summarise(api, 21)
    page = api.call("GET", "/orders", ANN).body
    assert len(page["items"]) == 20
    assert page["cursor"]


def test_a_cursor_is_valid_only_for_its_user(api: ApiHarness) -> None:
    summarise(api, 3)
    cursor = api.call("GET", "/customers/ann/orders", ANN, limit=1).body["cursor"]
    stolen = api.call("GET", "/customers/ann/orders", STAFF, limit=1, cursor=cursor)
    assert (stolen.status, list(stolen.field_errors)) == (400, ["cursor"])


def test_a_cursor_is_valid_only_for_its_list(api: ApiHarness) -> None:
    summarise(api, 3)
    summarise(api, 3, BOB.sub)
    cursor = api.call("GET", "/customers/ann/orders", STAFF, limit=1).body["cursor"]
    assert api.call("GET", "/customers/ann/orders", STAFF, limit=1, cursor=cursor).status == 200
    for path in ("/customers/bob/orders", "/customers/ann/notifications"):
        assert list(api.call("GET", path, STAFF, cursor=cursor).field_errors) == ["cursor"]


@pytest.mark.parametrize("cursor", ["", "x", "AAAA", "é", "=", "a" * 1001, "../..", "%00"])
def test_a_malformed_cursor_is_rejected(api: ApiHarness, cursor: str) -> None:
    assert list(api.call("GET", "/orders", ANN, cursor=cursor).field_errors) == ["cursor"]


def test_a_cursor_that_was_tampered_with_is_refused(api: ApiHarness) -> None:
    summarise(api, 3)
    cursor = api.call("GET", "/orders", ANN, limit=1).body["cursor"]
    for changed in (cursor[:-1] + ("A" if cursor[-1] != "A" else "B"), "A" + cursor[1:], cursor[:-4], cursor + "AAAA"):
        if changed != cursor:
            assert list(api.call("GET", "/orders", ANN, cursor=changed).field_errors) == ["cursor"]
