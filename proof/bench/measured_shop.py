"""Open the shop on the local engine, with its real handlers and stream, and count its requests to DynamoDB."""

import contextlib
import io
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import boto3
import pytest

from functions.api.http import context
from functions.dynamodb.capacity import READ_OPERATIONS
from functions.model.reactions import REACTIONS
from functions.model.table import create_table_request
from functions.runtime import clients, environment, secrets, subscriptions
from functions.shop import customers, payments, placing, products
from functions.shop.shop import Caller
from local.world.dynamodb_engine import REGION, Engine
from local.world.harness import HOME_ADDRESS, PEPPER, STAFF, ShopHarness, aws_surroundings, run_shop
from proof.support.api_variables import VARIABLES as API_VARIABLES
from proof.support.lambda_context import FakeContext
from proof.support.reader_filters import is_delivered

PRICE = 1250
FULL_STOCK = 1_000_000
BATCH_SIZES = {reaction.name: reaction.batch_size for reaction in REACTIONS}
LAMBDA_CONTEXT = FakeContext()
ENVIRONMENT = {
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_DEFAULT_REGION": REGION,
    "METRICS_NAMESPACE": "bench",
    "AWS_EC2_METADATA_DISABLED": "true",
}
LOGGERS = ("orderstream", "orderstream.counts")
unique_numbers = count(1)


# measuring ------------------------------------------------------------------------------------------------------------
@dataclass
class CapacityMeter:
    """Counts the requests to DynamoDB and their capacity units. `used`: the numbers "requests", "read" and "written",
    by step and function."""

    used: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    step: str = ""
    function: str = ""

    def count(self, parsed: Mapping[str, Any], model: Any, **_: Any) -> None:
        consumed = parsed.get("ConsumedCapacity") or []
        units = sum(one["CapacityUnits"] for one in (consumed if isinstance(consumed, list) else [consumed]))
        used = self.used.setdefault((self.step, self.function), Counter())
        used["requests"] += 1
        used["read" if model.name in READ_OPERATIONS else "written"] += units

    @contextmanager
    def measure(self) -> Iterator["CapacityMeter"]:
        """Count the requests of the shop's client in the `with` block."""
        events = clients.client("dynamodb").meta.events
        hooks: dict[str, Any] = {"before-parameter-build": _request_capacity, "after-call": self.count}
        for name, hook in hooks.items():
            events.register(f"{name}.dynamodb", hook)
        try:
            yield self
        finally:
            for name, hook in hooks.items():
                events.unregister(f"{name}.dynamodb", hook)


def _request_capacity(params: dict[str, Any], model: Any, **_: Any) -> None:
    if "ReturnConsumedCapacity" in model.input_shape.members:
        params["ReturnConsumedCapacity"] = "TOTAL"


@contextmanager
def discard_logs() -> Iterator[None]:
    """Discard logs and metrics in the `with` block. The shop still renders them, so this time counts."""
    nowhere = io.StringIO()  # it stays open, because loggers may keep it after the `with` block
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


# the shop -------------------------------------------------------------------------------------------------------------
@dataclass
class BenchShop:
    """The measured shop. Commands are called as the API calls them. `meter`: counts the shop's requests to DynamoDB."""

    harness: ShopHarness
    meter: CapacityMeter = field(default_factory=CapacityMeter)

    def open(self, customer_id: str, product_ids: Sequence[str]) -> None:
        shop = self.harness.shop
        customers.register_customer(shop, Caller(customer_id), f"{customer_id}@example.com", "Ann Ash")
        for id in product_ids:
            products.create_product(shop, STAFF, id, f"Blue {id}", PRICE, "EUR", 1)
            products.receive_stock(shop, STAFF, f"first {id}", id, FULL_STOCK)

    def place(self, customer_id: str, key: str, quantities: Mapping[str, int]) -> str:
        wanted = {id: placing.RequestedLine(quantity) for id, quantity in quantities.items()}
        caller, body = Caller(customer_id), {"lines": dict(quantities)}
        return placing.place_order(self.harness.shop, caller, key, wanted, HOME_ADDRESS, body).order.order_id

    def pay(self, order_id: str, amount: int) -> None:
        event = payments.ProviderPaymentEvent(f"evt_{order_id}", f"pi_{order_id}", order_id, "succeeded", amount, "EUR")
        assert payments.record_payment(self.harness.shop, event, {"id": event.event_id}).result["status"] == "CAPTURED"

    def deliver_all(self, on_batch: Callable[[str, list[Any]], object] = lambda function, batch: None) -> None:
        """Deliver all records and messages. `on_batch`: called before each batch, with the function's name."""

        def invoke(function: str, batch: list[Any], call: Callable[[], Any]) -> Any:
            self.meter.function = function
            on_batch(function, batch)
            return call()

        self.harness.process_all(
            is_delivered=is_delivered, batch_sizes=BATCH_SIZES, invoke=invoke, context=LAMBDA_CONTEXT
        )


# opening a shop -------------------------------------------------------------------------------------------------------
@contextmanager
def open_environment(engine: Engine) -> Iterator[tuple[pytest.MonkeyPatch, dict[str, str]]]:
    """Set the environment of a shop, without AWS credentials. Yields the patch and the URLs of queues."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        patch.delenv("AWS_PROFILE", raising=False)
        with aws_surroundings(engine) as queues, discard_logs():
            yield patch, queues


@contextmanager
def open_shop(engine: Engine, queues: dict[str, str]) -> Iterator[BenchShop]:
    """Open an empty shop with a new table."""
    name = f"bench-{os.getpid()}-{next(unique_numbers)}"
    engine.create_table(name, create_table_request(name))
    with pytest.MonkeyPatch.context() as patch, run_shop(engine, queues, name, patch) as harness:
        patch.setattr(subscriptions, "MAX_WEBHOOKS_READ_AGE_SECONDS", float("inf"))  # one read, whatever the time
        yield BenchShop(harness)


@contextmanager
def open_api() -> Iterator[None]:
    """Let the handler of the API use the table of the open shop during a `with` block."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in API_VARIABLES.items():
            patch.setenv(name, value)
        secretsmanager = boto3.client("secretsmanager", region_name=REGION)
        secretsmanager.create_secret(Name=API_VARIABLES["PEPPER_SECRET"], SecretString=PEPPER.decode())
        for cache in (environment.load_environment, context.shop, secrets.get_secret):
            cache.cache_clear()
        yield
        for cache in (environment.load_environment, context.shop, secrets.get_secret):
            cache.cache_clear()
