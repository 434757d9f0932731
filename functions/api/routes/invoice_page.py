"""Render an invoice, or the order of a guest, as a printable HTML page without scripts and external resources.

All values are escaped, and right-to-left values are isolated.
"""

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from functions.model.entities import Invoice, Order, Seller, TaxLine, order_number
from functions.model.money import format_amount
from functions.model.pricing import format_percent, rate_of

if TYPE_CHECKING:
    from jinja2 import Environment

METHOD_LABELS = {
    "CARD": "Card",
    "CREDIT": "Credit",
    "BANK_TRANSFER": "Bank transfer",
    "CASH": "Cash",
    "INVOICE": "On invoice",
}


def render_page(invoice: Invoice, shop_name: str, seller: Seller | None = None) -> str:
    """Return the HTML page of an invoice or a credit note. Without any tax, the page does not mention taxes.

    `seller`: the version of the Seller that the invoice has; without one, the page shows only `shop_name`.
    """
    taxes = invoice.taxes if invoice.tax_rate or any(tax.rate for tax in invoice.taxes) else ()
    return (
        _load_templates()
        .get_template("invoice.html")
        .render(
            invoice=invoice,
            title="Credit note" if invoice.corrects else "Invoice",
            shop_name=shop_name,
            seller=seller,
            recipient=invoice.billing_address.shown if invoice.billing_address else list(filter(None, [invoice.name])),
            address=invoice.address.shown if invoice.address else (),
            lines=[
                (line, rate_of(invoice, line.tax_rate) if taxes else None) for _, line in sorted(invoice.lines.items())
            ],
            taxes=taxes,
            sums=TaxLine(rate=0, net=sum(tax.net for tax in taxes), tax=sum(tax.tax for tax in taxes)),
            kind_of_prices=_kind_of_prices(invoice, taxes),
            shipping_rate=rate_of(invoice, invoice.shipping_tax_rate),
            methods=METHOD_LABELS,
            money=lambda amount: format_amount(amount, invoice.currency),
            percent=format_percent,
        )
    )


def render_order(order: Order, shop_name: str) -> str:
    """Return the HTML page of an order, which a guest opens with a link."""
    return (
        _load_templates()
        .get_template("order.html")
        .render(
            order=order,
            number=order_number(order.order_id).upper(),
            status=order.status.replace("_", " ").capitalize(),
            shop_name=shop_name,
            money=lambda amount: format_amount(amount, order.currency),
        )
    )


def _kind_of_prices(invoice: Invoice, taxes: Sequence[TaxLine]) -> str:
    """Return whether the rows of the page include taxes, or "" if the invoice has no taxes."""
    if invoice.reverse_charge or (taxes and invoice.net_prices and not invoice.corrects):
        return "without tax"
    return "with tax" if taxes else ""


def response_headers() -> dict[str, str]:
    """Return the security headers of a page.

    The Content-Security-Policy allows only the style sheet inside the page's HTML, no scripts or other files.
    The Referrer-Policy keeps the browser from sending the page's URL to other sites, because anyone who knows the URL
    can open the page. For the same reason, search engines must not list it.
    """
    style = _load_templates().get_template("invoice.css").render()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return {
        "Content-Security-Policy": f"{policy}; frame-ancestors 'none'",
        "Referrer-Policy": "no-referrer",
        "X-Robots-Tag": "noindex",
    }


def _load_templates() -> "Environment":
    # Jinja is imported only when a page is rendered, because the import would slow down every cold start of the API.
    from functions.adapters.templates import load_templates  # noqa: PLC0415

    return load_templates(Path(__file__).parent / "templates")
