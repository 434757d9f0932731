"""Customers: registering with a verified address, settings, and the page that shows all of them."""

from typing import Any

import pytest

from functions.dynamodb.writes import put
from functions.model.entities import OrderSummary
from functions.model.table import ORDER_SUMMARY
from tests.api.asking import ANN, BOB, STAFF, Api, Token, signed_up, verify


def summarise(api: Api, count: int, customer_id: str = ANN.sub) -> list[str]:
    """Orders in a customer's partition, as the stream copies them there; their ids, oldest first."""
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
        api.shop.table.write(put(ORDER_SUMMARY, summary))
    return ids


# registering ----------------------------------------------------------------------------------------------------------
def test_a_customer_registers_with_the_address_the_identity_provider_has_verified(bare: Api) -> None:
    carol = signed_up("Carol@Example.com", verified=True)
    made = bare.ask("POST", "/customers", carol, {"name": "  Carol Coe "})
    assert made.status == 201
    assert made.headers["location"] == f"/customers/{carol.sub}"
    assert (made.said["customer_id"], made.said["name"]) == (carol.sub, "Carol Coe")
    assert made.said["email"].lower() == "carol@example.com"
    assert bare.ask("GET", "/customers/me", carol).said == made.said


def test_an_address_that_is_not_verified_makes_no_customer(bare: Api) -> None:
    carol = signed_up("carol@example.com", verified=False)
    refused = bare.ask("POST", "/customers", carol, {"name": "Carol"})
    assert (refused.status, refused.problem) == (403, "email-not-verified")
    assert bare.contents() == []


def test_an_address_in_the_body_is_not_taken(bare: Api) -> None:
    carol = signed_up("carol@example.com", verified=True)
    refused = bare.ask("POST", "/customers", carol, {"name": "Carol", "email": "ann@example.com"})
    assert refused.wrong == {"email": "is not known here"}


def test_a_token_that_was_revoked_since_registers_nobody(bare: Api) -> None:
    refused = bare.ask("POST", "/customers", Token("carol", bearer="revoked"), {"name": "Carol"})
    assert (refused.status, refused.problem) == (401, "unauthenticated")
    assert bare.contents() == []


def test_nobody_registers_with_anothers_token(bare: Api) -> None:
    carol = signed_up("carol@example.com", verified=True)
    refused = bare.ask("POST", "/customers", Token("eve", bearer=carol.bearer), {"name": "Eve"})
    assert (refused.status, refused.problem) == (401, "unauthenticated")
    assert bare.contents() == []


def test_who_is_a_customer_already_stays_as_they_are(bare: Api) -> None:
    carol = signed_up("carol@example.com", verified=True)
    bare.ask("POST", "/customers", carol, {"name": "Carol"})
    refused = bare.ask("POST", "/customers", carol, {"name": "Caroline"})
    assert (refused.status, refused.problem) == (409, "already-exists")
    assert bare.ask("GET", "/customers/me", carol).said["name"] == "Carol"


def test_f9_an_address_is_one_customers_alone_however_it_is_spelled(api: Api) -> None:
    carol = signed_up("ANN@example.COM", verified=True)
    before = api.contents()
    refused = api.ask("POST", "/customers", carol, {"name": "Carol"})
    assert (refused.status, refused.problem) == (409, "email-taken")
    assert api.contents() == before
    assert "ann" not in refused.text.lower()


# reading --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("spelled", ["ann@example.com", "ANN@Example.com"])
def test_staff_find_a_customer_by_address(api: Api, spelled: str) -> None:
    assert api.ask("GET", "/customers", STAFF, email=spelled).said["customer_id"] == ANN.sub


def test_an_address_nobody_has_is_not_found(api: Api) -> None:
    assert api.ask("GET", "/customers", STAFF, email="who@example.com").problem == "not-found"


@pytest.mark.parametrize("email", ["", "ann", "a b@c", "a@" + "b" * 300, "a@b\x00"])
def test_what_is_no_address_is_malformed(api: Api, email: str) -> None:
    assert list(api.ask("GET", "/customers", STAFF, email=email).wrong) == ["email"]


def test_me_is_whoever_asks(api: Api) -> None:
    assert api.ask("GET", "/customers/me", ANN).said == api.ask("GET", "/customers/ann", ANN).said
    assert api.ask("GET", "/customers/me", BOB).problem == "not-found"
    assert api.ask("GET", "/customers/ann", STAFF).status == 200


def test_no_answer_shows_how_an_address_is_kept(api: Api) -> None:
    assert set(api.ask("GET", "/customers/me", ANN).said) == {
        "customer_id", "name", "email", "company_id", "created_at", "updated_at",
    }  # fmt: skip


