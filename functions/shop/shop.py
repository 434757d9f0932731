"""The context that every command receives: the table, the clock, the generator of ids, and the shop's settings."""

import base64
import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from functions.dynamodb.codec import Image
from functions.dynamodb.keys import Instant, Row, to_instant
from functions.dynamodb.patterns import Get
from functions.dynamodb.table import Table
from functions.dynamodb.writes import Write, WriteConflict, delete, put_if_absent, update
from functions.model.entities import Customer
from functions.model.errors import NotAllowed, NotFound, WrongState

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class ArchiveUnavailable(Exception):
    """The object of an archived order cannot be read. `why`: the reason and what to do, as text for the client."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the order is archived, and {why}")


def no_archive(_: str) -> Sequence[Image]:
    """Raise ArchiveUnavailable, because this process does not read the archive."""
    raise ArchiveUnavailable("this function does not read the archive")


class HasCustomer(Protocol):
    """An item that belongs to a customer. If `customer_id` is None, only staff may see the item."""

    @property
    def customer_id(self) -> str | None: ...


Owned = TypeVar("Owned", bound=HasCustomer)


@dataclass(frozen=True, kw_only=True)
class ShopContext:
    """The context of every command: the table, the generator of ids, and the shop's settings.

    `pepper`: a function that returns the secret key for `digest` and `derive_id`; it is called on each use.
    `read_archive`: returns the items in the archive object with an S3 key, in DynamoDB's JSON. It raises
    ArchiveUnavailable. `closed_order_days`: for how many days a closed order stays in the table before it is archived.
    `return_window_days`: for how many days delivered goods can be returned. `unpaid_orders_per_customer`: how many
    unpaid orders a customer may have; 0 means no limit. `payment_window_minutes`: how long an order waits for payment.
    `audit_days`: for how many days the audit trail keeps an entry.
    """

    table: Table
    new_id: Callable[[], str]
    pepper: Callable[[], bytes] = bytes
    read_archive: Callable[[str], Sequence[Image]] = no_archive
    closed_order_days: int = 365
    return_window_days: int = 30
    unpaid_orders_per_customer: int = 0
    payment_window_minutes: int = 30
    audit_days: int = 730

    def now(self) -> datetime:
        return self.table.clock()

    def now_instant(self) -> Instant:
        """Return the current time in the format that the table stores."""
        return to_instant(self.now())

    def digest(self, *parts: str) -> bytes:
        """Return the HMAC-SHA256 of these strings with the shop's secret key. ("ab", "c") differs from ("a", "bc")."""
        text = b"".join(len(part.encode()).to_bytes(4, "big") + part.encode() for part in parts)
        return hmac.new(self.pepper(), text, hashlib.sha256).digest()

    def derive_id(self, *parts: str) -> str:
        """Derive an id of 26 characters from these strings. Only the shop's secret key lets one guess it."""
        return base64.b32encode(self.digest(*parts)[:16]).decode().rstrip("=").lower()


@dataclass(frozen=True)
class Caller:
    """The user who sends a command. `id`: the `sub` claim of the user's token. `groups`: the groups in the token."""

    id: str
    groups: frozenset[str] = frozenset()

    def can_see(self, customer_id: str) -> bool:
        """Return whether the caller may see this customer's data: True for the customer and for staff."""
        return self.id == customer_id or self.is_staff

    def require_access(self, customer_id: str, what: str = "customer") -> None:
        """Raise NotFound if the caller may not see this customer's data. `what`: its name, such as "order"."""
        if not self.can_see(customer_id):
            raise NotFound(what)

    def require_own(self, found: Owned | None, what: str) -> Owned:
        """Return the item `found`. Raise NotFound, which names `what`, if it is None or the caller may not see it."""
        owned = require_found(found, what)
        self.require_access(owned.customer_id or "", what)
        return owned

    @property
    def is_staff(self) -> bool:
        return "staff" in self.groups

    def require_group(self, *groups: str) -> None:
        """Raise NotAllowed if the caller is in none of these groups."""
        if not self.groups & set(groups):
            raise NotAllowed(f"only {' or '.join(groups)} may do this")


def require_found(found: T | None, what: str) -> T:
    """Return the item `found`. Raise NotFound, which names `what`, if it is None."""
    if found is None:
        raise NotFound(what)
    return found


def require_registered(customer: Customer, command: str) -> None:
    """Raise WrongState if the customer is a guest, who has no account. `command`: what needs an account."""
    if customer.order_id is not None:
        raise WrongState("customer", "GUEST", command)


def retry_on_conflict(shop: ShopContext, decide: Callable[[], R]) -> R:
    """Run `decide`, which reads items and writes them conditionally, and return its result.

    If an item changed after `decide` read it, `decide` is run again. This is safe because a rejected write changes
    nothing. Raises TableBusy if conflicts continue until the time limit for retries is reached.
    """
    backoff = shop.table.new_backoff()
    while True:
        try:
            return decide()
        except WriteConflict:
            backoff.wait()


def retries_on_conflict(decide: Callable[Concatenate[ShopContext, P], R]) -> Callable[Concatenate[ShopContext, P], R]:
    """Run the decorated function again if an item changed after the function read it, as `retry_on_conflict` does."""

    @wraps(decide)
    def run(shop: ShopContext, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return retry_on_conflict(shop, lambda: decide(shop, *args, **kwargs))

    return run


def save_change(shop: ShopContext, row: Row[T], before: T, wanted: T, *others: Write[Any]) -> T:
    """Store an item as `wanted`, with the time and the next version, unless it is so already. Return it.

    `before`: as it was read. With version 0, the table has no such item yet. `others`: more writes of the transaction.
    Raises WriteConflict if the item changed since the read.
    """
    if wanted == before:
        return before
    item: Any = wanted
    after: T = replace(item, updated_at=shop.now_instant(), version=item.version + 1)
    shop.table.write(update(row, before, after) if item.version else put_if_absent(row, after), *others)
    return after


@retries_on_conflict
def delete_if_exists(shop: ShopContext, /, row: Row[T], pattern: Get[T], **known: str) -> bool:
    """Delete an item, if the `pattern` finds one for the `known` fields. Return whether it existed. Safe to repeat."""
    found = shop.table.get(pattern, **known)
    if found is not None:
        shop.table.write(delete(row, found))
    return found is not None
