"""Staff create companies, and members see their company."""

import pytest

from proof.support.http_client import ANN, BOB, STAFF, ApiHarness, Token

CAROL = Token("carol")


@pytest.fixture
def acme(api: ApiHarness) -> ApiHarness:
    """Add Ann and Bob to one company, and Carol to another company."""
    for token in (BOB, CAROL):
        api.register_customer(token)
    for id, name in (("acme", "Acme & Daughters"), ("initech", "Initech")):
        assert api.call("POST", "/companies", STAFF, {"company_id": id, "name": name}).status == 201
    for path in ("acme/members/ann", "acme/members/bob", "initech/members/carol"):
        assert api.call("PUT", f"/companies/{path}", STAFF).status == 200
    return api


def test_staff_make_a_company(api: ApiHarness) -> None:
    made = api.call("POST", "/companies", STAFF, {"company_id": "acme", "name": " Acme & Daughters "})
    assert (made.status, made.headers["location"]) == (201, "/companies/acme")
    assert (made.body["company_id"], made.body["name"]) == ("acme", "Acme & Daughters")
    assert api.call("GET", "/companies/acme", STAFF).body == {"company": made.body, "members": [], "cursor": None}


def test_a_member_sees_the_company_and_its_members_and_only_staff_see_their_addresses(acme: ApiHarness) -> None:
    said = acme.call("GET", "/companies/acme", ANN).body
    assert said["company"]["name"] == "Acme & Daughters"
    assert said["members"] == [
        {"customer_id": "ann", "name": "Ann", "email": None},
        {"customer_id": "bob", "name": "Bob", "email": None},
    ]
    members = acme.call("GET", "/companies/acme", STAFF).body["members"]
    assert [member["email"] for member in members] == ["ann@example.com", "bob@example.com"]


# members --------------------------------------------------------------------------------------------------------------
def test_a_membership_is_shown_in_the_profile_until_it_ends(acme: ApiHarness) -> None:
    joined = acme.call("PUT", "/companies/acme/members/ann", STAFF)
    assert (joined.status, joined.body) == (200, {"customer_id": "ann", "company_id": "acme"})
    assert acme.call("GET", "/customers/me", ANN).body["company_id"] == "acme"
    for _ in range(2):
        left = acme.call("DELETE", "/companies/acme/members/ann", STAFF)
        assert (left.status, left.body) == (200, {"customer_id": "ann", "company_id": None})
    assert acme.call("GET", "/customers/me", ANN).body["company_id"] is None
