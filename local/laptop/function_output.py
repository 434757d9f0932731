"""Saves the functions' logs and sent mails to files as soon as they are written, inside ministack.

ministack keeps all of them in memory, and scans them for every query, which is slow after some thousand orders. So this
module appends the logs to a file, which `make up` reads, and writes each mail to a file of its own. Only the newest
stay in memory, for the AWS CLI. It reads the logs itself, because ministack would save a late line of a busy machine
with the next invocation, or never.
"""

from __future__ import annotations

import json
import os
import select
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ministack.core.lambda_runtime import Worker  # type: ignore[import-untyped]
from ministack.services import cloudwatch_logs, lambda_svc, ses, ses_v2  # type: ignore[import-untyped]

from local.laptop.aws_process import FUNCTION_LOG, MAILS
from local.laptop.log_files import append_to_log

STREAMS_IN_MEMORY = 100
"""Maximum number of log streams in memory for each log group. ministack creates one log stream for each call."""
MAILS_IN_MEMORY = 100


def save_function_output(directory: Path) -> None:
    """Save all further logs and mails of Lambda functions in `directory`."""
    collect_whole_logs()
    _save_logs(directory / FUNCTION_LOG)
    _save_mails(directory / MAILS)


class _WorkerLog:
    """Collects the log of a worker, which is a process that runs a function. The process writes its log to stderr."""

    def __init__(self, stderr: int) -> None:
        self._pipe = os.dup(stderr)  # ministack may close the other descriptor while this object waits for a line
        self._text = b""
        self._reading = threading.Lock()

    def follow(self) -> None:
        """Read the log until the process ends, so that its pipe never becomes full."""
        while True:
            select.select([self._pipe], [], [])
            with self._reading:
                if not self._read_available():
                    os.close(self._pipe)
                    self._pipe = -1
                    return

    def take(self) -> str:
        """Return, and forget, all that the process has written until now."""
        with self._reading:
            self._read_available()
            taken, self._text = self._text, b""
        return taken.decode(errors="replace").rstrip("\n")

    def _read_available(self) -> bool:
        """Read what is in the pipe. Returns False at its end."""
        while self._pipe >= 0 and select.select([self._pipe], [], [], 0)[0]:
            if not (read := os.read(self._pipe, 1 << 16)):
                return False
            self._text += read
        return True


def collect_whole_logs() -> None:
    """From now on, ministack's log of an invocation is all that the function wrote before it answered."""

    def follow(worker: Any) -> None:  # in a thread that ministack starts for each process
        worker.whole_log = log = _WorkerLog(worker._proc.stderr.fileno())
        log.follow()

    Worker._read_stderr = follow
    Worker._drain_stderr = Worker._drain_stderr_bounded = lambda worker: worker.whole_log.take()


def _save_logs(file: Path) -> None:
    emit, writing = lambda_svc._emit_lambda_logs, threading.Lock()

    def emit_and_keep(function: Mapping[str, Any], request_id: str, text: str, *rest: Any, **more: Any) -> None:
        emit(function, request_id, text, *rest, **more)
        with writing:
            if text:
                append_to_log(file, text if text.endswith("\n") else f"{text}\n")
            _drop_old_log_streams(function)

    lambda_svc._emit_lambda_logs = emit_and_keep


def _drop_old_log_streams(function: Mapping[str, Any]) -> None:
    config = function.get("config") or function
    name = (config.get("LoggingConfig") or {}).get("LogGroup") or f"/aws/lambda/{config.get('FunctionName')}"
    with cloudwatch_logs._log_events_lock, suppress(KeyError):
        streams = cloudwatch_logs._log_groups[name]["streams"]
        for old in list(streams)[:-STREAMS_IN_MEMORY]:
            del streams[old]


def _save_mails(folder: Path) -> None:
    mails = _MailStore(folder)
    ses._sent_emails_list = ses_v2._sent_emails_list = lambda: mails


class _MailStore(list[dict[str, Any]]):
    """The list to which ministack appends each sent mail. `append` also writes the mail to a file."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def append(self, mail: dict[str, Any]) -> None:
        file = self._folder / f"{mail['Timestamp']:.6f}-{mail['MessageId']}.json"
        (whole := file.with_suffix(".new")).write_text(json.dumps(mail))
        whole.rename(file)
        super().append(mail)
        del self[:-MAILS_IN_MEMORY]
