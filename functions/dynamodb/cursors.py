"""Pagination cursors: opaque texts that mark where the next page of a query starts, for one caller and query.

A cursor is sealed: its sort key may contain a customer id that the caller must not see.
"""

from functions.dynamodb.sealed_text import NotSealed, open_text, seal_text

PURPOSE = "cursor"
KEY_VERSION = 1
"""A part of the key that seals cursors. A higher number invalidates all earlier cursors: clients start lists again."""


class InvalidCursor(ValueError):
    """The cursor was not made by this service, or was made for another caller or query."""


def encode_cursor(secret: bytes, after: str, *context: str) -> str:
    """Return a cursor with the position `after` (a sort key), decoded only with the same texts of `context`."""
    return seal_text(secret, PURPOSE, after, *context)


def decode_cursor(secret: bytes, cursor: str, *context: str) -> str:
    """Return the position in a cursor. Raises InvalidCursor if it is none, or was made for another caller or query."""
    try:
        return open_text(secret, PURPOSE, cursor, *context)
    except NotSealed:
        raise InvalidCursor("the cursor is invalid, or belongs to another caller or query") from None
