"""Render an invoice, or the order of a guest, as a printable HTML page without scripts and external resources.

All values are escaped, and right-to-left values are isolated.
"""

import base64
import hashlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from functions.model.entities import Invoice, Order, Seller, TaxLine, order_number
from functions.model.languages import Language
from functions.model.pricing import rate_of

TEMPLATES = Path(__file__).parent / "templates"


def render_page(invoice: Invoice, shop_name: str, language: Language, seller: Seller | None = None) -> str:
    """Return the HTML page of an invoice or a credit note. Without any tax, the page does not mention taxes.

    `language`: the language of its labels, numbers and dates. `seller`: the version of the Seller that the invoice has;
    without one, the page shows only `shop_name`.
    """
    # Jinja is imported only when a page is rendered, because the import would slow down every cold start of the API.
    from functions.adapters.templates import render_template  # noqa: PLC0415

    text = language.text
    taxes = invoice.taxes if invoice.tax_rate or any(tax.rate for tax in invoice.taxes) else ()
    total = text("document.total_with_tax") if taxes else text("total")
    return render_template(
        TEMPLATES,
        "invoice.html",
        language,
        {
            "invoice": invoice,
            "title": text("document.credit_note") if invoice.corrects else text("document.invoice"),
            "shop_name": shop_name,
            "seller": seller,
            "recipient": invoice.billing_address.shown
            if invoice.billing_address
            else list(filter(None, [invoice.name])),
            "address": invoice.address.shown if invoice.address else (),
            "lines": [
                (line, rate_of(invoice, line.tax_rate) if taxes else None) for _, line in sorted(invoice.lines.items())
            ],
            "taxes": taxes,
            "sums": TaxLine(rate=0, net=sum(tax.net for tax in taxes), tax=sum(tax.tax for tax in taxes)),
            "kind_of_prices": _kind_of_prices(invoice, taxes, language),
            "shipping_rate": rate_of(invoice, invoice.shipping_tax_rate),
            "label_of_total": text("document.credited", total=total) if invoice.corrects else total,
            "text_of_tax_id": partial(_text_of_tax_id, language),
            "amount": partial(language.amount, currency=invoice.currency),
        },
    )


def render_order(order: Order, shop_name: str, language: Language) -> str:
    """Return the HTML page of an order, which a guest opens with a link."""
    from functions.adapters.templates import render_template  # noqa: PLC0415

    return render_template(
        TEMPLATES,
        "order.html",
        language,
        {
            "order": order,
            "number": order_number(order.order_id).upper(),
            "shop_name": shop_name,
            "amount": partial(language.amount, currency=order.currency),
        },
    )


def _text_of_tax_id(language: Language, id: str) -> str:
    """Return a tax id with its name. Only a VAT id begins with the letters of a country."""
    return language.text("document.vat_id", id=id) if id[:2].isalpha() else language.text("document.tax_number", id=id)


def _kind_of_prices(invoice: Invoice, taxes: Sequence[TaxLine], language: Language) -> str:
    """Return whether the rows of the page include taxes, or "" if the invoice has no taxes."""
    if invoice.reverse_charge or (taxes and invoice.net_prices and not invoice.corrects):
        return language.text("document.without_tax")
    return language.text("document.with_tax") if taxes else ""


def response_headers() -> dict[str, str]:
    """Return the security headers of a page.

    The Content-Security-Policy allows only the style sheet inside the page's HTML, no scripts or other files.
    The Referrer-Policy keeps the browser from sending the page's URL to other sites, because anyone who knows the URL
    can open the page. For the same reason, search engines must not list it.
    """
    from functions.adapters.templates import load_templates  # noqa: PLC0415

    style = load_templates(TEMPLATES).get_template("invoice.css").render()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return {
        "Content-Security-Policy": f"{policy}; frame-ancestors 'none'",
        "Referrer-Policy": "no-referrer",
        "X-Robots-Tag": "noindex",
    }
