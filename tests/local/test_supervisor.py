"""Tests that the supervisor continues if the restart of a process fails."""

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from botocore.exceptions import EndpointConnectionError

from local.laptop.journal import Journal
from local.laptop.supervisor import ProcessSupervisor
from local.world import processes
from tests.support.waiting import eventually


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """The processes of a shop by name, each with whether it runs."""
    running = {"dynamodb": True, "aws": True}
    monkeypatch.setattr("local.laptop.supervisor.CHECK_INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(processes, "running_process_id", lambda directory: 1 if running[directory.name] else None)
    return running


def supervisor(folder: Path, start_readers: Callable[[], list[Any]]) -> ProcessSupervisor:
    engine, aws = (SimpleNamespace(directory=folder / name) for name in ("dynamodb", "aws"))
    return ProcessSupervisor(cast(Any, engine), cast(Any, aws), start_readers, Journal(folder / "journal.sqlite"))


def test_readers_that_cannot_start_yet_are_started_again(
    tmp_path: Path, parts: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both processes are killed. While only the local AWS runs again, the readers find no stream."""
    stopped = threading.Event()

    def start_readers() -> list[Any]:
        if not parts["dynamodb"]:
            raise EndpointConnectionError(endpoint_url="http://127.0.0.1")
        return [SimpleNamespace(reader="copies_reader", stop=stopped.set, disabled=False, fail_next=0)]

    def start_aws(*_: Any, **__: Any) -> None:
        parts.update(dynamodb=False, aws=True)

    monkeypatch.setattr("local.laptop.aws_process.restart", start_aws)
    monkeypatch.setattr("local.world.dynamodb_engine.restart", lambda *_: parts.update(dynamodb=True))
    keeper = supervisor(tmp_path, start_readers)
    keeper.readers[0].disabled, keeper.readers[0].fail_next = True, 3
    keeper.start()
    try:
        parts["aws"] = False
        eventually(stopped.is_set)
        assert keeper.reader_names == ["copies_reader"]
        eventually(lambda: keeper.readers and keeper.restarts == {"dynamodb": 1, "aws": 1})
        [poller] = keeper.readers
        eventually(lambda: (poller.disabled, poller.fail_next) == (True, 3))
    finally:
        keeper.stop()
    assert keeper.readers == []


def test_a_process_that_does_not_start_is_tried_again(
    tmp_path: Path, parts: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []

    def start_engine(*_: Any) -> None:
        tries.append(len(tries))
        if len(tries) == 1:
            raise OSError("the disk is full")
        parts["dynamodb"] = True

    monkeypatch.setattr("local.world.dynamodb_engine.restart", start_engine)
    poller: Any = SimpleNamespace(reader="copies_reader", stop=lambda: None, disabled=False, fail_next=0)
    keeper = supervisor(tmp_path, lambda: [poller])
    parts["dynamodb"] = False
    keeper.start()
    try:
        eventually(lambda: keeper.restarts["dynamodb"] == 1)
    finally:
        keeper.stop()
    assert tries == [0, 1]


def test_readers_are_started_again_after_a_deploy_to_the_running_shop(tmp_path: Path, parts: dict[str, bool]) -> None:
    started: list[Any] = []

    def start_readers() -> list[Any]:
        started.append(SimpleNamespace(reader="copies", stop=lambda: None, disabled=len(started) == 0, fail_next=0))
        return started[-1:]

    keeper = supervisor(tmp_path, start_readers)
    assert all(parts.values())
    keeper.start()
    try:
        keeper.restart_readers()
        eventually(lambda: len(started) == 2 and keeper.readers == started[1:])
        eventually(lambda: started[1].disabled)
    finally:
        keeper.stop()
    assert keeper.restarts == {}
