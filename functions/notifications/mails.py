"""Mails as text and HTML: one subject and one opening sentence per event, one template for all."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template, select_autoescape

from functions.model.entities import Customer, Order
from functions.model.money import shown


@dataclass(frozen=True)
class Words:
    """What a mail says, with `{number}` for the order's short number."""

    subject: str
    opening: str


WORDS: Mapping[str, Words] = {
    "OrderPlaced": Words("We have your order {number}", "Thank you. Your goods are reserved until you have paid."),
    "OrderPaid": Words("Your order {number} is paid", "Thank you. Your payment has arrived; we are packing."),
    "OrderCancelled": Words("Your order {number} is cancelled", "Your order is cancelled. You owe us nothing."),
    "OrderLapsed": Words("Your order {number} has lapsed", "We had no payment in time and have let your goods go."),
    "OrderShipped": Words("Your order {number} is on its way", "Your parcel has left our warehouse."),
    "OrderDelivered": Words("Your order {number} has arrived", "Your parcel has been delivered. Enjoy it."),
}


@dataclass(frozen=True)
class Mail:
    subject: str
    text: str
    html: str


def written(event: str, customer: Customer, order: Order, shop_name: str) -> Mail:
    """The mail that tells this customer of this event of their order. Everything in the HTML is escaped."""
    words = WORDS[event]
    number = order.order_id[:8].upper()
    context = {
        "opening": words.opening,
        "name": customer.name,
        "number": number,
        "shop_name": shop_name,
        "address": order.address,
        "lines": [
            {"name": line.name, "quantity": line.quantity, "price": shown(line.price * line.quantity, order.currency)}
            for line in order.lines.values()
        ],
        "total": shown(order.total, order.currency),
    }
    return Mail(
        subject=words.subject.format(number=number),
        text=_template("mail.txt").render(context),
        html=_template("mail.html").render(context),
    )


@cache
def _environment() -> Environment:
    folder = Path(__file__).parent / "templates"
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _template(name: str) -> Template:
    return _environment().get_template(name)
