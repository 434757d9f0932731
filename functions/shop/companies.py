"""Companies, and the customers who buy for them: each is in one at most, and in none once they are forgotten."""

from dataclasses import dataclass, replace

from functions.dynamodb.writes import change, present, put
from functions.model.entities import Company, Customer
from functions.model.errors import AlreadyExists, InAnotherCompany, NotFound
from functions.model.patterns import A1, A6, A6b
from functions.model.table import COMPANY, CUSTOMER
from functions.shop.customers import customer
from functions.shop.shop import Caller, Shop, decided_again


def create_company(shop: Shop, caller: Caller, company_id: str, name: str) -> Company:
    """A company without members. For staff. Raises AlreadyExists, NotAllowed."""
    caller.must_be("staff")
    now = shop.instant()
    company = Company(company_id=company_id, name=name, created_at=now, updated_at=now)
    shop.table.write(put(COMPANY, company, refused=lambda found: AlreadyExists("company")))
    return company


def rename_company(shop: Shop, caller: Caller, company_id: str, name: str) -> Company:
    """For staff. Repeatable. Raises NotFound, NotAllowed."""
    caller.must_be("staff")

    def attempt() -> Company:
        before = _company(shop, company_id)
        if before.name == name:
            return before
        after = replace(before, name=name, updated_at=shop.instant(), version=before.version + 1)
        shop.table.write(change(COMPANY, before, after))
        return after

    return decided_again(shop, attempt)


def join(shop: Shop, caller: Caller, company_id: str, customer_id: str) -> Customer:
    """Make a customer a member of a company that there is. For staff. Repeatable.

    Raises NotFound of either, InAnotherCompany, NotAllowed.
    """
    caller.must_be("staff")

    def attempt() -> Customer:
        before = customer(shop, caller, customer_id)
        if before.company_id == company_id:
            return before
        if before.company_id is not None:
            _company(shop, company_id)
            raise InAnotherCompany(before.company_id)
        after = replace(before, company_id=company_id, updated_at=shop.instant(), version=before.version + 1)
        key = COMPANY.key(company_id=company_id)
        shop.table.write(
            change(CUSTOMER, before, after), present(COMPANY, key, refused=lambda found: NotFound("company"))
        )
        return after

    return decided_again(shop, attempt)


def leave(shop: Shop, caller: Caller, company_id: str, customer_id: str) -> Customer:
    """Take a customer out of a company; who is not in it stays as they are. For staff. Repeatable.

    Raises NotFound of either, NotAllowed.
    """
    caller.must_be("staff")

    def attempt() -> Customer:
        before = customer(shop, caller, customer_id)
        if before.company_id != company_id:
            _company(shop, company_id)
            return before
        after = replace(before, company_id=None, updated_at=shop.instant(), version=before.version + 1)
        shop.table.write(change(CUSTOMER, before, after))
        return after

    return decided_again(shop, attempt)


@dataclass(frozen=True)
class CompanyPage:
    """A company, on the first page, and some of its members, by their ids. `after`: where the others start."""

    company: Company | None
    members: tuple[Customer, ...]
    after: str | None


def company_with_members(shop: Shop, caller: Caller, company_id: str, limit: int, after: str | None) -> CompanyPage:
    """A6: one query; `limit` counts the company too. For its members and staff. Raises NotFound.

    Who joined or left this moment may not show so yet: the index is not read consistently.
    """
    if not (caller.is_staff or _is_member(shop, caller, company_id)):
        raise NotFound("company")
    page = shop.table.query(A6, company_id=company_id, limit=limit, after=after)
    company = next((item for item in page.items if isinstance(item, Company)), None)
    if company is None and after is None:
        company = _company(shop, company_id)  # one that was made this moment is not in the index yet
    return CompanyPage(company, tuple(item for item in page.items if isinstance(item, Customer)), page.after)


def _is_member(shop: Shop, caller: Caller, company_id: str) -> bool:
    found = shop.table.get(A1, customer_id=caller.id)
    return found is not None and found.company_id == company_id


def _company(shop: Shop, company_id: str) -> Company:
    """A6b. Raises NotFound."""
    found = shop.table.get(A6b, company_id=company_id)
    if found is None:
        raise NotFound("company")
    return found
