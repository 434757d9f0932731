"""Notices as text and HTML: one subject and one opening sentence per event, one template for all."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from functions.mails import Mail, templates
from functions.model.entities import Customer, Product
from functions.model.money import shown


@dataclass(frozen=True)
class Words:
    """What a notice says: `{product}` is the product's name."""

    subject: str
    opening: str


WORDS: Mapping[str, Words] = {
    "StockReplenished": Words("{product} is back in stock", "What you follow is back in stock."),
    "PriceDropped": Words("{product} costs less now", "What you follow costs less than before."),
}


def written(event: str, customer: Customer, product: Product, shop_name: str, product_url: str) -> Mail:
    """The mail that tells a follower of this event of a product, as that is now. Everything in the HTML is escaped."""
    words = WORDS[event]
    context = {
        "opening": words.opening,
        "name": customer.name,
        "product": product.name,
        "price": shown(product.price, product.currency),
        "link": product_url.replace("{product_id}", quote(product.product_id, safe="")),
        "shop_name": shop_name,
    }
    found = templates(Path(__file__).parent / "templates")
    return Mail(
        subject=words.subject.format(product=product.name),
        text=found.get_template("notice.txt").render(context),
        html=found.get_template("notice.html").render(context),
    )
