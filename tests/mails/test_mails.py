"""Tests mails as text and as HTML: all values are escaped."""

from dataclasses import replace
from typing import Any, get_args

import pytest

from functions.adapters.mailer import Mail
from functions.dynamodb.keys import Instant
from functions.mails import product_alerts as notices
from functions.mails.order_notifications import EVENTS_WITH_ADDRESS, render_notification
from functions.model.entities import ChosenShipping, DeliveryDays, Discounted, Line, Product, Refund
from functions.model.events import InvoiceData, RefundData
from functions.model.languages import load_language
from functions.model.mail_kinds import MAIL_KINDS, ORDER_MAIL_KINDS
from functions.model.money import Currency
from functions.model.table import CUSTOMER, ORDER, REFUND
from proof.support import samples
from proof.support.samples import GUEST, SAMPLES
from tests.support.shown_html import ShownHtml

AT = Instant("2026-11-21T09:30:00.000Z")
ORDER_EVENTS = [event for events in ORDER_MAIL_KINDS.values() for event in events]
ALERTS = MAIL_KINDS["product_alerts"]
ENGLISH = load_language("en")
LINK = "https://api.elm.example/invoices/CN-00000001/print?until=1&signature=s"
CREDIT_NOTE = InvoiceData(
    invoice_id="CN-00000001", order_id="o1", customer_id="ann", total=990, currency="EUR", issued_at=AT
)


def mail(
    event: str = "OrderPaid",
    *,
    name: str = "Ann Ash",
    product: str = "Blue mug",
    currency: str = "EUR",
    refunded: tuple[int, str] = (1250, "EUR"),
    explained: Refund | None = None,
    language: str = "en",
    **changed: Any,
) -> Mail:
    assert currency in get_args(Currency)
    order = samples.order(
        order_id="ebz4oersmwzvd6p6iumrcaxfbq",
        status="PAID",
        currency=currency,
        total=3750,
        lines={"mug": Line(name=product, price=1250, quantity=2), "pot": Line(name="Pot", price=1250, quantity=1)},
        address=replace(samples.HOME_ADDRESS, name=name),
    )
    customer = replace(SAMPLES[CUSTOMER], name=name)
    amount, of = refunded
    refund = RefundData(
        order_id=order.order_id,
        refund_id="one",
        payment_id="pi_1",
        customer_id="ann",
        status="SUCCEEDED",
        amount=amount,
        currency=of,
        why="GOODWILL",
    )
    refund_of_event = refund if event == "RefundSucceeded" else None
    note = CREDIT_NOTE if event == "CreditNoteIssued" else None
    changed_order, link = replace(order, **changed), LINK if note else ""
    shop = "Elm & Sons", load_language(language)
    return render_notification(event, customer, changed_order, *shop, refund_of_event, explained, note, link)


DEAR: dict[str, Any] = {
    "total": 3490,
    "discount": Discounted(code="SPRING", rate=2000, amount=750),
    "shipping": 490,
    "tax_rate": 1950,
}


def test_the_text_reads_like_a_letter() -> None:
    letter = f"""\

{ENGLISH.text("mail.OrderPaid.opening")}

Order EBZ4OERS

  2 x Blue mug  25.00 EUR
  1 x Pot  12.50 EUR

  Discount SPRING  -7.50 EUR
  Shipping  4.90 EUR
  Total  34.90 EUR
  Includes 19.5 % tax  5.69 EUR

Delivery address:
  Ann Ash
  1 Elm Row
  1010 Wien
  AT

Elm & Sons"""
    greeting, _, rest = mail(**DEAR).text.rstrip().partition("\n")
    assert "Ann Ash" in greeting
    assert rest == letter


def test_the_shipping_method_is_shown_with_the_address_and_a_pickup_instead_of_it() -> None:
    parcel = ChosenShipping(id="standard", name="Parcel <1>", days=DeliveryDays(min=2, max=4))
    sent = mail("OrderPaid", shipping_method=parcel)
    assert "\n\nShipping method: Parcel <1>, 2-4 working days\n\nDelivery address:\n" in sent.text
    assert "<p>Shipping method: Parcel &lt;1&gt;, 2-4 working days</p>" in sent.html
    assert "Shipping method" not in mail("OrderCancelled", shipping_method=parcel).text
    shop = ChosenShipping(id="shop", name="Shop in Vienna", pickup=True)
    collected = mail("OrderPaid", shipping_method=shop)
    assert "\n\nPick up at: Shop in Vienna\n\nElm & Sons" in collected.text
    assert "Delivery address" not in collected.text + collected.html


