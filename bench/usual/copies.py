"""The stream reader of the usual shop that writes timelines, activity, sales and totals when an order changes."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.dynamo_db_stream_event import DynamoDBRecord
from aws_lambda_powertools.utilities.idempotency import idempotent_function
from aws_lambda_powertools.utilities.typing import LambdaContext
from boto3.dynamodb.conditions import Key

from bench.usual.items import deserialize, event_name_of, item_ttl, key, shard_key, ttl_after
from bench.usual.log import logger, metrics
from bench.usual.once import config, persistence
from bench.usual.promises import IDEMPOTENCY_RETENTION, SAME_PROMISES
from bench.usual.table import client, put, table, update

ACTIVITY_RETENTION, METRIC_RETENTION = timedelta(days=90), timedelta(days=30)
FILTERS = [{"eventName": ["INSERT", "MODIFY"], "dynamodb": {"NewImage": {"entity": {"S": ["order"]}}}}]
"""The event filter (Lambda developer guide, "Using event filtering with a DynamoDB event source")."""

processor = BatchProcessor(event_type=EventType.DynamoDBStreams)
once_a_record = config(event_key_jmespath="eventID")


@idempotent_function(data_keyword_argument="record", config=once_a_record, persistence_store=persistence())
def copy(record: DynamoDBRecord) -> None:
    """Write the copies of a changed order. If it was paid, one transaction adds it to all totals."""
    order = deserialize(record.raw_event["dynamodb"]["NewImage"])
    lines = lines_of(order["order_id"]) if order["status"] == "PAID" else []
    with table.batch_writer() as batch:
        for item in (*logs(order), *(sale(line) for line in lines)):
            batch.put_item(Item=item)
    if lines:
        client.transact_write_items(TransactItems=totals(order, lines))


def copy_with_conditions(record: DynamoDBRecord) -> None:
    """Write the copies of a changed order with a condition each. A mark item prevents that totals are added again."""
    order = deserialize(record.raw_event["dynamodb"]["NewImage"])
    order_id = order["order_id"]
    for item in logs(order):
        write_once(table.put_item, Item=item, ConditionExpression="attribute_not_exists(PK)")
    if order["status"] != "PAID":
        return
    lines = lines_of(order_id)
    for line in lines:
        of_sale = {f":{name}": value for name, value in sale(line).items() if name.startswith("GSI")}
        write_once(
            table.update_item,
            Key=key(line["PK"], line["SK"]),
            UpdateExpression=f"SET {', '.join(f'{name[1:]} = {name}' for name in of_sale)}",
            ConditionExpression="attribute_exists(PK) AND attribute_not_exists(GSI1PK)",
            ExpressionAttributeValues=of_sale,
        )
    mark = {**key(f"counted#{order_id}"), "entity": "counted", "ttl": ttl_after(IDEMPOTENCY_RETENTION)}
    write_once(client.transact_write_items, TransactItems=[*totals(order, lines), put(mark)])


def write_once(write: Callable[..., Any], **request: Any) -> None:
    """Send a conditional write. A failed condition means that an earlier delivery of the record wrote it."""
    try:
        write(**request)
    except client.exceptions.ConditionalCheckFailedException:
        return
    except client.exceptions.TransactionCanceledException as error:
        if error.response["CancellationReasons"][-1]["Code"] != "ConditionalCheckFailed":
            raise


def logs(order: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of a change in the order's timeline and in the customer's activity."""
    order_id, at, event = order["order_id"], order["updated_at"], event_name_of(order)
    entry = {"order_id": order_id, "customer_id": order["customer_id"], "at": at, "event": event}
    day = at[:10]
    return [
        {
            **key(f"o#{order_id}", f"t#{at}#{event}"),
            "entity": "timeline",
            **entry,
            "status": order["status"],
            **item_ttl(),
        },
        {
            **key(f"c#{order['customer_id']}", f"a#{at}#{order_id}#{event}"),
            "entity": "activity",
            "GSI2PK": shard_key(f"a#{day}", order_id),
            "GSI2SK": f"{at}#{order_id}",
            **entry,
            "ttl": ttl_after(ACTIVITY_RETENTION),
        },
    ]


def lines_of(order_id: str) -> list[dict[str, Any]]:
    found = table.query(KeyConditionExpression=Key("PK").eq(f"o#{order_id}") & Key("SK").begins_with("p#"))
    return list(found["Items"])


def sale(line: dict[str, Any]) -> dict[str, Any]:
    """Return a paid line with its index keys, by which it is found by product and by customer."""
    at, order_id, product_id = line["placed_at"], line["order_id"], line["product_id"]
    return {
        **line,
        "GSI1PK": f"p#{product_id}",
        "GSI1SK": f"{at}#{order_id}",
        "GSI2PK": f"c#{line['customer_id']}",
        "GSI2SK": f"p#{at}#{order_id}#{product_id}",
    }


def totals(order: dict[str, Any], lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the updates that add a paid order to the best sellers of its month and the metrics of its minute."""
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
    shard = shard_key("metric", order["order_id"])
    counted = update(
        key(shard, f"{minute}#{order['currency']}"),
        "SET entity = :entity, #ttl = :ends ADD orders :one, pieces :pieces, revenue :revenue",
        None,
        entity="metric",
        ends=ttl_after(METRIC_RETENTION),
        one=1,
        pieces=order["items"],
        revenue=order["total"],
    )
    return [*sold, counted]


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    """Lambda entry point: write the copies of a batch of stream records."""
    metrics.add_metric(name="Records", unit=MetricUnit.Count, value=len(event["Records"]))
    once_a_record.register_lambda_context(context)
    written = copy_with_conditions if SAME_PROMISES else copy
    return process_partial_response(event=event, record_handler=written, processor=processor, context=context)
