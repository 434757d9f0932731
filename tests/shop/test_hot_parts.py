"""Tests orders while a stock part is busy or throttled: they take their pieces from another part."""

import pytest

from functions.dynamodb.errors import TableBusy
from functions.model.entities import hash_to_bucket
from functions.shop.placing import derive_order_id
from functions.shop.shop import ShopContext
from proof.support.actors import ANN, available_by_part, create_stocked_product, get_order, place, place_order_as
from proof.support.client_faults import WireTap
from proof.support.tapped_client import ManualClock

BUSY = ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"]


def parts_of(wire: WireTap) -> list[list[str]]:
    """Return the keys of the stock parts that each transaction changes."""
    return [
        [f"{key['PK']['S']} {key['SK']['S']}" for item in request.body["TransactItems"] for key in keys_of(item)]
        for request in wire.requests
        if request.operation == "TransactWriteItems"
    ]


def keys_of(item: dict[str, dict[str, dict[str, dict[str, str]]]]) -> list[dict[str, dict[str, str]]]:
    return [write["Key"] for kind, write in item.items() if kind == "Update"]


@pytest.mark.parametrize("code", BUSY)
def test_a_busy_part_is_left_for_another_at_once(
    shop: ShopContext, wire: WireTap, clock: ManualClock, code: str
) -> None:
    create_stocked_product(shop, "vase", 40, parts=4)
    wire.clear()
    wire.cancel_transactions("None", code)
    order = place(shop, vase=3)
    assert wire.operations == ["BatchGetItem", "TransactWriteItems", "TransactWriteItems"], "no part is read"
    (first,), (second,) = parts_of(wire)
    assert first != second
    assert clock.pauses == []
    assert sorted(available_by_part(shop, "vase")) == [7, 10, 10, 10]
    assert get_order(shop, order.order_id) == order
    assert place_order_as(shop, ANN, "key-1", vase=3).order == order, "the same key is the same order"
    assert sum(available_by_part(shop, "vase")) == 37


def test_only_the_product_whose_part_is_busy_takes_another(shop: ShopContext, wire: WireTap) -> None:
    create_stocked_product(shop, "vase", 40, parts=4)
    create_stocked_product(shop, "bowl", 40, parts=4)
    wire.clear()
    wire.cancel_transactions("None", "None", "TransactionConflict")
    order = place(shop, vase=1, bowl=1)
    first, second = parts_of(wire)
    calm, busy = order.lines
    assert [one for one in first if f"#{calm}" in one] == [one for one in second if f"#{calm}" in one]
    assert [one for one in first if f"#{busy}" in one] != [one for one in second if f"#{busy}" in one]


def test_the_only_part_of_a_product_is_tried_again_after_a_pause(
    shop: ShopContext, wire: WireTap, clock: ManualClock
) -> None:
    wire.clear()
    wire.cancel_transactions("None", "TransactionConflict", times=3)
    place(shop, mug=2)
    assert len(clock.pauses) == 3
    assert len({tuple(parts) for parts in parts_of(wire)}) == 1
    assert len({one.body["ClientRequestToken"] for one in wire.requests if "ClientRequestToken" in one.body}) == 1


@pytest.mark.parametrize("throttled", [False, True])
def test_a_conflict_on_the_order_and_a_throttled_request_that_names_no_part_change_no_part(
    shop: ShopContext, wire: WireTap, clock: ManualClock, throttled: bool
) -> None:
    create_stocked_product(shop, "vase", 40, parts=4)
    wire.clear()
    if throttled:
        wire.fail_calls("TransactWriteItems", "ThrottlingException")
    else:
        wire.cancel_transactions("TransactionConflict", "None")
    place(shop, vase=3)
    first, second = parts_of(wire)
    assert first == second
    assert len(clock.pauses) == 1


def test_if_the_other_parts_are_busy_too_the_last_one_is_tried_again_with_pauses(
    shop: ShopContext, wire: WireTap, clock: ManualClock
) -> None:
    create_stocked_product(shop, "vase", 40, parts=4)
    wire.clear()
    wire.cancel_transactions("None", "TransactionConflict", times=5)
    place(shop, vase=3)
    parts = [part for (part,) in parts_of(wire)]
    assert len({*parts[:3]}) >= 2
    assert {*parts[2:]} == {parts[2]}
    assert len(clock.pauses) == 3
    assert sorted(available_by_part(shop, "vase")) == [7, 10, 10, 10]


def test_a_part_that_is_left_for_an_empty_one_ends_with_the_parts_that_have_pieces(
    shop: ShopContext, wire: WireTap
) -> None:
    create_stocked_product(shop, "vase", 2, parts=2)
    first = place(shop, "first", vase=1)
    (empty,) = first.lines["vase"].quantity_by_stock_part
    keys = (f"k{number}" for number in range(99))
    key = next(key for key in keys if hash_to_bucket(derive_order_id(shop, "ann", key), 2) != int(empty))
    wire.clear()
    wire.cancel_transactions("None", "TransactionConflict")
    place(shop, key, vase=1)
    assert wire.operations == ["BatchGetItem", *["TransactWriteItems"] * 2, "BatchGetItem", "TransactWriteItems"]
    assert available_by_part(shop, "vase") == [0, 0]


def test_conflicts_without_end_are_busy_and_burn_no_key(shop: ShopContext, wire: WireTap, clock: ManualClock) -> None:
    create_stocked_product(shop, "vase", 40, parts=4)
    wire.cancel_transactions("None", "TransactionConflict", times=200)
    with pytest.raises(TableBusy):
        place_order_as(shop, ANN, "key-1", vase=2)
    assert sum(clock.pauses) <= shop.table.retry_budget_seconds
    assert wire.pop_unused_replies()
    assert sum(available_by_part(shop, "vase")) == 40
    place(shop, vase=2)
