"""Tests the operating system's limits for the local shop, and how its child processes end."""

import os
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from local.laptop import log_files
from local.laptop.shop_client import PROJECT
from local.world import processes
from tests.support.waiting import eventually


@pytest.mark.parametrize(
    ("hard", "wanted"),
    [(resource.RLIM_INFINITY, processes.MAX_OPEN_FILES), (4096, 4096), (1 << 20, processes.MAX_OPEN_FILES)],
)
def test_the_limit_of_open_files_is_raised_to_a_number_that_macos_accepts(
    monkeypatch: pytest.MonkeyPatch, hard: int, wanted: int
) -> None:
    accepted: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: accepted.append(limits))
    assert processes.raise_open_files_limit() == wanted
    assert accepted == [(wanted, hard)]


def test_a_refused_limit_of_open_files_leaves_the_old_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1 << 20))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert processes.raise_open_files_limit() == 1024


def test_a_shop_with_too_few_open_files_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 64))
    with pytest.raises(processes.ProcessFailed, match=str(processes.MIN_OPEN_FILES)):
        processes.require_open_files()


SLEEPING = "import signal, time; {prepare}; time.sleep(600)"


def start(directory: Path, prepare: str = "pass") -> int:
    """Start a child that only sleeps, after `prepare`. Return its id."""
    ready = directory.with_name("ready")
    code = SLEEPING.format(prepare=f"{prepare}; open({str(ready)!r}, 'w')")
    command = [sys.executable, "-c", code]
    return processes.start(command, directory=directory, env={}, is_ready=ready.exists, timeout_seconds=30).pid


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(processes, "_children", {})  # forget the engine of the other tests, which is a child, too
    yield tmp_path / "part"
    processes.kill_children()


def test_a_child_whose_folder_is_deleted_still_runs_and_is_stopped(folder: Path) -> None:
    process_id = start(folder)
    shutil.rmtree(folder)
    assert processes.running_process_id(folder) == process_id
    assert processes.stop(folder)
    assert processes.running_process_id(folder) is None


def test_a_child_that_ignores_sigterm_is_killed_after_the_limit(folder: Path) -> None:
    start(folder, "signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    shutil.rmtree(folder)
    assert not processes.stop(folder, timeout_seconds=0.05)
    assert processes.running_process_id(folder) is None


def test_the_output_of_a_running_child_keeps_its_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "MAX_LOG_BYTES", 5)
    start(folder, "signal.signal(signal.SIGTERM, lambda *_: exit(print('last'))); print('first', flush=True)")
    log = folder / processes.LOG_FILE
    log_files.limit_output(log)
    assert log.read_text() == ""
    assert processes.stop(folder)
    assert log_files.read_log(log) == b"first\nlast\n"


def test_all_children_are_killed_at_once(folder: Path) -> None:
    start(folder, "signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    processes.kill_children()
    assert processes.running_process_id(folder) is None


@pytest.mark.skipif(not processes.PROC.is_dir(), reason="only Linux has /proc")
def test_the_process_that_holds_a_port_is_named() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        assert f"process {os.getpid()} (" in processes.describe_listener(server.getsockname()[1])


def test_a_port_of_an_unknown_process_is_still_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(processes, "PROC", tmp_path)
    assert processes.describe_listener(1) == "another process"


def test_a_killed_test_leaves_no_engine_and_no_folder_behind() -> None:
    script = (
        "import time\nfrom local.world import dynamodb_engine\nwith dynamodb_engine.temporary_engine() as engine:\n"
        "    print(engine.port, engine.directory, flush=True)\n    time.sleep(60)"
    )
    test = subprocess.Popen([sys.executable, "-c", script], cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    assert test.stdout is not None
    port, _, folder = test.stdout.readline().strip().partition(" ")
    assert processes.is_listening(int(port))
    test.kill()
    test.communicate()
    eventually(lambda: not processes.is_listening(int(port)) and not Path(folder).exists())


def test_a_free_port_is_none_of_those_that_outgoing_connections_get() -> None:
    ports = [processes.free_port() for _ in range(50)]
    assert max(ports) < 32_768, "the first port that Linux gives to an outgoing connection"
    assert len({*ports}) > 1
