"""Verify the payment provider's signature on webhooks, in Stripe's scheme: https://docs.stripe.com/webhooks/signature

The header is `t=<epoch seconds>,v1=<hex>[,v1=<hex>]`. Each v1 value is an HMAC-SHA256 of "<t>.<raw body>" with one of
the valid secrets. While a secret is being replaced, the old and the new secret are valid. Values of other schemes in
the header, such as v0, are ignored, as Stripe recommends.
"""

import hashlib
import hmac
import re
from collections.abc import Sequence
from datetime import datetime

from functions.api.http.problems import BadSignature

TOLERANCE_SECONDS = 300


def verify_signature(header: str, body: str, secrets: Sequence[str], now: datetime) -> None:
    """Check that the body was signed with one of the secrets at most 300 seconds ago. Raises BadSignature if not.

    `header`: the value of the signature header. The clocks of the provider and the shop may differ, so a time up to 300
    seconds in the future is accepted too.
    """
    pairs = [part.strip().partition("=") for part in header.split(",")]
    times = [value for name, _, value in pairs if name == "t"]
    given = [value for name, _, value in pairs if name == "v1"]
    if len(times) != 1 or not re.fullmatch("[0-9]{1,12}", times[0]) or not given:
        raise BadSignature("the header must have the form t=<epoch seconds>,v1=<signature>")
    signed = f"{times[0]}.{body}".encode()
    right = [hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest().encode() for secret in secrets]
    matches = [hmac.compare_digest(one.encode(errors="replace"), other) for one in given for other in right]
    if not any(matches):
        raise BadSignature("no signature in the header matches this body and a valid secret")
    if abs(now.timestamp() - int(times[0])) > TOLERANCE_SECONDS:
        raise BadSignature(f"the timestamp is more than {TOLERANCE_SECONDS} seconds away from the current time")
