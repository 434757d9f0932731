"""Tests that an erased customer leaves their company, and that the other members stay."""

from functions.shop import companies, customers
from functions.shop.erasure import erase_customer
from functions.shop.lists import ListRequest
from local.world.harness import STAFF, ShopHarness
from tests.handlers.test_customer_erasure import FEW, canaries, found, give_up, run


def test_an_erased_customer_leaves_the_company_and_the_other_members_stay(harness: ShopHarness) -> None:
    companies.create_company(harness.shop, STAFF, "acme", "Acme")
    for person in FEW:
        customers.register_customer(harness.shop, person, canaries(person)["email"], canaries(person)["name"])
        companies.add_member(harness.shop, STAFF, "acme", person.id)
    give_up(harness, harness.new_records())
    erase_customer(harness.shop, FEW[0], FEW[0].id)
    run(harness)
    (left,) = companies.get_company_with_members(harness.shop, ListRequest(FEW[1], 10), "acme").members
    assert left.customer_id == FEW[1].id
    assert not [word for word in canaries(FEW[0]).values() if word in found(harness)]
