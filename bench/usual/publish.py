"""The stream reader of the usual shop that publishes events to the bus."""

import json
import os
from typing import Any

import boto3
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.dynamo_db_stream_event import DynamoDBRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from bench.usual.items import deserialize, event_name_of
from bench.usual.log import logger, metrics

SOURCE = "orderstream"
BUS_NAME = os.environ["BUS_NAME"]
EVENT_NAMES = {"payment": "PaymentCaptured", "invoice": "InvoiceIssued", "shipment": "Shipment"}
EXPIRED = {"type": ["Service"], "principalId": ["dynamodb.amazonaws.com"]}
FILTERS = [
    {
        "eventName": ["INSERT", "MODIFY"],
        "dynamodb": {"NewImage": {"entity": {"S": ["order", "stub", "payment", "invoice", "shipment"]}}},
    },
    {
        "eventName": ["REMOVE"],
        "dynamodb": {"OldImage": {"entity": {"S": ["order", "expiry"]}}},
        "userIdentity": EXPIRED,
    },
]
"""The event filter: changed items, and expired items that start the archiving of an order."""

events: Any = boto3.client("events")
processor = BatchProcessor(event_type=EventType.DynamoDBStreams)


def publish_record(record: DynamoDBRecord) -> None:
    """Publish one event for one record. A batch of events could fail in part, and a record handler gets one record."""
    change = record.raw_event["dynamodb"]
    gone = record.raw_event["eventName"] == "REMOVE"
    image = change["OldImage" if gone else "NewImage"]
    item = deserialize(image)
    detail = {
        "id": record.raw_event["eventID"],
        "type": event_of(item, gone),
        "data": {name: value for name, value in item.items() if name in ("order_id", "customer_id", "status", "total")},
        **({"image": image} if gone else {}),
    }
    if item["entity"] == "shipment":
        detail["data"] |= {"shipment_id": item["shipment_id"], "quantities": item["quantities"]}
    entry = {"Source": SOURCE, "DetailType": detail["type"], "EventBusName": BUS_NAME}
    answer = events.put_events(Entries=[{**entry, "Detail": json.dumps(detail, default=int)}])
    if answer["FailedEntryCount"]:
        raise RuntimeError(answer["Entries"][0]["ErrorCode"])


def event_of(item: dict[str, Any], gone: bool) -> str:
    entity = item["entity"]
    if gone:
        return "OrderExpired"
    if entity in ("order", "stub"):
        return event_name_of({"status": "ARCHIVED"} if entity == "stub" else item)
    return EVENT_NAMES[entity] + (item["status"].capitalize() if entity == "shipment" else "")


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    """Lambda entry point: publish the events of a batch of stream records."""
    metrics.add_metric(name="Records", unit=MetricUnit.Count, value=len(event["Records"]))
    return process_partial_response(event=event, record_handler=publish_record, processor=processor, context=context)
