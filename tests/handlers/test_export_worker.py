"""Tests the export worker: it continues through the stream, part after part, also after its time ran out."""

from datetime import timedelta

import pytest

from functions.dynamodb.keys import to_instant
from functions.handlers import event_publisher, export_worker
from functions.shop import list_exports
from functions.shop.feed import read_list
from functions.shop.list_exports import get_export, request_export
from local.world.harness import STAFF, ShopHarness
from proof.support.lambda_context import FakeContext


def request(harness: ShopHarness) -> str:
    """Request the export of three orders, and let the copies of the orders be written."""
    harness.open_shop()
    for key in ("one", "two", "three"):
        harness.place_order(key)
    harness.process_all()
    since, until = (to_instant(harness.now() + timedelta(days=days)) for days in (-1, 1))
    return str(request_export(harness.shop, STAFF, "k", "orders", since, until).result["export_id"])


def test_each_part_requests_the_next_one_until_the_list_is_written(
    harness: ShopHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_exports, "ROWS_PER_PART", 1)
    export_id = request(harness)
    harness.process_all()
    export = get_export(harness.shop, STAFF, export_id)
    assert (export.status, export.rows, len(export.part_hashes)) == ("DONE", 3, 3)
    expected = {f"{name}.{ending}" for name in export.object_names for ending in ("csv", "ndjson")}
    assert harness.objects("exports").keys() == expected


def test_a_part_ends_before_the_time_limit_and_the_next_message_continues(
    harness: ShopHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_exports, "PAGE", 1)
    export_id = request(harness)
    event_publisher.handler({"Records": harness.new_records()}, None)
    context = FakeContext(41)
    monkeypatch.setattr(list_exports, "read_list", context.spending(2, read_list))
    assert export_worker.handler({"Records": harness.take_messages("export")}, context) == {"batchItemFailures": []}
    export = get_export(harness.shop, STAFF, export_id)
    assert (export.status, export.rows) == ("RUNNING", 1)
    harness.process_all()
    assert get_export(harness.shop, STAFF, export_id).rows == 3
