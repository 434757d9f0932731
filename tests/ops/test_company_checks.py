"""The drift check finds and repairs members of companies that do not exist, and wrong numbers of members."""

from dataclasses import replace

import pytest

from functions.dynamodb.writes import update
from functions.model.entities import Customer
from functions.model.table import COMPANY, CUSTOMER
from functions.shop import companies, customers
from functions.shop.lists import ListRequest
from local.world.harness import ANN, STAFF, ShopHarness
from ops.repair.copy_checks import Discrepancy
from tests.ops.test_drift import looked


def member_of_no_company(harness: ShopHarness) -> tuple[Customer, Customer]:
    """Return a customer before and after she became a member of a company that does not exist."""
    harness.open_shop()
    before = customers.get_customer(harness.shop, STAFF, ANN.id)
    member = replace(before, company_id="acme", version=before.version + 1)
    harness.shop.table.write(update(CUSTOMER, before, member))
    return before, member


def test_a_member_of_a_missing_company_is_reported_and_leaves_it(harness: ShopHarness) -> None:
    before, member = member_of_no_company(harness)
    assert [found.kind for found in looked(harness, repair=True).discrepancies.values()] == ["company missing"]
    assert customers.get_customer(harness.shop, STAFF, ANN.id) == replace(before, version=member.version + 1)
    companies.create_company(harness.shop, STAFF, "acme", "Acme")
    assert companies.get_company_with_members(harness.shop, ListRequest(STAFF, 10), "acme").members == ()
    companies.add_member(harness.shop, STAFF, "acme", ANN.id)
    assert looked(harness).discrepancies == {}


@pytest.mark.parametrize("renamed", [True, False])
def test_a_member_stays_as_she_is_if_she_or_the_company_changes_just_before_the_repair(
    harness: ShopHarness, renamed: bool
) -> None:
    member_of_no_company(harness)

    def meanwhile(_: Discrepancy) -> None:
        if renamed:
            customers.change_profile(harness.shop, ANN, ANN.id, "Ann Oak")
        else:
            companies.create_company(harness.shop, STAFF, "acme", "Acme")

    assert looked(harness, repair=True, report_discrepancy=meanwhile).unrepaired == 1
    found = customers.get_customer(harness.shop, STAFF, ANN.id)
    assert (found.name, found.company_id) == ("Ann Oak" if renamed else "Ann Ash", "acme")


@pytest.mark.parametrize("wrong", [0, 3])
def test_a_wrong_member_count_is_reported_and_repaired(harness: ShopHarness, wrong: int) -> None:
    harness.open_shop()
    companies.create_company(harness.shop, STAFF, "acme", "Acme")
    companies.add_member(harness.shop, STAFF, "acme", ANN.id)
    assert looked(harness).discrepancies == {}
    company = companies.get_company_with_members(harness.shop, ListRequest(STAFF, 10), "acme").company
    assert company is not None
    miscounted = replace(company, member_count=wrong, version=company.version + 1)
    harness.shop.table.write(update(COMPANY, company, miscounted))
    assert [found.kind for found in looked(harness, repair=True).discrepancies.values()] == ["member count wrong"]
    repaired = companies.get_company_with_members(harness.shop, ListRequest(STAFF, 10), "acme").company
    assert repaired == replace(company, version=miscounted.version + 1)
    assert looked(harness).discrepancies == {}


def test_a_member_who_joins_just_before_the_repair_of_the_number_is_counted(harness: ShopHarness) -> None:
    harness.open_shop()
    company = companies.create_company(harness.shop, STAFF, "acme", "Acme")
    miscounted = replace(company, member_count=3, version=company.version + 1)
    harness.shop.table.write(update(COMPANY, company, miscounted))
    join = lambda _: companies.add_member(harness.shop, STAFF, "acme", ANN.id)  # noqa: E731  the name says when
    assert looked(harness, repair=True, report_discrepancy=join).unrepaired == 1
    stored = companies.get_company_with_members(harness.shop, ListRequest(STAFF, 10), "acme").company
    assert stored is not None
    assert stored.member_count == 4
    looked(harness, repair=True)
    assert looked(harness).discrepancies == {}
