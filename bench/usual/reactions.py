"""What follows in the usual way: two readers of the stream and three workers of queues, each a Powertools batch.

`copies` keeps an order's timeline, its customer's activity, the sales of its products and the totals; `publish` tells
the bus; `fulfil`, `notify` and `archive` work what the bus puts into their queues.
"""

import json
import os
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.dynamo_db_stream_event import DynamoDBRecord
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.typing import LambdaContext
from boto3.dynamodb.conditions import Key
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from bench.usual.table import client, dynamodb, key, logger, metrics, now, persistence, put, queue, table, update

SOURCE = "orderstream"
BUS_NAME = os.environ["BUS_NAME"]
ARCHIVE_BUCKET = os.environ["ARCHIVE_BUCKET"]
SENDER = os.environ["SENDER"]
ACTIVITY, NOTIFICATION, METRIC = timedelta(days=90), timedelta(days=180), timedelta(days=30)
NAMES = {"PENDING": "OrderPlaced", "ARCHIVED": "OrderArchived"}
PLACES = {"payment": "PaymentCaptured", "invoice": "InvoiceIssued", "shipment": "Shipment"}
SUBJECTS = {
    "OrderPlaced": "We have your order",
    "OrderPaid": "Your order is paid",
    "OrderShipped": "Your order is on its way",
    "OrderDelivered": "Your order has arrived",
}
EXPIRED = {"type": ["Service"], "principalId": ["dynamodb.amazonaws.com"]}
FILTERS = {
    "copies": [{"eventName": ["INSERT", "MODIFY"], "dynamodb": {"NewImage": {"entity": {"S": ["order"]}}}}],
    "publish": [
        {
            "eventName": ["INSERT", "MODIFY"],
            "dynamodb": {"NewImage": {"entity": {"S": ["order", "stub", "payment", "invoice", "shipment"]}}},
        },
        {
            "eventName": ["REMOVE"],
            "dynamodb": {"OldImage": {"entity": {"S": ["order", "activity"]}}},
            "userIdentity": EXPIRED,
        },
    ],
}
"""Which records each reader is called for (Lambda developer guide, "Using event filtering with a DynamoDB event
source")."""

events: Any = boto3.client("events")
s3: Any = boto3.client("s3")
mails: Any = boto3.client("sesv2")
stream = BatchProcessor(event_type=EventType.DynamoDBStreams)
queued = BatchProcessor(event_type=EventType.SQS)
once_per_record = IdempotencyConfig(event_key_jmespath="eventID")
once_per_event = IdempotencyConfig(event_key_jmespath="powertools_json(body).detail.id")
_deserializer, _serializer = TypeDeserializer(), TypeSerializer()


def plain(image: dict[str, Any]) -> dict[str, Any]:
    """An image's attributes as Python's types."""
    return {name: _deserializer.deserialize(value) for name, value in image.items()}


def ends(after: timedelta) -> int:
    return int((datetime.now(UTC) + after).timestamp())


def named(order: dict[str, Any]) -> str:
    """What happened to an order that is as this now."""
    return NAMES.get(order["status"], f"Order{order['status'].capitalize()}")


# copies ---------------------------------------------------------------------------------------------------------------
@idempotent_function(data_keyword_argument="record", config=once_per_record, persistence_store=persistence())
def copy(record: DynamoDBRecord) -> None:
    """The copies of an order that changed. What adds up is added in one transaction, so that it is added once."""
    order = plain(record.raw_event["dynamodb"]["NewImage"])
    order_id, at, event = order["order_id"], order["updated_at"], named(order)
    told = {"order_id": order_id, "customer_id": order["customer_id"], "at": at, "event": event}
    day = at[:10]
    logs = [
        {**key(f"o#{order_id}", f"t#{at}#{event}"), "entity": "timeline", **told, "status": order["status"]},
        {
            **key(f"c#{order['customer_id']}", f"a#{at}#{order_id}#{event}"),
            "entity": "activity",
            "GSI2PK": queue(f"a#{day}", order_id),
            "GSI2SK": f"{at}#{order_id}",
            **told,
            "ttl": ends(ACTIVITY),
        },
    ]
    lines = lines_of(order_id) if order["status"] == "PAID" else []
    with table.batch_writer() as batch:
        for item in (*logs, *(sale(line) for line in lines)):
            batch.put_item(Item=item)
    if lines:
        client.transact_write_items(TransactItems=totals(order, lines))


def lines_of(order_id: str) -> list[dict[str, Any]]:
    found = table.query(KeyConditionExpression=Key("PK").eq(f"o#{order_id}") & Key("SK").begins_with("p#"))
    return list(found["Items"])


def sale(line: dict[str, Any]) -> dict[str, Any]:
    """A line that is paid for is found by its product and by its customer."""
    at, order_id, product_id = line["placed_at"], line["order_id"], line["product_id"]
    return {
        **line,
        "GSI1PK": f"p#{product_id}",
        "GSI1SK": f"{at}#{order_id}",
        "GSI2PK": f"c#{line['customer_id']}",
        "GSI2SK": f"p#{at}#{order_id}#{product_id}",
    }


