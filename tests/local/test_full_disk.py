"""Tests that the local shop reports a disk that becomes full while the shop runs, and then accepts no new orders."""

import asyncio
import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from local.laptop.aws_process import LocalAws, LocalAwsAddress
from local.laptop.aws_server import LocalAwsServer
from local.laptop.backlog import BacklogMonitor
from local.laptop.journal import Journal
from local.laptop.state_checks import MIN_FREE_BYTES_WHILE_RUNNING, find_full_disk
from ops.commands import health
from ops.targets import ShopTarget

SetFree = Callable[[int], None]


@pytest.fixture
def set_free(monkeypatch: pytest.MonkeyPatch) -> SetFree:
    return lambda free: monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))


def test_an_order_is_answered_with_503_and_the_reason(tmp_path: Path, set_free: SetFree) -> None:
    set_free(MIN_FREE_BYTES_WHILE_RUNNING - 1)
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    server = LocalAwsServer(LocalAws(tmp_path / "aws", LocalAwsAddress(1, 2, "key", "http://127.0.0.1:3")))
    headers = [(b"host", b"127.0.0.1:2")]
    scope = {"type": "http", "method": "POST", "path": "/orders", "server": ("127.0.0.1", 2), "headers": headers}
    asyncio.run(server(scope, receive, send))
    head, body = sent
    assert head["status"] == 503
    assert (b"content-type", b"application/problem+json") in head["headers"]
    assert json.loads(body["body"])["detail"] == find_full_disk(tmp_path)


def test_the_journal_names_a_full_disk_once_and_its_end(tmp_path: Path, set_free: SetFree) -> None:
    printed: list[str] = []
    journal = Journal(tmp_path / "journal.sqlite", lambda entry: printed.append(entry["text"]))
    monitor = BacklogMonitor(list, dict, journal, tmp_path / "backlog.json")
    set_free(0)
    reason = find_full_disk(tmp_path)
    monitor.measure()
    monitor.measure()
    assert printed == [reason]
    assert monitor.full_disk == reason
    set_free(MIN_FREE_BYTES_WHILE_RUNNING)
    monitor.measure()
    assert len(printed) == 2
    assert monitor.full_disk is None


def test_the_health_check_names_a_full_disk() -> None:
    target: Any = ShopTarget({}, lambda _: None, lambda _: (), full_disk=lambda: "The disk is full.")
    full, *_ = health.check_local_backlog(target, datetime.now(UTC))
    assert (full.subject, full.status) == ("disk", "The disk is full.")
    assert full.action
