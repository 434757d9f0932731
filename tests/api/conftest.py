"""Fixtures for the API's function on the local engine, with secrets and identity provider simulated by moto."""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import boto3
import pytest
from moto import mock_aws

from functions.adapters import mail_suppression, payment_provider
from functions.api.http import context
from functions.runtime import clients, environment, secrets
from functions.runtime.log import log
from functions.shop import products
from functions.shop.fulfilment import fulfil_order
from functions.shop.shop import Caller
from local.world.dynamodb_engine import REGION, Engine
from local.world.harness import MOTO
from local.world.payment_provider import FakeProvider
from proof.support.api_variables import VARIABLES
from proof.support.every_route import create_one_of_everything
from proof.support.http_client import ANN, STAFF, WAREHOUSE, WEBHOOK_SECRETS, ApiHarness
from proof.support.items import Item, read_items, write_items
from proof.support.suppression_list import SuppressionList

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

T = TypeVar("T")
SUPPRESSED = SuppressionList()


@pytest.fixture
def suppressed() -> Iterator[SuppressionList]:
    """A simulated SES suppression list, which is empty at first."""
    yield SUPPRESSED
    SUPPRESSED.reasons.clear()
    SUPPRESSED.refuses = ""


@pytest.fixture(scope="module")
def outside(engine: Engine) -> Iterator[pytest.MonkeyPatch]:
    """Create the environment variables and AWS resources of the API's function, except its table."""
    with pytest.MonkeyPatch.context() as patch, mock_aws(config=MOTO):
        patch.setenv("AWS_ENDPOINT_URL_DYNAMODB", engine.endpoint)
        for name, value in VARIABLES.items():
            patch.setenv(name, value)
        location: Any = {"LocationConstraint": REGION}
        boto3.client("s3", region_name=REGION).create_bucket(Bucket="archive", CreateBucketConfiguration=location)
        boto3.client("events", region_name=REGION).create_event_bus(Name=VARIABLES["BUS_NAME"])
        secretsmanager = boto3.client("secretsmanager", region_name=REGION)
        secretsmanager.create_secret(Name="pepper", SecretString="pepper of the tests")
        secretsmanager.create_secret(Name="webhook", SecretString=json.dumps(WEBHOOK_SECRETS))
        clients.client.cache_clear()
        secrets.get_secret.cache_clear()
        patch.setattr(payment_provider, "get_payment_provider", lambda url, secret_name: FakeProvider())
        SUPPRESSED.attach(mail_suppression.client())
        yield patch
    clients.client.cache_clear()
    secrets.get_secret.cache_clear()


@pytest.fixture
def logged() -> Iterator[list[dict[str, Any]]]:
    """The log lines written during the test."""
    lines: list[dict[str, Any]] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(json.loads(log.handlers[0].format(record)))  # type: ignore[method-assign]
    logger = logging.getLogger(log.name)
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)


@contextmanager
def serving(outside: pytest.MonkeyPatch, table_name: str) -> Iterator[ApiHarness]:
    """Run the API on this table."""
    outside.setenv("TABLE_NAME", table_name)
    environment.load_environment.cache_clear()
    context.shop.cache_clear()
    yield ApiHarness(context.shop())
    environment.load_environment.cache_clear()
    context.shop.cache_clear()


@contextmanager
def limiting_writes(outside: pytest.MonkeyPatch, per_minute: int, burst: int) -> Iterator[None]:
    """Run the API with a limit: a customer may send `burst` writes at once, then `per_minute` a minute."""
    with outside.context() as patch:
        patch.setenv("CUSTOMER_WRITES_PER_MINUTE", str(per_minute))
        patch.setenv("CUSTOMER_WRITE_BURST", str(burst))
        environment.load_environment.cache_clear()
        context.write_limiter.cache_clear()
        yield
    environment.load_environment.cache_clear()
    context.write_limiter.cache_clear()


