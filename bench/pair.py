"""Open our shop and the usual shop on one local engine, each with its real handlers and its real stream.

Both shops get the same commands. They share a fake bus, fake queues, fake buckets and fake mails in this process. Like
Lambda, `deliver_all` delivers to a reader only the records that the reader's filters accept.
"""

import contextlib
import gc
import importlib
import io
import json
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from itertools import count
from types import ModuleType
from typing import Any, Protocol

import boto3
import pytest
from moto.core.models import botocore_stubber

from functions.api.http import context
from functions.dynamodb.capacity import READ_OPERATIONS
from functions.handlers.api import handler as api_handler
from functions.model.entities import Address
from functions.model.table import create_table_request
from functions.runtime import clients, environment, secrets
from functions.shop import cancellation, customers, payments, placing, products, shipments
from functions.shop.fulfilment import fulfil_order
from functions.shop.shop import Caller
from local.dynamodb_engine import REGION, Engine
from local.event_source_mappings.filters import FilterCriteria
from stacks import filters
from tests.api.conftest import VARIABLES as API_VARIABLES
from tests.support.harness import PEPPER, READERS, STAFF, WAREHOUSE, WORKERS, ShopHarness, aws_surroundings, run_shop
from tests.support.http_client import JSON, WEBHOOK_SECRETS, Token, http_event, payment_event, stripe_signature

HOME = {"name": "Ann Ash", "street": "1 Elm Row", "postcode": "1010", "city": "Wien", "country": "AT"}
PRICE = 1250
FULL_STOCK = 1_000_000
QUEUE_BATCH = 10
"""The batch size of queues, in both shops."""
ENVIRONMENT = {
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_DEFAULT_REGION": REGION,
    "METRICS_NAMESPACE": "bench",
    "AWS_EC2_METADATA_DISABLED": "true",
    "DELIVERY_STREAM": "activity",
    "WEBHOOK_SECRET": "provider-webhook",
}
USUAL = {False: "usual", True: "promising"}
"""The table name of the usual shop, by whether it keeps the same promises (bench/usual/promises.py)."""
IDEMPOTENCY = "{}-idempotency"
LOGGERS = ("orderstream", "orderstream.counts", "usual")
READER_MODULES = {"copies_reader": "copies", "event_publisher": "publish", "activity_archive": "activity_archive"}
WORKER_MODULES = {"fulfilment": "fulfilment", "order_notification": "notifications", "archive": "archive"}
MODULES = ("api", *READER_MODULES.values(), *WORKER_MODULES.values(), "items", "once", "table")
"""The modules of bench.usual. Each is imported once for each table, because it creates its clients at import."""
unique_numbers = count(1)
Handler = Callable[[dict[str, Any], Any], Any]
Quantities = Mapping[str, int]


@dataclass(frozen=True)
class LambdaContextStub:
    """Replaces the context object that a handler gets from Lambda."""

    function_name: str = "bench"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = f"arn:aws:lambda:{REGION}:123456789012:function:bench"
    aws_request_id: str = "invocation-1"

    def get_remaining_time_in_millis(self) -> int:
        return 120_000


LAMBDA_CONTEXT = LambdaContextStub()


# measuring ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class SentRequest:
    """One request to DynamoDB, with its consumed units."""

    function: str
    operation: str
    body: dict[str, Any]
    units: float


@dataclass
class CapacityMeter:
    """Counts the requests to DynamoDB and their capacity units. `used`: the numbers "requests", "read" and "written",
    by step and function."""

    used: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    sent: list[SentRequest] = field(default_factory=list)
    step: str = ""
    function: str = ""
    _body: dict[str, Any] = field(default_factory=dict)

    def count(self, parsed: Mapping[str, Any], model: Any, **_: Any) -> None:
        consumed = parsed.get("ConsumedCapacity") or []
        units = sum(one["CapacityUnits"] for one in (consumed if isinstance(consumed, list) else [consumed]))
        used = self.used.setdefault((self.step, self.function), Counter())
        used["requests"] += 1
        used["read" if model.name in READ_OPERATIONS else "written"] += units
        self.sent.append(SentRequest(self.function, model.name, self._body, units))

    def record_body(self, params: dict[str, Any], **_: Any) -> None:
        self._body = json.loads(params["body"])

    @contextmanager
    def measure(self, measured: Sequence[Any]) -> Iterator["CapacityMeter"]:
        """Count the requests of these clients in the `with` block."""
        for client in measured:
            client.meta.events.register("before-parameter-build.dynamodb", _request_capacity)
            client.meta.events.register("before-call.dynamodb", self.record_body)
            client.meta.events.register("after-call.dynamodb", self.count)
        try:
            yield self
        finally:
            for client in measured:
                client.meta.events.unregister("before-parameter-build.dynamodb", _request_capacity)
                client.meta.events.unregister("before-call.dynamodb", self.record_body)
                client.meta.events.unregister("after-call.dynamodb", self.count)


