"""Cursors: a page's end as an opaque text that only the caller who got it can use, and only for the same question."""

import base64
import hashlib
import hmac


class InvalidCursor(ValueError):
    """A cursor that this service did not make, or made for another caller or question."""


def seal(secret: bytes, after: str, *bound: str) -> str:
    """The cursor for the position `after`, tied to the caller and the question named by `bound`."""
    return base64.urlsafe_b64encode(_signature(secret, after, bound) + after.encode()).decode().rstrip("=")


def unseal(secret: bytes, cursor: str, *bound: str) -> str:
    """The position in a cursor; raises InvalidCursor."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        signature, after = raw[:16], raw[16:].decode()
    except ValueError:
        raise InvalidCursor("the cursor is not one of ours") from None
    if not after or not hmac.compare_digest(signature, _signature(secret, after, bound)):
        raise InvalidCursor("the cursor was made for another caller or question")
    return after


def _signature(secret: bytes, after: str, bound: tuple[str, ...]) -> bytes:
    parts = b"".join(len(part.encode()).to_bytes(4, "big") + part.encode() for part in ("cursor", after, *bound))
    return hmac.new(secret, parts, hashlib.sha256).digest()[:16]
