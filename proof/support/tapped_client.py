"""Shared fixtures for tests with the local DynamoDB engine: a client that records its requests, and a manual clock."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from botocore.config import Config

from local.world.dynamodb_engine import Engine
from proof.support.client_faults import WireTap

START = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


@dataclass
class ManualClock:
    """A clock that advances only when a test or the tested code calls `sleep`. `pauses`: each sleep, in seconds."""

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
    """A DynamoDB client that records its requests, and never retries: only `functions.dynamodb` does."""
    return WireTap(engine.dynamodb(Config(retries={"total_max_attempts": 1})))


@pytest.fixture(scope="session")
def tapped_patient(engine: Engine) -> WireTap:
    """A DynamoDB client that records its requests, and retries after a lost response, as in production."""
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
    assert wire.pop_unused_replies() == [], "a test has set replies that no request used"
