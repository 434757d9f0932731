"""Gift cards and store credit, and the entries of their ledgers."""

from typing import Literal

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant
from functions.model.money import Currency

AccountKind = Literal["GIFT_CARD", "STORE_CREDIT"]
EntryReason = Literal["ISSUED", "PAID", "TRANSFERRED", "REFUNDED"]


@entity
class Account:
    """A credit account: a gift card, or a customer's store credit in one currency. Anyone who has a gift card's code
    can use it."""

    account_id: str
    kind: AccountKind
    currency: Currency
    balance: int
    created_at: Instant
    updated_at: Instant
    customer_id: str | None = None
    version: int = 1


@entity
class Entry:
    """A booking on a credit account. `amount`: negative for a withdrawal. `balance`: the account's balance after the
    booking.

    `version`: the account's version after the booking. `other`: the other account of a transfer. `order_id`: the order
    that was paid or refunded.
    """

    account_id: str
    version: int
    at: Instant
    reason: EntryReason
    amount: int
    balance: int
    other: str | None = None
    order_id: str | None = None
