"""Measure POST /orders with 1, 5 and 50 lines: the processor time of a call, and its requests to DynamoDB.

The API's real handler gets the event of a request. It is compared with a floor: a minimal handler for the same request.
The floor parses the body as JSON without checks, sends one BatchGetItem and one TransactWriteItems request with a plain
boto3 client, and writes the order as one item. The processor time of the local engine is not included.
"""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import boto3

from functions.handlers.api import handler as api_handler
from local.world.dynamodb_engine import REGION, Engine
from proof.bench import measured_shop
from proof.bench.measure import Figure, exact, measure_in_turns
from proof.bench.measured_shop import PRICE, BenchShop, Handler
from proof.support.http_client import Token, json_event, order_body

LINES = (1, 5, 50)
ROUNDS = 15
CALLS = {1: 8, 5: 8, 50: 2}
"""The number of calls in a round, by the number of order lines. A longer call needs fewer calls for an exact time."""


def figures(engine: Engine) -> list[Figure]:
    """Return the processor milliseconds and the requests of placing an order, by its number of lines."""
    with ExitStack() as stack:
        _, queues = stack.enter_context(measured_shop.open_environment(engine))
        shop = stack.enter_context(measured_shop.open_shop(engine, queues))
        stack.enter_context(measured_shop.open_api())
        return [figure for lines in LINES for figure in _figures_of(lines, shop)]


def _figures_of(lines: int, shop: BenchShop) -> list[Figure]:
    customer_id = f"ann-{next(measured_shop.unique_numbers)}"
    ids = [f"product-{number:02}-{customer_id}" for number in range(lines)]
    shop.open(customer_id, ids)
    bare = MinimalHandler(boto3.client("dynamodb", region_name=REGION), shop.harness.shop.table.name)
    handlers: dict[str, Handler] = {"ours": api_handler, "floor": bare}
    calls = 1 + (1 + ROUNDS) * CALLS[lines]
    ways = {name: PlaceOrders(handler, customer_id, ids, calls) for name, handler in handlers.items()}
    sent = _count_requests(shop, ways["ours"])
    with measured_shop.without_interference():
        took = measure_in_turns(ways, rounds=ROUNDS, times=CALLS[lines], clock=_milliseconds)
    called = f"POST /orders, {lines} line{'s' * (lines > 1)}"
    return [
        Figure(f"{called}: processor", "ms", took["ours"], took["floor"]),
        Figure(f"{called}: requests", "requests", exact(sent), exact(2)),
    ]


def _milliseconds() -> float:
    return time.process_time() * 1000


def _count_requests(shop: BenchShop, place: Callable[[], object]) -> int:
    shop.meter.sent.clear()
    with shop.meter.measure():
        place()
    return len(shop.meter.sent)


class PlaceOrders:
    """Places a new order of the same products at each call. `calls`: how many orders it can place."""

    def __init__(self, handler: Handler, customer_id: str, ids: Sequence[str], calls: int) -> None:
        token, body = Token(customer_id), order_body(**dict.fromkeys(ids, 2))
        self._handler = handler
        self._events = [json_event("POST", "/orders", token, body, key=f"key-{n}") for n in range(calls)]

    def __call__(self) -> None:
        answer = self._handler(self._events.pop(), measured_shop.LAMBDA_CONTEXT)
        assert answer["statusCode"] == 201, answer


@dataclass(frozen=True)
class MinimalHandler:
    """The lower bound: a handler that trusts all its input."""

    client: Any
    table_name: str

    def __call__(self, event: dict[str, Any], _context: Any) -> dict[str, Any]:
        wanted = {line["product_id"]: line["quantity"] for line in json.loads(event["body"])["lines"]}
        customer_id = event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"]
        order_id = hashlib.sha256(f"bare {customer_id} {event['headers']['idempotency-key']}".encode()).hexdigest()[:26]
        keys = [_key(f"CUSTOMER#{customer_id}", "PROFILE"), *(_key(f"PRODUCT#{id}", "PRODUCT") for id in wanted)]
        found = self.client.batch_get_item(RequestItems={self.table_name: {"Keys": keys}})
        products = {
            item["product_id"]["S"]: item
            for item in found["Responses"][self.table_name]
            if item["type"]["S"] == "Product"
        }
        lines = {
            id: {"M": {"name": products[id]["name"], "price": products[id]["price"], "quantity": {"N": str(quantity)}}}
            for id, quantity in wanted.items()
        }
        order = {
            **_key(f"ORDER#{order_id}", "ORDER"),
            "GSI2PK": {"S": "STATUS#PENDING#0"},
            "GSI2SK": {"S": order_id},
            "type": {"S": "Bare"},
            "order_id": {"S": order_id},
            "customer_id": {"S": customer_id},
            "lines": {"M": lines},
        }
        put = {"TableName": self.table_name, "Item": order, "ConditionExpression": "attribute_not_exists(PK)"}
        stock = [
            {
                "Update": {
                    "TableName": self.table_name,
                    "Key": _key(f"STOCK#{id}#000", "STOCK"),
                    "UpdateExpression": "ADD available :less",
                    "ConditionExpression": "available >= :wanted",
                    "ExpressionAttributeValues": {":less": {"N": str(-many)}, ":wanted": {"N": str(many)}},
                }
            }
            for id, many in wanted.items()
        ]
        self.client.transact_write_items(TransactItems=[{"Put": put}, *stock])
        total = sum(PRICE * quantity for quantity in wanted.values())
        return {"statusCode": 201, "body": json.dumps({"order_id": order_id, "total": total})}


def _key(partition: str, sort: str) -> dict[str, Any]:
    return {"PK": {"S": partition}, "SK": {"S": sort}}
