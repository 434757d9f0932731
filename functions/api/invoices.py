"""Invoices."""

from functions.api.context import SignedIn, customer_named, shop
from functions.api.fields import Id, Listed
from functions.api.order_answers import InvoiceAnswer
from functions.api.paging import Asked, Cursor, Limit, Since, Until, between, page
from functions.api.routes import Router
from functions.model.patterns import A20
from functions.shop import invoices

router = Router()


@router.get("/invoices/<invoice_id>")
def invoice(caller: SignedIn, invoice_id: Id) -> InvoiceAnswer:
    """An invoice by its number."""
    return InvoiceAnswer.of(invoices.invoice_by_id(shop(), caller, invoice_id))


@router.get("/orders/<order_id>/invoice")
def invoice_of_order(caller: SignedIn, order_id: Id) -> InvoiceAnswer:
    """The invoice of an order; there is one a moment after it was paid for."""
    return InvoiceAnswer.of(invoices.invoice_of_order(shop(), caller, order_id))


@router.get("/customers/<customer_id>/invoices")
def invoices_of_customer(
    caller: SignedIn,
    customer_id: Id,
    since: Since = None,
    until: Until = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Listed[InvoiceAnswer]:
    """A customer's invoices, by when they were issued, newest first."""
    customer_id = customer_named(caller, customer_id)
    low, high = between(since, until)
    return page(
        Asked(caller, A20, (customer_id, low, high), cursor),
        lambda after: invoices.invoices_of_customer(shop(), caller, customer_id, low, high, limit, after),
        InvoiceAnswer.of,
    )
