"""Companies and their members: customers who buy for at most one company, until their data is erased."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from functions.dynamodb.writes import Write, WriteConflict, add_with_minimum, delete, put_if_absent
from functions.model.entities import ArchivedOrder, Company, Customer, Order
from functions.model.errors import AlreadyExists, InAnotherCompany, NotEmpty, NotFound
from functions.model.patterns import COMPANIES, COMPANY_BY_ID, COMPANY_WITH_MEMBERS, CUSTOMER_BY_ID, ORDERS_OF_COMPANY
from functions.model.table import COMPANY, CUSTOMER
from functions.shop.audit import deletion_entry
from functions.shop.customers import get_customer
from functions.shop.feed import read_orders
from functions.shop.lists import ListPage, ListRequest, read_page
from functions.shop.shop import Caller, ShopContext, require_found, require_registered, retries_on_conflict, save_change


def create_company(shop: ShopContext, caller: Caller, company_id: str, name: str) -> Company:
    """Create a company without members. Only staff may call it. Raises AlreadyExists, NotAllowed."""
    caller.require_group("staff")
    now = shop.now_instant()
    company = Company(company_id=company_id, name=name, created_at=now, updated_at=now)
    shop.table.write(put_if_absent(COMPANY, company, condition_error=lambda found: AlreadyExists("company")))
    return company


@retries_on_conflict
def rename_company(shop: ShopContext, caller: Caller, company_id: str, name: str) -> Company:
    """Rename a company. Only staff may call it. Safe to repeat. Raises NotFound, NotAllowed."""
    caller.require_group("staff")
    before = _get_company(shop, company_id)
    return save_change(shop, COMPANY, before, replace(before, name=name))


def list_companies(shop: ShopContext, request: ListRequest) -> ListPage[Company]:
    """Return all companies, sorted by id (access pattern A6c). Only staff may call it. Raises NotAllowed."""
    request.caller.require_group("staff")
    return read_page(shop, request, COMPANIES)


@retries_on_conflict
def delete_company(shop: ShopContext, caller: Caller, company_id: str) -> None:
    """Delete a company that has no members. Only staff may call it.

    If a customer joins after this function read the company, the function reads the company again. Raises NotEmpty,
    NotAllowed, and NotFound, for example if the company was deleted by an earlier call.
    """
    caller.require_group("staff")
    found = _get_company(shop, company_id)
    if found.member_count:
        raise NotEmpty("members")
    shop.table.write(delete(COMPANY, found), *deletion_entry(shop, COMPANY, found))


@retries_on_conflict
def add_member(shop: ShopContext, caller: Caller, company_id: str, customer_id: str) -> Customer:
    """Make a customer a member of an existing company. Only staff may call it. Safe to repeat.

    Raises NotFound if the customer or the company does not exist, InAnotherCompany if the customer is a member of
    another company, WrongState if the customer is a guest, and NotAllowed.
    """
    caller.require_group("staff")
    before = get_customer(shop, caller, customer_id)
    if before.company_id == company_id:
        return before
    require_registered(before, "add a member")
    if before.company_id is not None:
        _get_company(shop, company_id)
        raise InAnotherCompany(before.company_id)
    count = _change_member_count(company_id, 1, NotFound("company"))
    return save_change(shop, CUSTOMER, before, replace(before, company_id=company_id), count)


@retries_on_conflict
def remove_member(shop: ShopContext, caller: Caller, company_id: str, customer_id: str) -> Customer:
    """Remove a customer from a company. Only staff may call it. Safe to repeat. Raises NotAllowed and NotFound."""
    caller.require_group("staff")
    before = get_customer(shop, caller, customer_id)
    if before.company_id != company_id:
        _get_company(shop, company_id)
        return before
    return save_change(shop, CUSTOMER, before, replace(before, company_id=None), *leave_company(shop, before))


def leave_company(shop: ShopContext, member: Customer) -> Iterator[Write[Company]]:
    """Yield the write that subtracts a leaving member from the company's count, if the customer has a company."""
    id = member.company_id
    if id is not None and shop.table.get(COMPANY_BY_ID, company_id=id) is not None:
        yield _change_member_count(id, -1, WriteConflict(COMPANY.type))


def _change_member_count(company_id: str, difference: int, missing: Exception) -> Write[Company]:
    return add_with_minimum(
        COMPANY,
        COMPANY.key(company_id=company_id),
        add={"member_count": difference},
        at_least={},
        condition_error=lambda found: missing,
        from_zero=("member_count",),
    )


@dataclass(frozen=True)
class CompanyWithMembers:
    """A page of a company's members, sorted by customer id. `company`: None on all pages but the first."""

    company: Company | None
    members: tuple[Customer, ...]
    cursor: str | None


def get_company_with_members(shop: ShopContext, request: ListRequest, company_id: str) -> CompanyWithMembers:
    """Return a company and a page of its members in one query (access pattern A6). The index is eventually consistent.

    Raises NotFound if the company does not exist, or if the caller is neither a member nor staff.
    """
    if not (request.caller.is_staff or _is_member(shop, request.caller, company_id)):
        raise NotFound("company")
    # The company is the first item of the first page, in addition to the members.
    is_first = request.cursor is None
    one_more = replace(request, limit=request.limit + is_first)
    page = read_page(shop, one_more, COMPANY_WITH_MEMBERS, company_id=company_id)
    company = next((item for item in page.items if isinstance(item, Company)), None)
    if company is None and is_first:
        company = _get_company(shop, company_id)  # the index may not contain a new company yet, but the table does
        page = read_page(shop, request, COMPANY_WITH_MEMBERS, company_id=company_id)
    return CompanyWithMembers(company, tuple(item for item in page.items if isinstance(item, Customer)), page.cursor)


def list_orders_of_company(shop: ShopContext, request: ListRequest, company_id: str) -> ListPage[Order | ArchivedOrder]:
    """Return the orders that a company's members placed in the time range, newest first (access pattern A31c).

    An order belongs to the company that its customer had when it was placed. Raises NotAllowed if the caller is not
    staff, and NotFound if the company does not exist.
    """
    request.caller.require_group("staff")
    _get_company(shop, company_id)
    page = read_page(shop, request, ORDERS_OF_COMPANY, company_id=company_id)
    orders = read_orders(shop, page.items)
    return ListPage(tuple(orders[it.order_id] for it in page.items if it.order_id in orders), page.cursor)


def _is_member(shop: ShopContext, caller: Caller, company_id: str) -> bool:
    found = shop.table.get(CUSTOMER_BY_ID, customer_id=caller.id)
    return found is not None and found.company_id == company_id


def _get_company(shop: ShopContext, company_id: str) -> Company:
    """Return a company (access pattern A6b). Raises NotFound."""
    return require_found(shop.table.get(COMPANY_BY_ID, company_id=company_id), "company")
