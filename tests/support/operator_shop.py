"""A fake of the running local shop, for tests of the operators' tools. It uses the test's engine."""

from types import SimpleNamespace
from typing import Any

from local.dynamodb_engine import Engine
from tests.support.harness import ShopHarness

NAMES = {"AWS::Events::EventBus": ["shop"]}
BUCKETS = {"ArchiveBucket": "archive", "FailuresBucket": "failures"}


def fake_running_shop(engine: Engine, table_name: str, **outputs: str) -> SimpleNamespace:
    """Return a replacement for the result of `local.shop_client.find`. `outputs`: the outputs of its stack."""

    def resource_names(resource_type: str) -> list[Any]:
        return NAMES.get(resource_type, [])

    stack, aws = SimpleNamespace(outputs=outputs, resource_names=resource_names), SimpleNamespace(client_options={})
    return SimpleNamespace(
        engine=engine,
        table_name=table_name,
        stack=stack,
        aws=aws,
        order_activity=lambda order_id: [],
        consumer_lags=list,
    )


def fake_shop_with_buckets(harness: ShopHarness) -> SimpleNamespace:
    """Return a fake running shop for the test's shop, including its buckets."""
    return fake_running_shop(harness.engine, harness.shop.table.name, **BUCKETS)
