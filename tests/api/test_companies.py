"""Staff create companies, and members see their company."""

from dataclasses import replace
from typing import Any

import pytest

from functions.model import table as t
from proof.support.http_client import ANN, BOB, STAFF, ApiHarness, Token
from proof.support.samples import SAMPLES

CAROL = Token("carol")
OTHER_STAFF = Token("staff-2", ("staff",))
FAT = "x" * 60_000


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
    again = api.call("POST", "/companies", STAFF, {"company_id": "acme", "name": "Other"})
    assert (again.status, again.problem_type, again.body["what"]) == (409, "already-exists", "company")


def test_staff_rename_a_company(acme: ApiHarness) -> None:
    assert acme.call("PATCH", "/companies/acme", STAFF, {"name": "Acme"}).body["name"] == "Acme"
    assert acme.call("GET", "/companies/acme", ANN).body["company"]["name"] == "Acme"
    assert acme.call("PATCH", "/companies/nothing", STAFF, {"name": "Acme"}).problem_type == "not-found"


def test_staff_list_all_companies_page_by_page(acme: ApiHarness) -> None:
    first = acme.call("GET", "/companies", STAFF, limit=1).body
    rest = acme.call("GET", "/companies", STAFF, limit=5, cursor=first["cursor"]).body
    assert [one["company_id"] for one in first["items"] + rest["items"]] == ["acme", "initech"]
    assert acme.call("GET", "/companies", ANN).problem_type == "not-allowed"


def test_a_company_is_deleted_when_it_has_no_members_any_more(acme: ApiHarness) -> None:
    refused = acme.call("DELETE", "/companies/initech", STAFF)
    assert (refused.status, refused.problem_type, refused.body["what"]) == (409, "not-empty", "members")
    acme.call("DELETE", "/companies/initech/members/carol", STAFF)
    assert acme.call("DELETE", "/companies/initech", STAFF).body == {"company_id": "initech"}
    assert acme.call("GET", "/companies/initech", STAFF).problem_type == "not-found"
    assert acme.call("DELETE", "/companies/initech", STAFF).problem_type == "not-found"
    assert acme.call("PUT", "/companies/initech/members/carol", STAFF).problem_type == "not-found"
    assert acme.call("PUT", "/companies/acme/members/carol", STAFF).status == 200


@pytest.mark.parametrize("body", [{}, {"name": ""}, {"name": "  "}, {"name": 5}, {"name": "a\nb"}, {"name": "x" * 201}])
def test_a_companys_name_is_one_line_of_text(acme: ApiHarness, body: Any) -> None:
    assert list(acme.call("PATCH", "/companies/acme", STAFF, body).field_errors) == ["name"]
    assert list(acme.call("POST", "/companies", STAFF, {"company_id": "new", **body}).field_errors) == ["name"]


@pytest.mark.parametrize("id", ["", "a#b", "a b", "-a", "x" * 65, 5, None])
def test_a_companys_id_is_one_that_can_stand_in_a_path(api: ApiHarness, id: Any) -> None:
    before = api.table_images()
    assert list(api.call("POST", "/companies", STAFF, {"company_id": id, "name": "Acme"}).field_errors) == [
        "company_id"
    ]
    assert api.table_images() == before


def test_a_member_sees_the_company_and_its_members_but_no_address(acme: ApiHarness) -> None:
    said = acme.call("GET", "/companies/acme", ANN).body
    assert said["company"]["name"] == "Acme & Daughters"
    assert said["members"] == [
        {"customer_id": "ann", "name": "Ann", "email": None},
        {"customer_id": "bob", "name": "Bob", "email": None},
    ]
    assert "example.com" not in acme.call("GET", "/companies/acme", ANN).text


def test_staff_see_the_members_addresses_too(acme: ApiHarness) -> None:
    members = acme.call("GET", "/companies/acme", STAFF).body["members"]
    assert [member["email"] for member in members] == ["ann@example.com", "bob@example.com"]


def test_a_company_of_others_is_not_found(acme: ApiHarness) -> None:
    anothers, nobodys = (acme.call("GET", f"/companies/{id}", CAROL) for id in ("acme", "nothing"))
    assert (anothers.status, anothers.problem_type) == (404, "not-found")
    assert anothers.body == nobodys.body
    assert acme.call("GET", "/companies/nothing", STAFF).body["what"] == "company"


def test_a_company_and_its_members_are_one_query_and_whether_one_is_a_member_one_read(acme: ApiHarness) -> None:
    with acme.record_requests() as sent:
        acme.call("GET", "/companies/acme", STAFF)
        acme.call("GET", "/companies/acme", ANN)
    assert sent == ["Query", "GetItem", "Query"]