def totals(order: dict[str, Any], lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a paid order adds to the best sellers of the month and to the metrics of the minute."""
    minute, season = order["paid_at"][:16], order["paid_at"][:7]
    sold = [
        update(
            key(f"p#{line['product_id']}", f"season#{season}"),
            "SET entity = :entity, season = :season, product_id = :product ADD units :units",
            None,
            entity="bestSeller",
            season=season,
            product=line["product_id"],
            units=line["quantity"],
        )
        for line in lines
    ]
    shard = queue("metric", order["order_id"])
    counted = update(
        key(shard, f"{minute}#{order['currency']}"),
        "SET entity = :entity, #ttl = :ends ADD orders :one, pieces :pieces, revenue :revenue",
        None,
        entity="metric",
        ends=ends(METRIC),
        one=1,
        pieces=order["items"],
        revenue=order["total"],
    )
    return [*sold, counted]


@logger.inject_lambda_context
@metrics.log_metrics
def copies(event: dict[str, Any], context: LambdaContext) -> Any:
    """Lambda entry point: a batch of stream records."""
    metrics.add_metric(name="Records", unit=MetricUnit.Count, value=len(event["Records"]))
    once_per_record.register_lambda_context(context)
    return process_partial_response(event=event, record_handler=copy, processor=stream, context=context)


# publish --------------------------------------------------------------------------------------------------------------
def tell(record: DynamoDBRecord) -> None:
    """One event for one record: a batch of entries could fail in part, and a record handler has one record."""
    change = record.raw_event["dynamodb"]
    gone = record.raw_event["eventName"] == "REMOVE"
    image = change["OldImage" if gone else "NewImage"]
    item = plain(image)
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
        return "OrderExpired" if entity == "order" else "ActivityExpired"
    if entity in ("order", "stub"):
        return named({"status": "ARCHIVED"} if entity == "stub" else item)
    return PLACES[entity] + (item["status"].capitalize() if entity == "shipment" else "")


@logger.inject_lambda_context
@metrics.log_metrics
def publish(event: dict[str, Any], context: LambdaContext) -> Any:
    """Lambda entry point: a batch of stream records."""
    metrics.add_metric(name="Records", unit=MetricUnit.Count, value=len(event["Records"]))
    return process_partial_response(event=event, record_handler=tell, processor=stream, context=context)


# fulfilment -----------------------------------------------------------------------------------------------------------
@idempotent_function(data_keyword_argument="record", config=once_per_event, persistence_store=persistence())
def invoice(record: SQSRecord) -> None:
    """The invoice with the next number, the shipment with an item for each product, and the order's state: one
    transaction."""
    order_id = json.loads(record.body)["detail"]["data"]["order_id"]
    found = table.query(KeyConditionExpression=Key("PK").eq(f"o#{order_id}"))["Items"]
    order = next(item for item in found if item["entity"] == "order")
    lines = [item for item in found if item["entity"] == "orderItem"]
    payments = [item for item in found if item["entity"] == "payment"]
    customer_id, at = order["customer_id"], now()
    customer = table.get_item(Key=key(f"c#{customer_id}"))["Item"]
    series = at[:4]
    last = int(table.get_item(Key=key(f"series#{series}")).get("Item", {}).get("last", 0))
    number = f"{series}-{last + 1:08}"
    issued = {
        **key(f"o#{order_id}", f"i#{number}"),
        "entity": "invoice",
        "GSI1PK": f"i#{number}",
        "GSI1SK": f"i#{number}",
        "GSI2PK": f"c#{customer_id}",
        "GSI2SK": f"i#{at}#{number}",
        "invoice_id": number,
        "order_id": order_id,
        "customer_id": customer_id,
        "name": customer["name"],
        "address": order["address"],
        "issued_at": at,
        "currency": order["currency"],
        "total": order["total"],
        "lines": {line["product_id"]: {name: line[name] for name in ("name", "price", "quantity")} for line in lines},
        "payments": [{"payment_id": one["payment_id"], "amount": one["amount"]} for one in payments],
    }
    shipment_id = f"{order_id}-1"
    shipment = {
        **key(f"o#{order_id}", f"sh#{shipment_id}"),
        "entity": "shipment",
        "order_id": order_id,
        "shipment_id": shipment_id,
        "customer_id": customer_id,
        "status": "REQUESTED",
        "quantities": {line["product_id"]: line["quantity"] for line in lines},
        "created_at": at,
        "updated_at": at,
    }
    writes = [
        update(
            key(f"series#{series}"),
            "SET #last = :next",
            "attribute_not_exists(#last) OR #last = :before",
            next=last + 1,
            before=last,
        ),
        put(issued),
        put(shipment),
        update(
            key(f"o#{order_id}"),
            "SET #status = :after, updated_at = :at, GSI2PK = :queue",
            "#status = :before",
            before="PAID",
            after="FULFILLING",
            at=at,
            queue=queue("FULFILLING", order_id),
        ),
    ]
    client.transact_write_items(TransactItems=writes)


@logger.inject_lambda_context
@metrics.log_metrics
def fulfil(event: dict[str, Any], context: LambdaContext) -> Any:
    """Lambda entry point: a batch of a queue's messages."""
    metrics.add_metric(name="Records", unit=MetricUnit.Count, value=len(event["Records"]))
    once_per_event.register_lambda_context(context)
    return process_partial_response(event=event, record_handler=invoice, processor=queued, context=context)


# notifications --------------------------------------------------------------------------------------------------------
@idempotent_function(data_keyword_argument="record", config=once_per_event, persistence_store=persistence())
def mail(record: SQSRecord) -> None:
    """Write to the customer, unless they do not want it, and keep that it was sent."""
    told = json.loads(record.body)["detail"]
    order_id, customer_id = told["data"]["order_id"], told["data"]["customer_id"]
    keys = [key(f"c#{customer_id}"), key(f"c#{customer_id}", "settings#notifications")]
    found = dynamodb.batch_get_item(RequestItems={table.name: {"Keys": keys}})["Responses"][table.name]
    customer = next(item for item in found if item["entity"] == "customer")
    if any(item.get("email") is False for item in found if item["entity"] == "settings"):
        return
    header_and_lines = Key("PK").eq(f"o#{order_id}") & Key("SK").between(f"o#{order_id}", "p#~")
    order, *lines = table.query(KeyConditionExpression=header_and_lines)["Items"]
    text = [f"{line['quantity']} {line['name']} at {line['price']}" for line in lines if line["entity"] == "orderItem"]
    said = "\n".join([f"Dear {customer['name']},", *text, f"{order['total']} {order['currency']}"])
    body = {"Text": {"Data": said}, "Html": {"Data": f"<p>{said}</p>"}}
    sent = mails.send_email(
        FromEmailAddress=SENDER,
        Destination={"ToAddresses": [customer["email"]]},
        Content={"Simple": {"Subject": {"Data": SUBJECTS[told["type"]]}, "Body": body}},
    )
    at = now()
    table.put_item(
        Item={
            **key(f"c#{customer_id}", f"n#{at}#{told['id']}"),
            "entity": "notification",
            "GSI1PK": f"o#{order_id}",
            "GSI1SK": f"n#{at}#{told['id']}",
            "customer_id": customer_id,
            "order_id": order_id,
            "event": told["type"],
            "status": "SENT",
            "message_id": sent["MessageId"],
            "at": at,
            "ttl": ends(NOTIFICATION),
        }
    )


@logger.inject_lambda_context
@metrics.log_metrics
def notify(event: dict[str, Any], context: LambdaContext) -> Any:
    """Lambda entry point: a batch of a queue's messages."""
    metrics.add_metric(name="Records", unit=MetricUnit.Count, value=len(event["Records"]))
    once_per_event.register_lambda_context(context)
    return process_partial_response(event=event, record_handler=mail, processor=queued, context=context)


# archive --------------------------------------------------------------------------------------------------------------
def keep(record: SQSRecord) -> None:
    """An entry of activity by its own name, which needs no more to be kept once; an order with all it owned."""
    told = json.loads(record.body)["detail"]
    if told["type"] == "OrderExpired":
        keep_order(record=record)
        return
    item = plain(told["image"])
    _object(f"activity/day={item['at'][:10]}/{told['id']}.json", [told["image"]])


@idempotent_function(data_keyword_argument="record", config=once_per_event, persistence_store=persistence())
def keep_order(record: SQSRecord) -> None:
    """One object; then all of it goes but the invoice, and a stub takes its place. A second time there would be nothing
    left to keep, and the object would be written over."""
    image = json.loads(record.body)["detail"]["image"]
    order = plain(image)
    order_id = order["order_id"]
    owned = table.query(KeyConditionExpression=Key("PK").eq(f"o#{order_id}"))["Items"]
    images = [{name: _serializer.serialize(value) for name, value in item.items()} for item in owned]
    object_key = f"orders/{order_id}.json"
    _object(object_key, [image, *images])
    shown = ("order_id", "customer_id", "status", "placed_at", "updated_at", "currency", "total", "GSI1PK", "GSI1SK")
    stub = {**key(f"o#{order_id}"), "entity": "stub", "object_key": object_key, "archived_at": now()}
    with table.batch_writer() as batch:
        batch.put_item(Item={**{name: order[name] for name in shown}, **stub})
        for item in owned:
            if item["entity"] != "invoice":
                batch.delete_item(Key={"PK": item["PK"], "SK": item["SK"]})


def _object(name: str, images: list[Any]) -> None:
    s3.put_object(Bucket=ARCHIVE_BUCKET, Key=name, Body=json.dumps({"items": images}).encode())


@logger.inject_lambda_context
@metrics.log_metrics
def archive(event: dict[str, Any], context: LambdaContext) -> Any:
    """Lambda entry point: a batch of a queue's messages."""
    metrics.add_metric(name="Records", unit=MetricUnit.Count, value=len(event["Records"]))
    once_per_event.register_lambda_context(context)
    return process_partial_response(event=event, record_handler=keep, processor=queued, context=context)
