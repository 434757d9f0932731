"""Starts, finds and stops the child processes of the local shop, also those that are left after its kill -9.

Each child has a directory with a file that contains the process id, which it inherits open and locked. The operating
system releases the lock when the child ends, even after a kill -9: then the id may belong to another process. The shop
itself finds its children by their handles, even if the user deletes the folder of the state.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

PID_FILE = "pid"
T = TypeVar("T")
_children: dict[Path, subprocess.Popen[bytes]] = {}
"""The last process that this Python process started in each directory."""
PROC = Path("/proc")
LOG_FILE = "log"
EXCLUSIVE_LOCK_FILE = "alone"
MAX_OPEN_FILES = 10_240
"""The limit that a shop sets. macOS refuses higher numbers (OPEN_MAX), although its hard limit is infinite."""
MIN_OPEN_FILES = 512
"""The lowest limit with which the shop starts. 64 clients need 219 open files. With fewer files, orders hang."""


class ProcessFailed(RuntimeError):
    """A process could not be started or used. The message contains the reason."""


def raise_open_files_limit() -> int:
    """Raise the limit of open files of this process to at most MAX_OPEN_FILES. Return the limit that now applies."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return MAX_OPEN_FILES if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # the operating system has a lower limit of its own
        return soft
    return wanted


def require_open_files() -> None:
    """Raise the open-files limit of this process and its children. Raises ProcessFailed if the limit stays too low."""
    if (limit := raise_open_files_limit()) < MIN_OPEN_FILES:
        raise ProcessFailed(
            f"This terminal allows {limit} open files, and the shop needs {MIN_OPEN_FILES}: ulimit -n {MIN_OPEN_FILES}"
        )


def free_port() -> int:
    """Return a port that is free now, and that no outgoing connection takes: these get higher ones (Linux, macOS)."""
    while True:
        port = 10_000 + secrets.randbelow(22_768)  # the module random may have the same seed in several processes
        with closing(socket.socket()) as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def is_listening(port: int) -> bool:
    """Return whether a process accepts connections on this port of 127.0.0.1."""
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def require_free_port(port: int, remedy: str = "Start the shop again.") -> None:
    """Raise ProcessFailed, with the process that uses the port and the `remedy`, if this port of 127.0.0.1 is taken."""
    if is_listening(port):
        raise ProcessFailed(f"Port {port} of 127.0.0.1 is in use by {describe_listener(port)}. {remedy}")


def describe_listener(port: int) -> str:
    """Return the id and command of the process that listens on this port, or "another process" (without /proc)."""
    with suppress(OSError):
        rows = map(str.split, (PROC / "net" / "tcp").read_text().splitlines()[1:])
        sockets = {f"socket:[{row[9]}]" for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A"}
        for folder in PROC.glob("[0-9]*"):
            with suppress(OSError):
                if any(str(file.readlink()) in sockets for file in (folder / "fd").iterdir()):
                    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                    return f"process {folder.name} ({command})"
    return "another process"


def write_private_file(file: Path, text: str) -> None:
    """Write a file atomically. Only the owner can read the file."""
    new = file.with_name(f"{file.name}.new")
    new.unlink(missing_ok=True)
    with open(new, "x", opener=lambda path, flags: os.open(path, flags, 0o600)) as opened:
        opened.write(text)
    new.replace(file)


def read_address(file: Path, make: Callable[..., T]) -> T:
    """Return `make` with the values of an address file (JSON). Raises ProcessFailed if it is missing or damaged."""
    try:
        return make(**json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError):
        raise ProcessFailed(f"{file} is damaged: stop the shop and start it again.") from None


@contextmanager
def exclusive_lock(directory: Path, error_message: str) -> Iterator[None]:
    """Hold an exclusive lock on a directory in a `with` block. Raises ProcessFailed if another process holds it."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / EXCLUSIVE_LOCK_FILE).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ProcessFailed(error_message) from None
        yield


KILL_SECONDS = 15.0
"""How long a process may take to end after SIGKILL. On a busy machine, the kernel needs more than a moment."""


def running_process_id(directory: Path) -> int | None:
    """Return the id of the process started here, or None. Raises ProcessFailed while it is being started."""
    if (child := _children.get(directory)) and child.poll() is None:
        return child.pid
    try:
        with (directory / PID_FILE).open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                process_id = lock.read()
                if not process_id:
                    raise ProcessFailed(f"another program is starting a process in {directory}") from None
                return int(process_id)
    except FileNotFoundError:
        pass
    return None


def start(
    command: Sequence[str],
    *,
    directory: Path,
    env: Mapping[str, str],
    is_ready: Callable[[], bool],
    timeout_seconds: float,
    cwd: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process, with its output in `directory/log`, and wait until `is_ready` returns True.

    It has its own session, so Ctrl-C reaches only its parent, which stops it in order. Raises ProcessFailed if it ends
    or is not ready within `timeout_seconds`, or if another process runs in this directory.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / PID_FILE).open("a+") as lock, (directory / LOG_FILE).open("ab") as log:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ProcessFailed(f"{directory} is in use by process {running_process_id(directory)}") from None
        lock.truncate(0)  # remove the id of the previous process, because other programs trust the id in a locked file
        process = subprocess.Popen(
            command,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(lock.fileno(),),
        )
        lock.write(str(process.pid))
    _children[directory] = process
    give_up = time.monotonic() + timeout_seconds
    while not is_ready():
        ended = process.poll() is not None
        if ended or time.monotonic() > give_up:
            stop(directory)
            process.wait()
            said = (directory / LOG_FILE).read_text(errors="replace").strip().splitlines()[-5:]
            outcome = "exited" if ended else f"was not ready within {timeout_seconds:g} s"
            raise ProcessFailed(f"{Path(command[0]).name} {outcome}: {' | '.join(said) or 'it printed nothing'}")
        time.sleep(0.005)
    return process


def stop(directory: Path, *, timeout_seconds: float = 15.0) -> bool:
    """Stop the process of this directory with SIGTERM, or SIGKILL after the timeout. Return if SIGTERM sufficed."""
    process_id = running_process_id(directory)
    if process_id is None:
        return True
    os.kill(process_id, signal.SIGTERM)
    if _wait_until_ended(directory, timeout_seconds):
        return True
    _kill_group(process_id)
    _wait_until_ended(directory, KILL_SECONDS)
    return False


@contextmanager
def ended_with_this_process(process_id: int, *, by: str = "KILL", folder: Path | None = None) -> Iterator[None]:
    """If this process dies in a `with` block, even by SIGKILL, end another process and delete its folder."""
    script = 'read -r _; kill "-$1" "$2"; [ -z "$3" ] || rm -rf "$3"'
    command = ["/bin/sh", "-c", script, "watch", by, str(process_id), str(folder or "")]
    watch = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        watch.kill()
        watch.communicate()


def kill_children() -> None:
    """Kill all processes that this Python process started, with their own children, and wait for them."""
    for child in _children.values():
        if child.poll() is None:
            _kill_group(child.pid)
            child.wait()


def _kill_group(process_id: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process_id, signal.SIGKILL)


def _wait_until_ended(directory: Path, timeout_seconds: float) -> bool:
    give_up = time.monotonic() + timeout_seconds
    while running_process_id(directory) is not None:
        if time.monotonic() > give_up:
            return False
        time.sleep(0.005)
    return True