def test_a_customer_is_renamed(api: Api) -> None:
    assert api.ask("PATCH", "/customers/me", ANN, {"name": "Ann Oak"}).said["name"] == "Ann Oak"
    assert api.ask("GET", "/customers/ann", ANN).said["name"] == "Ann Oak"


@pytest.mark.parametrize("name", ["", "   ", "x" * 201, "a\nb", "a\x00b", "a\x7f", "\x9f", 5, None, ["Ann"], True])
def test_a_name_is_one_line_of_text(api: Api, name: Any) -> None:
    before = api.contents()
    assert list(api.ask("PATCH", "/customers/me", ANN, {"name": name}).wrong) == ["name"]
    assert api.contents() == before


@pytest.mark.parametrize("name", ["Ünï Çödé", "李小龍", "O'Neil-Smith", "x" * 200, "👩‍🚀", "<b>&amp;"])
def test_a_name_may_be_any_name(api: Api, name: str) -> None:
    assert api.ask("PATCH", "/customers/me", ANN, {"name": name}).said["name"] == name


# another address ------------------------------------------------------------------------------------------------------
@pytest.fixture
def carol(bare: Api) -> Token:
    """A customer."""
    carol = signed_up("carol@example.com", verified=True)
    assert bare.ask("POST", "/customers", carol, {"name": "Carol"}).status == 201
    return carol


def test_a_customer_takes_the_address_that_is_verified_by_now(bare: Api, carol: Token) -> None:
    verify(carol, "carol@new.example")
    changed = bare.ask("PUT", "/customers/me/email", carol)
    assert (changed.status, changed.said["email"], changed.said["name"]) == (200, "carol@new.example", "Carol")
    assert bare.ask("GET", f"/customers/{carol.sub}", carol).said == changed.said
    assert bare.ask("GET", "/customers", STAFF, email="carol@new.example").said == changed.said
    assert bare.ask("GET", "/customers", STAFF, email="carol@example.com").problem == "not-found"
    before = bare.contents()
    assert bare.ask("PUT", f"/customers/{carol.sub}/email", carol).said == changed.said
    assert bare.contents() == before, "again, and nothing is written"


def test_f9_an_address_that_another_customer_has_is_not_taken(bare: Api, carol: Token) -> None:
    bare.register(ANN)
    verify(carol, "ANN@example.com")
    before = bare.contents()
    refused = bare.ask("PUT", "/customers/me/email", carol)
    assert (refused.status, refused.problem) == (409, "email-taken")
    assert "ann" not in refused.text.lower()
    assert bare.contents() == before


def test_an_address_that_is_not_verified_yet_changes_nothing(bare: Api, carol: Token) -> None:
    verify(carol, "carol@new.example", verified=False)
    before = bare.contents()
    refused = bare.ask("PUT", "/customers/me/email", carol)
    assert (refused.status, refused.problem) == (403, "email-not-verified")
    assert bare.contents() == before


def test_an_address_is_not_changed_by_saying_one(bare: Api, carol: Token) -> None:
    refused = bare.ask("PUT", "/customers/me/email", carol, {"email": "ann@example.com"})
    assert refused.wrong == {"email": "is not known here"}


def test_an_address_is_its_owners_to_change(bare: Api, carol: Token) -> None:
    bare.register(ANN)
    before = bare.contents()
    for path in (f"/customers/{carol.sub}/email", "/customers/nobody/email"):
        assert bare.ask("PUT", path, ANN).problem == "not-found"
    assert bare.ask("PUT", "/customers/ann/email", STAFF).problem == "not-allowed"
    assert bare.ask("PUT", "/customers/me/email", ANN).problem == "unauthenticated", "the token is revoked"
    assert bare.contents() == before


def test_who_is_no_customer_has_no_address_to_change(bare: Api) -> None:
    dave = signed_up("dave@example.com", verified=True)
    assert bare.ask("PUT", "/customers/me/email", dave).problem == "not-found"
    assert bare.contents() == []


# settings -------------------------------------------------------------------------------------------------------------
def test_settings_show_the_defaults_until_something_is_chosen(api: Api) -> None:
    assert api.ask("GET", "/customers/me/settings", ANN).said == {"notifications": {"email": True, "sms": False}}


def test_one_setting_is_changed_without_the_other_or_the_profile(api: Api) -> None:
    before = api.ask("GET", "/customers/me", ANN).said
    assert api.ask("PUT", "/customers/me/settings/notifications", ANN, {"sms": True}).said == {
        "email": True,
        "sms": True,
    }
    api.ask("PUT", "/customers/me/settings/notifications", ANN, {"email": False})
    assert api.ask("GET", "/customers/me/settings", ANN).said == {"notifications": {"email": False, "sms": True}}
    assert api.ask("GET", "/customers/me", ANN).said == before