@pytest.fixture
def bare(outside: pytest.MonkeyPatch, new_table: Callable[[], str]) -> Iterator[ApiHarness]:
    """The API of an empty shop."""
    with serving(outside, new_table()) as api:
        yield api


@pytest.fixture(scope="module")
def items_after(
    outside: pytest.MonkeyPatch, lasting_table: Callable[[], str], dynamodb: "DynamoDBClient"
) -> Callable[[Callable[[ApiHarness], T]], tuple[list[Item], T]]:
    """Return a function that calls `act` with the API of an empty shop, and returns the stored items and the result."""

    def items_after(act: Callable[[ApiHarness], T]) -> tuple[list[Item], T]:
        name = lasting_table()
        with serving(outside, name) as api:
            result = act(api)
        items = read_items(dynamodb, name)
        dynamodb.delete_table(TableName=name)
        return items, result

    return items_after


def open_shop(api: ApiHarness) -> None:
    staff = Caller(STAFF.sub, frozenset(STAFF.groups))
    api.register_customer(ANN)
    for product_id in ("mug", "pot"):
        products.create_product(api.shop, staff, product_id, f"Blue {product_id}", 1250, "EUR", 1)
        products.receive_stock(api.shop, staff, f"first-{product_id}", product_id, 10)


@pytest.fixture(scope="module")
def opened(items_after: Callable[[Callable[[ApiHarness], None]], tuple[list[Item], None]]) -> list[Item]:
    """Return the items of a shop with one customer, products and stock."""
    items, _ = items_after(open_shop)
    return items


@pytest.fixture(scope="module")
def furnished(
    items_after: Callable[[Callable[[ApiHarness], dict[str, str]]], tuple[list[Item], dict[str, str]]],
) -> tuple[list[Item], dict[str, str]]:
    """Return the items of the shop with one resource of each kind, and the path parameters of these resources."""

    def furnish_open_shop(api: ApiHarness) -> dict[str, str]:
        open_shop(api)
        return create_one_of_everything(api)

    return items_after(furnish_open_shop)


@pytest.fixture
def api(bare: ApiHarness, opened: list[Item], dynamodb: "DynamoDBClient") -> ApiHarness:
    """The API of an open shop: Ann is a customer, ten mugs and ten pots are for sale at 12.50 EUR."""
    write_items(dynamodb, bare.shop.table.name, opened)
    return bare


@pytest.fixture
def world(api: ApiHarness, furnished: tuple[list[Item], dict[str, str]], dynamodb: "DynamoDBClient") -> dict[str, str]:
    """Create one resource of each kind that routes refer to. Return their path parameters."""
    items, values = furnished
    write_items(dynamodb, api.shop.table.name, items)
    return values.copy()


@pytest.fixture
def paid(api: ApiHarness) -> str:
    """Place an order, and pay it with the payment pi_1. Return its id."""
    return place_paid(api)


def place_paid(api: ApiHarness, **quantities: int) -> str:
    """Place an order of Ann, and pay it with the payment pi_1. Return its id."""
    order_id = str(api.place_order("key-1", ANN, **quantities).body["order_id"])
    api.pay(order_id)
    return order_id


def place_fulfilling(api: ApiHarness, **quantities: int) -> str:
    """Place and pay an order, and request its shipment `{order_id}-1`. Return the order's id."""
    order_id = place_paid(api, **quantities)
    assert fulfil_order(api.shop, order_id)
    return order_id


def place_delivered(api: ApiHarness, **quantities: int) -> str:
    """Place, pay, dispatch and deliver an order. Return its id."""
    order_id = place_fulfilling(api, **quantities)
    path, sent = f"/orders/{order_id}/shipments/{order_id}-1", {"carrier": "DHL", "tracking_number": "42"}
    for report, body in (("dispatched", sent), ("delivered", None)):
        assert api.call("POST", f"{path}/{report}", WAREHOUSE, body).status == 200
    return order_id
