"""Companies and their members: at most one company per customer, under every concurrent move."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from functions.dynamodb.writes import delete, put_if_absent
from functions.model import table as t
from functions.model.copies import number_of_order
from functions.model.entities import Company, Customer
from functions.model.errors import AlreadyExists, InAnotherCompany, NotAllowed, NotEmpty, NotFound, WrongState
from functions.model.patterns import COMPANY_BY_ID, COMPANY_WITH_MEMBERS
from functions.shop import companies, customers, erasure
from functions.shop.lists import ListRequest
from functions.shop.placing import RequestedLine, place_order
from functions.shop.shop import ShopContext
from proof.support.actors import ANN, HOME_ADDRESS, STAFF, place, place_guest_order
from proof.support.client_faults import reply_with
from proof.support.samples import SAMPLES, moment
from tests.shop.conftest import TappedShop, everything
from tests.support.pages import every_page


@pytest.fixture
def shop(shop: TappedShop) -> TappedShop:
    """Create two companies without members."""
    companies.create_company(shop, STAFF, "acme", "Acme & Daughters")
    companies.create_company(shop, STAFF, "initech", "Initech")
    shop.wire.clear()
    return shop


def join(shop: ShopContext, company_id: str = "acme", customer_id: str = "ann") -> Customer:
    return companies.add_member(shop, STAFF, company_id, customer_id)


def leave(shop: ShopContext, company_id: str = "acme", customer_id: str = "ann") -> Customer:
    return companies.remove_member(shop, STAFF, company_id, customer_id)


def test_a_guest_is_in_no_company(shop: ShopContext) -> None:
    guest_id = place_guest_order(shop).placed.order.customer_id
    with pytest.raises(WrongState, match="cannot add a member: the customer is GUEST"):
        join(shop, "acme", guest_id)


def members(shop: ShopContext, company_id: str = "acme") -> list[str]:
    page = companies.get_company_with_members(shop, ListRequest(STAFF, 100), company_id)
    assert page.company is not None
    return [member.customer_id for member in page.members]


# companies ------------------------------------------------------------------------------------------------------------
def test_a_company_is_made_once_and_found_at_once(shop: TappedShop) -> None:
    made = companies.create_company(shop, STAFF, "hooli", "Hooli")
    assert shop.wire.operations == ["PutItem"]
    assert (made.name, made.created_at, made.version) == ("Hooli", moment(), 1)
    with pytest.raises(AlreadyExists):
        companies.create_company(shop, STAFF, "hooli", "Another")
    page = companies.get_company_with_members(shop, ListRequest(STAFF, 10), "hooli")
    assert (page.company, page.members, page.cursor) == (made, (), None)


def test_a_customer_without_a_company_and_an_erased_customer_are_in_no_companys_list() -> None:
    assert "GSI1PK" not in t.CUSTOMER.encode(replace(SAMPLES[t.CUSTOMER], company_id=None))
    assert "GSI1PK" not in t.ERASED_CUSTOMER.encode(SAMPLES[t.ERASED_CUSTOMER])


def test_a_companys_name_is_changed_and_nothing_else(shop: TappedShop) -> None:
    before = shop.table.get(COMPANY_BY_ID, company_id="acme")
    assert before is not None
    shop.clock.sleep(60)
    renamed = companies.rename_company(shop, STAFF, "acme", "Acme")
    assert renamed == replace(before, name="Acme", updated_at=moment(1), version=2)
    shop.wire.clear()
    assert companies.rename_company(shop, STAFF, "acme", "Acme") == renamed
    assert shop.wire.operations == ["GetItem"], "a repeated command writes nothing"
    shop.meanwhile(lambda rival: companies.rename_company(rival, STAFF, "acme", "Acme One"), "UpdateItem")
    assert companies.rename_company(shop, STAFF, "acme", "Acme Two").version == 4


# members --------------------------------------------------------------------------------------------------------------
def test_a_customer_joins_a_company_that_there_is_in_one_transaction(shop: TappedShop) -> None:
    before = customers.get_customer(shop, ANN, "ann")
    shop.clock.sleep(60)
    shop.wire.clear()
    joined = join(shop)
    assert shop.wire.operations == ["GetItem", "TransactWriteItems"]
    assert joined == replace(before, company_id="acme", version=2, updated_at=moment(1))
    assert customers.get_customer(shop, ANN, "ann") == joined
    assert (members(shop), members(shop, "initech")) == (["ann"], [])
    shop.wire.clear()
    assert join(shop) == joined
    assert shop.wire.operations == ["GetItem"], "a repeated command writes nothing"


def test_a_member_who_leaves_is_in_no_company_and_can_join_another(shop: TappedShop) -> None:
    join(shop)
    shop.wire.clear()
    left = leave(shop)
    assert shop.wire.operations == ["GetItem", "GetItem", "TransactWriteItems"]
    assert (left.company_id, members(shop)) == (None, [])
    shop.wire.clear()
    assert leave(shop) == left, "a repeated command has the same result"
    assert shop.wire.operations == ["GetItem", "GetItem"], "a repeated command writes nothing"
    assert join(shop, "initech").company_id == "initech"
    assert leave(shop, "acme").company_id == "initech", "a member of another company stays there"


def test_a_new_name_or_address_leaves_a_member_where_they_are(shop: ShopContext) -> None:
    join(shop)
    customers.change_profile(shop, ANN, "ann", "Ann Oak")
    customers.change_email(shop, ANN, "ann", lambda: "ann@new.example")
    (member,) = companies.get_company_with_members(shop, ListRequest(STAFF, 10), "acme").members
    assert (member.name, member.email) == ("Ann Oak", "ann@new.example")


def test_an_erasure_takes_a_member_out_of_their_company(shop: ShopContext) -> None:
    join(shop)
    join(shop, customer_id="bob")
    erasure.erase_customer(shop, ANN, "ann")
    assert members(shop) == ["bob"]
    (image,) = [image for image in everything(shop) if image["PK"] == {"S": "CUSTOMER#ann"}]
    assert not {"company_id", "name", "email", "GSI1PK"} & image.keys()
    for act in (join, leave):
        with pytest.raises(NotFound):
            act(shop, "acme", "ann")
    with pytest.raises(NotFound):
        companies.get_company_with_members(shop, ListRequest(ANN, 10), "acme")


def test_a_company_that_a_customer_joins_during_its_deletion_is_not_deleted(shop: TappedShop) -> None:
    shop.meanwhile(join, "DeleteItem")
    with pytest.raises(NotEmpty):
        companies.delete_company(shop, STAFF, "acme")


def test_a_company_whose_members_left_or_were_erased_can_be_deleted(shop: ShopContext) -> None:
    for member in ("ann", "bob", "ann"):
        join(shop, customer_id=member)
    leave(shop, customer_id="bob")
    leave(shop, customer_id="bob")
    with pytest.raises(NotEmpty):
        companies.delete_company(shop, STAFF, "acme")
    erasure.erase_customer(shop, ANN, "ann")
    companies.delete_company(shop, STAFF, "acme")
    for act in (lambda: companies.delete_company(shop, STAFF, "acme"), lambda: join(shop, customer_id="bob")):
        with pytest.raises(NotFound):
            act()
    assert join(shop, "initech", "bob").company_id == "initech"


@pytest.mark.parametrize(
    "leaving", [leave, lambda shop: erasure.erase_customer(shop, ANN, "ann")], ids=["leave", "erase"]
)
def test_a_member_of_a_missing_company_can_leave_and_be_erased(
    shop: ShopContext, leaving: Callable[[ShopContext], object]
) -> None:
    join(shop)
    company = shop.table.get(COMPANY_BY_ID, company_id="acme")
    assert company is not None
    shop.table.write(delete(t.COMPANY, company))  # no command deletes a company with members
    leaving(shop)
    companies.create_company(shop, STAFF, "acme", "Another company")
    assert members(shop) == []


# concurrent commands --------------------------------------------------------------------------------------------------
def test_a_customer_who_joins_two_companies_at_once_is_in_one(shop: TappedShop) -> None:
    shop.meanwhile(lambda rival: join(rival, "initech"))
    with pytest.raises(InAnotherCompany) as refusal:
        join(shop)
    assert refusal.value.company_id == "initech"
    assert (members(shop), members(shop, "initech")) == ([], ["ann"])


def test_a_customer_who_joins_during_their_erasure_is_in_no_company(shop: TappedShop) -> None:
    shop.meanwhile(lambda rival: erasure.erase_customer(rival, ANN, "ann"))
    with pytest.raises(NotFound):
        join(shop)
    assert members(shop) == []


@pytest.mark.parametrize(("at", "call"), [("GetItem", 1), ("GetItem", 2), ("GetItem", 3), ("TransactWriteItems", 1)])
def test_a_customer_who_is_erased_while_joining_is_in_no_company(shop: TappedShop, at: str, call: int) -> None:
    shop.meanwhile(join, at, call=call)
    erasure.erase_customer(shop, ANN, "ann")
    assert members(shop) == []


def test_a_customer_who_is_moved_while_leaving_stays_in_the_new_company(shop: TappedShop) -> None:
    join(shop)

    def move_on() -> None:
        leave(shop.rival)
        join(shop.rival, "initech")

    shop.wire.run_before_call("TransactWriteItems", move_on)
    assert leave(shop).company_id == "initech"
    assert (members(shop), members(shop, "initech")) == ([], ["ann"])


def test_a_company_is_renamed_while_a_customer_joins_and_both_succeed(shop: TappedShop) -> None:
    shop.meanwhile(lambda rival: companies.rename_company(rival, STAFF, "acme", "Acme"))
    join(shop)
    assert shop.wire.operations == ["GetItem", "TransactWriteItems"], "a concurrent rename is no conflict"


# the page -------------------------------------------------------------------------------------------------------------
def fill(shop: ShopContext, number: int) -> None:
    for n in range(number):
        member = replace(SAMPLES[t.CUSTOMER], customer_id=f"c{n:03}")
        shop.table.write(put_if_absent(t.CUSTOMER, member))


def test_a_company_and_its_members_are_one_query_and_one_more_read_for_a_member(shop: TappedShop) -> None:
    join(shop)
    shop.wire.clear()
    page = companies.get_company_with_members(shop, ListRequest(STAFF, 10), "acme")
    assert shop.wire.operations == ["Query"]
    assert page.company == shop.table.get(COMPANY_BY_ID, company_id="acme")
    assert page.members == (customers.get_customer(shop, ANN, "ann"),)
    shop.wire.clear()
    assert companies.get_company_with_members(shop, ListRequest(ANN, 10), "acme") == page
    assert shop.wire.operations == ["GetItem", "Query"], "whether Ann is a member is read first"


def test_a_customer_who_has_left_gets_no_further_page(shop: ShopContext) -> None:
    fill(shop, 5)
    join(shop)
    first = companies.get_company_with_members(shop, ListRequest(ANN, 3), "acme")
    leave(shop)
    with pytest.raises(NotFound):
        companies.get_company_with_members(shop, ListRequest(ANN, 3, first.cursor), "acme")


@pytest.mark.parametrize("limit", [1, 25, 26])
def test_page_after_page_the_company_and_every_member_come_once(shop: ShopContext, limit: int) -> None:
    fill(shop, 25)
    seen: list[Company | Customer] = []
    cursor: str | None = None
    while True:
        page = companies.get_company_with_members(shop, ListRequest(STAFF, limit, cursor), "acme")
        assert len(page.members) <= limit
        seen += [*([page.company] if page.company else []), *page.members]
        if (cursor := page.cursor) is None:
            break
    assert [type(item).__name__ for item in seen] == ["Company", *["Customer"] * 25]
    assert [item.customer_id for item in seen if isinstance(item, Customer)] == [f"c{n:03}" for n in range(25)]
    assert seen == list(shop.table.query_all(COMPANY_WITH_MEMBERS, company_id="acme"))


def test_a_company_that_its_index_does_not_know_yet_is_shown_all_the_same(shop: TappedShop) -> None:
    nothing: dict[str, Any] = {"Items": [], "Count": 0, "ScannedCount": 0}
    shop.wire.reply_next("Query", reply_with(nothing), reply_with(nothing))
    page = companies.get_company_with_members(shop, ListRequest(STAFF, 10), "acme")
    assert (page.company and page.company.name, page.members) == ("Acme & Daughters", ())
    with pytest.raises(NotFound):
        companies.get_company_with_members(shop, ListRequest(STAFF, 10), "nothing")


# orders ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_an_order_is_in_the_list_of_the_company_that_its_customer_had(shop: ShopContext, count: int) -> None:
    place(shop, "before", mug=1)
    companies.add_member(shop, STAFF, "acme", ANN.id)
    placed = [place(shop, f"key-{number}", mug=1) for number in range(count)]
    for_ann = place_order(shop, STAFF, "key", {"mug": RequestedLine(1)}, HOME_ADDRESS, {}, customer_id=ANN.id).order
    assert for_ann.company_id == "acme", "staff order for the company of the customer"
    companies.remove_member(shop, STAFF, "acme", ANN.id)
    for one in [*placed, place(shop, "after", mug=1)]:
        shop.table.write(put_if_absent(t.ORDER_NUMBER, next(number_of_order(one))))
    found = every_page(lambda request: companies.list_orders_of_company(shop, request, "acme"), 2)
    assert sorted(one.order_id for one in found) == sorted(one.order_id for one in placed)
    assert [one.placed_at for one in found] == sorted((one.placed_at for one in placed), reverse=True)
    with pytest.raises(NotFound):
        companies.list_orders_of_company(shop, ListRequest(STAFF, 1), "other")
    with pytest.raises(NotAllowed):
        companies.list_orders_of_company(shop, ListRequest(ANN, 1), "acme")
