"""Runs the whole shop in one process for tests, with the real Lambda handlers.

The local DynamoDB engine has its real stream records, and moto simulates S3, EventBridge, SQS and SES. Nothing runs in
the background: a test calls `process_all`.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from types import MappingProxyType, ModuleType
from typing import Any

import jsonpath_ng.ext.parser
import pytest
from moto import backend_index, mock_aws
from moto.core import responses
from moto.core.base_backend import BaseBackend
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from moto.secretsmanager.models import secretsmanager_backends
from moto.ses.models import ses_backends
from moto.sqs.models import SQSBackend, sqs_backends

from functions.adapters import payment_provider
from functions.handlers import order_deadlines
from functions.model import reactions
from functions.model.entities import Address
from functions.runtime import clients, environment, secrets, subscriptions
from functions.shop import customers, orders, payments, placing, products, shipments
from functions.shop.shop import Caller, ShopContext
from local.event_source_mappings.records import is_unchanged, to_lambda_record
from local.world.dynamodb_engine import REGION, Engine, shared_streams
from local.world.expiry import expire_until
from local.world.handlers import load_readers, load_workers, to_sqs_record
from local.world.payment_provider import FakeProvider

PEPPER = b"pepper of the tests"
STAFF = Caller("staff-1", frozenset({"staff"}))
WAREHOUSE = Caller("warehouse-1", frozenset({"warehouse"}))
ANN = Caller("ann")
HOME_ADDRESS = Address(name="Ann Ash", street="1 Elm Row", postcode="1010", city="Wien", country="AT")
READERS, WORKERS = load_readers(), load_workers()
Record = Mapping[str, Any]
Invoke = Callable[[str, list[Any], Callable[[], Any]], Any]
"""Invokes a function: gets its name, its batch, and a call of its handler, and returns the call's result."""
VARIABLES = {
    "FAILURES_BUCKET": "failures",
    "ARCHIVE_BUCKET": "archive",
    "EXPORTS_BUCKET": "exports",
    "BUS_NAME": "shop",
    "SENDER": "shop@example.com",
    "CONFIGURATION_SET": "orderstream-mails",
    "SHOP_NAME": "Elm Row",
    "LANGUAGE": "en",
    "PRODUCT_URL": "https://elm.example/{product_id}",
    "ORDER_MAILS_PER_MINUTE": "1000000",
    "ALERTS_PER_MINUTE": "1000000",
    "PAGE_SIZE": "3",
    "PEPPER_SECRET": "pepper-of-mails",
    "PUBLIC_URL": "https://api.elm.example",
    "PROVIDER_URL": "http://127.0.0.1:9",
    "PROVIDER_SECRET": "provider",
    "PAYMENT_WINDOW_MINUTES": "30",
    "ASSUMED_DELIVERED_DAYS": "30",
    "LAPSE_LANES": "1",
    "CLOSED_ORDER_DAYS": "365",
    "RETURN_WINDOW_DAYS": "30",
    "AUDIT_DAYS": "730",
    "LINES_PER_SECOND": "1000000",
    "WEBHOOK_TEST_HOST": "127.0.0.1",
}


SERVICES = {"events", "s3", "ses", "sesv2", "sqs"}
MOTO: Any = {
    "core": {
        "reset_boto3_session": False,  # keep the service models that boto3 has loaded, because loading them is slow
        "passthrough": {
            "urls": [r"http://127\.0\.0\.1.*"]
        },  # moto must not handle requests to the local engine, because its search for a request's service is slow
    }
}


