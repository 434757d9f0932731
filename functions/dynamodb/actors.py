"""Who changes items: staff and operators are stamped on the items that they write, customers are not.

A stamp is the attribute `audit` of an item, until the next versioned write of anybody else. So it costs no write, and
the stream reader that copies it into the audit trail (functions/model/audit.py) needs no other item.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from functions.dynamodb.codec import entity

AUDIT = "audit"
"""The attribute with the stamp. No item type may declare it as its own field."""


@entity
class Actor:
    """A person who runs a command. `by`: "staff:" and a user id, or "ops:" and a name. `reason`: why, if it is known.

    `command`: the route of the API, such as "PATCH /products/{product_id}", or the tool, such as "failures redrive".
    """

    by: str
    command: str
    reason: str | None = None


acting: ContextVar[Actor | None] = ContextVar("acting", default=None)
"""Who is running a command now; None for customers and for the shop's own reactions."""


@contextmanager
def acting_as(actor: Actor | None) -> Iterator[None]:
    """Stamp the writes inside the `with` block with this actor. None: with nobody."""
    token = acting.set(actor)
    try:
        yield
    finally:
        acting.reset(token)
