"""Tests that shared fields find one order in the logs of all functions that processed it."""

import io
import json
import re
from typing import Any

import pytest

from functions.runtime.log import CORRELATION_FIELDS, JsonFormatter
from functions.runtime.log import log as function_log
from functions.shop import refunds
from local.world.harness import STAFF, ShopHarness
from stacks.order_trace_query import QUERY

Lines = list[dict[str, Any]]


def found(log: io.StringIO, order_id: str) -> Lines:
    """Return the result of the query stored in CloudWatch for an order, with its filters."""
    (like,) = re.findall(r'filter @message like "(.*)"', QUERY.replace("ORDER_ID", order_id))
    return [json.loads(line) for line in log.getvalue().splitlines() if like in line]


def test_an_order_is_followed_through_every_function_by_one_query(harness: ShopHarness, log: io.StringIO) -> None:
    harness.open_shop()
    order_id, other = harness.place_order("one", mug=1), harness.place_order("two", mug=1)
    harness.pay_order(order_id)
    harness.process_all()
    harness.dispatch_order(order_id)
    harness.deliver_order(order_id)
    refunds.refund_order(harness.shop, STAFF, "sorry", order_id, 100)
    harness.process_all()
    harness.advance_days(days=400)
    harness.process_all()
    lines = found(log, order_id)
    assert {line["function"] for line in lines} == {
        "copies_reader", "event_publisher", "fulfilment", "order_notification", "refund", "archive",
    }  # fmt: skip
    changes = {one["event_id"] for line in lines for one in line.get("changes", []) if one["order_id"] == order_id}
    events = {one["event_id"] for line in lines for one in line.get("events", []) if one["order_id"] == order_id}
    worked = [line for line in lines if "lag_ms" in line]
    assert events <= changes | {line["event_id"] for line in worked if line["function"] == "archive"}
    assert {line["event_id"] for line in worked} <= events, "each effect belongs to a published change"
    assert {line["order_id"] for line in worked} == {order_id}
    assert all(line["effect"] for line in worked)
    assert other not in json.dumps(worked)


def test_every_line_has_the_same_shape(harness: ShopHarness, log: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-67f0-abc;Parent=1;Sampled=1")
    harness.open_shop()
    harness.pay_order(harness.place_order(mug=1))
    harness.process_all()
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert lines
    for line in lines:
        assert list(line)[:6] == ["timestamp", "level", "message", "function", "invocation", "trace"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["timestamp"]), "as Lambda's own lines"
        assert line["trace"] == "1-67f0-abc"


def test_the_query_shows_the_fields_that_connect_lines() -> None:
    assert set(CORRELATION_FIELDS) <= set(re.findall(r"\w+", QUERY.splitlines()[0]))


def test_a_value_that_json_cannot_encode_is_logged_as_text() -> None:
    record = function_log.makeRecord("x", 20, "", 0, "odd", (), None, extra={"keys": {1}})
    assert json.loads(JsonFormatter().format(record))["keys"] == "{1}"
