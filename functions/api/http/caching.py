"""Let caches store the answers of public routes: Cache-Control, ETag, and 304 for a client that has the answer already.

HTTP semantics: RFC 9110, 8.8.3 and 13.1.2 (ETag, If-None-Match); RFC 9111, 5.2.2 (Cache-Control). An ETag is computed
from the answer, so a 304 saves the transfer of the body, but none of the reads. Only an answer from a cache saves them.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

PRIVATE = "private, no-store"


def make_cacheable(response: dict[str, Any], event: Mapping[str, Any], seconds: int) -> dict[str, Any]:
    """Return the answer of a public route with the headers for caches, or a 304 if the client has this answer already.

    `seconds`: how long a shared cache, such as CloudFront, may answer with it. A browser asks again each time.
    """
    etag = f'"{hashlib.sha256(response["body"].encode()).hexdigest()[:32]}"'
    headers = {"Cache-Control": f"public, max-age=0, s-maxage={seconds}", "ETag": etag}
    if _matches(event, etag):
        return {**response, "statusCode": 304, "headers": headers, "body": ""}
    return {**response, "headers": {**response["headers"], **headers}}


def _matches(event: Mapping[str, Any], etag: str) -> bool:
    """Return whether If-None-Match names this ETag. A weak ETag (W/) matches: a cache may have compressed the body."""
    named = ",".join(text for name, text in (event.get("headers") or {}).items() if name.lower() == "if-none-match")
    return any(one.strip().removeprefix("W/") in (etag, "*") for one in named.split(","))