@pytest.mark.parametrize("choices", [{}, {"email": None}, {"email": "yes"}, {"email": 1}, {"fax": True}])
def test_a_choice_is_yes_or_no_for_a_channel_there_is(api: Api, choices: Any) -> None:
    assert api.ask("PUT", "/customers/me/settings/notifications", ANN, choices).problem == "malformed"


def test_who_is_no_customer_chooses_nothing(api: Api) -> None:
    assert api.ask("PUT", "/customers/me/settings/notifications", BOB, {"sms": True}).problem == "not-registered"


# the page, and lists --------------------------------------------------------------------------------------------------
def test_the_page_shows_profile_settings_and_newest_orders_in_one_request(api: Api) -> None:
    ids = summarise(api, 3)
    api.ask("PUT", "/customers/me/settings/notifications", ANN, {"sms": True})
    with api.requests() as sent:
        page = api.ask("GET", "/customers/me/page", ANN).said
    assert sent == ["Query"]
    assert page["customer"] == api.ask("GET", "/customers/me", ANN).said
    assert page["settings"] == {"notifications": {"email": True, "sms": True}}
    assert [order["order_id"] for order in page["orders"]] == ids[::-1]
    assert page["cursor"] is None


def test_the_pages_cursor_goes_on_in_the_list_of_orders(api: Api) -> None:
    ids = summarise(api, 25)
    page = api.ask("GET", "/customers/me/page", ANN, limit=10).said
    seen = [order["order_id"] for order in page["orders"]]
    cursor = page["cursor"]
    while cursor:
        rest = api.ask("GET", "/customers/ann/orders", ANN, limit=7, cursor=cursor).said
        seen += [order["order_id"] for order in rest["items"]]
        cursor = rest["cursor"]
    assert seen == ids[::-1]


@pytest.mark.parametrize("limit", [9, 101, 0, -1, "x", "1.5"])
def test_the_page_is_never_too_small_for_its_profile(api: Api, limit: Any) -> None:
    assert list(api.ask("GET", "/customers/me/page", ANN, limit=limit).wrong) == ["limit"]


def test_a_list_is_cut_into_pages_that_miss_and_repeat_nothing(api: Api) -> None:
    ids = summarise(api, 23)
    seen: list[str] = []
    asked: dict[str, Any] = {}
    while True:
        page = api.ask("GET", "/orders", ANN, limit=5, **asked).said
        seen += [order["order_id"] for order in page["items"]]
        if not page["cursor"]:
            break
        asked = {"cursor": page["cursor"]}
    assert seen == ids[::-1]


def test_a_list_holds_twenty_unless_asked_otherwise(api: Api) -> None:
    summarise(api, 21)
    page = api.ask("GET", "/orders", ANN).said
    assert len(page["items"]) == 20
    assert page["cursor"]


def test_a_cursor_is_of_use_to_nobody_else(api: Api) -> None:
    summarise(api, 3)
    cursor = api.ask("GET", "/customers/ann/orders", ANN, limit=1).said["cursor"]
    stolen = api.ask("GET", "/customers/ann/orders", STAFF, limit=1, cursor=cursor)
    assert (stolen.status, list(stolen.wrong)) == (400, ["cursor"])


def test_a_cursor_is_of_use_for_no_other_question(api: Api) -> None:
    summarise(api, 3)
    summarise(api, 3, BOB.sub)
    cursor = api.ask("GET", "/customers/ann/orders", STAFF, limit=1).said["cursor"]
    assert api.ask("GET", "/customers/ann/orders", STAFF, limit=1, cursor=cursor).status == 200
    for path in ("/customers/bob/orders", "/customers/ann/notifications"):
        assert list(api.ask("GET", path, STAFF, cursor=cursor).wrong) == ["cursor"]


@pytest.mark.parametrize("cursor", ["", "x", "AAAA", "é", "=", "a" * 1001, "../..", "%00"])
def test_what_is_no_cursor_is_malformed(api: Api, cursor: str) -> None:
    assert list(api.ask("GET", "/orders", ANN, cursor=cursor).wrong) == ["cursor"]


def test_a_cursor_that_was_tampered_with_is_refused(api: Api) -> None:
    summarise(api, 3)
    cursor = api.ask("GET", "/orders", ANN, limit=1).said["cursor"]
    for changed in (cursor[:-1] + ("A" if cursor[-1] != "A" else "B"), "A" + cursor[1:], cursor[:-4], cursor + "AAAA"):
        if changed != cursor:
            assert list(api.ask("GET", "/orders", ANN, cursor=changed).wrong) == ["cursor"]