@dataclass
class ShopHarness:
    """A whole shop in one process, for tests. `queues`: URLs by name. `all_records`: as Lambda receives them."""

    engine: Engine
    shop: ShopContext
    queues: dict[str, str]
    provider: FakeProvider = field(default_factory=FakeProvider)
    all_records: list[dict[str, Any]] = field(default_factory=list)
    clock_offset: timedelta = timedelta()
    sleep: Callable[[float], None] = time.sleep
    _stream: str = ""
    _iterator: str | None = None

    def now(self) -> datetime:
        return datetime.now(UTC) + self.clock_offset

    def advance_days(self, days: float) -> None:
        """Advance the shop's clock. Then delete the items whose TTL has passed, as DynamoDB would."""
        self.clock_offset += timedelta(days=days)
        expire_until(self.engine, self.shop.table.name, self.now())

    def pass_time_while_sleeping(self) -> None:
        """From now on, a sleeping Lambda advances the shop's clock, and takes no real time."""

        def sleep(seconds: float) -> None:
            self.clock_offset += timedelta(seconds=seconds)

        self.sleep = sleep

    # the stream -------------------------------------------------------------------------------------------------------
    def new_records(self) -> list[dict[str, Any]]:
        """Return the stream records since the last call, in order. Leave out records of writes that changed nothing."""
        client = shared_streams(self.engine)
        if self._iterator is None:
            (stream,) = client.list_streams(TableName=self.shop.table.name)["Streams"]
            self._stream = stream["StreamArn"]
            (shard,) = client.describe_stream(StreamArn=self._stream)["StreamDescription"]["Shards"]
            self._iterator = client.get_shard_iterator(
                StreamArn=self._stream, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
            )["ShardIterator"]
        found: list[dict[str, Any]] = []
        while page := client.get_records(ShardIterator=self._iterator):
            self._iterator = page["NextShardIterator"]
            if not page["Records"]:
                break
            found += [to_lambda_record(record, region=REGION, stream_arn=self._stream) for record in page["Records"]]
        self.all_records += found
        return [record for record in found if not is_unchanged(record)]

    # the queues -------------------------------------------------------------------------------------------------------
    def take_messages(self, queue: str) -> list[dict[str, Any]]:
        """Receive all messages of a queue, delete them from the queue, and return them."""
        if not sqs_backends[DEFAULT_ACCOUNT_ID][REGION].queues[self.queues[queue].rpartition("/")[2]].messages:
            return []  # the queue is empty; reading moto's state is faster than a request to SQS
        sqs = clients.client("sqs")
        taken: list[dict[str, Any]] = []
        while found := sqs.receive_message(QueueUrl=self.queues[queue], MaxNumberOfMessages=10).get("Messages"):
            done = [{"Id": one["MessageId"], "ReceiptHandle": one["ReceiptHandle"]} for one in found]
            sqs.delete_message_batch(QueueUrl=self.queues[queue], Entries=done)
            source = {"eventSourceARN": f"arn:aws:sqs:{REGION}:{DEFAULT_ACCOUNT_ID}:{queue}"}
            taken += [{"messageId": one["MessageId"], "body": one["Body"], **source} for one in found]
        return taken

    def take_deferred_messages(self, queue: str) -> list[dict[str, Any]]:
        """Receive all messages of a queue, also delayed ones. The shop's clock advances by their delay."""
        waiting = sqs_backends[DEFAULT_ACCOUNT_ID][REGION].queues[queue]._messages
        last = max((message.delayed_until for message in waiting), default=0.0)
        self.clock_offset += timedelta(seconds=max(0.0, last / 1000 - time.time()))
        for message in waiting:
            message.delayed_until = 0
        return self.take_messages(queue)

    def process_all(
        self,
        readers: tuple[str, ...] = tuple(READERS),
        times: int = 1,
        *,
        is_delivered: Callable[[str, Record], bool] = lambda function, record: True,
        batch_sizes: Mapping[str, int] = MappingProxyType({}),
        invoke: Invoke = lambda function, batch, call: call(),
        context: Any = None,
    ) -> None:
        """Deliver all stream records and queue messages to the handlers, until none are left.

        `readers`: the functions that get the stream records. `times`: how often to deliver each batch. `is_delivered`:
        whether a function gets a record or message, for example by its filters. `batch_sizes`: by function; default:
        all that waits. `invoke`: replaces each invocation, for example to measure it. Fails if a handler reports a
        failure.
        """
        workers = load_workers()

        def deliver(name: str, function: ModuleType, waiting: list[Any]) -> None:
            accepted = [record for record in waiting if is_delivered(name, record)]
            size = batch_sizes.get(name, max(len(accepted), 1))
            for batch in (accepted[start : start + size] for start in range(0, len(accepted), size)):
                answer = invoke(name, batch, partial(function.handler, {"Records": batch}, context))
                assert answer == {"batchItemFailures": []}

        while True:
            records = self.new_records()
            for name in readers * times:
                deliver(name, READERS[name], records)
            messages = {name: [*map(to_sqs_record, self.take_messages(name))] for name in workers}
            for name, waiting in [*messages.items()] * times:
                deliver(name, workers[name], waiting)
            if not records and not any(messages.values()):
                return

    # results of the handlers ------------------------------------------------------------------------------------------
    def sent_mails(self) -> list[Any]:
        """Return every mail sent so far."""
        return list(ses_backends[DEFAULT_ACCOUNT_ID][REGION].sent_messages)

    def objects(self, bucket: str) -> dict[str, bytes]:
        """Return every object of a bucket, by key."""
        s3 = clients.client("s3")
        keys = [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]
        return {key: s3.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}

    def partition(self, key: str) -> list[dict[str, Any]]:
        """Return every item with this partition key, as DynamoDB JSON."""
        answer = self.shop.table.client.query(
            TableName=self.shop.table.name,
            KeyConditionExpression="PK = :pk",
            ExpressionAttributeValues={":pk": {"S": key}},
            ConsistentRead=True,
        )
        return list(answer["Items"])

    def lapse(self, time: str) -> dict[str, int]:
        return order_deadlines.handler({"time": time}, None)

    # commands of the shop, such as placing an order -------------------------------------------------------------------
    def open_shop(self, available: int = 10, price: int = 1250) -> None:
        """Register the customer Ann, and create two products with stock: a mug and a pot."""
        customers.register_customer(self.shop, ANN, "ann@example.com", "Ann Ash")
        for product_id in ("mug", "pot"):
            products.create_product(self.shop, STAFF, product_id, f"Blue {product_id}", price, "EUR", 1)
            products.receive_stock(self.shop, STAFF, f"first {product_id}", product_id, available)

    def place_order(self, key: str = "key-1", **quantities: int) -> str:
        """Place an order as Ann, two mugs by default. Return its id."""
        wanted = {id: placing.RequestedLine(quantity) for id, quantity in (quantities or {"mug": 2}).items()}
        placed = placing.place_order(self.shop, ANN, key, wanted, HOME_ADDRESS, {"lines": quantities})
        return placed.order.order_id

    def pay_order(self, order_id: str, event_id: str = "evt_1", payment_id: str = "pi_1") -> str:
        """Record a successful payment of exactly the order's total. Return the payment's status."""
        order = orders.get_order(self.shop, STAFF, order_id)
        told = payments.ProviderPaymentEvent(event_id, payment_id, order_id, "succeeded", order.total, order.currency)
        return str(payments.record_payment(self.shop, told, {"id": event_id}).result["status"])

    def dispatch_order(self, order_id: str) -> None:
        """Dispatch the order's shipment, with tracking number 42."""
        shipments.dispatch_shipment(self.shop, WAREHOUSE, order_id, f"{order_id}-1", "dhl", "42")

    def deliver_order(self, order_id: str) -> None:
        """Deliver the order's shipment."""
        shipments.deliver_shipment(self.shop, WAREHOUSE, order_id, f"{order_id}-1")


