"""Pagination cursors: opaque text that works only for the caller who received it, and only for the same query.

The position is an item's key, which may contain a customer id that the list does not show. So the cursor is encrypted
as well as signed: the signature also serves as the IV of the keystream (a synthetic IV, as in RFC 5297).
"""

import base64
import hashlib
import hmac


class InvalidCursor(ValueError):
    """The cursor was not made by this service, or was made for another caller or query."""


def encode_cursor(secret: bytes, after: str, *context: str) -> str:
    """Return the cursor for the position `after`, bound to the caller and query named in `context`."""
    position = after.encode()
    signature = _signature(secret, position, context)
    return base64.urlsafe_b64encode(signature + _xor_with_keystream(secret, signature, position)).decode().rstrip("=")


def decode_cursor(secret: bytes, cursor: str, *context: str) -> str:
    """Return the position in a cursor. Raises InvalidCursor."""
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
    """Encrypt or decrypt data: XOR with a keystream derived from the secret and the signature."""
    blocks = range(0, len(data), 32)
    stream = b"".join(_digest(secret, b"hide", signature, start.to_bytes(4, "big")) for start in blocks)
    return bytes(one ^ other for one, other in zip(data, stream, strict=False))


def _digest(secret: bytes, *parts: bytes) -> bytes:
    """HMAC of the parts. Each part is prefixed with its length, so different lists of parts give different input."""
    text = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return hmac.new(secret, text, hashlib.sha256).digest()
