"""Tests that a deploy to the local AWS lets the running invocations of a function end."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from ministack.core import lambda_runtime  # type: ignore[import-untyped]
from ministack.services import lambda_svc  # type: ignore[import-untyped]

from local.laptop import aws_server


def test_a_worker_is_stopped_by_an_update_of_its_code_only_after_its_invocation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy, idle = (SimpleNamespace(in_use=in_use, _lock=threading.Lock()) for in_use in (True, False))
    killed: list[Any] = []
    busy_is_killed = threading.Event()

    def kill(workers: list[Any]) -> None:
        killed.extend(workers)
        if busy in workers:
            busy_is_killed.set()

    monkeypatch.setattr(lambda_runtime, "kill_workers", kill)
    for name in ("_update_code", "_update_config"):
        monkeypatch.setattr(lambda_svc, name, lambda *_: lambda_runtime.kill_workers([busy, idle]))
    aws_server._finish_invocations_before_updates()
    with busy._lock:
        lambda_svc._update_code("copies", {})
        assert killed == [idle]
    assert busy_is_killed.wait(10)
    assert killed == [idle, busy]
    killed.clear()
    with busy._lock:
        lambda_runtime.kill_workers([busy])  # as ministack does after a time-out
    assert killed == [busy]
