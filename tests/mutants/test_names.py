"""Items that an earlier version of the shop stored under other names of their attributes."""

from typing import Any

from functions.shop import cancellation
from ops.commands.migrate import PlannedMigration, load_migrations, run_migration
from tests.mutants.items import number, stored_items
from tests.support.harness import ANN, WAREHOUSE, ShopHarness


def put(harness: ShopHarness, image: dict[str, Any]) -> None:
    harness.shop.table.client.put_item(TableName=harness.shop.table.name, Item=image)


def test_the_units_that_an_earlier_version_counted_are_subtracted_when_the_order_is_cancelled(
    harness: ShopHarness,
) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=2)
    harness.pay_order(order_id)
    harness.process_all()
    (stored,) = stored_items(harness, "Contribution")
    put(harness, {"of": stored.pop("source_type"), **stored, "type": {"S": "Counted"}})
    cancellation.cancel_order(harness.shop, ANN, order_id)
    cancellation.agree_cancel(harness.shop, WAREHOUSE, order_id)
    harness.process_all()
    (total,) = stored_items(harness, "BestSeller")
    assert number(total, "units") == 0


def test_a_migration_does_not_bring_back_a_campaign_that_ends_meanwhile(harness: ShopHarness) -> None:
    campaign = {
        "PK": {"S": "PRODUCT#mug"},
        "SK": {"S": "CAMPAIGN#PriceDropped"},
        "type": {"S": "Campaign"},
        "schema": {"N": "1"},
        "product_id": {"S": "mug"},
        "event": {"S": "PriceDropped"},
        "event_id": {"S": "c1"},
        "at": {"S": "2026-11-21T09:30:00.000Z"},
        "began_at": {"S": "2026-11-21T09:30:00.000Z"},
        "status": {"S": "TELLING"},
        "until": {"N": "1800000000"},
        "version": {"N": "1"},
    }
    put(harness, campaign)
    waiting = [{**campaign, "status": {"S": "TOLD"}, "version": {"N": "2"}}]

    def end_it_first(params: dict[str, Any], **_: Any) -> None:
        if waiting and params["Key"]["SK"] == campaign["SK"]:
            put(harness, waiting.pop())

    events = harness.shop.table.client.meta.events
    events.register_first("provide-client-params.dynamodb.UpdateItem", end_it_first)
    names = PlannedMigration(version="0009", migration=load_migrations()["0009"], task="up")
    run_migration(harness.shop, names, by="ann@desk")
    events.unregister("provide-client-params.dynamodb.UpdateItem", end_it_first)
    (found,) = stored_items(harness, "Campaign")
    assert (waiting, found["status"], found["version"]) == ([], {"S": "SENT"}, {"N": "2"})
