"""Render product alerts (mails to followers of a product), with the texts of functions/languages in one template."""

from pathlib import Path
from urllib.parse import quote

from functions.adapters.mailer import Mail
from functions.adapters.templates import isolate, render_template
from functions.model.entities import Customer, Product
from functions.model.languages import Language

TEMPLATES = Path(__file__).parent / "templates"


def render_alert(
    event: str,
    customer: Customer,
    product: Product,
    shop_name: str,
    language: Language,
    product_url: str,
    unsubscribe_url: str,
) -> Mail:
    """Return the mail to one follower about an event of a product, with the current data of the product.

    Values are escaped in the HTML version. Because of the mail's headers, mail programs show an unsubscribe button:
    https://www.rfc-editor.org/rfc/rfc8058
    """
    context = {
        "opening": language.text(f"mail.{event}.opening"),
        "name": customer.name,
        "product": product.name,
        "price": language.amount(product.price, product.currency),
        "link": product_url.replace("{product_id}", quote(product.product_id, safe="")),
        "shop_name": shop_name,
        "unsubscribe": unsubscribe_url,
    }
    return Mail(
        kind=event,
        subject=language.text(f"mail.{event}.subject", product=isolate(product.name)),
        text=render_template(TEMPLATES, "product_alert.txt", language, context),
        html=render_template(TEMPLATES, "product_alert.html", language, context),
        headers={
            "List-Unsubscribe": f"<{unsubscribe_url}>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        },
    )