@contextmanager
def aws_surroundings(engine: Engine) -> Iterator[dict[str, str]]:
    """Create buckets, bus, rules and queues in moto, for all tests of a file. Yield the queues' URLs by name."""
    with pytest.MonkeyPatch.context() as patch, mock_aws(config=MOTO):
        patch.setenv("AWS_ENDPOINT_URL_DYNAMODB", engine.endpoint)
        patch.setenv("AWS_ENDPOINT_URL_DYNAMODB_STREAMS", engine.endpoint)
        # moto calls these functions for each event, message or request. Cache their results, which never change.
        patch.setattr(jsonpath_ng.ext, "parse", cache(jsonpath_ng.ext.parser.parse))
        patch.setattr(BaseBackend, "urls", property(cache(vars(BaseBackend)["urls"].fget)))
        for name in ("method_names_from_class", "camelcase_to_underscores"):
            patch.setattr(responses, name, cache(getattr(responses, name)))
        # Put the services that the shop uses first, because moto tries the URL patterns of all services in turn.
        ours = sorted(backend_index.backend_url_patterns, key=lambda pattern: pattern[0] not in SERVICES)
        patch.setattr(backend_index, "backend_url_patterns", ours)
        patch.setattr(
            SQSBackend, "is_message_valid_based_on_retention_period", lambda *_: True
        )  # skip moto's slow check of the retention period, because no message in a test is days old
        clients.client.cache_clear()
        yield _create_resources()
    clients.client.cache_clear()


