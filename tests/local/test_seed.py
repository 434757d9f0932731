"""Tests `make fill`: its table in memory answers as the engine does, and its items are complete."""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError

from functions.dynamodb.table import Table
from functions.model.entities import OPEN_STATUSES
from functions.model.table import ROWS_BY_TYPE
from functions.shop.shop import ShopContext
from local.seed.distributions import Distribution
from local.seed.history import History
from local.seed.memory_shop import MemoryShop
from local.seed.memory_table import Key, MemoryTable
from local.world.harness import VARIABLES
from ops.commands.drift import DriftCheck

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

END = datetime(2026, 11, 25, tzinfo=UTC)
WINDOW = timedelta(minutes=30)
ORDERS = 80
BUSY = Distribution(
    new_customer_share=0.5,
    cancelled_share=0.15,
    returned_share=0.5,
    lapsed_share=0.15,
    disputed_share=0.2,
    discount_share=0.4,
    reviewed_share=0.6,
)


def chance(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311  not secret


def play(orders: int, seed: int = 1, **more: Any) -> tuple[MemoryShop, History]:
    memory = MemoryShop(END - timedelta(days=3 * 365), chance(seed), VARIABLES, pepper=lambda: b"pepper")
    history = History(memory, chance(seed), END, orders, WINDOW, **more)
    history.play()
    return memory, history


@pytest.fixture(scope="module")
def played() -> tuple[MemoryShop, History]:
    return play(ORDERS)


class BothTables:
    """A client that sends each request to the engine and to a table in memory, and compares the answers."""

    def __init__(self, engine: "DynamoDBClient", name: str, memory: MemoryTable) -> None:
        self._engine, self._name, self._memory = engine, name, memory
        self.requests: Counter[str] = Counter()
        self.refused = 0
        self._expire = memory.expire

    def expire(self, until: int) -> None:
        before = set(self._memory.items)
        self._expire(until)
        for key in before - set(self._memory.items):
            self._engine.delete_item(TableName=self._name, Key=self._dynamodb_key(key))

    def __getattr__(self, operation: str) -> Callable[..., dict[str, Any]]:
        def send(**request: Any) -> dict[str, Any]:
            self.requests[operation] += 1
            if operation == "transact_write_items":
                request["ClientRequestToken"] = str(uuid4())
            real, real_error = _answer(getattr(self._engine, operation), request)
            found, error = _answer(getattr(self._memory, operation), request)
            assert _refusal(error) == _refusal(real_error), request
            assert _items(found) == _items(real), request
            if error is not None:
                self.refused += 1
                raise error
            return found

        return send

    @staticmethod
    def _dynamodb_key(key: Key) -> Any:
        return {"PK": {"S": key[0]}, "SK": {"S": key[1]}}


def _answer(call: Callable[..., Any], request: Mapping[str, Any]) -> tuple[dict[str, Any], ClientError | None]:
    try:
        return call(**request), None
    except ClientError as error:
        return {}, error


def _refusal(error: ClientError | None) -> Any:
    """Return the code, the reasons and the items of a refused request."""
    answer: Mapping[str, Any] = cast(Any, error.response) if error else {}
    reasons = [(one["Code"], one.get("Item")) for one in answer.get("CancellationReasons", [])]
    return error and (answer["Error"]["Code"], answer.get("Item"), reasons)


def _items(answer: Mapping[str, Any]) -> Any:
    """Return the items in an answer. Sort the items of a BatchGetItem, which have no order."""
    if "Responses" in answer:
        return {table: sorted(map(str, items)) for table, items in _sorted(answer["Responses"]).items()}
    return answer.get("Item"), answer.get("Items")


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(one) for one in value] if isinstance(value, list) else value


def test_the_table_in_memory_answers_each_request_of_a_history_as_the_engine_does_and_the_shop_has_no_drift(
    dynamodb: "DynamoDBClient", new_table: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = MemoryShop(END - timedelta(days=3 * 365), chance(3), VARIABLES, pepper=lambda: b"pepper")
    name = new_table()
    both = BothTables(dynamodb, name, memory.table)
    monkeypatch.setattr(memory.table, "expire", both.expire)  # expires the items of the engine, too
    memory.shop = replace(memory.shop, table=replace(memory.shop.table, client=cast(Any, both), name=name))
    history = History(memory, chance(3), END, 30, WINDOW, distribution=BUSY)
    history.play()
    expected = {"get_item", "batch_get_item", "query", "put_item", "update_item", "transact_write_items"}
    assert expected <= set(both.requests)
    assert both.refused, "no condition failed, so no refusals were compared"
    stored = [item for page in dynamodb.get_paginator("scan").paginate(TableName=name) for item in page["Items"]]
    assert {(one["PK"]["S"], one["SK"]["S"]): one for one in stored} == memory.table.items
    table = Table(dynamodb, name, ROWS_BY_TYPE, clock=lambda: END)
    drift = DriftCheck(ShopContext(table=table, new_id=str), pause_seconds=0)
    drift.check_all()
    assert drift.discrepancies == {}


def test_two_runs_of_a_seed_make_equal_items_and_another_seed_makes_others() -> None:
    (one, _), (again, _), (other, _) = (play(20, seed, distribution=BUSY) for seed in (1, 1, 2))
    assert one.table.items == again.table.items
    assert one.archive == again.archive
    assert one.table.items != other.table.items


def test_a_history_has_some_of_everything_and_most_orders_are_delivered(played: tuple[MemoryShop, History]) -> None:
    counts = played[1].counts
    assert counts["orders"] == ORDERS
    assert counts["orders"] > counts["paid orders"] > counts["delivered orders"] > 0.8 * ORDERS
    for name in ("orders with a discount", "customers", "cancelled orders", "returns", "reviews"):
        assert 0 < counts[name] < 0.4 * ORDERS, name


def test_expired_orders_are_in_the_archive_and_leave_a_stub(played: tuple[MemoryShop, History]) -> None:
    memory, _ = played
    stubs = [item for item in memory.table.items.values() if item["type"]["S"] == "ArchivedOrder"]
    assert stubs
    assert {one["object_key"]["S"] for one in stubs} == {key for key in memory.archive if key.startswith("orders/")}
    oldest = min(item["placed_at"]["S"] for item in memory.table.items.values() if item["type"]["S"] == "Order")
    assert oldest > (END - timedelta(days=480)).isoformat()
    kinds = {(one["PK"]["S"], one["type"]["S"]): one for one in memory.table.items.values()}
    closed = [pk for (pk, kind), one in kinds.items() if kind == "Order" and one["status"]["S"] not in OPEN_STATUSES]
    assert [pk for pk in closed if (pk, "ExpiryMarker") not in kinds] == [], "an order is never archived"


def test_the_users_who_can_sign_in_are_the_first_customers() -> None:
    memory, _ = play(20, known=[("alice-id", "alice@example.com", "Alice Ash")])
    orders = [item for item in memory.table.items.values() if item["type"]["S"] == "OrderSummary"]
    assert any(one["customer_id"]["S"] == "alice-id" for one in orders)
