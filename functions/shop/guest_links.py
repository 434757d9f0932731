"""The links to the order of a guest, who has no account. Whoever has a valid link acts as the guest.

A link has a sealed token with the guest's id, the number of the link, and the time when it expires. The guest's
customer item has the number of the valid links. A higher number revokes all links with a lower number.
"""

from datetime import datetime, timedelta

from functions.dynamodb.sealed_text import NotSealed, open_text, seal_text
from functions.model.entities import Customer
from functions.model.errors import GuestLinkInvalid
from functions.model.patterns import CUSTOMER_BY_ID
from functions.shop.shop import Caller, ShopContext

PURPOSE = "guest_link"
LINK_LIFETIME = timedelta(days=90)
"""How long a link to the order of a guest is valid. Each mail about the order has a new link."""
FIRST_LINK = 1


def create_token(shop: ShopContext, guest: Customer, at: datetime | None = None) -> str:
    """Return the token of a link to the order of a guest. It is valid for LINK_LIFETIME from `at`, by default now."""
    until = int(((at or shop.now()) + LINK_LIFETIME).timestamp())
    return seal_text(shop.digest(PURPOSE), PURPOSE, f"{guest.customer_id} {guest.link} {until}")


def link_to_order(guest: Customer, token: str, page_url: str, public_url: str) -> str:
    """Return the link that opens the order of a guest: in the shop's page, or in the API if no page is deployed.

    The page gets the token in the fragment of the address, which browsers do not send to servers.
    """
    if page_url:
        language = f"&language={guest.language}" if guest.language else ""
        return f"{page_url}#/guest/{guest.order_id}?token={token}{language}"
    return f"{public_url}/guest/orders/{guest.order_id}/page?token={token}"


def authenticate_guest(shop: ShopContext, token: str) -> Caller:
    """Return the guest whose link has this token, as a caller. Reads the guest's customer item, strongly consistent.

    Raises GuestLinkInvalid if the token is wrong, expired or revoked, or if the guest was erased or joined an account.
    """
    try:
        customer_id, link, until = open_text(shop.digest(PURPOSE), PURPOSE, token).split(" ")
    except NotSealed:
        raise GuestLinkInvalid("is wrong: copy the whole link from the mail about your order") from None
    if int(until) <= shop.now().timestamp():
        raise GuestLinkInvalid("has expired: use the link in the latest mail, or ask the shop for a new link")
    guest = shop.table.get(CUSTOMER_BY_ID, customer_id=customer_id)
    if guest is None or guest.link != int(link):
        raise GuestLinkInvalid("was revoked: use the link in the latest mail, or sign in if you have an account")
    return Caller(customer_id)
