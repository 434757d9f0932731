"""Tests the export of orders that are archived or restored, also during the export."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import pytest

from functions.dynamodb.errors import TableBusy
from functions.model import table as t
from functions.runtime import clients
from functions.shop import archive, data_export
from functions.shop.lists import ListRequest
from local.world.harness import ANN, ShopHarness
from ops.commands import restore
from proof.support.actors import report_dispute
from proof.support.archiving import (
    create_delivered_order,
    expire_everything,
    order_messages,
    order_partition,
    run_archive,
)
from proof.support.client_faults import record_calls, run_before_call
from tests.support.saved import reused

ITEMS_OF_ORDER = {row.type for row in t.rows_beside(t.ORDER)}


def pages(harness: ShopHarness, limit: int = 100) -> Iterator[list[data_export.ExportedItem]]:
    request: ListRequest | None = ListRequest(ANN, limit)
    while request:
        page = data_export.export_customer(
            replace(harness.shop, read_archive=lambda key: json.loads(harness.objects("archive")[key])["items"]),
            request,
            ANN.id,
        )
        yield list(page.items)
        request = replace(request, cursor=page.cursor) if page.cursor else None


def pages_with_act_after(
    harness: ShopHarness, last: str, act: Callable[[], object]
) -> Iterator[list[data_export.ExportedItem]]:
    """Yield pages of one item, and call `act` once, after the first item of the type `last`."""
    acted = False
    for page in pages(harness, limit=1):
        yield page
        if not acted and page and page[-1].type == last:
            act()
            acted = True
    assert acted


def types_of_order(found: Iterator[list[data_export.ExportedItem]]) -> list[str]:
    """Return the types of the exported items of orders, without those that archiving or restoring adds."""
    items = [item for page in found for item in page if item.type in ITEMS_OF_ORDER - {"ArchivedOrder", "ExpiryMarker"}]
    return sorted(item.type for item in items if item.data.get("event") != "OrderRestored")


@reused
def delivered_order(harness: ShopHarness) -> str:
    return create_delivered_order(harness)


def archive_orders(harness: ShopHarness) -> None:
    harness.advance_days(days=400)
    harness.process_all()


def restore_order(harness: ShopHarness, order_id: str) -> None:
    harness.clock_offset += restore.SETTLE_TIME
    fetch = restore.make_archive_fetcher(clients.client("s3"), "archive")
    assert isinstance(restore.restore_order(harness.shop, fetch, order_id), restore.RestoredOrder)
    harness.process_all()


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_an_archived_order_is_exported_from_its_object_with_its_invoice_once(harness: ShopHarness, limit: int) -> None:
    delivered_order(harness)
    before = types_of_order(pages(harness))
    archive_orders(harness)
    found = [item for page in pages(harness, limit) for item in page]
    types = [item.type for item in found]
    assert types.count("ArchivedOrder") == types.count("Order") == types.count("Invoice") == 1
    assert types_of_order(iter([found])) == before


@pytest.mark.parametrize("last", ["OrderSummary", "Invoice", "Order", "Payment", "Shipment"])
@pytest.mark.parametrize("is_restored", [False, True])
def test_an_order_that_is_archived_or_restored_between_two_pages_is_exported_once_and_completely(
    harness: ShopHarness, last: str, is_restored: bool
) -> None:
    order_id = delivered_order(harness)
    before = types_of_order(pages(harness))
    if is_restored:
        archive_orders(harness)
    act = partial(restore_order, harness, order_id) if is_restored else partial(archive_orders, harness)
    assert types_of_order(pages_with_act_after(harness, last, act)) == before


def test_an_order_that_is_archived_while_a_page_is_read_is_exported_completely(harness: ShopHarness) -> None:
    order_id = delivered_order(harness)
    with record_calls("dynamodb", "Query") as calls:
        before = types_of_order(pages(harness))
    partitions = [call["ExpressionAttributeValues"][":pk"]["S"] for call in calls]
    number = 1 + partitions.index(f"ORDER#{order_id}")
    messages = order_messages(expire_everything(harness))
    with run_before_call("dynamodb", "Query", lambda: run_archive(*messages), call=number):
        assert types_of_order(pages(harness)) == before
    assert [image["type"]["S"] for image in order_partition(harness, order_id)] == ["Invoice", "ArchivedOrder"]


def test_an_export_waits_while_an_order_is_being_archived(harness: ShopHarness) -> None:
    order_id = delivered_order(harness)
    harness.advance_days(days=400)
    assert archive.start_archiving(harness.shop, order_id, harness.shop.now_instant()) is not None
    with pytest.raises(TableBusy):
        list(pages(harness))


def test_a_kept_dispute_that_is_in_the_archive_object_too_is_exported_once(
    harness: ShopHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    order_id = delivered_order(harness)
    archive_orders(harness)
    for outcome in ("opened", "won"):
        report_dispute(harness.shop, "pi_1", outcome)
    # simulates a restore that is killed before it moves the dispute
    monkeypatch.setattr(restore, "apply_kept_events", lambda *_: None)
    restore_order(harness, order_id)
    archive_orders(harness)
    archived = [json.loads(body)["items"] for key, body in harness.objects("archive").items() if "orders/" in key]
    assert any(image["type"]["S"] == "KeptEvent" for images in archived for image in images)
    assert types_of_order(pages(harness)).count("KeptEvent") == 1
