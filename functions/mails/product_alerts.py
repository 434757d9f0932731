"""Render product alerts (mails to the followers of a product) as text and HTML.

Each event has its own subject and opening sentence. All events use the same template.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from functions.adapters.mailer import Mail
from functions.adapters.templates import isolate, load_templates
from functions.model.entities import Customer, Product
from functions.model.money import format_amount


@dataclass(frozen=True)
class AlertText:
    """The subject and opening sentence of an alert. `{product}` is replaced by the product's name."""

    subject: str
    opening: str


ALERT_TEXTS: Mapping[str, AlertText] = {
    "StockReplenished": AlertText("{product} is back in stock", "A product that you follow is back in stock."),
    "PriceDropped": AlertText("{product} costs less now", "A product that you follow costs less than before."),
}


def render_alert(
    event: str, customer: Customer, product: Product, shop_name: str, product_url: str, unsubscribe_url: str
) -> Mail:
    """Return the mail to one follower about an event of a product, with the current data of the product.

    Values are escaped in the HTML version. Because of the mail's headers, mail programs show an unsubscribe button:
    https://www.rfc-editor.org/rfc/rfc8058
    """
    words = ALERT_TEXTS[event]
    context = {
        "opening": words.opening,
        "name": customer.name,
        "product": product.name,
        "price": format_amount(product.price, product.currency),
        "link": product_url.replace("{product_id}", quote(product.product_id, safe="")),
        "shop_name": shop_name,
        "unsubscribe": unsubscribe_url,
    }
    found = load_templates(Path(__file__).parent / "templates")
    return Mail(
        kind=event,
        subject=words.subject.format(product=isolate(product.name)),
        text=found.get_template("product_alert.txt").render(context),
        html=found.get_template("product_alert.html").render(context),
        headers={
            "List-Unsubscribe": f"<{unsubscribe_url}>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        },
    )
