"""A shop on this machine, as the operators' tools find it: of this test's engine, and nothing else."""

from types import SimpleNamespace

from local.engine import Engine


def running_shop(engine: Engine, table_name: str) -> SimpleNamespace:
    """What `local.running.find` would find."""
    return SimpleNamespace(engine=engine, table_name=table_name, stack=SimpleNamespace(outputs={}, names=list))