def test_an_address_is_shown_only_if_there_is_one_and_something_goes_there() -> None:
    shown = {event for event in ORDER_EVENTS if "Elm Row" in mail(event).text}
    assert shown == {event for event in ORDER_EVENTS if "Delivery address" in mail(event).html} == EVENTS_WITH_ADDRESS
    forgotten = mail("OrderPaid", address=None)
    assert "Delivery address" not in forgotten.text + forgotten.html
    assert "None" not in forgotten.text + forgotten.html


def test_the_mail_about_a_credit_note_has_its_amount_and_its_link() -> None:
    one = mail("CreditNoteIssued", owed=500)
    assert f"We took 9.90 EUR off the invoice of your order. Your credit note:\n\n{LINK}\n\nOrder " in one.text
    escaped = LINK.replace("&", "&amp;")
    assert f'<p><a href="{escaped}">{escaped}</a></p>' in one.html


def test_a_mail_to_a_guest_has_the_link_to_the_order_in_both_forms() -> None:
    order = SAMPLES[ORDER]
    link = "https://elm.example/#/guest/o1?token=a"
    sent = render_notification("OrderPlaced", GUEST, order, "Elm Row", load_language("en"), guest_link=link)
    for text in (sent.text, sent.html):
        assert link in text
        assert "do not share this link" in text


def test_money_that_goes_back_is_shown_in_its_own_currency_and_not_in_that_of_the_order() -> None:
    one = mail("RefundSucceeded", currency="JPY", refunded=(4980, "EUR"))
    assert "We have refunded 49.80 EUR to you." in one.text
    assert "Total  3,750 JPY" in one.text


SHORT: dict[str, Any] = {
    **DEAR,
    "lines": {
        "mug": Line(name="Blue <mug>", price=1250, quantity=2, shipped=1, dropped=1),
        "pot": Line(name="Pot", price=1250, quantity=1, dropped=1),
    },
}


def test_the_mail_about_a_refund_shows_why_staff_made_it() -> None:
    explained = replace(SAMPLES[REFUND], cause="DAMAGED", note="Sorry for <the> handle.")
    one = mail("RefundSucceeded", explained=explained)
    assert "\n\nThe goods were damaged.\n\nSorry for <the> handle.\n\nOrder " in one.text
    assert "<p>The goods were damaged.</p>\n    <p>Sorry for &lt;the&gt; handle.</p>" in one.html
    plain, other = (
        mail("RefundSucceeded"),
        mail("RefundSucceeded", explained=replace(explained, note=None, cause="OTHER")),
    )
    assert (other.text, other.html) == (plain.text, plain.html), "without a note, no line is empty"


def test_a_mail_about_a_shortened_order_lists_the_dropped_pieces_and_the_refund() -> None:
    letter = """\
  Total  34.90 EUR
  Includes 19.5 % tax  5.69 EUR

Cancelled goods:
  1 x Blue <mug>
  1 x Pot

You have paid 20.00 EUR for these goods. We refund the part that is not refunded yet.

Elm & Sons"""
    assert mail("OrderCutShort", **SHORT).text.rstrip().endswith(letter)
    later = mail("OrderDelivered", **SHORT).text
    assert "Cancelled goods:" in later
    assert "We refund" not in later


def test_a_mail_about_a_shortened_free_order_mentions_no_money() -> None:
    free = {**SHORT, "discount": Discounted(code="SPRING", rate=10000, amount=3750), "shipping": 0, "total": 0}
    assert "We refund" not in mail("OrderCutShort", **free).text


@pytest.mark.parametrize(
    "changed", [{}, DEAR, {"address": None}, SHORT], ids=["plain", "dear", "forgotten", "cut short"]
)
@pytest.mark.parametrize("event", ORDER_EVENTS)
def test_text_and_html_say_the_same(event: str, changed: dict[str, Any]) -> None:
    one = mail(event, **changed)
    shown = ShownHtml(one.html)
    amount = "9.90 EUR" if event == "CreditNoteIssued" else "12.50 EUR"
    assert ENGLISH.text(f"mail.{event}.opening", amount=amount) in one.text
    assert shown.words == one.text.replace(" x ", " \u00d7 ").split()


def test_names_in_a_mail_are_neither_elements_nor_templates() -> None:
    hostile = mail(name="<b>Ann</b> & 'Co' {{ total }}{% for x in lines %}", product="<img src=x> {{ 7 * 7 }}")
    shown = ShownHtml(hostile.html)
    assert shown.elements == ShownHtml(mail().html).elements, "a name adds no HTML element"
    for text in ("<b>Ann</b> & 'Co' {{ total }}{% for x in lines %}", "<img src=x> {{ 7 * 7 }}"):
        assert text in shown.text
        assert text in hostile.text, "a plain text is not escaped"


