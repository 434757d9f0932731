"""Send each mail to a customer once: claim the mail in the table, send it, then mark it as sent.

A claim is a Notification item that gives one sender the right to send the mail for a limited time. The mail provider
accepts no idempotency key. So a mail is sent twice in one case: the provider accepted the mail, but the sender crashed
before it marked the mail as sent, or never got the provider's response. Then the claim expires, and another sender
sends the mail again.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from functions.dynamodb.errors import Permanent
from functions.dynamodb.keys import Instant, subtract_clock_difference
from functions.dynamodb.table import QueryPage, Table
from functions.dynamodb.writes import ItemExists, WriteConflict, put_if_absent, put_if_held_by
from functions.model.entities import GUEST_ID_PREFIX, ArchivedOrder, Customer, Notification, Order, OrderOwner, Refund
from functions.model.patterns import NOTIFICATIONS_OF_CUSTOMER, NOTIFICATIONS_OF_ORDER, ORDER_BY_ID, REFUND_BY_ID
from functions.model.retention import MAIL_ATTEMPT_SECONDS, MAIL_CLAIM_SECONDS, NOTIFICATION_DAYS
from functions.model.retries import ClaimHeld
from functions.model.table import CUSTOMER, NOTIFICATION, SETTINGS
from functions.shop.customers import wants_mails
from functions.shop.lists import ListPage, ListRequest, PagedQuery, read_page
from functions.shop.orders import get_order_owner
from functions.shop.shop import ShopContext, retries_on_conflict


@dataclass(frozen=True)
class MailContext:
    """The data for rendering a mail: the customer and the order."""

    customer: Customer
    order: Order


RefusalKind = Literal["rate", "quota", "paused", "sandbox", "unknown"]


class MailRefused(Exception):
    """The mail provider refused a mail, and did not send it. A later attempt may succeed.

    `kind`: what the refusal concerns. "rate": too many mails a second. "quota": too many mails in 24 hours. "paused":
    all mails of the account or of the sender's domain. "sandbox": an address that is not verified; while the account is
    in the sandbox, almost every address. "unknown": anything else. `code`: the provider's error code. The provider's
    message is left out, because it may name the recipient.
    """

    def __init__(self, kind: RefusalKind, code: str) -> None:
        super().__init__(f"{code} ({kind})")
        self.kind, self.code = kind, code

    @property
    def concerns_all_mails(self) -> bool:
        """Whether the provider would refuse all other mails, too."""
        return self.kind in ("rate", "quota", "paused")


DEFERRED = 0
"""The `claimed_until` of a mail whose message was deferred. The `claim` is then the token in the newest message."""


class AlreadyClaimed(ClaimHeld):
    """Another sender has the right to send the mail, and may be sending it now. Retry after the end of this claim."""


class NoTimeLeft(Exception):
    """The Lambda could time out while it sends the mail, so it starts no attempt. Retry in another invocation."""


def latest_mail_start(shop: ShopContext, timeout_seconds: int) -> datetime:
    """Return the time after which an invocation that starts now must not start another mail, by its timeout."""
    return shop.now() + timedelta(seconds=timeout_seconds - MAIL_ATTEMPT_SECONDS)


@contextmanager
def holding_claim(shop: ShopContext, notification: Notification) -> Iterator[None]:
    """Raise ClaimHeld if the `with` block fails, because its mail can be sent again only when the claim has ended.

    The error of the block is the cause of ClaimHeld. Permanent is raised unchanged, because it is never retried.
    MailRefused is raised unchanged, too, and the claim is released, so that the next attempt need not wait.
    """
    try:
        try:
            yield
        except MailRefused:
            release_claim(shop, notification)
            raise
    except (Permanent, MailRefused):
        raise
    except Exception as error:
        raise ClaimHeld(notification.claimed_until) from error


@retries_on_conflict
def get_mail_context(shop: ShopContext, order_id: str, kind: str) -> MailContext | None:
    """Read the order and its customer for a mail: one GetItem, and one Query for the customer and their settings.

    It is the customer to whom the order belongs now. The order of a guest may have moved to an account after its event.
    Return None if the customer or the order does not exist any more, the order is archived, or the settings forbid
    mails of this `kind` (model/mail_kinds.py). The reads are strongly consistent. So a mail never shows an outdated
    order.
    """
    order = shop.table.get(ORDER_BY_ID, order_id=order_id)
    if not isinstance(order, Order):
        return None
    customer_key = CUSTOMER.key(customer_id=order.customer_id)
    settings_key = SETTINGS.key(customer_id=order.customer_id, name="notifications")
    customer, settings = shop.table.get_neighbours(customer_key, settings_key)
    if customer is None and order.customer_id.startswith(GUEST_ID_PREFIX):
        raise WriteConflict(CUSTOMER.type)  # the order moved to an account between the two reads: read it again
    return MailContext(customer, order) if isinstance(customer, Customer) and wants_mails((settings,), kind) else None


def get_refund(shop: ShopContext, order_id: str, refund_id: str) -> Refund | None:
    """Return a refund for its mail, with the staff's note: events have no note, because it may have personal data."""
    return shop.table.get(REFUND_BY_ID, order_id=order_id, refund_id=refund_id)


def claim_order_notification(
    shop: ShopContext,
    event: str,
    effect_id: str,
    at: Instant,
    order: Order,
    *,
    latest_start: datetime,
    deferral: str | None = None,
) -> Notification | None:
    """Claim the right to send a mail about an order, as `claim_notification` for MAIL_CLAIM_SECONDS."""
    return claim_notification(
        shop,
        _placer_of(order),
        event,
        effect_id,
        at,
        MAIL_CLAIM_SECONDS,
        latest_start=latest_start,
        order_id=order.order_id,
        deferral=deferral,
    )


