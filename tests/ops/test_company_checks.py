"""The drift check finds and repairs members of companies that do not exist, and wrong numbers of members."""

from dataclasses import replace

import pytest

from functions.dynamodb.writes import update
from functions.model.table import COMPANY, CUSTOMER
from functions.shop import companies, customers
from functions.shop.lists import ListRequest
from local.world.harness import ANN, STAFF, ShopHarness
from tests.ops.test_drift import looked


def test_a_member_of_a_missing_company_is_reported_and_leaves_it(harness: ShopHarness) -> None:
    harness.open_shop()
    before = customers.get_customer(harness.shop, STAFF, ANN.id)
    member = replace(before, company_id="acme", version=before.version + 1)
    harness.shop.table.write(update(CUSTOMER, before, member))
    assert [found.kind for found in looked(harness, repair=True).discrepancies.values()] == ["company missing"]
    assert customers.get_customer(harness.shop, STAFF, ANN.id) == replace(before, version=member.version + 1)
    companies.create_company(harness.shop, STAFF, "acme", "Acme")
    assert companies.get_company_with_members(harness.shop, ListRequest(STAFF, 10), "acme").members == ()
    companies.add_member(harness.shop, STAFF, "acme", ANN.id)
    assert looked(harness).discrepancies == {}


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
