"""Give each answer to a read an ETag, answer 304 to a client that has the answer, and let caches store public answers.

HTTP semantics: RFC 9110, 8.8.3 and 13.1.2 (ETag, If-None-Match); RFC 9111, 5.2.2 (Cache-Control). An ETag is computed
from the answer. So a 304 saves the transfer of the body, but not the reads. Only an answer from a cache saves reads.

No cache stores a private answer. Its ETag helps a client that stores the answer itself and later asks for changes.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

PRIVATE = "private, no-store"


def allow_shared_caches(seconds: int) -> str:
    """Return the Cache-Control of a public answer.

    `seconds`: how long a shared cache, such as CloudFront, may reuse the answer. A browser asks the server each time.
    """
    return f"public, max-age=0, s-maxage={seconds}"


def add_etag(response: dict[str, Any], event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a read with its ETag, or a 304 if the client has this answer already."""
    if response["statusCode"] != 200:
        return response
    etag = f'"{hashlib.sha256(response["body"].encode()).hexdigest()[:32]}"'
    if not _matches(event, etag):
        return {**response, "headers": {**response["headers"], "ETag": etag}}
    kept = {name: value for name, value in response["headers"].items() if name == "Cache-Control"}
    return {**response, "statusCode": 304, "headers": {**kept, "ETag": etag}, "body": "", "isBase64Encoded": False}


def _matches(event: Mapping[str, Any], etag: str) -> bool:
    """Return whether If-None-Match names this ETag. A weak ETag (W/) matches: a cache may have compressed the body."""
    named = ",".join(text for name, text in (event.get("headers") or {}).items() if name.lower() == "if-none-match")
    return any(one.strip().removeprefix("W/") in (etag, "*") for one in named.split(","))
