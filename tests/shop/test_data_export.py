"""What an export has of an order that was moved to the archive."""

import json
from datetime import timedelta

import pytest

from functions.shop import data_export
from local.expiry import expire_until
from tests.support.harness import ANN, ShopHarness


def export(harness: ShopHarness, limit: int = 100) -> list[data_export.ExportedItem]:
    found: list[data_export.ExportedItem] = []
    after: str | None = ""
    while after is not None:
        page = data_export.export_customer(
            harness.shop,
            ANN,
            ANN.id,
            limit,
            after or None,
            lambda stub: json.loads(harness.objects("archive")[stub.object_key])["items"],
        )
        found += page.items
        after = page.after
    return found


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_an_archived_order_is_exported_from_its_object_with_its_invoice_once(harness: ShopHarness, limit: int) -> None:
    harness.open_shop()
    order_id = harness.place_order()
    harness.pay_order(order_id)
    harness.process_all()
    harness.dispatch_order(order_id)
    harness.deliver_order(order_id)
    harness.process_all()
    before = export(harness)
    expire_until(harness.engine, harness.shop.table.name, harness.now() + timedelta(days=396))
    harness.process_all()
    types = [item.type for item in export(harness, limit)]
    assert types.count("ArchivedOrder") == types.count("Order") == types.count("Invoice") == 1
    lasting = [item.type for item in before if item.type not in ("Activity", "Notification", "Expiry")]
    assert sorted(types) == sorted([*lasting, "ArchivedOrder"])