@contextmanager
def run_shop(
    engine: Engine, queues: dict[str, str], table_name: str, patch: pytest.MonkeyPatch
) -> Iterator[ShopHarness]:
    """Run a shop on this table, with empty buckets and queues. `patch`: sets the variables of the Lambdas."""
    for name, value in {**VARIABLES, "TABLE_NAME": table_name}.items():
        patch.setenv(name, value)
    _clear_aws()
    environment.load_environment.cache_clear()
    subscriptions.read_webhooks.cache_clear()
    harness = ShopHarness(engine, clients.create_shop(table_name, pepper=lambda: PEPPER), queues)
    wired = clients.create_shop

    def shop(table_name: str, **settings: Any) -> ShopContext:
        made = wired(table_name, **settings)
        made.table.clock = harness.now
        made.table.sleep = harness.sleep
        return made

    harness.shop.table.clock = harness.now
    patch.setattr(clients, "create_shop", shop)
    patch.setattr(payment_provider, "get_payment_provider", lambda url, secret_name: harness.provider)
    yield harness
    environment.load_environment.cache_clear()


def _clear_aws() -> None:
    """Delete all objects, messages, mails and secrets of the previous test."""
    for bucket in s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets.values():
        bucket.keys.clear()
    sqs = sqs_backends[DEFAULT_ACCOUNT_ID][REGION]
    for name, queue in sqs.queues.items():
        queue.last_purged_at = None  # forget the last purge, because moto allows only one purge per minute
        sqs.purge_queue(name)
    secretsmanager_backends[DEFAULT_ACCOUNT_ID][REGION].reset()
    clients.client("secretsmanager").create_secret(Name=VARIABLES["PEPPER_SECRET"], SecretString=PEPPER.decode())
    secrets.get_secret.cache_clear()
    ses_backends[DEFAULT_ACCOUNT_ID][REGION].reset()
    clients.client("sesv2").create_email_identity(EmailIdentity=VARIABLES["SENDER"])


def _create_resources() -> dict[str, str]:
    s3, sqs, bus = map(clients.client, ("s3", "sqs", "events"))
    for name in ("failures", "archive", "exports"):
        s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_bucket_versioning(Bucket="archive", VersioningConfiguration={"Status": "Enabled"})
    bus.create_event_bus(Name=VARIABLES["BUS_NAME"])
    queues = {}
    for reaction in reactions.REACTIONS:
        url = sqs.create_queue(QueueName=reaction.name)["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        pattern = json.dumps(reaction.event_pattern)
        bus.put_rule(Name=reaction.name, EventBusName=VARIABLES["BUS_NAME"], EventPattern=pattern)
        targets = [{"Id": reaction.name, "Arn": arn}]
        bus.put_targets(Rule=reaction.name, EventBusName=VARIABLES["BUS_NAME"], Targets=targets)
        queues[reaction.name] = url
    return queues
