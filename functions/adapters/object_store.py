"""Read, write, list and delete S3 objects, with conditional writes and the deletion of all versions of an object."""

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from botocore.exceptions import ClientError

from functions.runtime import clients

REDRIVEN_PREFIX = "redriven/"
"""The key prefix of marker objects in the failure store, before the key of the object that was redriven.

They contain no customer data.
"""


def put_if_absent(bucket: str, key: str, body: bytes, content_type: str) -> bytes:
    """Write an object only if its key does not exist, and return the bytes that are then stored under the key."""
    checksum = base64.b64encode(hashlib.sha256(body).digest()).decode()
    try:
        clients.client("s3").put_object(
            Bucket=bucket, Key=key, Body=body, ContentType=content_type, ChecksumSHA256=checksum, IfNoneMatch="*"
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "PreconditionFailed":
            raise
        return get(bucket, key)
    return body


def put(bucket: str, key: str, body: bytes, content_type: str) -> None:
    """Write an object. An existing object with the same key is replaced."""
    clients.client("s3").put_object(Bucket=bucket, Key=key, Body=body, ContentType=content_type)


def get(bucket: str, key: str) -> bytes:
    """Return the bytes of an object."""
    return bytes(clients.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read())


def create_link(bucket: str, key: str, seconds: int) -> str:
    """Return a URL with which anybody can download an object for some seconds.

    It also ends with the credentials of the Lambda that signs it.
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-presigned-url.html
    """
    parameters = {"Bucket": bucket, "Key": key}
    return str(clients.client("s3").generate_presigned_url("get_object", Params=parameters, ExpiresIn=seconds))


def list_keys(bucket: str, prefix: str = "") -> Iterator[str]:
    """Yield the keys of a bucket that start with a prefix, in sorted order."""
    for page in clients.client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        yield from (found["Key"] for found in page.get("Contents", ()))


def delete_all_versions(bucket: str, prefix: str, should_keep: Callable[[str], bool]) -> bool:
    """Delete all versions of the objects under a prefix, except those to keep. Return whether anything was deleted."""
    client, removed = clients.client("s3"), False
    for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix):
        for found in (*page.get("Versions", ()), *page.get("DeleteMarkers", ())):
            if not should_keep(found["Key"]):
                client.delete_object(Bucket=bucket, Key=found["Key"], VersionId=found["VersionId"])
                removed = True
    return removed


def to_canonical_json(value: Any) -> bytes:
    """Serialize to JSON so that equal values give equal bytes: sorted keys, no spaces, binary values as base64."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_encode_binary).encode()


def _encode_binary(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    raise TypeError(f"an image cannot contain a {type(value).__name__}")
