"""Render order notifications as text and HTML.

Each event has its own subject and opening sentence. All events use the same template.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from functions.adapters.mailer import Mail
from functions.adapters.templates import load_templates
from functions.model.entities import Customer, Order, Refund, RefundCause, order_number
from functions.model.events import InvoiceData, RefundData
from functions.model.money import format_amount
from functions.model.pricing import format_percent, paid_value, tax_table


@dataclass(frozen=True)
class NotificationText:
    """The texts of the mail about one event.

    `subject`: the subject, with `{number}` for the order's short number. `opening`: the first sentences, with
    `{amount}` for the amount of a refund. `shows_address`: whether the mail shows the delivery address.
    `refund_text`: the text after the list of cancelled goods, with `{amount}` for the amount that the customer paid for
    them. The mail omits this text if that amount is 0.
    """

    subject: str
    opening: str
    shows_address: bool = False
    refund_text: str = ""


OWED_TEXT = (
    "We cannot refund {owed} yet, because your bank disputes the payment. If the bank does not return this "
    "amount to you, we refund it."
)
"""The text after the opening sentence if a refund must wait until the customer's bank has decided a dispute."""
NOTIFICATION_TEXTS: Mapping[str, NotificationText] = {
    "OrderPlaced": NotificationText(
        "We received your order {number}",
        "Thank you. We reserve your goods until the payment is due.",
        shows_address=True,
    ),
    "OrderPaid": NotificationText(
        "Your order {number} is paid", "Thank you for your payment. We are packing your goods.", shows_address=True
    ),
    "OrderCancelled": NotificationText(
        "Your order {number} is cancelled",
        "Your order is cancelled. You do not have to pay anything. We refund what you have paid.",
    ),
    "OrderLapsed": NotificationText(
        "Your order {number} was not paid in time",
        "We did not receive the full payment in time, so your order is cancelled. We refund what you have paid.",
    ),
    "OrderCancelRequested": NotificationText(
        "Your request to cancel order {number}",
        "We asked our warehouse to stop the goods that are not sent yet. We will send you the result by mail.",
    ),
    "OrderCancelRefused": NotificationText(
        "Your order {number} could not be cancelled",
        "It was too late to stop the goods. You can return them after the delivery.",
        shows_address=True,
    ),
    "OrderPartlyShipped": NotificationText(
        "A part of your order {number} is shipped",
        "A parcel has left our warehouse. The other goods will follow.",
        shows_address=True,
    ),
    "OrderShipped": NotificationText(
        "Your order {number} is shipped", "All your goods have left our warehouse.", shows_address=True
    ),
    "OrderCutShort": NotificationText(
        "The rest of your order {number} is cancelled",
        "The goods that had not left our warehouse are cancelled.",
        refund_text="You have paid {amount} for these goods. We refund the part that is not refunded yet.",
    ),
    "OrderDelivered": NotificationText(
        "Your order {number} is delivered", "Your goods have been delivered.", shows_address=True
    ),
    "OrderPartlyReturned": NotificationText(
        "We received goods of your order {number} back", "We received the goods that you returned."
    ),
    "OrderReturned": NotificationText("Your order {number} is returned", "We received all goods of your order back."),
    "GuestLinkRenewed": NotificationText(
        "The new link to your order {number}", "All earlier links to your order do not work any more."
    ),
    "CreditNoteIssued": NotificationText(
        "Credit note for order {number}", "We took {amount} off the invoice of your order. Your credit note:"
    ),
    "RefundSucceeded": NotificationText("Refund for order {number}", "We have refunded {amount} to you."),
}
CAUSE_TEXTS: Mapping[RefundCause, str] = {
    "DAMAGED": "The goods were damaged.",
    "WRONG_ITEM": "We sent you wrong goods.",
    "NOT_AS_DESCRIBED": "The goods were not as described.",
    "LATE_DELIVERY": "The goods came late.",
    "DUPLICATE_PAYMENT": "You paid twice.",
}
"""The sentence for the cause that staff gave for a refund. The cause OTHER has none."""


def render_notification(
    event: str,
    customer: Customer,
    order: Order,
    shop_name: str,
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
    words = NOTIFICATION_TEXTS[event]
    number = order_number(order.order_id).upper()
    dropped = {id: line.dropped for id, line in order.lines.items() if line.dropped}
    for_dropped = paid_value(order, dropped)
    money = partial(format_amount, currency=order.currency)
    amount = (
        format_amount(refund.amount, refund.currency) if refund else money(credit_note.total) if credit_note else ""
    )
    opening = words.opening.format(amount=amount)
    context = {
        "opening": f"{opening} {OWED_TEXT.format(owed=money(order.owed))}"
        if order.owed and not credit_note
        else opening,
        "explanation": _explain(explained) if explained else [],
        "link": link,
        "guest_link": guest_link,
        "name": customer.name,
        "number": number,
        "shop_name": shop_name,
        "address": order.address.shown if order.address and words.shows_address else (),
        "lines": [
            {"name": line.name, "quantity": line.quantity, "price": money(line.price * line.quantity)}
            for line in order.lines.values()
        ],
        "not_coming": [{"name": order.lines[id].name, "quantity": quantity} for id, quantity in dropped.items()],
        "back": words.refund_text.format(amount=money(for_dropped)) if for_dropped else "",
        "discount": {"code": order.discount.code, "amount": money(-order.discount.amount)} if order.discount else None,
        "shipping": money(order.shipping) if order.shipping else None,
        "total": money(order.total),
        "taxes": [
            {"percent": format_percent(row.rate), "amount": money(row.tax)} for row in tax_table(order) if row.rate
        ],
    }
    found = load_templates(Path(__file__).parent / "templates")
    return Mail(
        kind=event,
        subject=words.subject.format(number=number),
        text=found.get_template("order_notification.txt").render(context),
        html=found.get_template("order_notification.html").render(context),
    )


def _explain(refund: Refund) -> list[str]:
    """Return the sentences that tell the customer why staff refunded the money."""
    cause = CAUSE_TEXTS.get(refund.cause) if refund.cause else None
    return [text for text in (cause, refund.note) if text]
