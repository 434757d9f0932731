"""Makes eventually consistent reads outdated: they show the table as it was, like a replica that is late."""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from botocore.awsrequest import AWSPreparedRequest, AWSResponse, HTTPHeaders
from botocore.httpsession import URLLib3Session

from functions.model.table import create_table_request
from proof.support.items import read_items, write_items

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

READS = ("GetItem", "BatchGetItem", "Query")


@contextmanager
def late_replica(client: "DynamoDBClient", table_name: str, copier: "DynamoDBClient") -> Iterator[None]:
    """In the `with` block, eventually consistent reads of `client` show a copy of the table as it was when it began."""
    replica = f"{table_name}-late"
    copier.create_table(**create_table_request(replica))
    write_items(copier, replica, read_items(copier, table_name))

    def answer(request: AWSPreparedRequest, **_: Any) -> AWSResponse | None:
        body = json.loads(cast(bytes, request.body))
        asked = [body, *body.get("RequestItems", {}).values()]
        if any(one.get("ConsistentRead") for one in asked):
            return None
        request.body = json.dumps(body).replace(f'"{table_name}"', f'"{replica}"').encode()
        request.headers["Content-Length"] = str(len(request.body))
        sent = URLLib3Session().send(request)
        content = sent.content.replace(f'"{replica}"'.encode(), f'"{table_name}"'.encode())
        return AWSResponse(request.url, sent.status_code, HTTPHeaders(), _Raw(content))

    events: Any = client.meta.events
    for operation in READS:
        events.register(f"before-send.dynamodb.{operation}", answer)
    try:
        yield
    finally:
        for operation in READS:
            events.unregister(f"before-send.dynamodb.{operation}", answer)
        copier.delete_table(TableName=replica)


class _Raw(io.BytesIO):
    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.read()
