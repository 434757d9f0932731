"""Invoices: build, number, read and print them. Numbers have no gaps, and an issued invoice never changes."""

import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from urllib.parse import urlencode

from functions.dynamodb.writes import Write, conflict_if_busy, put_if_absent, update
from functions.model.entities import Invoice, InvoiceSeries, Line, Order, Paid, Payment, Seller
from functions.model.errors import NotAllowed, NotFound
from functions.model.patterns import (
    CUSTOMER_BY_ID,
    INVOICE_BY_ID,
    INVOICE_SERIES_BY_NAME,
    INVOICES_OF_CUSTOMER,
    INVOICES_OF_ORDER,
)
from functions.model.pricing import tax_table
from functions.model.table import INVOICE_SERIES
from functions.shop.lists import ListPage, ListRequest, read_page
from functions.shop.orders import get_order_owner
from functions.shop.shop import Caller, ShopContext

CAPTURED_STATUSES = ("CAPTURED", "DISPUTED", "REFUNDED")
"""The statuses of a payment whose money was received, even if the payment was disputed or refunded later."""
LINK_LIFETIME = timedelta(minutes=10)
"""How long a link to the printable page of an invoice is valid."""
MAIL_LINK_LIFETIME = timedelta(days=30)
"""How long such a link in a mail is valid."""


def _find_day_of_payment(order: Order, counted: Sequence[Payment]) -> str:
    """Return the day of the full payment in UTC, or of its receipt if staff recorded all payments."""
    received = [payment.received_on for payment in counted if payment.received_on]
    return max(received) if received and len(received) == len(counted) else (order.paid_at or order.placed_at)[:10]


def take_numbers(
    shop: ShopContext, count: int, lane: int = 0, series: str | None = None
) -> tuple[list[str], Write[InvoiceSeries]]:
    """Return the next invoice numbers of a series, and the conditional write that takes them.

    `series`: by default, that of this year and lane: "2026" for lane 0, "2026-B" for lane 1, until "2026-Z". The
    numbers have no gaps if their invoices are in the transaction of this write, which raises WriteConflict if another
    one takes numbers.
    """
    now = shop.now_instant()
    series = series or (f"{now[:4]}-{chr(ord('A') + lane)}" if lane else now[:4])
    stored = shop.table.get(INVOICE_SERIES_BY_NAME, series=series)
    before = stored.last if stored else 0
    numbers = [f"{series}-{number:08}" for number in range(before + 1, before + count + 1)]
    if stored is None:
        write = put_if_absent(INVOICE_SERIES, InvoiceSeries(series=series, last=count, created_at=now))
    else:
        write = update(INVOICE_SERIES, stored, replace(stored, last=before + count, version=stored.version + 1))
    return numbers, conflict_if_busy(write)


def build_invoice(
    shop: ShopContext, number: str, order: Order, payments: Iterable[Payment], seller: Seller | None = None
) -> Invoice:
    """Return the invoice of an order that is paid in full. Nothing is written.

    The recipient is the name that the order has: the customer's name, or the name in the address if the customer's data
    was erased. `payments`: the payments of the order. `seller`: the latest version of the Seller, None
    if there is none.
    """
    now = shop.now_instant()
    counted = [one for one in payments if one.status in CAPTURED_STATUSES and one.amount > one.uncounted]
    paid_on = _find_day_of_payment(order, counted)
    return Invoice(
        invoice_id=number,
        order_id=order.order_id,
        customer_id=order.customer_id,
        name=order.customer_name or (order.address.name if order.address else ""),
        address=order.address,
        billing_address=order.billing_address,
        issued_at=now,
        currency=order.currency,
        total=order.total,
        lines={
            id: Line(name=line.name, price=line.price, quantity=line.quantity, tax_rate=line.tax_rate)
            for id, line in order.lines.items()
        },
        discount=order.discount,
        shipping=order.shipping,
        taxes=tax_table(order),
        tax_rate=order.tax_rate,
        shipping_tax_rate=order.shipping_tax_rate,
        net_prices=order.net_prices,
        tax_id=order.tax_id,
        reverse_charge=order.reverse_charge,
        reference=order.reference,
        payments=tuple(
            Paid(payment_id=one.payment_id, amount=one.amount - one.uncounted, method=one.method) for one in counted
        ),
        paid_on=paid_on if paid_on != now[:10] else None,
        seller=seller.version if seller else None,
        created_at=now,
    )


