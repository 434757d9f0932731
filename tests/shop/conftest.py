"""A shop on a table of its own: one behind a tapped client, and the same one as another process would have it."""

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

import pytest

from functions.dynamodb.store import Table
from functions.model.table import BY_TYPE
from functions.shop.shop import Shop
from tests.dynamodb.fixtures import Clock, clock, patient_wire, tapped, tapped_patient, wire
from tests.dynamodb.wire import Wire
from tests.shop.acts import open_shop

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

__all__ = ["clock", "patient_wire", "tapped", "tapped_patient", "wire"]


@pytest.fixture
def shop(wire: Wire, clock: Clock, new_table: Callable[[], str]) -> Shop:
    """Ann and Bob are its customers; it has ten mugs and ten pots. What went out to open it is forgotten."""
    ids = count(1)
    table = Table(wire.client, new_table(), BY_TYPE, clock=clock, sleep=clock.sleep)
    made = Shop(table=table, new_id=lambda: f"id-{next(ids)}", pepper=lambda: b"pepper")
    open_shop(made)
    wire.clear()
    return made


@pytest.fixture
def rival(shop: Shop, clock: Clock, dynamodb: "DynamoDBClient") -> Shop:
    """The same shop in another process: what it does goes past the tap, and can come between."""
    table = Table(dynamodb, shop.table.name, BY_TYPE, clock=clock, sleep=clock.sleep)
    return Shop(table=table, new_id=shop.new_id, pepper=shop.pepper)
