"""Invoices: show and list invoices as data, and show an invoice as a printable page."""

from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import StringConstraints

from functions.api.http.context import SignedIn, get_language, resolve_customer_id, shop
from functions.api.http.fields import Id, Language, LinkLanguage, Listed, ResponseModel, text_matching
from functions.api.http.paging import Cursor, Limit, Order, Since, Until, list_answer
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.api.routes import invoice_page
from functions.api.routes.order_responses import DocumentAnswer, InvoiceAnswer
from functions.model import entities as e
from functions.model.errors import NotAllowed
from functions.runtime import environment
from functions.shop import feed, invoices, sellers
from functions.shop.lists import ListPage, ListRequest

router = Router()

Epoch = Annotated[
    Annotated[str, text_matching("^[0-9]{1,12}$", "must be 1 to 12 digits (epoch seconds)")],
    Query(description="When the link expires (epoch seconds)."),
]
Signature = Annotated[
    Annotated[str, StringConstraints(max_length=100)], Query(description="The signature of the link.")
]


class PrintLink(ResponseModel):
    """A link that opens the invoice in a browser without a token, for ten minutes. `url`: the absolute address."""

    url: str


@router.get("/invoices/<invoice_id>")
def invoice(caller: SignedIn, invoice_id: Id) -> InvoiceAnswer:
    """Show an invoice or a credit note by its number."""
    return _answer(invoices.get_invoice(shop(), caller, invoice_id))


@router.get("/invoices", openapi_extensions=problem_responses(NotAllowed))
def all_documents(
    caller: SignedIn,
    since: Since = None,
    until: Until = None,
    order: Order = "newest",
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Listed[DocumentAnswer]:
    """List all invoices and credit notes by the time of issue. For staff."""
    request = ListRequest(caller, limit, cursor, since, until)
    return list_answer(feed.list_documents(shop(), request, oldest_first=order == "oldest"), DocumentAnswer.of)


@router.get("/orders/<order_id>/invoice")
def invoice_of_order(caller: SignedIn, order_id: Id) -> InvoiceAnswer:
    """Show the invoice of an order. The invoice is issued a moment after the order is paid."""
    return _answer(invoices.get_invoice_of_order(shop(), caller, order_id))


def _answer(item: e.Invoice) -> InvoiceAnswer:
    return InvoiceAnswer.of_invoice(item, sellers.get_sellers(shop(), [item]))


@router.get("/orders/<order_id>/invoices")
def invoices_of_order(
    caller: SignedIn, order_id: Id, limit: Limit = 20, cursor: Cursor = None
) -> Listed[InvoiceAnswer]:
    """List the invoice of an order, then the credit notes that correct it, oldest first."""
    request = ListRequest(caller, limit, cursor)
    return _list_answer(invoices.list_invoices_of_order(shop(), request, order_id))


@router.get("/customers/<customer_id>/invoices")
def invoices_of_customer(
    caller: SignedIn,
    customer_id: Id,
    since: Since = None,
    until: Until = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Listed[InvoiceAnswer]:
    """List a customer's invoices and credit notes by date of issue, newest first."""
    customer_id = resolve_customer_id(caller, customer_id)
    request = ListRequest(caller, limit, cursor, since, until)
    return _list_answer(invoices.list_invoices_of_customer(shop(), request, customer_id))


def _list_answer(page: ListPage[e.Invoice]) -> Listed[InvoiceAnswer]:
    found = sellers.get_sellers(shop(), page.items)
    return list_answer(page, lambda item: InvoiceAnswer.of_invoice(item, found))


@router.get("/invoices/<invoice_id>/print-link")
def print_link(
    caller: SignedIn,
    invoice_id: Id,
    language: Annotated[
        Language | None, Query(description="The language of the page, by default the language of the customer.")
    ] = None,
) -> PrintLink:
    """Create a link to the printable page of an invoice. The link expires after ten minutes.

    A browser can open the link without a token.
    """
    link = invoices.create_print_link(shop(), caller, invoice_id, language)
    return PrintLink(url=link.to_url(environment.load_environment(environment.ApiEnvironment).public_url))


@router.get(
    "/invoices/<invoice_id>/print",
    responses={200: {"description": "The page", "content": {"text/html": {"schema": {"type": "string"}}}}},
    openapi_extensions=problem_responses(NotAllowed),
)
def print_invoice(invoice_id: Id, until: Epoch, signature: Signature, language: LinkLanguage = None) -> Response[str]:
    """Show an invoice as a printable page. The URL must be a print link that has not expired."""
    invoice = invoices.get_invoice_by_link(shop(), invoices.SignedLink(invoice_id, until, signature))
    seller = next(iter(sellers.get_sellers(shop(), [invoice]).values()), None)
    shop_name = environment.load_environment(environment.ApiEnvironment).shop_name
    text = invoice_page.render_page(invoice, shop_name, get_language(language), seller)
    return Response(200, "text/html; charset=utf-8", text, headers=invoice_page.response_headers())
