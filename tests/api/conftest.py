"""The API's Lambda wired to the local engine, its secrets and identity provider played in this process."""

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from functions import environment, wiring
from functions.api import context
from functions.shop import products
from functions.shop.shop import Caller
from local.engine import REGION, Engine
from tests.api.asking import ANN, STAFF, WEBHOOK_SECRETS, Api, Token
from tests.api.every_route import furnish
from tests.shopfloor import MOTO

VARIABLES = {
    "CLIENT_ID": Token.client_id,
    "PEPPER_SECRET": "pepper",
    "WEBHOOK_SECRET": "webhook",
    "RETENTION_DAYS": "365",
    "RETURN_WINDOW_DAYS": "30",
    "SHIPPING": "USD:590",
    "TAX_RATE": "2000",
    "SHOP_NAME": "Elm & Sons",
}


@pytest.fixture(scope="module")
def outside(engine: Engine) -> Iterator[pytest.MonkeyPatch]:
    """What the Lambda finds around it, but for its table."""
    with pytest.MonkeyPatch.context() as patch, mock_aws(config=MOTO):
        patch.setenv("AWS_ENDPOINT_URL_DYNAMODB", engine.endpoint)
        for name, value in VARIABLES.items():
            patch.setenv(name, value)
        secrets = boto3.client("secretsmanager", region_name=REGION)
        secrets.create_secret(Name="pepper", SecretString="pepper of the tests")
        secrets.create_secret(Name="webhook", SecretString=json.dumps(WEBHOOK_SECRETS))
        wiring.client.cache_clear()
        wiring.secret.cache_clear()
        yield patch
    wiring.client.cache_clear()
    wiring.secret.cache_clear()


@pytest.fixture
def logged() -> Iterator[list[dict[str, Any]]]:
    """The lines of the log, as they are written meanwhile."""
    lines: list[dict[str, Any]] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(json.loads(wiring.log.handlers[0].format(record)))  # type: ignore[method-assign]
    logger = logging.getLogger(wiring.log.name)
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)


@pytest.fixture
def bare(outside: pytest.MonkeyPatch, new_table: Callable[[], str]) -> Iterator[Api]:
    """The API of a shop with nothing in it."""
    outside.setenv("TABLE_NAME", new_table())
    environment.current.cache_clear()
    context.shop.cache_clear()
    yield Api(context.shop())
    environment.current.cache_clear()
    context.shop.cache_clear()


@pytest.fixture
def api(bare: Api) -> Api:
    """The API of an open shop: Ann is a customer, ten mugs and ten pots are for sale at 12.50 EUR."""
    staff = Caller(STAFF.sub, frozenset(STAFF.groups))
    bare.register(ANN)
    for product_id in ("mug", "pot"):
        products.create_product(bare.shop, staff, product_id, f"Blue {product_id}", 1250, "EUR", 1)
        products.receive_stock(bare.shop, staff, f"first-{product_id}", product_id, 10)
    return bare


@pytest.fixture
def world(api: Api) -> dict[str, str]:
    """There is one of everything that a route is about: the values of paths."""
    return furnish(api)
