"""Objects in S3: written once and never over another, read, and removed with all their versions."""

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from botocore.exceptions import ClientError

from functions import wiring

REDRIVEN_PREFIX = "redriven/"
"""Below that are the failure store's marks of what an operator has redriven, which is nothing of anybody's."""


def put_if_absent(bucket: str, key: str, body: bytes, content_type: str) -> bytes:
    """Write an object if there is none of this name. Returns the bytes that lie there: what was written first holds."""
    checksum = base64.b64encode(hashlib.sha256(body).digest()).decode()
    try:
        wiring.client("s3").put_object(
            Bucket=bucket, Key=key, Body=body, ContentType=content_type, ChecksumSHA256=checksum, IfNoneMatch="*"
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "PreconditionFailed":
            raise
        return get(bucket, key)
    return body


def put(bucket: str, key: str, body: bytes, content_type: str) -> None:
    """Write an object, over the one that is there."""
    wiring.client("s3").put_object(Bucket=bucket, Key=key, Body=body, ContentType=content_type)


def get(bucket: str, key: str) -> bytes:
    """The object's bytes."""
    return bytes(wiring.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read())


def list_keys(bucket: str, prefix: str = "") -> Iterator[str]:
    """The names of all objects of a bucket that keeps no versions, or of those that begin so; in their order."""
    for page in wiring.client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        yield from (found["Key"] for found in page.get("Contents", ()))


def delete_all_versions(bucket: str, prefix: str, should_keep: Callable[[str], bool]) -> bool:
    """Delete every object below a prefix but those to keep, for good: each of its versions. Whether there was one."""
    client, removed = wiring.client("s3"), False
    for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix):
        for found in (*page.get("Versions", ()), *page.get("DeleteMarkers", ())):
            if not should_keep(found["Key"]):
                client.delete_object(Bucket=bucket, Key=found["Key"], VersionId=found["VersionId"])
                removed = True
    return removed


def to_canonical_json(value: Any) -> bytes:
    """Canonical JSON: sorted keys, no spaces, bytes as base64 (as in a stream record)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_encode_binary).encode()


def _encode_binary(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    raise TypeError(f"an image holds no {type(value).__name__}")