DAVID = "\u05d3\u05d5\u05d3"


def test_a_right_to_left_text_does_not_reorder_the_text_beside_it() -> None:
    """Texts and subjects use Unicode's isolates, and HTML uses `bdi`: https://www.w3.org/International/articles/"""
    for one in (mail(name=DAVID, product=DAVID), notice("PriceDropped", name=DAVID, product=DAVID)):
        assert one.text.count(DAVID) == one.text.count(f"\u2068{DAVID}\u2069") >= 2
        assert one.html.count(DAVID) == one.html.count(f"<bdi>{DAVID}</bdi>") >= 2
    assert one.subject == f"\u2068{DAVID}\u2069 costs less now"
    plain = mail()
    assert "\u2068" not in plain.subject + plain.text + plain.html
    assert "<bdi>" not in plain.html


@pytest.mark.parametrize("event", ["OrderCancelled", "OrderLapsed", "OrderReturned"])
def test_money_that_the_bank_disputes_is_not_promised(event: str) -> None:
    owing, plain = mail(event, status="CANCELLED", owed=900), mail(event, status="CANCELLED")
    waits = "We cannot refund 9.00 EUR yet, because your bank disputes the payment."
    assert (waits in owing.text, waits in ShownHtml(owing.html).text) == (True, True)
    assert "We cannot refund" not in plain.text + plain.html


UNSUBSCRIBE = "https://api.elm.example/unsubscribe?token=sealed"


# notices --------------------------------------------------------------------------------------------------------------
def notice(
    event: str,
    *,
    name: str = "Ann Ash",
    product: str = "Blue mug",
    id: str = "mug",
    currency: Currency = "EUR",
    language: str = "en",
) -> Mail:
    customer = replace(SAMPLES[CUSTOMER], name=name)
    sold = Product(product_id=id, name=product, price=990, currency=currency, created_at=AT, updated_at=AT)
    link = "https://elm.example/p/{product_id}?from=mail"
    return notices.render_alert(event, customer, sold, "Elm & Sons", load_language(language), link, UNSUBSCRIBE)


def test_a_notice_names_the_product_its_price_and_where_it_is() -> None:
    letter = """\
Dear Ann Ash,

A product that you follow costs less than before.

Blue mug  9.90 EUR
https://elm.example/p/mug?from=mail

You get this mail because you follow this product."""
    assert notice("PriceDropped").text.startswith(letter)
    assert notice("StockReplenished").subject == "Blue mug is back in stock"


@pytest.mark.parametrize("event", ALERTS)
def test_a_notice_says_the_same_as_text_and_as_html_and_takes_nothing_for_markup(event: str) -> None:
    one, plain = notice(event, name="<b>Ann</b>", product="<i>{{ 7 * 7 }}</i>"), ShownHtml(notice(event).html)
    shown = ShownHtml(one.html)
    assert shown.elements == plain.elements
    assert shown.words == one.text.split()
    assert "<i>{{ 7 * 7 }}</i>" in one.subject
    assert "{" not in notice(event).subject + notice(event).text


def test_a_notice_can_be_unsubscribed_with_one_click_and_by_a_link_that_is_seen() -> None:
    """RFC 8058 requires both headers, which SES signs with DKIM, and an HTTPS address."""
    one = notice("PriceDropped")
    assert one.headers == {
        "List-Unsubscribe": f"<{UNSUBSCRIBE}>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    }
    assert UNSUBSCRIBE in one.text
    assert f'<a href="{UNSUBSCRIBE}">' in one.html


def test_every_product_name_is_escaped_in_its_link() -> None:
    one = notice("PriceDropped", id='a b/"?&<')
    assert "https://elm.example/p/a%20b%2F%22%3F%26%3C?from=mail" in one.text


# languages ------------------------------------------------------------------------------------------------------------
def test_a_german_mail_has_german_words_and_amounts() -> None:
    costs = "  Gesamtbetrag  1.234,90 EUR\n  Enthält 19,5 % Umsatzsteuer  5,69 EUR\n\nLieferanschrift:\n  Ann Ash"
    assert costs in mail(language="de", **{**DEAR, "total": 123490}).text
    assert notice("StockReplenished", language="de").subject == "Blue mug ist wieder lieferbar"
