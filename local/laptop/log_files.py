"""Writes, reads and rotates the local shop's log files: from MAX_LOG_BYTES on, a log is renamed to `*.before`."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

MAX_LOG_BYTES = 32 << 20


def _part_before(log: Path) -> Path:
    return log.with_name(f"{log.name}.before")


def rotate_log(log: Path) -> None:
    """Rename the log to `*.before`, so that the next line starts a new log. An older `*.before` is deleted."""
    with suppress(FileNotFoundError):
        log.replace(_part_before(log))


def append_to_log(log: Path, text: str) -> None:
    """Append lines to a log, and rotate a full log. Several threads and processes may append at the same time."""
    with _locked_log(log) as file:
        file.write(text.encode())
        if os.fstat(file.fileno()).st_size >= MAX_LOG_BYTES:
            rotate_log(log)


def read_log(log: Path, max_bytes: int = 2 * MAX_LOG_BYTES) -> bytes:
    """Return the last `max_bytes` bytes of a log and its renamed part `*.before`."""
    with _locked_log(log) as file:
        text = _read_end(file, max_bytes)
        with suppress(FileNotFoundError), _part_before(log).open("rb") as before:
            text = _read_end(before, max_bytes - len(text)) + text
    return text


def limit_output(log: Path) -> None:
    """Copy a large log to `*.before`, and empty it: a process that keeps it open would write to a renamed file."""
    with suppress(FileNotFoundError):  # the folder of the state was deleted
        if log.stat().st_size >= MAX_LOG_BYTES:
            with suppress(OSError):  # the disk is full
                shutil.copyfile(log, _part_before(log))
            os.truncate(log, 0)


class LogLines:
    """The lines that are appended to a log from now on. The log is created if it does not exist."""

    def __init__(self, log: Path) -> None:
        log.touch()
        self._log, self._rest = log, b""
        self._file: BinaryIO = log.open("rb")
        self._file.seek(0, os.SEEK_END)

    def read(self) -> list[bytes]:
        """Return the complete lines since the last call. One rotation since then loses no line."""
        # Open it before reading: nothing is appended to a log after it was renamed.
        log = self._open_rotated()
        text = self._file.read()
        if log:
            self._file.close()
            self._file = log
            text += self._file.read()
        *lines, self._rest = (self._rest + text).split(b"\n")
        return lines

    def close(self) -> None:
        self._file.close()

    def _open_rotated(self) -> BinaryIO | None:
        """Open the log that was begun since the last call. None: there is no new log, or it has no line yet."""
        if _is_file_at(self._file, self._log):
            return None
        with suppress(FileNotFoundError):  # the old log was renamed a moment ago
            return self._log.open("rb")
        return None


@contextmanager
def _locked_log(log: Path) -> Iterator[BinaryIO]:
    """Open a log, and hold a lock of it, so that no other process appends to it or rotates it."""
    while True:
        with log.open("a+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if _is_file_at(file, log):  # else the log was rotated while this call waited for the lock
                yield file
                return


def _is_file_at(file: BinaryIO, path: Path) -> bool:
    """Return whether an open file is the file at this path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _read_end(file: BinaryIO, max_bytes: int) -> bytes:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - max_bytes))
    return file.read()
