"""The usual way's reader that keeps an order's timeline, its customer's activity, the sales of its products, totals."""

from datetime import timedelta
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.dynamo_db_stream_event import DynamoDBRecord
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.typing import LambdaContext
from boto3.dynamodb.conditions import Key

from bench.usual.items import OWNED, deserialize, event_name_of, key, queue, ttl_after
from bench.usual.log import logger, metrics
from bench.usual.once import persistence
from bench.usual.table import client, table, update

ACTIVITY, METRIC = timedelta(days=90), timedelta(days=30)
FILTERS = [{"eventName": ["INSERT", "MODIFY"], "dynamodb": {"NewImage": {"entity": {"S": ["order"]}}}}]
"""Which records it is called for (Lambda developer guide, "Using event filtering with a DynamoDB event source")."""

stream = BatchProcessor(event_type=EventType.DynamoDBStreams)
once_a_record = IdempotencyConfig(event_key_jmespath="eventID")


@idempotent_function(data_keyword_argument="record", config=once_a_record, persistence_store=persistence())
def copy(record: DynamoDBRecord) -> None:
    """Write the copies of a changed order. Sums are added in one transaction, so that they are added once."""
    order = deserialize(record.raw_event["dynamodb"]["NewImage"])
    order_id, at, event = order["order_id"], order["updated_at"], event_name_of(order)
    told = {"order_id": order_id, "customer_id": order["customer_id"], "at": at, "event": event}
    day = at[:10]
    logs = [
        {
            **key(f"o#{order_id}", f"t#{at}#{event}"),
            "entity": "timeline",
            **told,
            "status": order["status"],
            "ttl": ttl_after(OWNED),
        },
        {
            **key(f"c#{order['customer_id']}", f"a#{at}#{order_id}#{event}"),
            "entity": "activity",
            "GSI2PK": queue(f"a#{day}", order_id),
            "GSI2SK": f"{at}#{order_id}",
            **told,
            "ttl": ttl_after(ACTIVITY),
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
    """Return the amounts that a paid order adds to the best sellers of the month and to the metrics of the minute."""
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
        ends=ttl_after(METRIC),
        one=1,
        pieces=order["items"],
        revenue=order["total"],
    )
    return [*sold, counted]


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    """Lambda entry point: a batch of stream records."""
    metrics.add_metric(name="Records", unit=MetricUnit.Count, value=len(event["Records"]))
    once_a_record.register_lambda_context(context)
    return process_partial_response(event=event, record_handler=copy, processor=stream, context=context)
