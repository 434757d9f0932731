"""Seal texts, so that a client can keep one that it can neither read nor change: with AES-SIV (RFC 5297).

It needs no nonce, so the same text, key and context always give the same sealed text.
"""

import base64
import hashlib
import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV


class NotSealed(ValueError):
    """The text was not sealed with this key, purpose and context."""


def seal_text(secret: bytes, purpose: str, text: str, *context: str) -> str:
    """Return `text`, encrypted as a text for a URL. Only `open_text` with the same arguments can decrypt it.

    `purpose`: a constant for each kind of sealed text, so that a text of one kind cannot be used as another kind.
    """
    sealed = _cipher(secret, purpose).encrypt(text.encode(), [part.encode() for part in context])
    return _to_text(sealed)


def open_text(secret: bytes, purpose: str, sealed: str, *context: str) -> str:
    """Return the text in a sealed text. Raises NotSealed if it was not sealed with these arguments."""
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415  see _cipher

    try:
        decoded = base64.b64decode(sealed + "=" * (-len(sealed) % 4), altchars=b"-_", validate=True)
        opened = _cipher(secret, purpose).decrypt(decoded, [part.encode() for part in context]).decode()
    except (InvalidTag, ValueError):
        raise NotSealed("the text was not sealed here") from None
    if _to_text(decoded) != sealed:  # someone changed the unused bits of the last base64 character
        raise NotSealed("the text was not sealed here")
    return opened


def _to_text(sealed: bytes) -> str:
    return base64.urlsafe_b64encode(sealed).decode().rstrip("=")


def _cipher(secret: bytes, purpose: str) -> "AESSIV":
    # Import it only when it is used: the import is slow, and most requests have no sealed text.
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV  # noqa: PLC0415

    return AESSIV(hmac.new(secret, purpose.encode(), hashlib.sha512).digest())
