"""The worker of the usual shop that sends mails to customers."""

import json
import os
from datetime import timedelta
from typing import Any

import boto3
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.idempotency import idempotent_function
from aws_lambda_powertools.utilities.typing import LambdaContext
from boto3.dynamodb.conditions import Key

from bench.usual.items import key, now, ttl_after
from bench.usual.log import logger, metrics
from bench.usual.once import config, persistence
from bench.usual.table import dynamodb, table

SENDER = os.environ["SENDER"]
NOTIFICATION_RETENTION = timedelta(days=180)
SUBJECTS = {
    "OrderPlaced": "We have your order",
    "OrderPaid": "Your order is paid",
    "OrderShipped": "Your order is on its way",
    "OrderDelivered": "Your order has arrived",
}

mails: Any = boto3.client("sesv2")
processor = BatchProcessor(event_type=EventType.SQS)
once_an_event = config(event_key_jmespath="powertools_json(body).detail.id")


@idempotent_function(data_keyword_argument="record", config=once_an_event, persistence_store=persistence())
def mail(record: SQSRecord) -> None:
    """Send the mail about an event, unless the customer declined mails, and store a notification."""
    detail = json.loads(record.body)["detail"]
    order_id, customer_id = detail["data"]["order_id"], detail["data"]["customer_id"]
    keys = [key(f"c#{customer_id}"), key(f"c#{customer_id}", "settings#notifications")]
    found = dynamodb.batch_get_item(RequestItems={table.name: {"Keys": keys}})["Responses"][table.name]
    customer = next(item for item in found if item["entity"] == "customer")
    if any(item.get("email") is False for item in found if item["entity"] == "settings"):
        return
    header_and_lines = Key("PK").eq(f"o#{order_id}") & Key("SK").between(f"o#{order_id}", "p#~")
    order, *lines = table.query(KeyConditionExpression=header_and_lines)["Items"]
    text = [f"{line['quantity']} {line['name']} at {line['price']}" for line in lines if line["entity"] == "orderItem"]
    message = "\n".join([f"Dear {customer['name']},", *text, f"{order['total']} {order['currency']}"])
    body = {"Text": {"Data": message}, "Html": {"Data": f"<p>{message}</p>"}}
    sent = mails.send_email(
        FromEmailAddress=SENDER,
        Destination={"ToAddresses": [customer["email"]]},
        Content={"Simple": {"Subject": {"Data": SUBJECTS[detail["type"]]}, "Body": body}},
    )
    at = now()
    table.put_item(
        Item={
            **key(f"c#{customer_id}", f"n#{at}#{detail['id']}"),
            "entity": "notification",
            "GSI1PK": f"o#{order_id}",
            "GSI1SK": f"n#{at}#{detail['id']}",
            "customer_id": customer_id,
            "order_id": order_id,
            "event": detail["type"],
            "status": "SENT",
            "message_id": sent["MessageId"],
            "at": at,
            "ttl": ttl_after(NOTIFICATION_RETENTION),
        }
    )


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    """Lambda entry point: send the mails of a batch of messages."""
    metrics.add_metric(name="Records", unit=MetricUnit.Count, value=len(event["Records"]))
    once_an_event.register_lambda_context(context)
    return process_partial_response(event=event, record_handler=mail, processor=processor, context=context)
