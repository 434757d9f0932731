"""Find customers whose company does not exist, and companies with a wrong number of members."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from functions.dynamodb.codec import Image
from functions.dynamodb.keys import Row
from functions.model.entities import Customer
from functions.model.patterns import COMPANY_WITH_MEMBERS
from functions.model.table import COMPANY, CUSTOMER
from functions.shop.shop import ShopContext
from ops.item_keys import ItemKey, item_key
from ops.repair.copy_checks import Discrepancy, ImagesByKey, ItemCheck, read_source


def company_sources(image: Image) -> list[ItemKey]:
    """Return a list with the key of a customer's company. The list is empty for a customer without company."""
    return [item_key(COMPANY.key(company_id=image["company_id"]["S"]))] if "company_id" in image else []


def find_missing_company(image: Image, companies: ImagesByKey) -> Iterator[Discrepancy]:
    """Yield a discrepancy if a customer's company is not among `companies`. A repair ends the membership."""
    row, customer = read_source(image)
    if any(place not in companies for place in company_sources(image)):
        left = row.encode(replace(customer, company_id=None, version=customer.version + 1))
        removed = row.encode(customer).keys() - left.keys()
        expected = {name: value for name, value in {**image, **left}.items() if name not in removed}
        source = (COMPANY, COMPANY.key(company_id=customer.company_id))
        yield Discrepancy("company missing", item_key(image), image, expected, source)


def find_wrong_member_count(shop: ShopContext, image: Image) -> Iterator[Discrepancy]:
    """Yield a discrepancy if a company stores a wrong number of members, twice even if the index lags."""
    row, company = read_source(image)
    found = shop.table.query_all(COMPANY_WITH_MEMBERS, company_id=company.company_id)
    if (members := sum(isinstance(one, Customer) for one in found)) != company.member_count:
        corrected = {"member_count": {"N": str(members)}, "version": {"N": str(company.version + 1)}}
        yield Discrepancy("member count wrong", item_key(image), image, {**image, **corrected}, (row, company))


COMPANY_CHECKS: Mapping[Row[Any], ItemCheck] = {
    COMPANY: ItemCheck(lambda shop, image, _: find_wrong_member_count(shop, image)),
    CUSTOMER: ItemCheck(lambda _, image, companies: find_missing_company(image, companies), company_sources),
}
