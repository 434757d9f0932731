"""Invoices: issue, read and print them. Invoice numbers have no gaps, and an issued invoice never changes."""

import hmac
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from functions.dynamodb.table import QueryPage
from functions.dynamodb.writes import Write, check_unchanged, put_if_absent, update
from functions.model.entities import (
    REFUND_REASONS_OUTSIDE_ORDER,
    SOLD_STATUSES,
    Customer,
    Effect,
    ErasedCustomer,
    Invoice,
    InvoiceSeries,
    Line,
    Order,
    Paid,
)
from functions.model.errors import NotAllowed, NotFound
from functions.model.patterns import (
    CUSTOMER_OR_ERASED_BY_ID,
    EFFECT_BY_ID,
    INVOICE_BY_ID,
    INVOICE_SERIES_BY_NAME,
    INVOICES_OF_CUSTOMER,
    INVOICES_OF_ORDER,
    ORDER_BY_ID,
    PAYMENTS_OF_ORDER,
    REFUNDS_OF_ORDER,
)
from functions.model.pricing import included_tax
from functions.model.retention import EFFECT_DAYS
from functions.model.table import CUSTOMER, EFFECT, INVOICE, INVOICE_SERIES, ORDER
from functions.shop.orders import get_order_owner
from functions.shop.shop import Caller, Shop, retry_on_conflict

REACTION = "issue_invoice"
CAPTURED_STATUSES = ("CAPTURED", "DISPUTED", "REFUNDED")
"""The statuses of a payment whose money was received, even if the payment was disputed or refunded later."""
LINK_LIFETIME_SECONDS = 600
"""For how many seconds a link to the printable page of an invoice is valid."""


def issue_invoice(shop: Shop, order_id: str) -> str | None:
    """Issue the invoice of an order that is paid in full, and return its number. Safe to repeat.

    One transaction takes the next number and stores the invoice and an Effect item. The Effect item records the number,
    so a repeated call returns the same number and issues no second invoice. If the order or its customer changed after
    they were read, the transaction fails and everything is read again.

    Returns None if there is nothing to invoice, for example because the order was cancelled. Raises NotFound if the
    customer does not exist.
    """

    def attempt() -> str | None:
        if done := shop.table.get(EFFECT_BY_ID, effect_id=order_id, reaction=REACTION):
            return done.result
        order = shop.table.get(ORDER_BY_ID, order_id=order_id)
        if not isinstance(order, Order) or order.status not in SOLD_STATUSES or order.paid != order.total:
            return None
        customer = shop.table.get(CUSTOMER_OR_ERASED_BY_ID, customer_id=order.customer_id)
        if customer is None:  # fail, so that an operator investigates: every sold order needs an invoice
            raise NotFound("customer")
        number, counted = _next_number(shop)
        invoice = _build_invoice(
            shop, number, order, _recipient_name(customer, order), tuple(_allocate_payments(shop, order))
        )
        effect = Effect(
            effect_id=order_id,
            reaction=REACTION,
            result=number,
            created_at=invoice.created_at,
            ttl=int((shop.now() + timedelta(days=EFFECT_DAYS)).timestamp()),
        )
        writes: list[Write[Any]] = [
            put_if_absent(EFFECT, effect),
            counted,
            put_if_absent(INVOICE, invoice),
            check_unchanged(ORDER, order),
        ]
        if isinstance(customer, Customer):
            writes.append(check_unchanged(CUSTOMER, customer))
        shop.table.write(*writes)
        return number

    return retry_on_conflict(shop, attempt)


def _recipient_name(customer: Customer | ErasedCustomer, order: Order) -> str:
    """Return the customer's name. If the customer's data was erased, return the name in the order's address.

    Return "" if the address was erased too.
    """
    if isinstance(customer, Customer):
        return customer.name
    return order.address.name if order.address else ""


def _allocate_payments(shop: Shop, order: Order) -> Iterator[Paid]:
    """Split the order's paid amount over its payments: yield the amount that each payment covers.

    The bank may have taken a payment back (status REFUNDED). If the bank did this before the order was paid in full,
    the customer paid again, and the other payments cover the paid amount. If the bank did this later, the payment still
    covers its part of the paid amount. So payments with status REFUNDED come last: they cover only the rest that the
    other payments leave.

    Money above the amount due was refunded, and covers nothing. The payment and this refund are stored in one
    transaction. So the payments must be read before the refunds: then no such refund of these payments is missing.
    """
    payments = [
        p for p in shop.table.query_all(PAYMENTS_OF_ORDER, order_id=order.order_id) if p.status in CAPTURED_STATUSES
    ]
    refunds = [
        r
        for r in shop.table.query_all(REFUNDS_OF_ORDER, order_id=order.order_id)
        if r.why in REFUND_REASONS_OUTSIDE_ORDER
    ]
    left = order.paid
    for payment in sorted(payments, key=lambda p: (p.status == "REFUNDED", p.created_at, p.payment_id)):
        back = sum(refund.amount for refund in refunds if refund.payment_id == payment.payment_id)
        if counted := min(left, payment.amount - back):
            left -= counted
            yield Paid(payment_id=payment.payment_id, amount=counted, method=payment.method)


