"""Mails to customers: each is claimed in the table before it is sent, and marked when it was.

The provider takes no idempotency key. A mail is sent twice only if its sender dies between the provider's acceptance
and the mark; then the claim runs out and another sends it again.
"""

from dataclasses import dataclass, replace
from datetime import timedelta

from functions.dynamodb.keys import Instant
from functions.dynamodb.store import Page
from functions.dynamodb.writes import put, put_over
from functions.model.entities import Customer, Notification, Order, Settings
from functions.model.errors import NotFound
from functions.model.lives import CLAIM_SECONDS, NOTIFICATION_DAYS
from functions.model.patterns import A25, A25b
from functions.model.table import CUSTOMER, NOTIFICATION, ORDER, SETTINGS
from functions.shop.customers import wants
from functions.shop.orders import placed_by
from functions.shop.shop import Caller, Shop


@dataclass(frozen=True)
class Letter:
    """What a mail is written from."""

    customer: Customer
    order: Order


class Claimed(Exception):
    """Another sender has the mail in hand: come back when its claim has run out."""


def letter(shop: Shop, customer_id: str, order_id: str, channel: str = "email") -> Letter | None:
    """Who to write to and what about, in one BatchGet; None where nobody wants to, or may, be told any more."""
    keys = [
        CUSTOMER.key(customer_id=customer_id),
        SETTINGS.key(customer_id=customer_id, name="notifications"),
        ORDER.key(order_id=order_id),
    ]
    found = shop.table.batch_get(keys, consistent=True)
    customers = [item for item in found if isinstance(item, Customer)]
    orders = [item for item in found if isinstance(item, Order)]
    settings = tuple(item for item in found if isinstance(item, Settings))
    if not customers or not orders or not wants(settings, channel):
        return None
    return Letter(customers[0], orders[0])


def claim(shop: Shop, event: str, effect_id: str, at: Instant, order: Order) -> Notification | None:
    """Take a mail about an order in hand. None where it was sent; raises Claimed while another has it."""
    return in_hand(shop, order.customer_id, event, effect_id, at, CLAIM_SECONDS, order_id=order.order_id)


def in_hand(
    shop: Shop,
    customer_id: str,
    event: str,
    effect_id: str,
    at: Instant,
    seconds: int,
    *,
    order_id: str | None = None,
    product_id: str | None = None,
) -> Notification | None:
    """Take a mail in hand, for so many seconds. None where it was sent; raises Claimed while another has it."""
    now = shop.now()
    mine = Notification(
        customer_id=customer_id,
        order_id=order_id,
        product_id=product_id,
        effect_id=effect_id,
        at=at,
        event=event,
        status="SENDING",
        claim=shop.new_id(),
        claimed_until=int((now + timedelta(seconds=seconds)).timestamp()),
        ttl=int((now + timedelta(days=NOTIFICATION_DAYS)).timestamp()),
    )
    try:
        shop.table.write(put(NOTIFICATION, mine, refused=Taken))
    except Taken as taken:
        if taken.notification.status == "SENT":
            return None
        if taken.notification.claimed_until > now.timestamp():
            raise Claimed from None
        shop.table.write(put_over(NOTIFICATION, mine, "claim", taken.notification.claim))
    return mine


class Taken(Exception):
    """The mail has a claim, or was sent."""

    def __init__(self, notification: Notification | None) -> None:
        super().__init__("claimed before")
        assert notification is not None, "the item that refused is returned with the refusal"
        self.notification = notification


def mark_sent(shop: Shop, mine: Notification, message_id: str) -> None:
    """Note that the provider has taken the mail. Raises Changed where the claim was lost meanwhile."""
    sent = replace(mine, status="SENT", message_id=message_id)
    shop.table.write(put_over(NOTIFICATION, sent, "claim", mine.claim))


def notifications_of_customer(
    shop: Shop, caller: Caller, customer_id: str, limit: int, after: str | None
) -> Page[Notification]:
    """A25: what was sent to a customer, newest first. Raises NotFound."""
    if not caller.sees(customer_id):
        raise NotFound("customer")
    return shop.table.query(A25, customer_id=customer_id, limit=limit, after=after)


def notifications_of_order(
    shop: Shop, caller: Caller, order_id: str, limit: int, after: str | None
) -> Page[Notification]:
    """A25b: what was sent about an order, newest first. Raises NotFound."""
    placed_by(shop, caller, order_id)
    return shop.table.query(A25b, order_id=order_id, limit=limit, after=after)
