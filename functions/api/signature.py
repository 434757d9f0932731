"""The payment provider's signature on its webhooks, in Stripe's scheme: https://docs.stripe.com/webhooks/signature

The header is `t=<epoch seconds>,v1=<hex>[,v1=<hex>]`; each v1 is an HMAC-SHA256 of "<t>.<raw body>" under one of the
secrets that live while a secret is being rotated. Other schemes in it (v0) are passed over, as Stripe asks.
"""

import hashlib
import hmac
import re
from collections.abc import Sequence
from datetime import datetime

from functions.api.problems import BadSignature

TOLERANCE_SECONDS = 300


def verify_signature(header: str, body: str, secrets: Sequence[str], now: datetime) -> None:
    """Return where one of the secrets has signed this body within the tolerance; else raise BadSignature."""
    pairs = [part.strip().partition("=") for part in header.split(",")]
    times = [value for name, _, value in pairs if name == "t"]
    given = [value for name, _, value in pairs if name == "v1"]
    if len(times) != 1 or not re.fullmatch("[0-9]{1,12}", times[0]) or not given:
        raise BadSignature("the header is not t=<epoch seconds>,v1=<signature>")
    signed = f"{times[0]}.{body}".encode()
    right = [hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest().encode() for secret in secrets]
    matches = [hmac.compare_digest(one.encode(errors="replace"), other) for one in given for other in right]
    if not any(matches):
        raise BadSignature("no signature in the header is one of this body by a live secret")
    if abs(now.timestamp() - int(times[0])) > TOLERANCE_SECONDS:
        raise BadSignature(f"signed more than {TOLERANCE_SECONDS} seconds from now")
