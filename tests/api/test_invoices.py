"""Invoices: as data, and as a page that a browser opens by a link."""

import base64
import hashlib
import re
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from functions.api.routes.invoice_page import render_page
from functions.model.entities import Address, Discounted, Invoice, Line, Paid, Seller, TaxLine
from functions.model.languages import load_language
from functions.model.table import INVOICE
from functions.shop.credit_notes import issue_credit_note
from functions.shop.fulfilment import fulfil_order
from proof.support.actors import set_tax_rate
from proof.support.http_client import ANN, HOME_ADDRESS, NO_MORE_PARTS, STAFF, ApiHarness, HandlerResponse
from proof.support.samples import AT, SAMPLES
from tests.support.shown_html import ShownHtml

ENGLISH = load_language("en")
HOSTILE = "<script>alert('1')</script> & \"co\" {{ 7 * 7 }}"


@pytest.fixture
def invoice_id(api: ApiHarness) -> str:
    """Create an invoice of Ann with a tax of 20 %. Return its id."""
    set_tax_rate(api.shop, 2000)
    order_id = api.place_order(mug=2, pot=1).body["order_id"]
    api.pay(order_id)
    issued = fulfil_order(api.shop, order_id)
    assert issued is not None
    return issued.invoice_id


def follow(api: ApiHarness, url: str, **changed: str) -> HandlerResponse:
    """Request a link as a browser does, without a token."""
    link = urlsplit(url)
    query: dict[str, Any] = {**dict(parse_qsl(link.query)), **changed}
    return api.call("GET", link.path, **query)


def link_to(api: ApiHarness, invoice_id: str) -> str:
    made = api.call("GET", f"/invoices/{invoice_id}/print-link", ANN)
    assert made.status == 200
    return str(made.body["url"])


def show(html: str) -> ShownHtml:
    """Parse a page, and check that it loads and runs nothing."""
    shown = ShownHtml(html)
    assert not {"script", "link", "img", "iframe", "object", "embed", "form", "base", "a"} & {*shown.elements}
    assert shown.attributes <= {"lang", "charset", "name", "content", "class", "colspan"}
    return shown


def test_an_invoice_is_shown_with_all_that_is_on_it(api: ApiHarness, invoice_id: str) -> None:
    said = api.call("GET", f"/invoices/{invoice_id}", ANN).body
    assert said == api.call("GET", f"/orders/{said['order_id']}/invoice", STAFF).body
    assert [said] == api.call("GET", "/customers/me/invoices", ANN).body["items"]
    shown = {
        "kind": "INVOICE",
        "corrects": None,
        "address": {**HOME_ADDRESS, **NO_MORE_PARTS},
        "total": 3750,
        "taxes": [{"rate": 2000, "net": 3125, "tax": 625}],
        "payments": [{"payment_id": "pi_1", "method": "CARD", "amount": 3750}],
        "paid_on": said["issued_at"][:10],
    }
    assert said.items() >= shown.items()
    assert [(line["product_id"], line["quantity"], line["credited"]) for line in said["lines"]] == [
        ("mug", 2, 0),
        ("pot", 1, 0),
    ]


def test_a_credit_note_names_its_invoice_and_what_it_takes_off(api: ApiHarness, invoice_id: str) -> None:
    order_id = api.call("GET", f"/invoices/{invoice_id}", ANN).body["order_id"]
    api.call("POST", f"/orders/{order_id}/refunds", STAFF, {"amount": 360, "cause": "OTHER"}, key="sorry")
    issue_credit_note(api.shop, order_id)
    invoice, note = api.call("GET", f"/orders/{order_id}/invoices", ANN).body["items"]
    assert (invoice["invoice_id"], note["kind"], note["corrects"]) == (invoice_id, "CREDIT_NOTE", invoice_id)
    assert [(line["quantity"], line["credited"]) for line in note["lines"]] == [(0, 240), (0, 120)]
    shown = show(follow(api, link_to(api, note["invoice_id"])).text)
    assert f"Number {note['invoice_id']} For invoice {invoice_id} Date" in shown.text
    assert "Blue mug 20 % tax price reduced 2.40 EUR Blue pot 20 % tax price reduced 1.20 EUR" in shown.text
    assert "Total with tax, in your favour 3.60 EUR" in shown.text
    assert "20 % 3.00 EUR 0.60 EUR 3.60 EUR" in shown.text
    assert "Paid" not in shown.text


