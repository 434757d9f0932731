"""Park records that can never be processed: store them with the reason in the failure store, an S3 bucket."""

import hashlib
import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from botocore.exceptions import ClientError

from functions.model import metrics
from functions.runtime import clients
from functions.runtime.log import log
from functions.runtime.observability import add_metric, record_identifiers


def dead_letter_writer(
    bucket: str, reader: str, names_by_error: Mapping[str, str] = MappingProxyType({})
) -> Callable[[Mapping[str, Any], str], None]:
    """Return a function that parks a record: it stores the record and the reason in the failure store, an S3 bucket.

    `reader`: the name of the Lambda that could not process the record, for the key `parked/{reader}/{hash}.json`. So a
    redelivered record is stored once. `names_by_error`: by the name of an error class, a name that replaces `reader`.
    An existing object is never replaced, because the erasure job may have removed personal data from it.
    """

    def park(record: Mapping[str, Any], reason: str) -> None:
        error = reason.partition(":")[0]
        name = names_by_error.get(error, reader)
        digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
        body = json.dumps({"reader": name, "reason": reason, "record": record}).encode()
        key = f"parked/{name}/{digest}.json"
        try:
            clients.client("s3").put_object(
                Bucket=bucket, Key=key, Body=body, ContentType="application/json", IfNoneMatch="*"
            )
        except ClientError as rejection:
            if rejection.response["Error"]["Code"] != "PreconditionFailed":
                raise
        summary = {"reader": name, "reason": error, "object": digest}
        log.error("record_parked", extra=summary | record_identifiers(record))
        add_metric(metrics.PARKED)

    return park
