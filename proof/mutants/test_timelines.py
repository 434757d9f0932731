"""Timelines: an order contains an entry for each of its changes."""

import re

import pytest

from functions.adapters import mail_suppression
from functions.model import timelines
from functions.runtime import clients
from functions.shop import discounts, placing
from local.laptop import shop_client
from local.world.harness import ANN, HOME_ADDRESS, STAFF, ShopHarness
from ops.__main__ import main
from ops.commands import restore
from ops.commands.restore import make_archive_fetcher, restore_order
from ops.targets import ShopTarget
from proof.mutants.edits import detects, edit_code
from proof.mutants.items import stored_items, text
from proof.support.archiving import create_delivered_order
from proof.support.operator_shop import fake_shop_with_buckets


def archive(harness: ShopHarness) -> None:
    harness.advance_days(396)
    harness.process_all()


def restore_archived(harness: ShopHarness, order_id: str) -> None:
    harness.advance_days(1)
    restore_order(harness.shop, make_archive_fetcher(clients.client("s3"), "archive"), order_id)
    harness.process_all()


# entries --------------------------------------------------------------------------------------------------------------
@detects("a free order begins as placed", edit_code(timelines.first_entry, ("if order.total:", "if True:")))
def test_the_timeline_of_a_free_order_begins_with_its_payment(harness: ShopHarness) -> None:
    harness.open_shop()
    discounts.create_discount(harness.shop, STAFF, "gift", 10000)
    wanted = {"mug": placing.RequestedLine(1)}
    free = placing.place_order(harness.shop, ANN, "key-1", wanted, HOME_ADDRESS, {}, "gift").order.order_id
    assert shown_timeline(harness, free) == ["OrderPaid, PAID, version 1"]


# the timeline of a restored order -------------------------------------------------------------------------------------
def shown_timeline(harness: ShopHarness, order_id: str) -> list[str]:
    """Return the changes of an order that `ops order` shows, the oldest first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shop_client, "find", lambda _: fake_shop_with_buckets(harness))
        patch.setattr(ShopTarget, "table", harness.shop.table)
        patch.setattr(mail_suppression, "get_suppression", lambda *_: None)  # moto's SES has no suppression list
        printed: list[str] = []
        patch.setattr("builtins.print", lambda *words, **_: printed.append(" ".join(map(str, words))))
        main(["order", order_id, "--all"])
    events = re.findall(r"^ +\S+Z +(\d+) +(Order\w+) +([A-Z_]+)$", "\n".join(printed), re.MULTILINE)
    return [f"{event}, {status}, version {version}" for version, event, status in events]


# activity and summaries -----------------------------------------------------------------------------------------------
@detects(
    "a restore brings back retired index keys",
    edit_code(restore._missing_items, ("_with_index_keys(row, archived)", "archived")),
)
def test_a_restore_brings_back_only_the_index_keys_that_are_declared_now(harness: ShopHarness) -> None:
    order_id = create_delivered_order(harness)
    table = harness.shop.table
    (payment,) = stored_items(harness, "Payment")
    older = {**payment, "GSI1PK": {"S": "an index"}, "GSI1SK": {"S": "that has no payments now"}}
    table.client.put_item(TableName=table.name, Item=older)
    archive(harness)
    restore_archived(harness, order_id)
    (restored,) = stored_items(harness, "Payment")
    assert not {"GSI1PK", "GSI1SK"} & restored.keys()
    (shipment,) = stored_items(harness, "Shipment")
    assert text(shipment, "GSI1PK") == "TRACKING#dhl#42"
