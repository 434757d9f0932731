"""The worker of the usual shop that issues the invoice of a paid order and requests its shipment."""

import json
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.idempotency import idempotent_function
from aws_lambda_powertools.utilities.typing import LambdaContext
from boto3.dynamodb.conditions import Key

from bench.usual.items import item_ttl, key, now, shard_key
from bench.usual.log import logger, metrics
from bench.usual.once import config, persistence
from bench.usual.table import client, put, table, update

processor = BatchProcessor(event_type=EventType.SQS)
once_an_event = config(event_key_jmespath="powertools_json(body).detail.id")


@idempotent_function(data_keyword_argument="record", config=once_an_event, persistence_store=persistence())
def invoice(record: SQSRecord) -> None:
    """Write the invoice with the next number, the shipment, and the new status of the order in one transaction."""
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
        **item_ttl(),
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
            queue=shard_key("FULFILLING", order_id),
        ),
    ]
    client.transact_write_items(TransactItems=writes)


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    """Lambda entry point: fulfil the orders of a batch of messages."""
    metrics.add_metric(name="Records", unit=MetricUnit.Count, value=len(event["Records"]))
    once_an_event.register_lambda_context(context)
    return process_partial_response(event=event, record_handler=invoice, processor=processor, context=context)
