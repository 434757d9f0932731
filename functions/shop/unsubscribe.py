"""Unsubscribe links in mails: they turn off one kind of mail for one customer, without signing in.

A link contains a sealed token with the customer's id, the kind of mail, and the time of the mail. The link does not
expire, because a mail may be old. The link does not undo a choice that the customer made after the mail.
"""

from typing import Literal, get_args

from functions.dynamodb.keys import Instant
from functions.dynamodb.sealed_text import NotSealed, open_text, seal_text
from functions.model.errors import InvalidInput, NotFound
from functions.shop.customers import update_settings
from functions.shop.shop import Caller, ShopContext

MailKind = Literal["product_alerts"]
"""The kinds of mails with an unsubscribe link. Each kind is a choice in the customer's notification settings."""
PURPOSE = "unsubscribe"


def create_unsubscribe_token(shop: ShopContext, customer_id: str, kind: MailKind) -> str:
    """Return the token for the unsubscribe link in a mail of this kind that the customer gets now."""
    return seal_text(shop.digest(PURPOSE), PURPOSE, f"{kind} {shop.now_instant()} {customer_id}")


def unsubscribe(shop: ShopContext, token: str) -> bool:
    """Turn off a kind of mails for a customer, as the token says. Return whether the mails are off. Safe to repeat.

    The mails stay on if the customer turned them on after the mail with the token. Nothing changes if the customer was
    erased, because no mails are sent any more. Raises InvalidInput if the token is invalid.
    """
    try:
        kind, at, customer_id = open_text(shop.digest(PURPOSE), PURPOSE, token).split(" ", 2)
    except NotSealed:
        raise InvalidInput("token", "must be the token of a link in a mail") from None
    if kind not in get_args(MailKind):
        raise InvalidInput("token", "is of a kind of mails that is not sent any more")
    try:
        after = update_settings(
            shop, Caller(customer_id), customer_id, "notifications", {kind: False}, decided_at=Instant(at)
        )
    except NotFound:
        return True
    return not after.choices[kind]
