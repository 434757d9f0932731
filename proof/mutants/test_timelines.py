"""Timelines: an order contains an entry for each of its changes."""

from typing import Any

import pytest

from functions.adapters import mail_suppression
from functions.runtime import clients
from functions.shop import discounts, placing
from local.laptop import shop_client
from local.world.harness import ANN, HOME_ADDRESS, STAFF, ShopHarness
from ops.__main__ import main
from ops.commands.restore import make_archive_fetcher, restore_order
from ops.targets import ShopTarget
from proof.mutants.items import stored_items, text
from proof.support.archiving import create_delivered_order
from proof.support.operator_shop import fake_shop_with_buckets

Image = dict[str, Any]


def entries(image: Image) -> list[tuple[str, str, str]]:
    """Return the stored entries of an order's timeline by version. Each is a text: time, status, and perhaps event."""
    timeline = sorted(image["timeline"]["M"].items(), key=lambda entry: int(entry[0]))
    parts = [(version, entry["S"].split(" ")) for version, entry in timeline]
    return [(version, one[2] if one[2:] else f"Order{one[1].title()}", one[1]) for version, one in parts]


def archive(harness: ShopHarness) -> None:
    harness.advance_days(396)
    harness.process_all()


def restore(harness: ShopHarness, order_id: str) -> None:
    harness.advance_days(1)
    restore_order(harness.shop, make_archive_fetcher(clients.client("s3"), "archive"), order_id)
    harness.process_all()


# entries --------------------------------------------------------------------------------------------------------------
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
    lines = "\n".join(printed).splitlines()
    return [line.split("change ")[1].strip() for line in lines if " change " in line and ", version " in line]


# activity and summaries -----------------------------------------------------------------------------------------------
def test_a_restore_brings_back_only_the_index_keys_that_are_declared_now(harness: ShopHarness) -> None:
    order_id = create_delivered_order(harness)
    table = harness.shop.table
    (payment,) = stored_items(harness, "Payment")
    older = {**payment, "GSI1PK": {"S": "an index"}, "GSI1SK": {"S": "that has no payments now"}}
    table.client.put_item(TableName=table.name, Item=older)
    archive(harness)
    restore(harness, order_id)
    (restored,) = stored_items(harness, "Payment")
    assert not {"GSI1PK", "GSI1SK"} & restored.keys()
    (shipment,) = stored_items(harness, "Shipment")
    assert text(shipment, "GSI1PK") == "TRACKING#dhl#42"