def _request_capacity(params: dict[str, Any], model: Any, **_: Any) -> None:
    if "ReturnConsumedCapacity" in model.input_shape.members:
        params["ReturnConsumedCapacity"] = "TOTAL"


class NullStream(io.TextIOBase):
    """A stream that discards all output. Do not close it, because loggers may keep it after the `with` block."""

    def write(self, text: str) -> int:
        return len(text)


@contextmanager
def discard_logs() -> Iterator[None]:
    """Discard logs and metrics in the `with` block. The shop still renders them, so this time counts."""
    nowhere = NullStream()
    with contextlib.redirect_stdout(nowhere):
        handlers = [
            each for name in LOGGERS for each in logging.getLogger(name).handlers if type(each) is logging.StreamHandler
        ]
        streams = [each.setStream(nowhere) for each in handlers]
        try:
            yield
        finally:
            for each, stream in zip(handlers, streams, strict=True):
                each.setStream(stream)


@contextmanager
def without_interference() -> Iterator[None]:
    """Exclude moto's hooks, and the garbage collection of existing objects, from times measured in the `with` block.
    Without these hooks, the block must not send requests to the fake bus, queues and buckets."""
    gc.collect()
    gc.freeze()
    botocore_stubber.enabled = False
    try:
        yield
    finally:
        botocore_stubber.enabled = True
        gc.unfreeze()


# the shops ------------------------------------------------------------------------------------------------------------
class BenchShop(Protocol):
    """The common interface of both shops. `meter`: counts the shop's requests to DynamoDB."""

    harness: ShopHarness
    meter: CapacityMeter

    @property
    def readers(self) -> Mapping[str, tuple[Handler, FilterCriteria]]: ...

    @property
    def workers(self) -> Mapping[str, Handler]: ...

    @property
    def clients(self) -> Sequence[Any]: ...

    def open(self, customer_id: str, product_ids: Sequence[str]) -> None: ...

    def place(self, customer_id: str, key: str, quantities: Quantities) -> str: ...

    def pay(self, order_id: str, amount: int) -> None: ...

    def fulfil(self, order_id: str) -> None: ...

    def ship(self, order_id: str) -> None: ...

    def deliver(self, order_id: str) -> None: ...

    def cancel(self, order_id: str) -> None: ...


@dataclass
class OurShop:
    """Our shop. Its methods call the commands as the API does."""

    harness: ShopHarness
    meter: CapacityMeter = field(default_factory=CapacityMeter)

    @property
    def readers(self) -> Mapping[str, tuple[Handler, FilterCriteria]]:
        patterns = {
            "copies_reader": filters.build_copies_patterns(),
            "event_publisher": filters.build_publisher_patterns(),
        }
        return {name: (READERS[name].handler, FilterCriteria(tuple(each))) for name, each in patterns.items()}

    @property
    def workers(self) -> Mapping[str, Handler]:
        return {name: module.handler for name, module in WORKERS.items()}

    @property
    def clients(self) -> Sequence[Any]:
        return [clients.client("dynamodb")]

    def open(self, customer_id: str, product_ids: Sequence[str]) -> None:
        shop = self.harness.shop
        customers.register_customer(shop, Caller(customer_id), f"{customer_id}@example.com", "Ann Ash")
        for id in product_ids:
            products.create_product(shop, STAFF, id, f"Blue {id}", PRICE, "EUR", 1)
            products.receive_stock(shop, STAFF, f"first {id}", id, FULL_STOCK)

    def place(self, customer_id: str, key: str, quantities: Quantities) -> str:
        wanted = {id: placing.RequestedLine(quantity) for id, quantity in quantities.items()}
        caller, body = Caller(customer_id), {"lines": dict(quantities)}
        return placing.place_order(self.harness.shop, caller, key, wanted, Address(**HOME), body).order.order_id

    def pay(self, order_id: str, amount: int) -> None:
        event = payments.ProviderPaymentEvent(f"evt_{order_id}", f"pi_{order_id}", order_id, "succeeded", amount, "EUR")
        assert payments.record_payment(self.harness.shop, event, {"id": event.event_id}).result["status"] == "CAPTURED"

    def fulfil(self, order_id: str) -> None:
        fulfil_order(self.harness.shop, order_id)

    def ship(self, order_id: str) -> None:
        self.harness.dispatch_order(order_id)

    def deliver(self, order_id: str) -> None:
        shipments.deliver_shipment(self.harness.shop, WAREHOUSE, order_id, f"{order_id}-1")

    def cancel(self, order_id: str) -> None:
        cancellation.cancel_order(self.harness.shop, STAFF, order_id)


