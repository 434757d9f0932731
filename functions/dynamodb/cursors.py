"""Pagination cursors: opaque texts that mark where the next page of a query starts.

A cursor works only for the caller and the query for which it was made.

A cursor contains the sort key of an item. The key may contain a customer id that the caller must not see. So the cursor
is encrypted and authenticated with AES-SIV (RFC 5297). AES-SIV needs no nonce, so the same position, caller and query
always give the same cursor.
"""

import base64
import hashlib
import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV


class InvalidCursor(ValueError):
    """The cursor was not made by this service, or was made for another caller or query."""


def encode_cursor(secret: bytes, after: str, *context: str) -> str:
    """Return a cursor that contains the position `after`, the sort key of the last item read.

    `context`: texts that identify the caller and the query. The cursor can be decoded only with the same texts.
    """
    sealed = _cipher(secret).encrypt(after.encode(), [part.encode() for part in context])
    return _to_text(sealed)


def decode_cursor(secret: bytes, cursor: str, *context: str) -> str:
    """Decrypt a cursor and return the position in it: the sort key after which the page starts.

    Raises InvalidCursor if the text is not a cursor, or if it was made for another caller or query (`context`).
    """
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415  see _cipher

    try:
        sealed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise InvalidCursor("the cursor is invalid") from None
    if _to_text(sealed) != cursor:  # the unused bits of its last character were changed
        raise InvalidCursor("the cursor is invalid")
    try:
        return _cipher(secret).decrypt(sealed, [part.encode() for part in context]).decode()
    except (InvalidTag, ValueError):
        raise InvalidCursor("the cursor belongs to another caller or query") from None


def _to_text(sealed: bytes) -> str:
    return base64.urlsafe_b64encode(sealed).decode().rstrip("=")


def _cipher(secret: bytes) -> "AESSIV":
    # Import only when a cursor is used: the import is slow, and most requests have no cursor.
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV  # noqa: PLC0415

    return AESSIV(hmac.new(secret, b"cursor", hashlib.sha512).digest())
