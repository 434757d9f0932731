"""A shop on this machine, as the operators' tools find it: of this test's engine, and nothing else."""

from types import SimpleNamespace
from typing import Any

from local.engine import Engine
from tests.shopfloor import Shopfloor

NAMES = {"AWS::Events::EventBus": ["shop"]}
BUCKETS = {"ArchiveBucket": "archive", "FailuresBucket": "failures"}


def running_shop(engine: Engine, table_name: str, **outputs: str) -> SimpleNamespace:
    """What `local.running.find` would find. `outputs`: what its stack tells of itself."""

    def names(resource_type: str) -> list[Any]:
        return NAMES.get(resource_type, [])

    stack, aws = SimpleNamespace(outputs=outputs, names=names), SimpleNamespace(access={})
    return SimpleNamespace(
        engine=engine,
        table_name=table_name,
        stack=stack,
        aws=aws,
        journal_of=lambda order_id: [],
        lanes=list,
    )


def whole_shop(floor: Shopfloor) -> SimpleNamespace:
    """The same with all the tests' shop has: buckets, too."""
    return running_shop(floor.engine, floor.shop.table.name, **BUCKETS)
