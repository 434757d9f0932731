"""Tests `python -m ops request`: the log lines of a request, on this machine and on AWS."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from functions.dynamodb.keys import to_instant
from local.laptop import shop_client
from local.laptop.log_files import append_to_log
from ops import targets
from ops.__main__ import main
from ops.targets import ShopTarget
from proof.support.operator_shop import fake_running_shop

NOW = datetime.now(UTC)
HANDLED: dict[str, Any] = {
    "timestamp": to_instant(NOW), "message": "request_handled", "function": "api", "invocation": "i1",
    "route": "POST /orders", "request_id": "Jx-1_Es=", "order_id": "o1", "status": 201, "ms": 16.2,
    "units": {"read": 3.5, "write": 5.0},
}  # fmt: skip
PLACES = ["/var/task/functions/shop/orders.py:7 price", "/var/task/botocore/client.py:9 call"]
FAULT = {"status": 500, "problem": "fault", "fault": {"error": "KeyError", "says": "'total'", "at": PLACES}}
GATEWAY = {
    "requestId": "Jx-1_Es=", "time": "29/Nov/2026:09:30:00 +0000", "route": "POST /{proxy+}", "status": "401",
    "latencyMilliseconds": "4", "integrationError": "-", "authorizerError": "the token is expired",
}  # fmt: skip


class CloudWatchLogs:
    """Answers FilterLogEvents with one event in a page, after an empty page. `lines`: {log group: its lines}."""

    def __init__(self, lines: Mapping[str, list[dict[str, Any]]]) -> None:
        self.lines = lines

    def get_paginator(self, operation: str) -> "CloudWatchLogs":
        assert operation == "filter_log_events"
        return self

    def paginate(self, **asked: Any) -> Iterator[dict[str, Any]]:
        assert asked["filterPattern"] == '{ ($.request_id = "Jx-1_Es=") || ($.requestId = "Jx-1_Es=") }'
        before = datetime.now(UTC) - timedelta(days=1)
        assert abs(asked["startTime"] / 1000 - before.timestamp()) < 600
        yield {"events": [], "nextToken": "1"}
        for line in self.lines[asked["logGroupName"]]:
            yield {"events": [{"message": json.dumps(line)}]}


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    main(["request", *arguments])
    return capsys.readouterr().out.splitlines()


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The log of the functions of the local shop."""
    log = tmp_path / "functions.log"
    engine: Any = None
    shop = fake_running_shop(engine, "orders")
    shop.aws.function_log = log
    monkeypatch.setattr(shop_client, "find", lambda _: shop)
    return log


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[dict[str, Any]]]:
    """The log groups of a stack, without a line."""
    names = ("/orderstream/dev/api", "/orderstream/dev/payment_starter", "/aws/vendedlogs/apis/orderstream-dev-1")
    groups: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    options = ["--stack", "orderstream-dev"]
    resources = {"AWS::Logs::LogGroup": [*names, "/orderstream/dev/fulfilment", "/aws/vendedlogs/events/bus"]}
    where = ShopTarget({}, lambda service: CloudWatchLogs(groups), resources.__getitem__, options=options)
    monkeypatch.setattr(targets, "resolve_target", lambda args: where)
    return groups


def test_a_request_to_the_local_shop_is_found_with_its_order(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line in ("START RequestId: Jx-1_Es=", json.dumps(HANDLED | {"request_id": "other"}), json.dumps(HANDLED)):
        append_to_log(log, f"{line}\n")
    *lines, order = answer(capsys, "Jx-1_Es=")
    assert lines == [
        "request Jx-1_Es=: POST /orders answered 201",
        f"  time         {to_instant(NOW)}",
        "  function     api, 16.2 ms, invocation i1",
        "  units        3.5 read, 5 write",
        "  sent by      not staff",
        "  order        o1",
    ]
    assert order.startswith("To see what happened to its order: ")
    assert order.endswith("-m ops order o1")


@pytest.mark.parametrize("at", [None, NOW - timedelta(hours=2)])
def test_a_request_that_is_not_in_the_log_of_the_time_is_a_sentence(
    log: Path, capsys: pytest.CaptureFixture[str], at: datetime | None
) -> None:
    if at:
        append_to_log(log, json.dumps(HANDLED | {"timestamp": to_instant(at)}) + "\n")
    with pytest.raises(SystemExit) as ended:
        answer(capsys, "Jx-1_Es=", "--since", "1h")
    assert str(ended.value.code).startswith("no log line since 2")
    assert str(ended.value.code).endswith("has this request id: search more with --since 7d")


def test_a_text_that_is_no_request_id_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        answer(capsys, 'x" }')
    assert ended.value.code == 2
    assert "is not the id of a request" in capsys.readouterr().err


def test_a_fault_on_aws_is_shown_with_its_place_and_the_line_of_api_gateway(
    groups: dict[str, list[dict[str, Any]]], capsys: pytest.CaptureFixture[str]
) -> None:
    groups["/orderstream/dev/payment_starter"] = [HANDLED | FAULT | {"staff_id": "sue"}]
    groups["/aws/vendedlogs/apis/orderstream-dev-1"] = [GATEWAY | {"status": "500", "authorizerError": "-"}]
    lines = answer(capsys, "Jx-1_Es=")
    assert lines[0] == "request Jx-1_Es=: POST /orders answered 500"
    assert lines[4:8] == [
        "  sent by      staff:sue",
        "  problem      fault",
        "  fault        KeyError 'total' at /var/task/functions/shop/orders.py:7 price",
        "  order        o1",
    ]
    assert lines[8] == "  API Gateway  29/Nov/2026:09:30:00 +0000, 500, 4 ms"
    assert lines[9].endswith("-m ops order o1 --stack orderstream-dev")


def test_a_request_that_only_api_gateway_answered_is_found(
    groups: dict[str, list[dict[str, Any]]], capsys: pytest.CaptureFixture[str]
) -> None:
    groups["/aws/vendedlogs/apis/orderstream-dev-1"] = [GATEWAY]
    assert answer(capsys, "Jx-1_Es=") == [
        "request Jx-1_Es=: POST /{proxy+} answered 401",
        "  API Gateway  29/Nov/2026:09:30:00 +0000, 401, 4 ms, the token is expired",
        "The function logged nothing: API Gateway answered itself, or the function ended without an answer.",
    ]
