"""A tapped client, and time that a test owns: fixtures of every test that works on the local engine."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from botocore.config import Config

from local.engine import Engine
from tests.dynamodb.wire import WireTap

START = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


@dataclass
class ManualClock:
    """Time that passes only when somebody sleeps. `slept`: each pause, in seconds."""

    now: datetime = START
    pauses: list[float] = field(default_factory=list)

    def __call__(self) -> datetime:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="session")
def tapped(engine: Engine) -> WireTap:
    """A client that never tries again by itself, so that the store's own patience shows."""
    return WireTap(engine.dynamodb(Config(retries={"total_max_attempts": 1})))


@pytest.fixture(scope="session")
def tapped_patient(engine: Engine) -> WireTap:
    """A client that tries again after a lost answer, as in production."""
    return WireTap(engine.dynamodb(Config(retries={"total_max_attempts": 3, "mode": "legacy"})))


@pytest.fixture
def wire(tapped: WireTap) -> Iterator[WireTap]:
    yield from _checked_wire(tapped)


@pytest.fixture
def patient_wire(tapped_patient: WireTap) -> Iterator[WireTap]:
    yield from _checked_wire(tapped_patient)


def _checked_wire(wire: WireTap) -> Iterator[WireTap]:
    wire.clear()
    yield wire
    assert wire.pop_unused_replies() == [], "an answer was made up and never needed"
