"""Totals: the records of a batch share one transaction, and each order counts once, whatever is counted with it."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from unittest import mock

from functions.handlers import copies_reader
from functions.model import entities, totals
from functions.runtime import clients
from functions.shop import cancellation
from local.world.harness import ANN, WAREHOUSE, ShopHarness
from proof.mutants.edits import detects, edit_code
from proof.mutants.items import number, stored_items, text
from proof.simulation.mutations import patch_attribute
from proof.support.client_faults import record_calls


def pay_order(harness: ShopHarness, key: str, **quantities: int) -> str:
    order_id = harness.place_order(key, **quantities)
    harness.pay_order(order_id, f"evt-{key}", f"pi-{key}")
    return order_id


def units(harness: ShopHarness) -> dict[str, int]:
    return {text(total, "product_id"): number(total, "pieces") for total in stored_items(harness, "BestSeller")}


def sales(harness: ShopHarness) -> tuple[int, int, int]:
    """Return orders, pieces and revenue, added up from all minutes."""
    minutes = stored_items(harness, "SalesMinute")
    orders, pieces, revenue = (sum(number(one, name) for one in minutes) for name in ("orders", "pieces", "revenue"))
    return orders, pieces, revenue


def count(harness: ShopHarness) -> int:
    """Let the copies Lambda process all new records in one batch. Return how many records failed."""
    return len(copies_reader.handler({"Records": harness.new_records()}, None)["batchItemFailures"])


@detects(
    "a batch counts two changes of an order",
    edit_code(copies_reader._fold, ("sorted(latest.values()", "sorted(counted")),
)
def test_of_two_changes_of_an_order_in_a_batch_the_later_counts(harness: ShopHarness) -> None:
    harness.open_shop(available=100)
    pay_order(harness, "key-1", mug=1)
    cancelled = pay_order(harness, "key-2", mug=2)
    cancellation.cancel_order(harness.shop, ANN, cancelled)
    with record_calls("dynamodb", "TransactWriteItems") as writes:
        assert count(harness) == 0
    assert len(writes) == 1
    assert (units(harness), sales(harness)) == ({"mug": 1}, (1, 1, 1250))


@detects(
    "orders are counted in the order of the stream",
    edit_code(
        copies_reader._fold,
        ("sorted(latest.values(), key=lambda one: _busiest_total(one[1], uses))", "latest.values()"),
    ),
)
def test_the_orders_of_the_best_selling_product_of_a_batch_share_a_transaction(harness: ShopHarness) -> None:
    """Mugs and pots are ordered in turns. A transaction holds three orders, so it can hold all orders of mugs."""
    harness.open_shop(available=100)
    for order in range(3):
        pay_order(harness, f"mug-{order}", mug=1)
        if order < 2:
            pay_order(harness, f"pot-{order}", pot=1)
    with (
        mock.patch.object(copies_reader, "MAX_FOLDED_ITEMS", 7),
        mock.patch.object(entities, "SALES_MINUTE_SHARDS", entities.Shards(64, 64)),
        record_calls("dynamodb", "TransactWriteItems") as writes,
    ):
        assert count(harness) == 0
    products = [
        {key["PK"]["S"] for item in write["TransactItems"] if (key := key_of(item))["PK"]["S"].startswith("PRODUCT#")}
        for write in writes
    ]
    assert products == [{"PRODUCT#mug"}, {"PRODUCT#pot"}]
    assert units(harness) == {"mug": 3, "pot": 2}


def key_of(item: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a transaction's item that have its key."""
    found: dict[str, Any] = item["Put"]["Item"] if "Put" in item else item["Update"]["Key"]
    return found


@detects("a busy total is sent again", patch_attribute(copies_reader, "conflict_if_busy", lambda write: write))
def test_totals_that_another_transaction_changes_are_read_again_and_not_sent_again(harness: ShopHarness) -> None:
    harness.open_shop(available=100)
    pay_order(harness, "key-1", mug=1)
    sent: list[object] = []

    def cancel_first(params: dict[str, Any], **_: Any) -> Any:
        items = json.loads(params["body"])["TransactItems"]
        sent.append(params)
        if len(sent) > 1:
            return None
        reasons = [{"Code": "TransactionConflict"}] * len(items)
        error = {"Error": {"Code": "TransactionCanceledException", "Message": "busy"}, "CancellationReasons": reasons}
        return SimpleNamespace(status_code=400, headers={}), {**error, "ResponseMetadata": {"HTTPStatusCode": 400}}

    events = clients.client("dynamodb").meta.events
    events.register_first("before-call.dynamodb.TransactWriteItems", cancel_first)
    try:
        with record_calls("dynamodb", "BatchGetItem") as reads:
            assert count(harness) == 0
    finally:
        events.unregister("before-call.dynamodb.TransactWriteItems", cancel_first)
    assert (len(sent), len(reads)) == (2, 2)
    assert units(harness) == {"mug": 1}


# the end of a month's totals ------------------------------------------------------------------------------------------
def set_clock(harness: ShopHarness, *day: int) -> None:
    """Set the shop's clock to noon of a day. `day`: year, month and day."""
    harness.clock_offset = datetime(*day, 12, tzinfo=UTC) - datetime.now(UTC)  # type: ignore[arg-type, misc]


def units_in_january(harness: ShopHarness) -> dict[str, int]:
    totals = [one for one in stored_items(harness, "BestSeller") if text(one, "season") == "2027-01"]
    return {text(total, "product_id"): number(total, "pieces") for total in totals}


def cancel_in_warehouse(harness: ShopHarness, order_id: str) -> None:
    cancellation.cancel_order(harness.shop, ANN, order_id)
    cancellation.agree_cancel(harness.shop, WAREHOUSE, order_id)
    harness.process_all()


@detects("month of 31 days is final a month early", edit_code(totals.season_final_at, ("days=31", "days=30")))
def test_totals_of_january_change_until_60_days_after_its_31st_day(harness: ShopHarness) -> None:
    set_clock(harness, 2027, 1, 31)
    harness.open_shop()
    order_ids = [harness.place_order(f"key-{product}", **{product: 2}) for product in ("mug", "pot")]
    for order_id in order_ids:
        harness.pay_order(order_id, f"evt-{order_id}", f"pi-{order_id}")
    harness.process_all()
    assert units_in_january(harness) == {"mug": 2, "pot": 2}
    set_clock(harness, 2027, 4, 1)
    cancel_in_warehouse(harness, order_ids[0])
    assert units_in_january(harness) == {"mug": 0, "pot": 2}
    set_clock(harness, 2027, 4, 2)
    cancel_in_warehouse(harness, order_ids[1])
    assert units_in_january(harness) == {"mug": 0, "pot": 2}
