"""Product alerts as text and HTML: one subject and one opening sentence per event, one template for all."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from functions.mails import Mail, load_templates
from functions.model.entities import Customer, Product
from functions.model.money import format_amount


@dataclass(frozen=True)
class AlertText:
    """The texts of an alert. `{product}` is the product's name."""

    subject: str
    opening: str


ALERT_TEXTS: Mapping[str, AlertText] = {
    "StockReplenished": AlertText("{product} is back in stock", "What you follow is back in stock."),
    "PriceDropped": AlertText("{product} costs less now", "What you follow costs less than before."),
}


def render_alert(event: str, customer: Customer, product: Product, shop_name: str, product_url: str) -> Mail:
    """Render the alert of an event for a follower, with the product's current data. HTML is escaped."""
    words = ALERT_TEXTS[event]
    context = {
        "opening": words.opening,
        "name": customer.name,
        "product": product.name,
        "price": format_amount(product.price, product.currency),
        "link": product_url.replace("{product_id}", quote(product.product_id, safe="")),
        "shop_name": shop_name,
    }
    found = load_templates(Path(__file__).parent / "templates")
    return Mail(
        subject=words.subject.format(product=product.name),
        text=found.get_template("notice.txt").render(context),
        html=found.get_template("notice.html").render(context),
    )
