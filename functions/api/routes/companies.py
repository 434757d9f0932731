"""Companies, and the customers who buy for them."""

from collections.abc import Sequence

from aws_lambda_powertools.event_handler import Response

from functions.api.http.context import SignedIn, resolve_customer_id, shop
from functions.api.http.fields import Id, Listed, Name, RequestModel, ResponseModel, examples
from functions.api.http.paging import Cursor, Limit, Since, Until, list_answer
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.api.routes.order_responses import OrderInList
from functions.model.errors import AlreadyExists, InAnotherCompany, NotAllowed, NotEmpty
from functions.shop import companies
from functions.shop.lists import ListRequest

router = Router()


class CompanyName(RequestModel):
    """The name of a company."""

    name: Name
    model_config = examples({"name": "Acme & Daughters"})


class NewCompany(RequestModel):
    """A new company. Staff chooses the `company_id`."""

    company_id: Id
    name: Name
    model_config = examples({"company_id": "acme", "name": "Acme & Daughters"})


class CompanyAnswer(ResponseModel):
    """A company."""

    company_id: str
    name: str
    created_at: str
    updated_at: str


class Member(ResponseModel):
    """A customer who buys for a company. `email`: shown to staff only."""

    customer_id: str
    name: str
    email: str | None


class Membership(ResponseModel):
    """The company of a customer. `company_id`: null if the customer is in no company."""

    customer_id: str
    company_id: str | None


class DeletedCompany(ResponseModel):
    """The company that was deleted."""

    company_id: str


class CompanyPage(ResponseModel):
    """A company with its members, sorted by id. If there are several pages, only the first page has the company."""

    company: CompanyAnswer | None
    members: Sequence[Member]
    cursor: str | None


@router.post("/companies", status_code=201, openapi_extensions=problem_responses(NotAllowed, AlreadyExists))
def create_company(caller: SignedIn, new: NewCompany) -> Response[CompanyAnswer]:
    """Create a company without members. For staff."""
    company = companies.create_company(shop(), caller, new.company_id, new.name)
    where = {"Location": f"/companies/{company.company_id}"}
    return Response(201, "application/json", CompanyAnswer.of(company), headers=where)


@router.get("/companies", openapi_extensions=problem_responses(NotAllowed))
def list_companies(caller: SignedIn, limit: Limit = 20, cursor: Cursor = None) -> Listed[CompanyAnswer]:
    """List all companies, sorted by id. For staff. Changes are visible after a moment."""
    request = ListRequest(caller, limit, cursor)
    return list_answer(companies.list_companies(shop(), request), CompanyAnswer.of)


@router.patch("/companies/<company_id>", openapi_extensions=problem_responses(NotAllowed))
def rename_company(caller: SignedIn, company_id: Id, change: CompanyName) -> CompanyAnswer:
    """Change a company's name. For staff."""
    return CompanyAnswer.of(companies.rename_company(shop(), caller, company_id, change.name))


@router.delete("/companies/<company_id>", openapi_extensions=problem_responses(NotAllowed, NotEmpty))
def delete_company(caller: SignedIn, company_id: Id) -> DeletedCompany:
    """Delete a company that has no members. For staff."""
    companies.delete_company(shop(), caller, company_id)
    return DeletedCompany(company_id=company_id)


@router.get("/companies/<company_id>")
def company(caller: SignedIn, company_id: Id, limit: Limit = 20, cursor: Cursor = None) -> CompanyPage:
    """Show a company with its members, sorted by id. For members of the company and staff.

    If a member joins or leaves, the list shows it after a moment.
    """
    found = companies.get_company_with_members(shop(), ListRequest(caller, limit, cursor), company_id)
    return CompanyPage(
        company=None if found.company is None else CompanyAnswer.of(found.company),
        members=[
            Member(customer_id=one.customer_id, name=one.name, email=one.email if caller.is_staff else None)
            for one in found.members
        ],
        cursor=found.cursor,
    )


@router.get("/companies/<company_id>/orders", openapi_extensions=problem_responses(NotAllowed))
def orders_of_company(
    caller: SignedIn,
    company_id: Id,
    since: Since = None,
    until: Until = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Listed[OrderInList]:
    """List the orders that customers placed as members of a company, newest first. For staff.

    A new order appears after a moment. An order stays in the list when its customer leaves the company.
    """
    request = ListRequest(caller, limit, cursor, since, until)
    page = companies.list_orders_of_company(shop(), request, company_id)
    return list_answer(page, OrderInList.of_order_with_attention)


@router.put(
    "/companies/<company_id>/members/<customer_id>", openapi_extensions=problem_responses(NotAllowed, InAnotherCompany)
)
def join(caller: SignedIn, company_id: Id, customer_id: Id) -> Membership:
    """Add a customer to a company. A customer can be in one company at most. Safe to repeat. For staff."""
    return Membership.of(companies.add_member(shop(), caller, company_id, resolve_customer_id(caller, customer_id)))


@router.delete("/companies/<company_id>/members/<customer_id>", openapi_extensions=problem_responses(NotAllowed))
def leave(caller: SignedIn, company_id: Id, customer_id: Id) -> Membership:
    """Remove a customer from a company. For staff. Safe to repeat.

    If the customer is not in this company, nothing changes.
    """
    return Membership.of(companies.remove_member(shop(), caller, company_id, resolve_customer_id(caller, customer_id)))
