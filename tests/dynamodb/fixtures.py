"""A tapped client, and time that a test owns: fixtures of every test that works on the local engine."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from botocore.config import Config

from local.engine import Engine
from tests.dynamodb.wire import Wire

START = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


@dataclass
class Clock:
    """Time that passes only when somebody sleeps. `slept`: each pause, in seconds."""

    now: datetime = START
    slept: list[float] = field(default_factory=list)

    def __call__(self) -> datetime:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def tapped(engine: Engine) -> Wire:
    """A client that never tries again by itself, so that the store's own patience shows."""
    return Wire(engine.dynamodb(Config(retries={"total_max_attempts": 1})))


@pytest.fixture(scope="session")
def tapped_patient(engine: Engine) -> Wire:
    """A client that tries again after a lost answer, as in production."""
    return Wire(engine.dynamodb(Config(retries={"total_max_attempts": 3, "mode": "legacy"})))


@pytest.fixture
def wire(tapped: Wire) -> Iterator[Wire]:
    yield from _used(tapped)


@pytest.fixture
def patient_wire(tapped_patient: Wire) -> Iterator[Wire]:
    yield from _used(tapped_patient)


def _used(wire: Wire) -> Iterator[Wire]:
    wire.clear()
    yield wire
    assert wire.take_waiting() == [], "an answer was made up and never needed"
