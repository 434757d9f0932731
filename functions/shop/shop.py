"""What every command is given: the table, the clock, the source of ids, and how long things last."""

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from functions.dynamodb.keys import Instant, Row, to_instant
from functions.dynamodb.patterns import Get
from functions.dynamodb.store import Table
from functions.dynamodb.writes import WriteConflict, delete
from functions.model.errors import NotAllowed

R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Shop:
    """`pepper`, asked for when it is needed, makes ids that nobody can guess from what they are made of. The days say
    when a closed order expires.

    `shipping`: what it costs to send an order, by currency (free in others). `tax_rate`: in hundredths of a percent,
    contained in every price.
    """

    table: Table
    new_id: Callable[[], str]
    pepper: Callable[[], bytes] = bytes
    retention_days: int = 365
    return_window_days: int = 30
    shipping: Mapping[str, int] = field(default_factory=dict)
    tax_rate: int = 0

    def now(self) -> datetime:
        return self.table.clock()

    def now_instant(self) -> Instant:
        """Now, as the table keeps it."""
        return to_instant(self.now())

    def digest(self, *parts: str) -> bytes:
        """32 bytes that only this shop can make of these parts; no two lists of parts run together."""
        text = b"".join(len(part.encode()).to_bytes(4, "big") + part.encode() for part in parts)
        return hmac.new(self.pepper(), text, hashlib.sha256).digest()

    def derive_id(self, *parts: str) -> str:
        """The id that these parts make, and always make: 128 bits in 26 characters, so that nobody guesses one."""
        return base64.b32encode(self.digest(*parts)[:16]).decode().rstrip("=").lower()


@dataclass(frozen=True)
class Caller:
    """Who asks: the identity provider's `sub`, and the groups it vouches for."""

    id: str
    groups: frozenset[str] = frozenset()

    def can_see(self, customer_id: str) -> bool:
        """Whether what belongs to this customer is theirs to see. Another's answers like what does not exist."""
        return self.id == customer_id or self.is_staff

    @property
    def is_staff(self) -> bool:
        return "staff" in self.groups

    def require_group(self, *groups: str) -> None:
        """Raises NotAllowed unless the caller is in one of these groups."""
        if not self.groups & set(groups):
            raise NotAllowed(f"this is for {' or '.join(groups)} only")


def delete_if_exists(shop: Shop, row: Row[T], pattern: Get[T], **known: str) -> bool:
    """Delete an item, if there is one. Whether there was. Repeatable."""

    def attempt() -> bool:
        found = shop.table.get(pattern, **known)
        if found is not None:
            shop.table.write(delete(row, found))
        return found is not None

    return retry_on_conflict(shop, attempt)


def retry_on_conflict(shop: Shop, decide: Callable[[], R]) -> R:
    """Run a command that reads, decides and writes; where what it read changed before it wrote, decide anew.

    Raises Busy when that goes on until the time budget is spent. Safe because a refused write wrote nothing.
    """
    backoff = shop.table.new_backoff()
    while True:
        try:
            return decide()
        except WriteConflict:
            backoff.wait()
