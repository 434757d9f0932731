"""Items that older code stored under a former name of an attribute."""

from typing import Any

from functions.shop import cancellation
from local.world.harness import ANN, WAREHOUSE, ShopHarness
from ops.commands.migrate import PlannedMigration, run_migration
from proof.mutants.items import number, stored_items
from proof.support.example_migrations import FORMER_NAME, PRESENT_NAME, reading_former_names, with_former_names


def put(harness: ShopHarness, image: dict[str, Any]) -> None:
    harness.shop.table.client.put_item(TableName=harness.shop.table.name, Item=image)


def count_under_former_names(harness: ShopHarness) -> tuple[str, dict[str, Any]]:
    """Pay an order, and store its contribution as older code would have. Return the order's id and the contribution."""
    harness.open_shop()
    order_id = harness.place_order(mug=2)
    harness.pay_order(order_id)
    harness.process_all()
    (stored,) = stored_items(harness, "Contribution")
    put(harness, former := dict(with_former_names(stored)))
    return order_id, former


def test_the_units_that_older_code_counted_are_subtracted_when_the_order_is_cancelled(harness: ShopHarness) -> None:
    with reading_former_names():
        order_id, _ = count_under_former_names(harness)
        cancellation.cancel_order(harness.shop, ANN, order_id)
        cancellation.agree_cancel(harness.shop, WAREHOUSE, order_id)
        harness.process_all()
    (total,) = stored_items(harness, "BestSeller")
    assert number(total, "pieces") == 0


def test_a_rename_keeps_what_was_written_since_it_read_the_item(harness: ShopHarness) -> None:
    with reading_former_names() as renaming:
        _, former = count_under_former_names(harness)
        waiting = [{**former, FORMER_NAME: {"S": "Return"}, "version": {"N": "9"}}]

        def write_first(params: dict[str, Any], **_: Any) -> None:
            if waiting and params["Key"]["SK"] == former["SK"]:
                put(harness, waiting.pop())

        events: Any = harness.shop.table.client.meta.events
        events.register_first("provide-client-params.dynamodb.UpdateItem", write_first)
        run_migration(harness.shop, PlannedMigration(version="0001", migration=renaming, task="up"), by="ann@desk")
        events.unregister("provide-client-params.dynamodb.UpdateItem", write_first)
    (found,) = stored_items(harness, "Contribution")
    assert (waiting, found[PRESENT_NAME], found["version"]) == ([], {"S": "Return"}, {"N": "9"})
