"""Gift cards and store credit, and the entries of their ledgers."""

from typing import Literal

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant
from functions.model.money import Currency

AccountKind = Literal["GIFT_CARD", "STORE_CREDIT"]
EntryReason = Literal["ISSUED", "PAID", "TRANSFERRED", "REFUNDED"]


@entity
class Account:
    """A credit account: a gift card, or a customer's store credit in one currency.

    Anyone who knows the code of a gift card can use the gift card.
    """

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
    """A booking on a credit account.

    `amount`: the booked amount in minor units; negative for a withdrawal. `balance`: the balance of the account after
    the booking. `version`: the version of the account after the booking. `other`: for a transfer, the id of the other
    account. `order_id`: for a payment or a refund, the id of the order.
    """

    account_id: str
    version: int
    at: Instant
    reason: EntryReason
    amount: int
    balance: int
    other: str | None = None
    order_id: str | None = None
