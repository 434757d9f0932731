"""Tests a rename of stored names in an open shop: newer code reads both forms, and the migration runs up and down."""

from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from functions.dynamodb.codec import Image
from functions.model import table as t
from functions.runtime import clients
from functions.shop import cancellation, returns
from local.world.harness import ANN, READERS, WAREHOUSE, ShopHarness
from ops.commands.drift import DriftCheck
from ops.commands.migrate import PlannedMigration, run_migration
from ops.migration import Migration
from proof.support.archiving import create_delivered_order
from proof.support.example_migrations import FORMER_TYPE, reading_former_names, with_former_names


@pytest.fixture(autouse=True)
def renaming() -> Iterator[Migration]:
    with reading_former_names() as found:
        yield found


def everything(harness: ShopHarness) -> list[Image]:
    found = harness.shop.table.client.scan(TableName=harness.shop.table.name, ConsistentRead=True)["Items"]
    return [image for image in found if image["type"]["S"] != "Sweep"]


def contributions(harness: ShopHarness) -> list[Image]:
    return [image for image in everything(harness) if image["PK"]["S"].startswith("COUNTED#")]


def put(harness: ShopHarness, image: Image) -> None:
    harness.shop.table.client.put_item(TableName=harness.shop.table.name, Item={**image})


def rename_back(harness: ShopHarness) -> None:
    """Store all items as older code would have stored them."""
    for image in everything(harness):
        put(harness, with_former_names(image))
    harness.new_records()


def rename(harness: ShopHarness, renaming: Migration, task: str = "up") -> None:
    run_migration(harness.shop, PlannedMigration(version="0001", migration=renaming, task=task), by="ann@desk")


def drift(harness: ShopHarness) -> list[str]:
    check = DriftCheck(harness.shop, pause_seconds=0.01)
    check.check_all()
    assert not check.sweep_result.unreadable
    return sorted(fault.kind for fault in check.discrepancies.values())


def test_an_amount_is_counted_once_under_both_names(harness: ShopHarness, renaming: Migration) -> None:
    order_id = create_delivered_order(harness)
    rename_back(harness)
    assert drift(harness) == []
    returns.return_goods(harness.shop, WAREHOUSE, "back", order_id, {"mug": returns.ReturnedGoods(1, restock=True)})
    harness.process_all(times=2)
    kinds = {image["type"]["S"] for image in contributions(harness)}
    assert kinds == {FORMER_TYPE, "Contribution"}, "the contribution of the return has the new type"
    assert drift(harness) == []
    rename(harness, renaming)
    harness.process_all(times=2)
    assert {image["type"]["S"] for image in contributions(harness)} == {"Contribution"}
    assert drift(harness) == []


def test_drift_finds_a_wrong_amount_under_its_former_name(harness: ShopHarness) -> None:
    create_delivered_order(harness)
    rename_back(harness)
    (wrong,) = contributions(harness)
    put(harness, {**wrong, "amounts": {"M": {}}})
    assert "contribution wrong" in drift(harness)


def test_an_order_that_changes_while_its_contribution_is_renamed_keeps_its_new_amounts(
    harness: ShopHarness, renaming: Migration
) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=2)
    harness.pay_order(order_id)
    harness.process_all()
    rename_back(harness)
    waiting = [lambda: cancellation.cancel_order(harness.shop, ANN, order_id)]

    def cancel_before_the_rename(params: dict[str, Any], **_: Any) -> None:
        if waiting and params["Key"]["PK"]["S"].startswith("COUNTED#"):
            waiting.pop()()
            cancellation.agree_cancel(harness.shop, WAREHOUSE, order_id)
            harness.process_all()

    events: Any = harness.shop.table.client.meta.events
    events.register_first("provide-client-params.dynamodb.UpdateItem", cancel_before_the_rename)
    rename(harness, renaming)
    events.unregister("provide-client-params.dynamodb.UpdateItem", cancel_before_the_rename)
    assert waiting == []
    harness.process_all()
    assert {image["type"]["S"] for image in contributions(harness)} <= {"Contribution"}
    assert drift(harness) == []


def test_an_older_reader_retries_a_change_whose_contribution_has_its_new_name_until_it_is_renamed_back(
    harness: ShopHarness, renaming: Migration
) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=2)
    harness.pay_order(order_id)
    harness.process_all()
    cancellation.cancel_order(harness.shop, ANN, order_id)
    cancellation.agree_cancel(harness.shop, WAREHOUSE, order_id)
    records = harness.new_records()
    older_rows = {name: row for name, row in t.ROWS_BY_TYPE.items() if name != "Contribution"}
    with mock.patch.object(clients, "ROWS_BY_TYPE", older_rows):
        assert READERS["copies_reader"].handler({"Records": records}, None)["batchItemFailures"]
    assert not harness.objects("failures")
    rename(harness, renaming, "down")
    for _ in range(2):
        assert READERS["copies_reader"].handler({"Records": records}, None) == {"batchItemFailures": []}
    assert drift(harness) == []
    (total,) = [image for image in harness.partition("PRODUCT#mug") if image["type"]["S"] == "BestSeller"]
    assert total["pieces"] == {"N": "0"}
