"""A fake of the locally running shop, for tests of the command line tools in `ops`. It uses the test's table."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from local.world.dynamodb_engine import Engine
from local.world.harness import ShopHarness

NAMES = {"AWS::Events::EventBus": ["shop"]}
BUCKETS = {"ArchiveBucket": "archive", "FailuresBucket": "failures"}


def fake_running_shop(engine: Engine, table_name: str, **outputs: str) -> SimpleNamespace:
    """Return a replacement for the result of `local.laptop.shop_client.find`, with these outputs of the stack."""

    def resource_names(resource_type: str) -> list[Any]:
        return NAMES.get(resource_type, [])

    stack, aws = SimpleNamespace(outputs=outputs, resource_names=resource_names), SimpleNamespace(client_options={})
    return SimpleNamespace(
        state=Path(".local"),
        engine=engine,
        table_name=table_name,
        stack=stack,
        aws=aws,
        consumer_lags=list,
    )


def fake_shop_with_buckets(harness: ShopHarness) -> SimpleNamespace:
    """Return a fake running shop that uses the table and the buckets of the test's shop."""
    return fake_running_shop(harness.engine, harness.shop.table.name, **BUCKETS)
