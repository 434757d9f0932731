"""Tests that log lines of functions become entries of the journal, with the real lines of an order."""

import io
import json
from typing import Any

import pytest

from functions.api.app import app
from functions.model.metrics import PARKED
from functions.runtime import dead_letters, observability
from functions.runtime.metrics_buffer import MetricsBuffer
from functions.shop import follows, products
from local.laptop.log_tailer import parse_log_line
from local.world.harness import ANN, STAFF, ShopHarness
from proof.support.archiving import create_delivered_order

assert app.known_routes, "the import of the app configures the log"


def told(log: io.StringIO) -> list[dict[str, Any]]:
    return [entry for line in log.getvalue().splitlines() for entry in parse_log_line(line)]


def test_every_step_of_an_order_is_logged_with_its_order_id(harness: ShopHarness, log: io.StringIO) -> None:
    order_id = create_delivered_order(harness)
    harness.advance_days(days=400)
    harness.process_all()
    entries = told(log)
    mine = [(entry["kind"], entry["text"].partition(" ")[0]) for entry in entries if entry.get("order_id") == order_id]
    for step in (
        ("copied", "copies"),
        ("published", "OrderPaid"),
        ("effect", "invoice"),
        ("effect", "mail"),
        ("effect", "archived"),
    ):
        assert step in mine
    effects = [entry for entry in entries if entry["kind"] == "effect" and entry.get("order_id")]
    assert all(entry["attempt"] == 1 and entry["lag_ms"] >= 0 and entry["units"]["write"] for entry in effects)


def test_alerts_of_a_product_are_logged_with_the_number_of_mails(harness: ShopHarness, log: io.StringIO) -> None:
    harness.open_shop()
    follows.follow_product(harness.shop, ANN, "mug")
    harness.process_all()
    products.update_product(harness.shop, STAFF, "mug", price=990)
    products.update_product(harness.shop, STAFF, "pot", price=990)
    harness.process_all()
    effects = [
        entry["text"] for entry in told(log) if entry["kind"] == "effect" and entry["reaction"] == "product_alert"
    ]
    assert effects[-1:] == ["mail PriceDropped to 1 follower of mug"]
    assert not [text for text in effects if "pot" in text], "the pot has no followers"


def test_failures_and_parked_records_are_logged_with_a_way_to_find_them(harness: ShopHarness, log: io.StringIO) -> None:
    record = {"eventID": "e", "dynamodb": {"Keys": {"PK": {"S": "ORDER#o-1"}, "SK": {"S": "ORDER"}}}}
    observability.failure_logger("copies_reader")(TimeoutError("Ann Ash"), record)
    body = json.dumps({"detail": {"data": {"order_id": "o-2"}}})
    message = {"messageId": "m", "body": body, "attributes": {"ApproximateReceiveCount": "3"}}
    observability.failure_logger("fulfilment")(TimeoutError("Ann Ash"), message)
    dead_letters.dead_letter_writer("failures", "order_notification")(
        {"messageId": "m", "body": "{"}, "NotReadable: Ann Ash"
    )
    assert "Ash" not in log.getvalue()
    shown = [(entry["text"], entry["order_id"], entry.get("attempt")) for entry in told(log)]
    assert shown == [
        ("copies_reader failed: TimeoutError", "o-1", None),
        ("fulfilment failed: TimeoutError", "o-2", 3),
        ("order_notification parked a record: NotReadable", None, 1),
    ]


COUNTS = MetricsBuffer("copies_reader")
COUNTS.add_metric(PARKED)
STRANGE = {"message": "record_failed", "timestamp": "2026-03-01 12:00:00,000+0000", "reader": "x"}
LINES = ["", "{}", "[]", '{"message": "request_handled"}', "START RequestId: 1", '{"message": "x"}']


@pytest.mark.parametrize(
    "line", [*LINES, *COUNTS.emf_lines("shop", 1), json.dumps({**STRANGE, "error": "x", "item": "x"})]
)
def test_log_lines_of_other_processes_are_ignored(line: str) -> None:
    assert parse_log_line(line) == []