# members --------------------------------------------------------------------------------------------------------------
def test_a_membership_is_shown_in_the_profile_and_put_again_without_harm(acme: ApiHarness) -> None:
    assert acme.call("GET", "/customers/me", ANN).body["company_id"] == "acme"
    before = acme.table_images()
    again = acme.call("PUT", "/companies/acme/members/ann", STAFF)
    assert (again.status, again.body) == (200, {"customer_id": "ann", "company_id": "acme"})
    assert acme.table_images() == before


def test_joining_a_second_company_is_rejected_with_the_id_of_the_first(acme: ApiHarness) -> None:
    before = acme.table_images()
    refused = acme.call("PUT", "/companies/acme/members/carol", STAFF)
    assert (refused.status, refused.problem_type, refused.body["company_id"]) == (409, "in-another-company", "initech")
    assert acme.table_images() == before


def test_a_removed_member_no_longer_sees_the_company(acme: ApiHarness) -> None:
    left = {"customer_id": "bob", "company_id": None}
    for _ in range(2):
        answered = acme.call("DELETE", "/companies/acme/members/bob", STAFF)
        assert (answered.status, answered.body) == (200, left)
    assert acme.call("GET", "/companies/acme", BOB).problem_type == "not-found"
    assert [one["customer_id"] for one in acme.call("GET", "/companies/acme", ANN).body["members"]] == ["ann"]
    assert acme.call("GET", "/customers/me", BOB).body["company_id"] is None


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_an_unknown_company_or_customer_is_rejected(acme: ApiHarness, method: str) -> None:
    for path, what in (("nothing/members/ann", "company"), ("acme/members/nobody", "customer")):
        refused = acme.call(method, f"/companies/{path}", STAFF)
        assert (refused.problem_type, refused.body["what"]) == ("not-found", what)


def test_an_erased_customer_is_in_no_company(acme: ApiHarness) -> None:
    assert acme.call("DELETE", "/customers/me", BOB).status == 202
    assert [one["customer_id"] for one in acme.call("GET", "/companies/acme", ANN).body["members"]] == ["ann"]
    assert acme.call("GET", "/companies/acme", BOB).problem_type == "not-found"
    assert acme.call("PUT", "/companies/acme/members/bob", STAFF).problem_type == "not-found"


# pages ----------------------------------------------------------------------------------------------------------------
def fill(api: ApiHarness, number: int, name: str = "Somebody") -> list[str]:
    """Add this number of members to the company. Return the ids of all members."""
    ids = [f"c{n:03}" for n in range(number)]
    for id in ids:
        member = replace(SAMPLES[t.CUSTOMER], customer_id=id, name=name)
        api.shop.table.client.put_item(TableName=api.shop.table.name, Item=t.CUSTOMER.encode(member))
    return ["ann", "bob", *ids]


def pages(api: ApiHarness, token: Token, limit: int) -> list[Any]:
    found: list[Any] = []
    cursor: dict[str, Any] = {}
    while not found or cursor:
        found.append(api.call("GET", "/companies/acme", token, limit=limit, **cursor).body)
        cursor = {"cursor": found[-1]["cursor"]} if found[-1]["cursor"] else {}
    return found


@pytest.mark.parametrize("limit", [1, 4, 13, 100])
def test_page_after_page_every_member_comes_once_and_the_company_first(acme: ApiHarness, limit: int) -> None:
    ids = fill(acme, 10)
    found = pages(acme, ANN, limit)
    assert [page["company"] is not None for page in found] == [True, *[False] * (len(found) - 1)]
    assert [member["customer_id"] for page in found for member in page["members"]] == ids
    assert all(len(page["members"]) == limit for page in found[:-1]), "the company does not count for the limit"
    assert len(found[-1]["members"]) <= limit


def test_beyond_a_megabyte_every_member_comes_once(acme: ApiHarness) -> None:
    ids = fill(acme, 60, FAT)
    found = pages(acme, STAFF, 100)
    assert [member["customer_id"] for page in found for member in page["members"]] == ids
    assert 60 * len(FAT) > 3 * (1 << 20)
    assert len(found) > 3


def test_a_cursor_is_valid_only_for_its_company_and_user(acme: ApiHarness) -> None:
    cursor = acme.call("GET", "/companies/acme", STAFF, limit=1).body["cursor"]
    assert acme.call("GET", "/companies/acme", STAFF, limit=1, cursor=cursor).status == 200
    for path, token in (("/companies/initech", STAFF), ("/companies/acme", OTHER_STAFF), ("/companies/acme", ANN)):
        assert list(acme.call("GET", path, token, cursor=cursor).field_errors) == ["cursor"]


@pytest.mark.parametrize("limit", [0, 101, "x"])
def test_a_page_holds_from_one_to_a_hundred(acme: ApiHarness, limit: Any) -> None:
    assert list(acme.call("GET", "/companies/acme", ANN, limit=limit).field_errors) == ["limit"]
