"""Fixtures for a shop with its own table: one whose requests are recorded, and the same shop for a second process."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from functions.dynamodb.table import Table
from functions.model.table import ROWS_BY_TYPE
from functions.shop.shop import ShopContext
from proof.support.actors import open_shop
from proof.support.client_faults import WireTap
from proof.support.items import Item, read_items, write_items
from proof.support.tapped_client import ManualClock, clock, patient_wire, tapped, tapped_patient, wire

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

__all__ = ["clock", "patient_wire", "tapped", "tapped_patient", "wire"]


@pytest.fixture(scope="session")
def opened(dynamodb: "DynamoDBClient", lasting_table: Callable[[], str]) -> tuple[list[Item], int]:
    """The items of a newly opened shop, and the number of its next id."""
    ids, clock = count(1), ManualClock()
    table = Table(dynamodb, lasting_table(), ROWS_BY_TYPE, clock=clock, sleep=clock.sleep)
    open_shop(ShopContext(table=table, new_id=lambda: f"id-{next(ids)}", pepper=lambda: b"pepper"))
    items = read_items(dynamodb, table.name)
    dynamodb.delete_table(TableName=table.name)
    return items, next(ids)


@dataclass(frozen=True, kw_only=True)
class TappedShop(ShopContext):
    """A shop with what surrounds it: `wire` records its requests and can change their answers, `clock` is its clock.

    `rival`: the same shop as another process sees it. Its requests bypass the tap, so a test can interleave them.
    """

    wire: WireTap
    clock: ManualClock
    rival: ShopContext

    def meanwhile(
        self, act: Callable[[ShopContext], object], operation: str = "TransactWriteItems", call: int = 1
    ) -> None:
        """Let the rival act just before a request of this operation. `call`: the number of the request, from 1."""
        self.wire.run_before_call(operation, lambda: act(self.rival), call=call)


@pytest.fixture
def shop(
    wire: WireTap,
    clock: ManualClock,
    new_table: Callable[[], str],
    dynamodb: "DynamoDBClient",
    opened: tuple[list[Item], int],
) -> TappedShop:
    """An open shop with ten mugs and ten pots. Ann and Bob are its customers."""
    items, next_id = opened
    ids = count(next_id)
    table = Table(wire.client, new_table(), ROWS_BY_TYPE, clock=clock, sleep=clock.sleep)
    write_items(dynamodb, table.name, items)
    common: dict[str, Any] = {"new_id": lambda: f"id-{next(ids)}", "pepper": lambda: b"pepper"}
    rival = ShopContext(table=replace(table, client=dynamodb), **common)
    return TappedShop(table=table, wire=wire, clock=clock, rival=rival, **common)


@pytest.fixture
def rival(shop: TappedShop) -> ShopContext:
    return shop.rival


def everything(shop: ShopContext) -> list[Any]:
    """Return all items of the table, as DynamoDB returns them."""
    return list(shop.table.client.scan(TableName=shop.table.name, ConsistentRead=True)["Items"])


@pytest.fixture(scope="module")
def fresh(lasting_table: Callable[[], str], dynamodb: "DynamoDBClient") -> ShopContext:
    """One shop for all examples of a random test. Its clock is its own, and its retries last for hours."""
    clock = ManualClock()
    table = Table(dynamodb, lasting_table(), ROWS_BY_TYPE, clock=clock, sleep=clock.sleep, retry_budget_seconds=36_000)
    made = ShopContext(table=table, new_id=str, pepper=lambda: b"pepper")
    open_shop(made, available=100_000)
    return made
