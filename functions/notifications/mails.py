"""Mails as text and HTML: one subject and one opening sentence per event, one template for all."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from functions.mails import Mail, templates
from functions.model.amounts import in_percent, tax_in, worth
from functions.model.entities import Customer, Order
from functions.model.money import shown


@dataclass(frozen=True)
class Words:
    """What a mail says: `{number}` is the order's short number, `{amount}` the money that the event is about.

    `goes`: whether goods are on their way, or will be, so that the mail says where to. `back`: what it says below what
    is not coming, if anything was paid for that, `{amount}` of it.
    """

    subject: str
    opening: str
    goes: bool = False
    back: str = ""


OWED = "{owed} must wait: your bank asks for it itself. It comes from your bank or, if that decides otherwise, from us."
"""Follows the opening as long as a dispute holds back money that is to go to the customer."""
WORDS: Mapping[str, Words] = {
    "OrderPlaced": Words(
        "We have your order {number}", "Thank you. Your goods are reserved until you have paid.", goes=True
    ),
    "OrderPaid": Words(
        "Your order {number} is paid", "Thank you. Your payment has arrived; we are packing.", goes=True
    ),
    "OrderCancelled": Words(
        "Your order {number} is cancelled",
        "Your order is cancelled. You owe us nothing; what you have paid goes back to you.",
    ),
    "OrderLapsed": Words(
        "Your order {number} has lapsed",
        "We had no full payment in time and have let your goods go. What you have paid goes back to you.",
    ),
    "OrderCancelRequested": Words(
        "You want to cancel your order {number}",
        "We have asked our warehouse to stop what has not left yet, and tell you as soon as we know.",
    ),
    "OrderCancelRefused": Words(
        "Your order {number} could not be stopped",
        "It was too late to stop it. You can send it back once you have it.",
        goes=True,
    ),
    "OrderPartlyShipped": Words(
        "A part of your order {number} is on its way", "A parcel has left our warehouse; the rest follows.", goes=True
    ),
    "OrderShipped": Words("Your order {number} is on its way", "All your goods have left our warehouse.", goes=True),
    "OrderCutShort": Words(
        "The rest of your order {number} is cancelled",
        "What had not left our warehouse yet is cancelled.",
        back="You have paid {amount} for it. That goes back to you, as far as you have not had it back already.",
    ),
    "OrderDelivered": Words("Your order {number} has arrived", "Your goods have been delivered. Enjoy.", goes=True),
    "OrderPartlyReturned": Words("A part of your order {number} is back", "We have the goods that you sent back."),
    "OrderReturned": Words("Your order {number} is back", "We have all your goods back."),
    "RefundSucceeded": Words("Money back for your order {number}", "We have given you {amount} back."),
}


def written(event: str, customer: Customer, order: Order, shop_name: str, amount: int | None = None) -> Mail:
    """The mail that tells this customer of this event of their order. Everything in the HTML is escaped.

    `amount`: the money that the event is about, if it is about some of its own.
    """
    words = WORDS[event]
    number = order.order_id[:8].upper()
    dropped = {id: line.dropped for id, line in order.lines.items() if line.dropped}
    for_dropped = worth(order, dropped)
    money = partial(shown, currency=order.currency)
    opening = words.opening.format(amount="" if amount is None else money(amount))
    tax = tax_in(order.total, order.tax_rate)
    context = {
        "opening": f"{opening} {OWED.format(owed=money(order.owed))}" if order.owed else opening,
        "name": customer.name,
        "number": number,
        "shop_name": shop_name,
        "address": order.address if words.goes else None,
        "lines": [
            {"name": line.name, "quantity": line.quantity, "price": money(line.price * line.quantity)}
            for line in order.lines.values()
        ],
        "not_coming": [{"name": order.lines[id].name, "quantity": quantity} for id, quantity in dropped.items()],
        "back": words.back.format(amount=money(for_dropped)) if for_dropped else "",
        "discount": {"code": order.discount.code, "amount": money(-order.discount.amount)} if order.discount else None,
        "shipping": money(order.shipping) if order.shipping else None,
        "total": money(order.total),
        "tax": {"percent": in_percent(tax.rate), "amount": money(tax.tax)} if tax.rate else None,
    }
    found = templates(Path(__file__).parent / "templates")
    return Mail(
        subject=words.subject.format(number=number),
        text=found.get_template("mail.txt").render(context),
        html=found.get_template("mail.html").render(context),
    )