@dataclass
class UsualShop:
    """The usual shop. Its methods send requests to the handler of its API. `modules`: of bench.usual, by name."""

    harness: ShopHarness
    modules: Mapping[str, ModuleType]
    meter: CapacityMeter = field(default_factory=CapacityMeter)

    @property
    def readers(self) -> Mapping[str, tuple[Handler, FilterCriteria]]:
        readers = {name: self.modules[module] for name, module in READER_MODULES.items()}
        return {name: (it.handler, FilterCriteria(tuple(map(json.dumps, it.FILTERS)))) for name, it in readers.items()}

    @property
    def workers(self) -> Mapping[str, Handler]:
        return {name: self.modules[module].handler for name, module in WORKER_MODULES.items()}

    @property
    def clients(self) -> Sequence[Any]:
        return [self.modules["table"].client, self.modules["once"].client]

    def ask(
        self, path: str, body: Any = None, *, token: Token | None = None, key: str | None = None, signed: bool = False
    ) -> Any:
        asked = request("POST", path, body, token=token, key=key)
        if signed:
            asked["headers"]["stripe-signature"] = stripe_signature(asked["body"], datetime.now(UTC))
        return send_request(self.modules["api"].handler, asked)

    def open(self, customer_id: str, product_ids: Sequence[str]) -> None:
        customer = {"entity": "customer", "customer_id": customer_id, "name": "Ann Ash"}
        table, key = self.modules["table"].table, self.modules["items"].key
        with table.batch_writer() as batch:
            batch.put_item(Item={**key(f"c#{customer_id}"), **customer, "email": f"{customer_id}@example.com"})
            for id in product_ids:
                product = {"entity": "product", "product_id": id, "name": f"Blue {id}", "price": PRICE}
                batch.put_item(Item={**key(f"p#{id}"), **product, "currency": "EUR"})
                batch.put_item(Item={**key(f"p#{id}", "w#1"), "entity": "stock", "available": FULL_STOCK})

    def place(self, customer_id: str, key: str, quantities: Quantities) -> str:
        return str(self.ask("/orders", new_order(quantities), token=Token(customer_id), key=key)["order_id"])

    def pay(self, order_id: str, amount: int) -> None:
        body = payment_event(order_id, amount, id=f"evt_{order_id}", payment_id=f"pi_{order_id}")
        assert self.ask("/payments/events", body, signed=True)["status"] == "CAPTURED"

    def fulfil(self, order_id: str) -> None:
        body = json.dumps({"detail": {"id": order_id, "type": "OrderPaid", "data": {"order_id": order_id}}})
        self.workers["fulfilment"]({"Records": [to_sqs_record({"messageId": order_id, "body": body})]}, LAMBDA_CONTEXT)

    def ship(self, order_id: str) -> None:
        parcel = {"carrier": "dhl", "tracking_number": "42"}
        self.ask(f"/orders/{order_id}/shipments/{order_id}-1/dispatch", parcel)

    def deliver(self, order_id: str) -> None:
        self.ask(f"/orders/{order_id}/shipments/{order_id}-1/deliver")

    def cancel(self, order_id: str) -> None:
        self.ask(f"/orders/{order_id}/cancel")


def new_order(quantities: Quantities) -> dict[str, Any]:
    """Return the body of POST /orders, which is the same in both shops."""
    return {"lines": [{"product_id": id, "quantity": many} for id, many in quantities.items()], "address": HOME}


def request(
    method: str, path: str, body: Any = None, *, token: Token | None = None, key: str | None = None
) -> dict[str, Any]:
    """Return the event that Lambda gets for a request to an HTTP API."""
    text = None if body is None else json.dumps(body)
    headers = {**(JSON if body is not None else {}), **({"idempotency-key": key} if key is not None else {})}
    return http_event(method, path, token=token, body=text, headers=headers)


def send_request(handler: Handler, of: dict[str, Any]) -> Any:
    """Send a valid request to the handler of an API, and return the body of the answer. `of`: the Lambda event."""
    answer = handler(of, LAMBDA_CONTEXT)
    assert answer["statusCode"] in (200, 201), answer
    return json.loads(answer["body"])