# reading --------------------------------------------------------------------------------------------------------------
def get_invoice_of_order(shop: ShopContext, caller: Caller, order_id: str) -> Invoice:
    """Return the invoice of an order (access pattern A19). Raises NotFound."""
    get_order_owner(shop, caller, order_id)
    found = shop.table.query(INVOICES_OF_ORDER, order_id=order_id, limit=1).items
    if not found:
        raise NotFound("invoice")
    return found[0]


def get_invoice(shop: ShopContext, caller: Caller, invoice_id: str) -> Invoice:
    """Return an invoice (access pattern A19b). Raises NotFound."""
    found = _get_invoice(shop, invoice_id)
    caller.require_access(found.customer_id, "invoice")
    return found


def _get_invoice(shop: ShopContext, invoice_id: str) -> Invoice:
    found = shop.table.query(INVOICE_BY_ID, invoice_id=invoice_id, limit=1).items
    if not found:
        raise NotFound("invoice")
    return found[0]


def list_invoices_of_order(shop: ShopContext, request: ListRequest, order_id: str) -> ListPage[Invoice]:
    """Return the invoice of an order, then its credit notes by their numbers (access pattern A19). Raises NotFound."""
    get_order_owner(shop, request.caller, order_id)
    return read_page(shop, request, INVOICES_OF_ORDER, order_id=order_id)


def list_invoices_of_customer(shop: ShopContext, request: ListRequest, customer_id: str) -> ListPage[Invoice]:
    """Return a customer's invoices issued in the time range, newest first (access pattern A20). Raises NotFound."""
    request.caller.require_access(customer_id)
    return read_page(shop, request, INVOICES_OF_CUSTOMER, customer_id=customer_id)


# links to the printable page of an invoice ----------------------------------------------------------------------------
@dataclass(frozen=True)
class SignedLink:
    """The signature of a link that lets anyone read one invoice. `until`: its end, in epoch seconds as text.

    `language`: that of the page, or None for the stage's language. It is not signed: the page may be read in any
    language.
    """

    invoice_id: str
    until: str
    signature: str
    language: str | None = None

    def to_url(self, public_url: str) -> str:
        """Return the link. `public_url`: the address of the API."""
        query = {"until": self.until, "signature": self.signature}
        if self.language:
            query["language"] = self.language
        return f"{public_url}/invoices/{self.invoice_id}/print?{urlencode(query)}"


def create_print_link(shop: ShopContext, caller: Caller, invoice_id: str, language: str | None = None) -> SignedLink:
    """Create the signature of a link to an invoice. The link is valid for LINK_LIFETIME. Raises NotFound.

    A browser sends no access token when it opens a link, so the signature proves that the link is allowed. `language`:
    the language of the page; None for the one that the customer of the invoice chose.
    """
    invoice = get_invoice(shop, caller, invoice_id)
    if language is None:
        customer = shop.table.get(CUSTOMER_BY_ID, customer_id=invoice.customer_id)
        language = customer.language if customer else None
    return _create_link(shop, invoice_id, LINK_LIFETIME, language)


def create_mail_link(shop: ShopContext, invoice_id: str, language: str) -> SignedLink:
    """Create the signature of a link to an invoice in a mail to its customer. It is valid for MAIL_LINK_LIFETIME."""
    return _create_link(shop, invoice_id, MAIL_LINK_LIFETIME, language)


def _create_link(shop: ShopContext, invoice_id: str, lifetime: timedelta, language: str | None) -> SignedLink:
    until = str(int((shop.now() + lifetime).timestamp()))
    return SignedLink(invoice_id, until, _sign_link(shop, invoice_id, until), language)


def get_invoice_by_link(shop: ShopContext, link: SignedLink) -> Invoice:
    """Return the invoice of a signed link. Raises NotFound, and NotAllowed if the link has expired or is not ours."""
    expected = _sign_link(shop, link.invoice_id, link.until)
    if not hmac.compare_digest(link.signature.encode(errors="replace"), expected.encode()):
        raise NotAllowed("the signature of the link is invalid")
    # int() cannot fail: `until` has a valid signature, and the shop signs only numbers.
    if int(link.until) <= shop.now().timestamp():
        raise NotAllowed("the link has expired: request a new one")
    return _get_invoice(shop, link.invoice_id)


def _sign_link(shop: ShopContext, invoice_id: str, until: str) -> str:
    return shop.derive_id("print", invoice_id, until)