# the link -------------------------------------------------------------------------------------------------------------
def test_a_link_is_opened_without_a_token(api: ApiHarness, invoice_id: str) -> None:
    url = link_to(api, invoice_id)
    assert re.fullmatch(
        rf"https://shop\.example/invoices/{invoice_id}/print\?until=\d+&signature=[a-z2-7]{{26}}", url
    ), "the signature has 128 bits"
    opened = follow(api, url)
    assert (opened.status, opened.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert opened.headers["cache-control"] == "private, no-store"
    assert opened.headers["referrer-policy"] == "no-referrer", "anyone with the address sees the invoice"
    changed = follow(api, url, signature="x")
    assert (changed.status, changed.problem_type) == (403, "not-allowed")


@pytest.mark.parametrize(
    "query", [{}, {"until": "1"}, {"until": "soon", "signature": "x"}, {"until": "1", "signature": "x" * 101}]
)
def test_a_malformed_invoice_link_is_rejected(api: ApiHarness, invoice_id: str, query: dict[str, Any]) -> None:
    assert api.call("GET", f"/invoices/{invoice_id}/print", **query).problem_type == "malformed"


# the page -------------------------------------------------------------------------------------------------------------
def invoice(**changed: Any) -> Invoice:
    values: dict[str, Any] = {
        "invoice_id": "2026-00000042",
        "lines": {
            "pot": Line(name="Pot", price=1250, quantity=1),
            "mug": Line(name="Blue mug", price=1250, quantity=2),
        },
        "discount": Discounted(code="SPRING", rate=2000, amount=750),
        "shipping": 490,
        "taxes": (TaxLine(rate=1950, net=2921, tax=569),),
        "tax_rate": 1950,
        "payments": (Paid(payment_id="c1", amount=1000, method="CREDIT"), Paid(payment_id="pi_1", amount=2490)),
    }
    sample: Invoice = SAMPLES[INVOICE]
    return replace(sample, **values | changed)


SELLER = Seller(
    address=Address(name="Elm & Sons GmbH", street="2 Elm Row", postcode="1010", city="Wien", country="AT"),
    tax_ids=("ATU12345675", "21/815/08150"),
    bank="AT61 1904",
    created_at=AT,
)


def test_the_page_says_all_that_is_on_the_invoice() -> None:
    assert show(render_page(invoice(), "Elm & Sons", ENGLISH)).text == (
        "Elm & Sons Invoice For Ann Ash Delivered to Ann Ash 1 Elm Row 1010 Wien AT "
        "Number 2026-00000042 Date 2026-11-21 Paid on 2026-11-21 Order o1 "
        "Product Quantity Each with tax Amount with tax "
        "Blue mug 19.5 % tax 2 12.50 EUR 25.00 EUR Pot 19.5 % tax 1 12.50 EUR 12.50 EUR "
        "Discount SPRING, 20 % -7.50 EUR Shipping, 19.5 % tax 4.90 EUR Total with tax 34.90 EUR "
        "Tax rate Without tax Tax With tax 19.5 % 29.21 EUR 5.69 EUR 34.90 EUR "
        "Paid Credit c1 10.00 EUR Card pi_1 24.90 EUR"
    )


def test_the_invoice_page_leaves_out_missing_fields() -> None:
    bare = invoice(name="", address=None, discount=None, shipping=0, payments=(), currency="JPY")
    assert show(render_page(bare, "Elm & Sons", ENGLISH)).text == (
        "Elm & Sons Invoice Number 2026-00000042 Date 2026-11-21 Order o1 "
        "Product Quantity Each with tax Amount with tax "
        "Blue mug 19.5 % tax 2 1,250 JPY 2,500 JPY Pot 19.5 % tax 1 1,250 JPY 1,250 JPY "
        "Total with tax 3,490 JPY Tax rate Without tax Tax With tax 19.5 % 2,921 JPY 569 JPY 3,490 JPY"
    )
    no_postcode = Address(name="Ann", street="1 Elm Row", postcode="", city="Hong Kong", country="HK")
    assert "1 Elm Row Hong Kong HK" in show(render_page(invoice(address=no_postcode), "Elm & Sons", ENGLISH)).text


def test_the_page_shows_each_rate_at_its_rows_and_in_the_table_of_rates() -> None:
    lines = {
        "mug": Line(name="Mug", price=1250, quantity=2),
        "book": Line(name="Book", price=999, quantity=1, tax_rate=0),
    }
    taxes = (
        TaxLine(rate=2000, net=2083, tax=417),
        TaxLine(rate=1000, net=445, tax=45),
        TaxLine(rate=0, net=999, tax=0),
    )
    mixed = invoice(lines=lines, taxes=taxes, tax_rate=2000, shipping_tax_rate=1000, discount=None)
    shown = show(render_page(mixed, "Elm & Sons", ENGLISH)).text
    for text in ("Book 0 % tax 1", "Mug 20 % tax 2", "Shipping, 10 % tax 4.90 EUR"):
        assert text in shown
    assert (
        "20 % 20.83 EUR 4.17 EUR 25.00 EUR 10 % 4.45 EUR 0.45 EUR 4.90 EUR 0 % 9.99 EUR 0.00 EUR 9.99 EUR "
        "Total 35.27 EUR 4.62 EUR 39.89 EUR"
    ) in shown


@pytest.mark.parametrize(
    ("net_prices", "kind", "added"), [(False, "with tax", ""), (True, "without tax", "Tax 5.69 EUR ")]
)
def test_the_rows_say_whether_their_prices_include_the_tax(net_prices: bool, kind: str, added: str) -> None:
    shown = show(render_page(invoice(net_prices=net_prices), "Elm & Sons", ENGLISH)).text
    assert f"Product Quantity Each {kind} Amount {kind} Blue mug" in shown
    assert f"Shipping, 19.5 % tax 4.90 EUR {added}Total with tax 34.90 EUR" in shown


def test_the_billing_address_is_the_recipient_on_the_page() -> None:
    billing = Address(
        name="Ann Ash", street="9 Oak Row", postcode="4020", city="Linz", country="AT", company="Ash & Co"
    )
    written = invoice(billing_address=billing, tax_id="ATU12345675", reference="PO <7>")
    shown = show(render_page(written, "Elm & Sons", ENGLISH)).text
    assert "Your reference PO <7>" in shown
    assert (
        "For Ash & Co Ann Ash 9 Oak Row 4020 Linz AT Tax id ATU12345675 Delivered to Ann Ash 1 Elm Row 1010 Wien AT"
    ) in shown


def test_a_business_that_owes_the_tax_reads_it_on_the_page() -> None:
    place = {"postcode": "90001", "city": "Los Angeles", "country": "US", "region": "CA"}
    address = Address(name="Ann Ash", street="1 Elm Row", company="Ash & Co", **place)
    none = (TaxLine(rate=0, net=3490, tax=0),)
    charged = invoice(address=address, tax_id="DE136695976", reverse_charge=True, taxes=none, tax_rate=0)
    shown = show(render_page(charged, "Elm & Sons", ENGLISH)).text
    assert "For Ann Ash Tax id DE136695976 Delivered to Ash & Co Ann Ash 1 Elm Row 90001 Los Angeles CA, US" in shown
    assert "Each without tax Amount without tax" in shown
    assert "Total 34.90 EUR Reverse charge: the customer owes the value added tax" in shown
    assert "%" not in shown.replace("SPRING, 20 %", "")


def test_the_page_shows_the_seller_that_the_invoice_has() -> None:
    shown = show(render_page(invoice(), "Elm & Sons", ENGLISH, SELLER)).text
    assert shown.startswith(
        "Elm & Sons Invoice Elm & Sons GmbH, 2 Elm Row, 1010 Wien, AT "
        "Tax id ATU12345675 Tax id 21/815/08150 Bank AT61 1904 For Ann Ash"
    )
    bare = replace(SELLER, tax_ids=(), bank=None)
    assert "Wien, AT For Ann Ash" in show(render_page(invoice(), "Elm & Sons", ENGLISH, bare)).text


def test_a_shop_without_tax_shows_no_tax() -> None:
    free = invoice(taxes=(TaxLine(rate=0, net=3490, tax=0),), tax_rate=0)
    assert "tax" not in show(render_page(free, "Elm & Sons", ENGLISH)).text


def test_text_of_a_customer_is_escaped_on_the_invoice_page() -> None:
    address = Address(name=HOSTILE, street=HOSTILE, postcode="1", city=HOSTILE, country="AT")
    lines = {"pot": Line(name=HOSTILE, price=1250, quantity=1), "mug": Line(name=HOSTILE, price=1250, quantity=2)}
    hostile = show(render_page(invoice(name=HOSTILE, address=address, lines=lines), HOSTILE, ENGLISH))
    assert hostile.elements == show(render_page(invoice(), "Elm & Sons", ENGLISH)).elements, (
        "a name adds no HTML element"
    )
    assert hostile.text.count(" ".join(HOSTILE.split())) == 1 + 1 + 3 + 2


def test_a_right_to_left_name_does_not_reorder_the_text_beside_it_on_an_invoice() -> None:
    page = render_page(invoice(name="\u05d3\u05d5\u05d3 <b>"), "Elm", ENGLISH)
    assert "<p><bdi>\u05d3\u05d5\u05d3 &lt;b&gt;</bdi></p>" in page


def test_the_invoice_page_allows_only_its_own_style(api: ApiHarness, invoice_id: str) -> None:
    opened = follow(api, link_to(api, invoice_id))
    (style,) = re.findall("<style>(.*?)</style>", opened.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert opened.headers["content-security-policy"] == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    assert opened.headers["x-content-type-options"] == "nosniff"
    assert "size: A4" in style
    assert "@media print" in style
    assert "url(" not in style
    assert "@import" not in style
    assert "Elm & Sons Invoice For Ann " in show(opened.text).text


# languages ------------------------------------------------------------------------------------------------------------
def test_a_german_invoice_has_the_words_of_german_tax_law() -> None:
    german = load_language("de")
    shown = show(render_page(invoice(net_prices=True, total=123490), "Elm & Sons", german, SELLER)).text
    for text in (
        "USt-IdNr. ATU12345675 Steuernummer 21/815/08150",
        "Datum 21.11.2026 Zahlungsdatum 21.11.2026",
        "Blue mug 19,5 % USt. 2 12,50 EUR 25,00 EUR",
        "Umsatzsteuer 5,69 EUR Gesamtbetrag inkl. Umsatzsteuer 1.234,90 EUR",
    ):
        assert text in shown
    note = show(render_page(invoice(corrects="2026-00000041", payments=()), "Elm & Sons", german)).text
    assert "Rechnungskorrektur" in note
    reverse = invoice(reverse_charge=True, taxes=(TaxLine(rate=0, net=3490, tax=0),), tax_rate=0)
    assert "Steuerschuldnerschaft des Leistungsempfängers" in show(render_page(reverse, "Elm", german)).text


def test_a_link_opens_the_language_of_the_customer_or_one_that_is_asked_for(api: ApiHarness, invoice_id: str) -> None:
    api.call("PATCH", "/customers/me", ANN, {"language": "de"})
    url = link_to(api, invoice_id)
    assert url.endswith("&language=de")
    assert "Rechnung" in show(follow(api, url).text).text
    path = f"/invoices/{invoice_id}/print-link"
    asked = api.call("GET", path, STAFF, language="en").body["url"]
    assert "Invoice" in show(follow(api, asked).text).text
    assert "Invoice" in show(follow(api, url, language="xx").text).text, "a mail may name a language that is gone"
    refused = api.call("GET", path, STAFF, language="xx")
    assert (refused.status, refused.body["errors"][0]["field"]) == (400, "language")
