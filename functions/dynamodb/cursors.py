"""Cursors: a page's end as an opaque text that only the caller who got it can use, and only for the same question.

The position is the key of an item, which may name a customer whom the list itself does not show. So it is hidden, too:
the signature is also what the bytes that hide it are made of (a synthetic IV, as in RFC 5297).
"""

import base64
import hashlib
import hmac


class InvalidCursor(ValueError):
    """A cursor that this service did not make, or made for another caller or question."""


def seal(secret: bytes, after: str, *bound: str) -> str:
    """The cursor for the position `after`, tied to the caller and the question named by `bound`."""
    position = after.encode()
    signature = _signature(secret, position, bound)
    return base64.urlsafe_b64encode(signature + _hidden(secret, signature, position)).decode().rstrip("=")


def unseal(secret: bytes, cursor: str, *bound: str) -> str:
    """The position in a cursor; raises InvalidCursor."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise InvalidCursor("the cursor is not one of ours") from None
    signature, hidden = raw[:16], raw[16:]
    position = _hidden(secret, signature, hidden)
    if not position or not hmac.compare_digest(signature, _signature(secret, position, bound)):
        raise InvalidCursor("the cursor was made for another caller or question")
    return position.decode()


def _signature(secret: bytes, position: bytes, bound: tuple[str, ...]) -> bytes:
    return _digest(secret, b"cursor", position, *(part.encode() for part in bound))[:16]


def _hidden(secret: bytes, signature: bytes, text: bytes) -> bytes:
    """A text so that only this secret and signature show it; hidden again it is itself."""
    blocks = range(0, len(text), 32)
    stream = b"".join(_digest(secret, b"hide", signature, start.to_bytes(4, "big")) for start in blocks)
    return bytes(one ^ other for one, other in zip(text, stream, strict=False))


def _digest(secret: bytes, *parts: bytes) -> bytes:
    """No two lists of parts run together."""
    text = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return hmac.new(secret, text, hashlib.sha256).digest()
