"""Cursors: a page's end as an opaque text that only the caller who got it can use, and only for the same question.

The position is the key of an item, which may name a customer whom the list itself does not show. So it is hidden, too:
the signature is also what the bytes that hide it are made of (a synthetic IV, as in RFC 5297).
"""

import base64
import hashlib
import hmac


class InvalidCursor(ValueError):
    """A cursor that this service did not make, or made for another caller or question."""


def encode_cursor(secret: bytes, after: str, *context: str) -> str:
    """The cursor for the position `after`, tied to the caller and the question named by `bound`."""
    position = after.encode()
    signature = _signature(secret, position, context)
    return base64.urlsafe_b64encode(signature + _xor_with_keystream(secret, signature, position)).decode().rstrip("=")


def decode_cursor(secret: bytes, cursor: str, *context: str) -> str:
    """The position in a cursor; raises InvalidCursor."""
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
    """A text so that only this secret and signature show it; hidden again it is itself."""
    blocks = range(0, len(data), 32)
    stream = b"".join(_digest(secret, b"hide", signature, start.to_bytes(4, "big")) for start in blocks)
    return bytes(one ^ other for one, other in zip(data, stream, strict=False))


def _digest(secret: bytes, *parts: bytes) -> bytes:
    """No two lists of parts run together."""
    text = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return hmac.new(secret, text, hashlib.sha256).digest()
