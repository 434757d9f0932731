"""The worker of the conventional shop that archives the items that DynamoDB deleted at their `ttl`. It deletes nothing
itself.

It reads an order's items after the order itself has gone. DynamoDB may have deleted some of them before, in any order,
and these are missing in the object. Our shop loses none: it deletes an order's items after they are archived.
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
from bench.usual.table import table

ARCHIVE_BUCKET = os.environ["ARCHIVE_BUCKET"]

s3: Any = boto3.client("s3")
queued = BatchProcessor(event_type=EventType.SQS)
_serializer = TypeSerializer()


def archive_record(record: SQSRecord) -> None:
    """Archive an entry of activity, or an order with its items, each as an object with its own name."""
    told = json.loads(record.body)["detail"]
    image = told["image"]
    item = deserialize(image)
    if told["type"] == "OrderExpired":
        keep_order(image, item)
    else:
        _object(f"activity/day={item['at'][:10]}/{told['id']}.json", [image])


def keep_order(image: dict[str, Any], order: dict[str, Any]) -> None:
    """One object; then a stub takes the order's place. A second time changes neither."""
    order_id = order["order_id"]
    owned = table.query(KeyConditionExpression=Key("PK").eq(f"o#{order_id}"))["Items"]
    images = [{name: _serializer.serialize(value) for name, value in item.items()} for item in owned]
    object_key = f"orders/{order_id}.json"
    _object(object_key, [image, *images])
    shown = ("order_id", "customer_id", "status", "placed_at", "updated_at", "currency", "total", "GSI1PK", "GSI1SK")
    stub = {**key(f"o#{order_id}"), "entity": "stub", "object_key": object_key, "archived_at": now()}
    table.put_item(Item={**{name: order[name] for name in shown}, **stub})


def _object(name: str, images: list[Any]) -> None:
    """As it was kept first."""
    body = json.dumps({"items": images}).encode()
    try:
        s3.put_object(Bucket=ARCHIVE_BUCKET, Key=name, Body=body, IfNoneMatch="*")
    except ClientError as error:
        if error.response["Error"]["Code"] != "PreconditionFailed":
            raise


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    """Lambda entry point: a batch of a queue's messages."""
    metrics.add_metric(name="Records", unit=MetricUnit.Count, value=len(event["Records"]))
    return process_partial_response(event=event, record_handler=archive_record, processor=queued, context=context)
