"""Customers, their settings, and the items that reserve an e-mail address for one customer."""

from collections.abc import Mapping
from typing import Literal

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant
from functions.model.entities.sharding import ERASURE_SHARDS

ErasureStatus = Literal["ERASING", "ERASED"]
SettingsName = Literal["notifications"]
GUEST_ID_PREFIX = "guest-"
"""The beginning of the ids of guests. So code that handles all orders need not read the customer of most of them."""
REGISTERED = "REGISTERED"
"""The value of `Customer.listed_as` of a registered customer. No hash of an e-mail address has this form."""


@entity
class Customer:
    """A customer of the shop. `customer_id`: the `sub` claim of the customer's access token.

    `language`: the language that the customer chose for mails, documents and the order page, or None for the stage's
    language. The languages are those of functions/model/languages.py.
    `company_id`: the company that the customer buys for, if any.

    A guest, who ordered without an account, is a customer with one order and without an EmailClaim item. `order_id`:
    this order, or None if the customer is registered. `link`: the number of the guest's links to the order. A link with
    a lower number is revoked. The e-mail address of a guest is not verified.
    """

    customer_id: str
    name: str
    email: str
    email_hash: str
    created_at: Instant
    updated_at: Instant
    company_id: str | None = None
    language: str | None = None
    order_id: str | None = None
    link: int | None = None
    version: int = 1

    @property
    def listed_as(self) -> str:
        """The part of an index key that separates registered customers from the guests with each e-mail address."""
        return REGISTERED if self.order_id is None else self.email_hash


@entity
class ErasedCustomer:
    """The item that replaces the Customer item after the customer asked for the erasure of their data.

    The status is ERASING while personal data of the customer may be left, then ERASED. While the status is ERASING,
    `updated_at` is the last time at which personal data was found.
    """

    customer_id: str
    status: ErasureStatus
    erased_at: Instant
    created_at: Instant
    updated_at: Instant
    version: int

    @property
    def open_status(self) -> str | None:
        """The status, as part of the key of the index that lists the unfinished erasures.

        None if the erasure is finished. The item is then not in the index.
        """
        return self.status if self.status == "ERASING" else None

    @property
    def shard(self) -> str:
        return ERASURE_SHARDS.of(self.customer_id)


@entity
class EmailClaim:
    """Reserves an e-mail address for one customer. The item contains only an HMAC of the address (`email_hash`)."""

    email_hash: str
    customer_id: str
    created_at: Instant
    version: int = 1


@entity
class WriteLimit:
    """Limits how many writes a customer may send in a period.

    `used_until_ms`: a time in epoch milliseconds. Each write moves it forward by the interval between two writes at the
    allowed rate. If it is too far in the future, the customer must wait. A time in the past has no effect.
    """

    customer_id: str
    used_until_ms: int
    ttl: int


@entity
class Settings:
    """A named group of a customer's settings. `chosen_at`: when the customer last changed a choice.

    The group is a separate item. So the Customer item is not written when a setting changes.
    """

    customer_id: str
    name: SettingsName
    choices: Mapping[str, bool]
    created_at: Instant
    updated_at: Instant
    chosen_at: Mapping[str, Instant] | None = None
    version: int = 1