def deliver_all(shop: BenchShop, batches: Callable[[str, list[Any]], object] = lambda name, batch: None) -> None:
    """Deliver all records and messages. `batches`: called before each batch with the function's name and the batch."""
    harness, meter = shop.harness, shop.meter
    while True:
        records = harness.new_records()
        for name, (reader, criteria) in shop.readers.items():
            if accepted := [record for record in records if criteria.matches(record)]:
                meter.function = name
                batches(name, accepted)
                assert reader({"Records": accepted}, LAMBDA_CONTEXT) == {"batchItemFailures": []}
        messages = {name: list(map(to_sqs_record, harness.take_messages(name))) for name in shop.workers}
        for name, waiting in messages.items():
            for batch in (waiting[start : start + QUEUE_BATCH] for start in range(0, len(waiting), QUEUE_BATCH)):
                meter.function = name
                batches(name, batch)
                assert shop.workers[name]({"Records": batch}, LAMBDA_CONTEXT) == {"batchItemFailures": []}
        if not records and not any(messages.values()):
            return


def to_sqs_record(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a queue's message as a record of the event that Lambda passes to a function."""
    return {"receiptHandle": "r", "attributes": {}, "messageAttributes": {}, "eventSource": "aws:sqs", **message}


# opening a shop -------------------------------------------------------------------------------------------------------
@contextmanager
def open_environment(engine: Engine) -> Iterator[tuple[pytest.MonkeyPatch, dict[str, str]]]:
    """Set the environment variables of both shops, without AWS credentials. Yields the patch and the URLs of queues."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        patch.delenv("AWS_PROFILE", raising=False)
        with aws_surroundings(engine) as queues, discard_logs():
            yield patch, queues


@contextmanager
def open_our_shop(engine: Engine, queues: dict[str, str]) -> Iterator[OurShop]:
    """Open our shop with a new, empty table."""
    name = f"bench-{os.getpid()}-{next(unique_numbers)}"
    engine.create_table(name, create_table_request(name))
    with pytest.MonkeyPatch.context() as patch, run_shop(engine, queues, name, patch) as harness:
        yield OurShop(harness)


@contextmanager
def open_usual_shop(engine: Engine, queues: dict[str, str], same_promises: bool = False) -> Iterator[UsualShop]:
    """Open the usual shop with an empty table. Its modules know one table name, so it deletes the old table first."""
    table = USUAL[same_promises]
    idempotency = IDEMPOTENCY.format(table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IDEMPOTENCY_TABLE", idempotency)
        patch.setenv("PROMISES", "same" if same_promises else "")
        with run_shop(engine, queues, table, patch) as harness:
            create_secret_and_firehose()
            shop = UsualShop(harness, import_modules(same_promises))
            assert shop.clients[0].meta.endpoint_url == engine.endpoint, "one engine for each process"
            for name, asked_for in (
                (table, shop.modules["table"].create_table_request(table)),
                (idempotency, shop.modules["once"].create_table_request(idempotency)),
            ):
                with contextlib.suppress(engine.dynamodb().exceptions.ResourceNotFoundException):
                    engine.dynamodb().delete_table(TableName=name)
                engine.create_table(name, asked_for)
            harness.new_records()
            with discard_logs():  # the import of the modules may have added loggers
                yield shop


def create_secret_and_firehose() -> None:
    """Create the webhook secret and the Firehose stream of the usual shop."""
    boto3.client("secretsmanager").create_secret(
        Name=ENVIRONMENT["WEBHOOK_SECRET"], SecretString=WEBHOOK_SECRETS["current"]
    )
    firehose, name = boto3.client("firehose"), ENVIRONMENT["DELIVERY_STREAM"]
    if name not in firehose.list_delivery_streams()["DeliveryStreamNames"]:
        bucket = {"RoleARN": "arn:aws:iam::123456789012:role/firehose", "BucketARN": "arn:aws:s3:::archive"}
        firehose.create_delivery_stream(
            DeliveryStreamName=name, ExtendedS3DestinationConfiguration={**bucket, "Prefix": "activity/"}
        )


@cache
def import_modules(same_promises: bool) -> dict[str, ModuleType]:
    """Import the modules of the usual shop, once for each value of `same_promises`. First set the environment
    variables, because the modules read them at import."""
    for name in [name for name in sys.modules if name.startswith("bench.usual.")]:
        del sys.modules[name]
    found = {name: importlib.import_module(f"bench.usual.{name}") for name in MODULES}
    assert found["copies"].SAME_PROMISES is same_promises
    return found


@contextmanager
def our_api() -> Iterator[Handler]:
    """Yield the handler of our API. It uses the table of our open shop."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in API_VARIABLES.items():
            patch.setenv(name, value)
        secretsmanager = boto3.client("secretsmanager", region_name=REGION)
        secretsmanager.create_secret(Name=API_VARIABLES["PEPPER_SECRET"], SecretString=PEPPER.decode())
        for cache in (environment.load_environment, context.shop, secrets.get_secret):
            cache.cache_clear()
        yield api_handler
        for cache in (environment.load_environment, context.shop, secrets.get_secret):
            cache.cache_clear()
