"""A shop on this machine, as the operators' tools find it: of this test's engine, and nothing else."""

from types import SimpleNamespace

from local.engine import Engine
from tests.shopfloor import Shopfloor


def running_shop(engine: Engine, table_name: str) -> SimpleNamespace:
    """What `local.running.find` would find."""
    return SimpleNamespace(engine=engine, table_name=table_name, stack=SimpleNamespace(outputs={}, names=list))


def whole_shop(floor: Shopfloor) -> SimpleNamespace:
    """The same with all the tests' shop has: buckets and queues, too."""
    stack = SimpleNamespace(outputs={"ArchiveBucket": "archive", "FailuresBucket": "failures"}, names=list)
    aws = SimpleNamespace(access={})
    return SimpleNamespace(engine=floor.engine, table_name=floor.shop.table.name, stack=stack, aws=aws)
