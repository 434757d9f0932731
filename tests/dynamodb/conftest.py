"""Fixtures for tests of functions.dynamodb: a table of a library, a client that records its requests, and a clock."""

from collections.abc import Callable

import pytest

from functions.dynamodb.table import Table
from proof.support.client_faults import WireTap
from proof.support.tapped_client import ManualClock, clock, patient_wire, tapped, tapped_patient, wire
from tests.support.library_table import ROWS

__all__ = ["clock", "patient_wire", "tapped", "tapped_patient", "wire"]


@pytest.fixture
def library(wire: WireTap, clock: ManualClock, new_table: Callable[[], str]) -> Table:
    return Table(wire.client, new_table(), ROWS, clock=clock, sleep=clock.sleep)


@pytest.fixture
def patient_library(patient_wire: WireTap, clock: ManualClock, new_table: Callable[[], str]) -> Table:
    return Table(patient_wire.client, new_table(), ROWS, clock=clock, sleep=clock.sleep)