def _placer_of(order: OrderOwner | Order | ArchivedOrder) -> str:
    """Return the customer in whose partition the mails about an order are recorded: the one who placed the order.

    The order of a guest may move to an account. Then the mails stay where they are, so that none is sent twice.
    """
    return order.guest_id or order.customer_id


def claim_notification(
    shop: ShopContext,
    customer_id: str,
    event: str,
    effect_id: str,
    at: Instant,
    claim_seconds: int,
    *,
    latest_start: datetime,
    order_id: str | None = None,
    product_id: str | None = None,
    deferral: str | None = None,
) -> Notification | None:
    """Claim the right to send a mail for `claim_seconds` seconds. Return None if the mail was sent already.

    The claim is a Notification item with status SENDING. `event`: the name of the event that the mail reports, for
    example OrderShipped. `at`: the time of this event. `effect_id`: the id of the mail. The customer, `at` and
    `effect_id` identify the mail, so pass the same values again for the same event. `deferral`: the token of a deferred
    message. If a newer message about the mail was deferred since, the function also returns None. So copies of a
    message do not multiply.

    Raises NoTimeLeft after `latest_start`, and AlreadyClaimed while another sender has this right. An expired claim is
    replaced. Raises WriteConflict if another sender replaces it at the same time.
    """
    now = shop.now()
    if now > latest_start:
        raise NoTimeLeft
    notification = Notification(
        customer_id=customer_id,
        order_id=order_id,
        product_id=product_id,
        effect_id=effect_id,
        at=at,
        event=event,
        status="SENDING",
        claim=shop.new_id(),
        claimed_until=int((now + timedelta(seconds=claim_seconds)).timestamp()),
        ttl=int((now + timedelta(days=NOTIFICATION_DAYS)).timestamp()),
    )
    if deferral:
        with suppress(WriteConflict):  # usually nobody has claimed the mail since it was deferred: one write is enough
            shop.table.write(put_if_held_by(NOTIFICATION, notification, "claim", deferral))
            return notification
    try:
        shop.table.write(put_if_absent(NOTIFICATION, notification, condition_error=NotificationExists))
    except NotificationExists as taken:
        if taken.item.status == "SENT":
            return None
        if taken.item.claimed_until > now.timestamp():
            raise AlreadyClaimed(taken.item.claimed_until) from None
        if deferral and taken.item.claimed_until == DEFERRED and taken.item.claim != deferral:
            return None
        shop.table.write(put_if_held_by(NOTIFICATION, notification, "claim", taken.item.claim))
    return notification


class NotificationExists(ItemExists):
    """A Notification item for this mail exists: a sender has already started to send the mail, or has sent it."""


def release_claim(shop: ShopContext, notification: Notification) -> None:
    """End a claim on a mail that was not sent. Raises WriteConflict if another sender has claimed the mail."""
    released = replace(notification, claimed_until=int(shop.now().timestamp()))
    shop.table.write(put_if_held_by(NOTIFICATION, released, "claim", notification.claim))


def mark_deferred(shop: ShopContext, notification: Notification, deferral: str) -> None:
    """Record that the message about a mail was deferred. Changes nothing if another sender has claimed the mail.

    `deferral`: the token of the deferred message, which must be in the queue already. From now on, each deferred
    message about this mail that has another token is a copy, and is ignored.
    """
    deferred = replace(notification, claim=deferral, claimed_until=DEFERRED)
    try:
        shop.table.write(put_if_held_by(NOTIFICATION, deferred, "claim", notification.claim))
    except WriteConflict:
        return


def mark_sent(shop: ShopContext, notification: Notification, message_id: str) -> None:
    """Set the status of a mail's Notification item (the claim) to SENT, after the mail provider accepted the mail.

    `message_id`: the provider's id of the mail. Raises WriteConflict if the claim expired and another sender got it.
    """
    sent = replace(notification, status="SENT", message_id=message_id)
    shop.table.write(put_if_held_by(NOTIFICATION, sent, "claim", notification.claim))


def list_notifications_of_customer(shop: ShopContext, request: ListRequest, customer_id: str) -> ListPage[Notification]:
    """Return the mails to a customer, sent or being sent, newest first (access pattern A25). Raises NotFound."""
    request.caller.require_access(customer_id)
    return read_page(shop, request, NOTIFICATIONS_OF_CUSTOMER, customer_id=customer_id)


def list_notifications_of_order(shop: ShopContext, request: ListRequest, order_id: str) -> ListPage[Notification]:
    """Return the mails about an order, sent or being sent, newest first (access pattern A25b). Raises NotFound."""
    order = get_order_owner(shop, request.caller, order_id)
    paged = PagedQuery(shop, request, NOTIFICATIONS_OF_ORDER, {"order_id": order_id})
    found = query_notifications_of_order(shop.table, order, request.limit, paged.after)
    return paged.page(found.items, found.after)


def query_notifications_of_order(
    table: Table, order: OrderOwner | Order | ArchivedOrder, limit: int, after: str | None = None
) -> QueryPage[Notification]:
    """Return a page of the mails about an order, newest first. It is empty only if there is no further mail.

    The query reads the mails to the order's customer since it was placed: up to 1 MB, about 2,000 mails.
    """
    while True:
        page = table.query(
            NOTIFICATIONS_OF_ORDER,
            customer_id=_placer_of(order),
            order_id=order.order_id,
            since=subtract_clock_difference(order.placed_at),
            limit=limit,
            after=after,
        )
        if page.items or page.after is None:
            return page
        after = page.after