def _next_number(shop: Shop) -> tuple[str, Write[InvoiceSeries]]:
    """Return the next invoice number of this year, and the conditional write that takes the number."""
    now = shop.now_instant()
    series = now[:4]
    last = shop.table.get(INVOICE_SERIES_BY_NAME, series=series)
    if last is None:
        first = InvoiceSeries(series=series, last=1, created_at=now)
        return f"{series}-{first.last:08}", put_if_absent(INVOICE_SERIES, first)
    following = replace(last, last=last.last + 1, version=last.version + 1)
    return f"{series}-{following.last:08}", update(INVOICE_SERIES, last, following)


def _build_invoice(shop: Shop, number: str, order: Order, name: str, payments: tuple[Paid, ...]) -> Invoice:
    now = shop.now_instant()
    return Invoice(
        invoice_id=number,
        order_id=order.order_id,
        customer_id=order.customer_id,
        name=name,
        address=order.address,
        issued_at=now,
        currency=order.currency,
        total=order.total,
        lines={id: Line(name=line.name, price=line.price, quantity=line.quantity) for id, line in order.lines.items()},
        discount=order.discount,
        shipping=order.shipping,
        taxes=(included_tax(order.total, order.tax_rate),),
        payments=payments,
        created_at=now,
    )


# reading --------------------------------------------------------------------------------------------------------------
def get_invoice_of_order(shop: Shop, caller: Caller, order_id: str) -> Invoice:
    """Return the invoice of an order (access pattern A19).

    Raises NotFound if the order or its invoice does not exist, or if the caller may not see the order.
    """
    get_order_owner(shop, caller, order_id)
    found = shop.table.query(INVOICES_OF_ORDER, order_id=order_id, limit=1).items
    if not found:
        raise NotFound("invoice")
    return found[0]


def get_invoice(shop: Shop, caller: Caller, invoice_id: str) -> Invoice:
    """Return an invoice (access pattern A19b).

    Raises NotFound if the invoice does not exist or the caller may not see it.
    """
    found = _get_invoice(shop, invoice_id)
    caller.require_access(found.customer_id, "invoice")
    return found


def _get_invoice(shop: Shop, invoice_id: str) -> Invoice:
    found = shop.table.query(INVOICE_BY_ID, invoice_id=invoice_id, limit=1).items
    if not found:
        raise NotFound("invoice")
    return found[0]


def list_invoices_of_customer(
    shop: Shop, caller: Caller, customer_id: str, since: str, until: str, limit: int, after: str | None
) -> QueryPage[Invoice]:
    """Return a customer's invoices issued from `since` until just before `until`, newest first (access pattern A20).

    Raises NotFound if the caller may not see the customer.
    """
    caller.require_access(customer_id)
    return shop.table.query(
        INVOICES_OF_CUSTOMER, customer_id=customer_id, since=since, until=until, limit=limit, after=after
    )


# links to the printable page of an invoice ----------------------------------------------------------------------------
@dataclass(frozen=True)
class SignedLink:
    """The signature of a link that lets anyone read one invoice.

    `until`: the time when the link expires, in epoch seconds as text.
    """

    until: str
    signature: str


def create_print_link(shop: Shop, caller: Caller, invoice_id: str) -> SignedLink:
    """Create the signature of a link to an invoice. The link is valid for LINK_LIFETIME_SECONDS.

    A browser sends no access token when it opens a link, so the signature proves that the link is allowed. Raises
    NotFound if the invoice does not exist or the caller may not see the invoice.
    """
    get_invoice(shop, caller, invoice_id)
    until = str(int(shop.now().timestamp()) + LINK_LIFETIME_SECONDS)
    return SignedLink(until, _sign_link(shop, invoice_id, until))


def get_invoice_by_link(shop: Shop, invoice_id: str, link: SignedLink) -> Invoice:
    """Return the invoice of a signed link.

    Raises NotAllowed if the link has expired or its signature is wrong. Raises NotFound if the invoice does not exist.
    """
    expected = _sign_link(shop, invoice_id, link.until)
    if not hmac.compare_digest(link.signature.encode(errors="replace"), expected.encode()):
        raise NotAllowed("the signature of the link is invalid")
    # int() cannot fail: `until` has a valid signature, and the shop signs only numbers.
    if int(link.until) <= shop.now().timestamp():
        raise NotAllowed("the link has expired: request a new one")
    return _get_invoice(shop, invoice_id)


def _sign_link(shop: Shop, invoice_id: str, until: str) -> str:
    return shop.derive_id("print", invoice_id, until)
