"""A shop on this machine, as the operators' tools find it: of this test's engine, and nothing else."""

from types import SimpleNamespace
from typing import Any

from local.engine import Engine
from tests.shopfloor import ShopHarness

NAMES = {"AWS::Events::EventBus": ["shop"]}
BUCKETS = {"ArchiveBucket": "archive", "FailuresBucket": "failures"}


def fake_running_shop(engine: Engine, table_name: str, **outputs: str) -> SimpleNamespace:
    """What `local.running.find` would find. `outputs`: what its stack tells of itself."""

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


def fake_shop_with_buckets(floor: ShopHarness) -> SimpleNamespace:
    """The same with all the tests' shop has: buckets, too."""
    return fake_running_shop(floor.engine, floor.shop.table.name, **BUCKETS)
