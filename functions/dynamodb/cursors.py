"""Pagination cursors: opaque text that works only for the caller who received it, and only for the same query.

A cursor contains the sort key of an item. That key may contain a customer id that the list does not show. So
the cursor is encrypted as well as signed. The signature also serves as the IV of the keystream (a synthetic IV, as in
RFC 5297).
"""

import base64
import hashlib
import hmac


class InvalidCursor(ValueError):
    """The cursor was not made by this service, or was made for another caller or query."""


def encode_cursor(secret: bytes, after: str, *context: str) -> str:
    """Return a cursor that contains the position `after`. The cursor works only with the same caller and query, given
    as `context`."""
    position = after.encode()
    signature = _signature(secret, position, context)
    return base64.urlsafe_b64encode(signature + _xor_with_keystream(secret, signature, position)).decode().rstrip("=")


def decode_cursor(secret: bytes, cursor: str, *context: str) -> str:
    """Decrypt a cursor and return the position in it. Raises InvalidCursor if the cursor was made for another
    `context`."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise InvalidCursor("the cursor is not one of ours") from None
    signature, encrypted = raw[:16], raw[16:]
    position = _xor_with_keystream(secret, signature, encrypted)
    if not position or not hmac.compare_digest(signature, _signature(secret, position, context)):
        raise InvalidCursor("the cursor was made for another caller or question")
    return position.decode()


def _signature(secret: bytes, position: bytes, context: tuple[str, ...]) -> bytes:
    return _digest(secret, b"cursor", position, *(part.encode() for part in context))[:16]


def _xor_with_keystream(secret: bytes, signature: bytes, data: bytes) -> bytes:
    """Encrypt or decrypt data, by XOR with a keystream that is derived from the secret and the signature."""
    blocks = range(0, len(data), 32)
    stream = b"".join(_digest(secret, b"hide", signature, start.to_bytes(4, "big")) for start in blocks)
    return bytes(one ^ other for one, other in zip(data, stream, strict=False))


def _digest(secret: bytes, *parts: bytes) -> bytes:
    """Return the HMAC-SHA256 of the parts. Each part is prefixed with its length, so that different lists of parts
    never give the same input."""
    text = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return hmac.new(secret, text, hashlib.sha256).digest()
