"""The worker of the usual shop that archives an order after DynamoDB deleted it at its `ttl`.

The worker reads the other items of the order, and writes all of them into one object. DynamoDB may have deleted some of
the items before, and these are missing in the object. Our shop loses none, because it deletes an order's items after it
archived them. With SAME_PROMISES, this worker does the same.
"""

import json
import os
from typing import Any

import boto3
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext
from boto3.dynamodb.conditions import Key
from boto3.dynamodb.types import TypeSerializer
from botocore.exceptions import ClientError

from bench.usual.items import deserialize, key, now
from bench.usual.log import logger, metrics
from bench.usual.promises import SAME_PROMISES
from bench.usual.table import table

ARCHIVE_BUCKET = os.environ["ARCHIVE_BUCKET"]

s3: Any = boto3.client("s3")
processor = BatchProcessor(event_type=EventType.SQS)
_serializer = TypeSerializer()


def archive_record(record: SQSRecord) -> None:
    """Archive the order of an event."""
    detail = json.loads(record.body)["detail"]
    if SAME_PROMISES:
        archive_expired_order(detail["data"]["order_id"])
    else:
        archive_deleted_order(detail["image"], deserialize(detail["image"]))


def archive_deleted_order(image: dict[str, Any], order: dict[str, Any]) -> None:
    """Archive a deleted order: write the object, then a stub with the key of the order. Safe to repeat."""
    order_id = order["order_id"]
    owned = table.query(KeyConditionExpression=Key("PK").eq(f"o#{order_id}"))["Items"]
    object_key = f"orders/{order_id}.json"
    _store_object(object_key, [image, *map(_image, owned)])
    table.put_item(Item=_stub(order, object_key))


def archive_expired_order(order_id: str) -> None:
    """Archive an expired order: write the object, replace the order by a stub, and delete the archived items.

    The stub replaces the order only if it is unchanged. Every command also changes the order, so no item changes later.
    Unmatched payments stay. Raises RuntimeError if the timeline does not have the last change of the order yet.
    """
    found = table.query(KeyConditionExpression=Key("PK").eq(f"o#{order_id}"), ConsistentRead=True)["Items"]
    order = next(item for item in found if item["PK"] == item["SK"])
    if order["entity"] == "order":
        if not any(item["entity"] == "timeline" and item["at"] == order["updated_at"] for item in found):
            raise RuntimeError("the timeline of the order is not up to date")
        object_key = f"orders/{order_id}/{order['updated_at']}.json"
        _store_object(object_key, list(map(_image, found)))
        table.put_item(
            Item=_stub(order, object_key),
            ConditionExpression="updated_at = :read",
            ExpressionAttributeValues={":read": order["updated_at"]},
        )
    with table.batch_writer() as batch:
        for item in found:
            if item["entity"] not in ("order", "stub", "invoice") and item.get("status") != "UNMATCHED":
                batch.delete_item(Key=key(item["PK"], item["SK"]))


def _stub(order: dict[str, Any], object_key: str) -> dict[str, Any]:
    """Return the stub that replaces an archived order."""
    shown = ("order_id", "customer_id", "status", "placed_at", "updated_at", "currency", "total", "GSI1PK", "GSI1SK")
    stub = {**key(order["PK"]), "entity": "stub", "object_key": object_key, "archived_at": now()}
    return {**{name: order[name] for name in shown}, **stub}


def _image(item: dict[str, Any]) -> dict[str, Any]:
    return {name: _serializer.serialize(value) for name, value in item.items()}


def _store_object(name: str, images: list[Any]) -> None:
    """Write an object, unless it exists already."""
    body = json.dumps({"items": images}).encode()
    try:
        s3.put_object(Bucket=ARCHIVE_BUCKET, Key=name, Body=body, IfNoneMatch="*")
    except ClientError as error:
        if error.response["Error"]["Code"] != "PreconditionFailed":
            raise


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    """Lambda entry point: archive the orders of a batch of messages."""
    metrics.add_metric(name="Records", unit=MetricUnit.Count, value=len(event["Records"]))
    return process_partial_response(event=event, record_handler=archive_record, processor=processor, context=context)
