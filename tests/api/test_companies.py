"""Companies: made by staff, seen by their members, and what these see of each other."""

from dataclasses import replace
from typing import Any

import pytest

from functions.model import table as t
from tests.api.asking import ANN, BOB, STAFF, Api, Token
from tests.model.samples import SAMPLES

CAROL = Token("carol")
OTHER_STAFF = Token("staff-2", ("staff",))
FAT = "x" * 60_000


@pytest.fixture
def acme(api: Api) -> Api:
    """Ann and Bob are in a company, Carol is in another."""
    for token in (BOB, CAROL):
        api.register(token)
    for id, name in (("acme", "Acme & Daughters"), ("initech", "Initech")):
        assert api.ask("POST", "/companies", STAFF, {"company_id": id, "name": name}).status == 201
    for path in ("acme/members/ann", "acme/members/bob", "initech/members/carol"):
        assert api.ask("PUT", f"/companies/{path}", STAFF).status == 200
    return api


def test_staff_make_a_company(api: Api) -> None:
    made = api.ask("POST", "/companies", STAFF, {"company_id": "acme", "name": " Acme & Daughters "})
    assert (made.status, made.headers["location"]) == (201, "/companies/acme")
    assert (made.said["company_id"], made.said["name"]) == ("acme", "Acme & Daughters")
    assert api.ask("GET", "/companies/acme", STAFF).said == {"company": made.said, "members": [], "cursor": None}
    again = api.ask("POST", "/companies", STAFF, {"company_id": "acme", "name": "Other"})
    assert (again.status, again.problem, again.said["what"]) == (409, "already-exists", "company")


def test_staff_rename_a_company(acme: Api) -> None:
    assert acme.ask("PATCH", "/companies/acme", STAFF, {"name": "Acme"}).said["name"] == "Acme"
    assert acme.ask("GET", "/companies/acme", ANN).said["company"]["name"] == "Acme"
    assert acme.ask("PATCH", "/companies/nothing", STAFF, {"name": "Acme"}).problem == "not-found"


@pytest.mark.parametrize("body", [{}, {"name": ""}, {"name": "  "}, {"name": 5}, {"name": "a\nb"}, {"name": "x" * 201}])
def test_a_companys_name_is_one_line_of_text(acme: Api, body: Any) -> None:
    assert list(acme.ask("PATCH", "/companies/acme", STAFF, body).wrong) == ["name"]
    assert list(acme.ask("POST", "/companies", STAFF, {"company_id": "new", **body}).wrong) == ["name"]


@pytest.mark.parametrize("id", ["", "a#b", "a b", "-a", "x" * 65, 5, None])
def test_a_companys_id_is_one_that_can_stand_in_a_path(api: Api, id: Any) -> None:
    before = api.contents()
    assert list(api.ask("POST", "/companies", STAFF, {"company_id": id, "name": "Acme"}).wrong) == ["company_id"]
    assert api.contents() == before


def test_a_member_sees_the_company_and_who_else_is_in_it_but_no_address(acme: Api) -> None:
    said = acme.ask("GET", "/companies/acme", ANN).said
    assert said["company"]["name"] == "Acme & Daughters"
    assert said["members"] == [
        {"customer_id": "ann", "name": "Ann", "email": None},
        {"customer_id": "bob", "name": "Bob", "email": None},
    ]
    assert "example.com" not in acme.ask("GET", "/companies/acme", ANN).text


def test_staff_see_the_members_addresses_too(acme: Api) -> None:
    members = acme.ask("GET", "/companies/acme", STAFF).said["members"]
    assert [member["email"] for member in members] == ["ann@example.com", "bob@example.com"]


def test_another_company_answers_like_none(acme: Api) -> None:
    anothers, nobodys = (acme.ask("GET", f"/companies/{id}", CAROL) for id in ("acme", "nothing"))
    assert (anothers.status, anothers.problem) == (404, "not-found")
    assert anothers.said == nobodys.said
    assert acme.ask("GET", "/companies/nothing", STAFF).said["what"] == "company"


def test_a_company_and_its_members_are_one_query_and_whether_one_is_a_member_one_read(acme: Api) -> None:
    with acme.requests() as sent:
        acme.ask("GET", "/companies/acme", STAFF)
        acme.ask("GET", "/companies/acme", ANN)
    assert sent == ["Query", "GetItem", "Query"]


