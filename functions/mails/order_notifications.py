"""Render order notifications as text and HTML, with the texts of functions/languages in one template."""

from functools import partial
from pathlib import Path

from functions.adapters.mailer import Mail
from functions.adapters.templates import render_template
from functions.model.entities import ChosenShipping, Customer, Order, Refund, order_number
from functions.model.events import InvoiceData, RefundData
from functions.model.languages import Language
from functions.model.pricing import paid_value, tax_table

TEMPLATES = Path(__file__).parent / "templates"
EVENTS_WITH_ADDRESS = {
    "OrderPlaced",
    "OrderPaid",
    "OrderCancelRefused",
    "OrderPartlyShipped",
    "OrderShipped",
    "OrderDelivered",
}
"""The events whose mails show the delivery address."""


def render_notification(
    event: str,
    customer: Customer,
    order: Order,
    shop_name: str,
    language: Language,
    refund: RefundData | None = None,
    explained: Refund | None = None,
    credit_note: InvoiceData | None = None,
    link: str = "",
    guest_link: str = "",
) -> Mail:
    """Return the mail about an event for the customer of an order. Values are escaped in the HTML version.

    `refund`: the data of the event if it is about a refund. A refund has the currency of the refunded payment, which
    may differ from the currency of the order. `explained`: the refund's item, which has the cause and note of staff.
    `credit_note`, `link`: the data of the event if it is about a credit note, and the link that opens it.
    `guest_link`: the link that opens the order, if the customer is a guest.
    """
    text = language.text
    number = order_number(order.order_id).upper()
    is_pickup = order.shipping_method is not None and order.shipping_method.pickup
    dropped = {id: line.dropped for id, line in order.lines.items() if line.dropped}
    for_dropped = paid_value(order, dropped)
    money = partial(language.amount, currency=order.currency)
    amount = (
        language.amount(refund.amount, refund.currency) if refund else money(credit_note.total) if credit_note else ""
    )
    opening = text(f"mail.{event}.opening", amount=amount)
    context = {
        "opening": f"{opening} {text('mail.owed', owed=money(order.owed))}"
        if order.owed and not credit_note
        else opening,
        "explanation": _explain(explained, language) if explained else [],
        "link": link,
        "guest_link": guest_link,
        "name": customer.name,
        "number": number,
        "shop_name": shop_name,
        "address": order.address.shown if order.address and event in EVENTS_WITH_ADDRESS and not is_pickup else (),
        "shipping_text": _describe_shipping(order.shipping_method, language)
        if order.shipping_method and event in EVENTS_WITH_ADDRESS
        else "",
        "lines": [
            {"name": line.name, "quantity": line.quantity, "price": money(line.price * line.quantity)}
            for line in order.lines.values()
        ],
        "not_coming": [{"name": order.lines[id].name, "quantity": quantity} for id, quantity in dropped.items()],
        "back": text("mail.refund_of_cancelled", amount=money(for_dropped))
        if event == "OrderCutShort" and for_dropped
        else "",
        "discount": {"code": order.discount.code, "amount": money(-order.discount.amount)} if order.discount else None,
        "shipping": money(order.shipping) if order.shipping else None,
        "total": money(order.total),
        "taxes": [
            {"percent": language.percent(row.rate), "amount": money(row.tax)} for row in tax_table(order) if row.rate
        ],
    }
    return Mail(
        kind=event,
        subject=text(f"mail.{event}.subject", number=number),
        text=render_template(TEMPLATES, "order_notification.txt", language, context),
        html=render_template(TEMPLATES, "order_notification.html", language, context),
    )


def _describe_shipping(method: ChosenShipping, language: Language) -> str:
    """Return the method with its estimate, or where the customer collects the goods."""
    name, days = method.name, method.days
    if days:
        count = str(days.max) if days.min == days.max else days.to_text()
        text = language.text("mail.working_day") if count == "1" else language.text("mail.working_days", count=count)
        name = f"{name}, {text}"
    if method.pickup:
        return language.text("mail.pickup", method=name)
    return language.text("mail.shipping_method", method=name)


def _explain(refund: Refund, language: Language) -> list[str]:
    """Return the sentences that tell the customer why staff refunded the money. The cause OTHER has none."""
    has_sentence = refund.cause and refund.cause != "OTHER"
    return [line for line in (language.text(f"cause.{refund.cause}") if has_sentence else None, refund.note) if line]
