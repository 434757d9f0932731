"""Saves the functions' logs and sent mails to files as soon as they are written.

This code runs in the process of the local AWS, in ministack (the emulator of AWS). ministack keeps all logs and mails
in memory, and scans all of them for every query, which is slow after some thousand orders. So this module appends the
logs to a file, which `make up` reads, and writes each mail to a separate file. Only the newest log streams and mails
stay in memory, so that the AWS CLI can still show them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ministack.services import cloudwatch_logs, lambda_svc, ses, ses_v2  # type: ignore[import-untyped]

from local.laptop.aws_process import FUNCTION_LOG, MAILS
from local.laptop.log_files import append_to_log

STREAMS_IN_MEMORY = 100
"""Maximum number of log streams in memory for each log group. ministack creates one log stream for each call."""
MAILS_IN_MEMORY = 100


def save_function_output(directory: Path) -> None:
    """Save all further logs and mails of Lambda functions in `directory`."""
    _save_logs(directory / FUNCTION_LOG)
    _save_mails(directory / MAILS)


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