# members --------------------------------------------------------------------------------------------------------------
def test_a_membership_is_shown_in_the_profile_and_put_again_without_harm(acme: Api) -> None:
    assert acme.ask("GET", "/customers/me", ANN).said["company_id"] == "acme"
    before = acme.contents()
    again = acme.ask("PUT", "/companies/acme/members/ann", STAFF)
    assert (again.status, again.said) == (200, {"customer_id": "ann", "company_id": "acme"})
    assert acme.contents() == before


def test_who_is_in_another_company_is_told_which(acme: Api) -> None:
    before = acme.contents()
    refused = acme.ask("PUT", "/companies/acme/members/carol", STAFF)
    assert (refused.status, refused.problem, refused.said["company_id"]) == (409, "in-another-company", "initech")
    assert acme.contents() == before


def test_who_was_taken_out_sees_the_company_no_more(acme: Api) -> None:
    left = {"customer_id": "bob", "company_id": None}
    for _ in range(2):
        answered = acme.ask("DELETE", "/companies/acme/members/bob", STAFF)
        assert (answered.status, answered.said) == (200, left)
    assert acme.ask("GET", "/companies/acme", BOB).problem == "not-found"
    assert [one["customer_id"] for one in acme.ask("GET", "/companies/acme", ANN).said["members"]] == ["ann"]
    assert acme.ask("GET", "/customers/me", BOB).said["company_id"] is None


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_neither_a_company_nor_a_customer_that_there_is_not_can_be_named(acme: Api, method: str) -> None:
    for path, what in (("nothing/members/ann", "company"), ("acme/members/nobody", "customer")):
        refused = acme.ask(method, f"/companies/{path}", STAFF)
        assert (refused.problem, refused.said["what"]) == ("not-found", what)


def test_who_is_forgotten_is_in_no_company_any_more(acme: Api) -> None:
    assert acme.ask("DELETE", "/customers/me", BOB).status == 202
    assert [one["customer_id"] for one in acme.ask("GET", "/companies/acme", ANN).said["members"]] == ["ann"]
    assert acme.ask("GET", "/companies/acme", BOB).problem == "not-found"
    assert acme.ask("PUT", "/companies/acme/members/bob", STAFF).problem == "not-found"


# pages ----------------------------------------------------------------------------------------------------------------
def fill(api: Api, number: int, name: str = "Somebody") -> list[str]:
    """So many members more; the ids of all."""
    ids = [f"c{n:03}" for n in range(number)]
    for id in ids:
        member = replace(SAMPLES[t.CUSTOMER], customer_id=id, name=name)
        api.shop.table.client.put_item(TableName=api.shop.table.name, Item=t.CUSTOMER.write(member))
    return ["ann", "bob", *ids]


def pages(api: Api, token: Token, limit: int) -> list[Any]:
    found: list[Any] = []
    cursor: dict[str, Any] = {}
    while not found or cursor:
        found.append(api.ask("GET", "/companies/acme", token, limit=limit, **cursor).said)
        cursor = {"cursor": found[-1]["cursor"]} if found[-1]["cursor"] else {}
    return found


@pytest.mark.parametrize("limit", [1, 4, 13, 100])
def test_page_after_page_every_member_comes_once_and_the_company_first(acme: Api, limit: int) -> None:
    ids = fill(acme, 10)
    found = pages(acme, ANN, limit)
    assert [page["company"] is not None for page in found] == [True, *[False] * (len(found) - 1)]
    assert [member["customer_id"] for page in found for member in page["members"]] == ids
    assert all(len(page["members"]) <= limit for page in found)


def test_f10_beyond_a_megabyte_every_member_comes_once(acme: Api) -> None:
    ids = fill(acme, 60, FAT)
    found = pages(acme, STAFF, 100)
    assert [member["customer_id"] for page in found for member in page["members"]] == ids
    assert 60 * len(FAT) > 3 * (1 << 20)
    assert len(found) > 3


def test_a_cursor_is_of_no_other_company_and_nobody_elses(acme: Api) -> None:
    cursor = acme.ask("GET", "/companies/acme", STAFF, limit=1).said["cursor"]
    assert acme.ask("GET", "/companies/acme", STAFF, limit=1, cursor=cursor).status == 200
    for path, token in (("/companies/initech", STAFF), ("/companies/acme", OTHER_STAFF), ("/companies/acme", ANN)):
        assert list(acme.ask("GET", path, token, cursor=cursor).wrong) == ["cursor"]


@pytest.mark.parametrize("limit", [0, 101, "x"])
def test_a_page_holds_from_one_to_a_hundred(acme: Api, limit: Any) -> None:
    assert list(acme.ask("GET", "/companies/acme", ANN, limit=limit).wrong) == ["limit"]
