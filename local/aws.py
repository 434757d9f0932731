"""The local AWS: one ministack process that plays CloudFormation, HTTP API, Lambda, S3, SQS, EventBridge, SES, Cognito.

Everything of DynamoDB goes to the local engine instead (local/engine.py): the functions are told so by the environment
that they inherit from this process. local/deploy.py puts the stack into it.

It writes its state down when it is ended by SIGTERM, and only then. So each clean stop, and `save` after a deploy, puts
a copy aside, and a start after a kill -9 goes back to that copy, together with the files that must go back in time with
it (the checkpoints of whoever feeds it). What had happened since is then fed to it once more, which is harmless:
deliveries are at least once everywhere. Objects are not part of that: they are on disk as soon as they are put.
"""

from __future__ import annotations

import glob
import http.client
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from local import process
from local.engine import ADDRESS, CREDENTIALS, REGION

ACCOUNT = "000000000000"
API_PATH = "/_aws/execute-api"

# What a directory holds: ministack's state, the copy that is put aside (with the files that go back in time with it),
# the objects of S3, what the functions were unpacked to, all mails so far, and the sign of a run that was not saved.
STATE, OBJECTS, TEMPORARY, MAILS, UNSAVED = "state", "s3", "tmp", "mails", "unsaved"
SAVED, SAVED_BEFORE, BESIDE = "saved", "saved-before", "beside"


Mail = dict[str, Any]


class FunctionFailed(RuntimeError):
    """A function that was called raised an error, or took too long."""


@dataclass(frozen=True)
class LocalAws:
    """A running local AWS. `interrupted`: the run before was killed, and this one went back to what was saved last."""

    directory: Path
    port: int
    functions_use: str
    goes_back_with_it: Sequence[Path] = ()
    interrupted: bool = False
    started: subprocess.Popen[bytes] | None = field(default=None, repr=False, compare=False)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def access(self) -> dict[str, Any]:
        """What boto3.client needs beside the name of a service (not of DynamoDB, which is the engine's)."""
        return {"endpoint_url": self.endpoint, "region_name": REGION, **CREDENTIALS}

    def invoke(self, function_name: str, event: Mapping[str, Any]) -> Any:
        """Call a function and wait for its answer. Raises FunctionFailed with the error it raised; never repeats."""
        config = Config(read_timeout=900, retries={"total_max_attempts": 1})
        client = boto3.client("lambda", config=config, **self.access)
        answer = client.invoke(FunctionName=function_name, Payload=json.dumps(event))
        payload = json.loads(answer["Payload"].read())
        if "FunctionError" in answer:
            raise FunctionFailed(f"{function_name}: {payload}")
        return payload

    def collect_mails(self) -> list[Mail]:
        """The mails sent since the last call, oldest first: MessageId, Source, To, Subject, BodyText, BodyHtml,
        Timestamp (epoch seconds).

        They go into a record of our own, because ministack forgets them when it ends: those that were not collected
        before a kill -9 are lost. Several callers may collect at once, and may then get the same mail.
        """
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)) as connection:
            connection.request("GET", "/_ministack/ses/messages")
            by_account = json.loads(connection.getresponse().read())["messages"]
        mails: list[Mail] = sorted(chain(*by_account.values()), key=lambda mail: mail["Timestamp"])
        files = {self.directory / MAILS / f"{mail['Timestamp']:.6f}-{mail['MessageId']}.json": mail for mail in mails}
        new = {file: mail for file, mail in files.items() if not file.exists()}
        for file, mail in new.items():
            (whole := file.with_suffix(f".{os.getpid()}-{threading.get_ident()}")).write_text(json.dumps(mail))
            whole.rename(file)
        return list(new.values())

    def mails(self) -> list[Mail]:
        """All mails of this shop that were collected, now or before, oldest first."""
        self.collect_mails()
        return [json.loads(file.read_text()) for file in sorted((self.directory / MAILS).glob("*.json"))]

    def mail(self, message_id: str) -> Mail | None:
        """One mail, if it was collected."""
        for file in (self.directory / MAILS).glob(f"*-{glob.escape(message_id)}.json"):
            found: Mail = json.loads(file.read_text())
            return found
        return None

    def save(self) -> LocalAws:
        """Stop, put the state aside, and start again (under a second): from now on a kill -9 goes back to this moment.

        The address stays. To be called after every deploy, while nothing is on its way.
        """
        self.stop()
        return start(self.directory, self.functions_use, port=self.port, goes_back_with_it=self.goes_back_with_it)

    def stop(self) -> None:
        """End the process and put its state aside."""
        if process.running(self.directory):
            self.collect_mails()
        _stop(self.directory, self.goes_back_with_it)
        if self.started:
            self.started.wait()


def start(
    directory: Path, functions_use: str, *, port: int | None = None, goes_back_with_it: Sequence[Path] = ()
) -> LocalAws:
    """Start the local AWS on the state in `directory` and wait until it answers (about half a second).

    `functions_use` is the endpoint of DynamoDB and its streams for the functions. Ends the process that an earlier run
    left behind first. The files of `goes_back_with_it` are put aside with each save, and after a kill -9 they are set
    back to that (those that were not there yet are removed). Without `port` it takes a free one. Raises
    process.ProcessFailed.
    """
    _stop(directory, goes_back_with_it)
    interrupted = (directory / UNSAVED).exists()
    if interrupted:
        _go_back(directory, goes_back_with_it)
    shutil.rmtree(directory / TEMPORARY, ignore_errors=True)
    for folder in (STATE, OBJECTS, TEMPORARY, MAILS):
        (directory / folder).mkdir(parents=True, exist_ok=True)
    port = port or process.free_port()
    if process.accepts(port):
        raise process.ProcessFailed(f"port {port} of 127.0.0.1 is taken")
    (directory / UNSAVED).touch()
    started = process.start(
        [sys.executable, "-m", "ministack"],
        directory=directory,
        env=_environment(directory, port, functions_use),
        ready=lambda: process.accepts(port),
        timeout_seconds=30,
    )
    address = {"port": port, "functions_use": functions_use, "goes_back_with_it": [str(f) for f in goes_back_with_it]}
    (directory / ADDRESS).write_text(json.dumps(address))
    return LocalAws(directory, port, functions_use, goes_back_with_it, interrupted, started)


def find(directory: Path) -> LocalAws | None:
    """The local AWS that somebody else started in this directory, while it runs."""
    if process.running(directory) is None:
        return None
    address = json.loads((directory / ADDRESS).read_text())
    files = [Path(file) for file in address.pop("goes_back_with_it")]
    return LocalAws(directory, goes_back_with_it=files, **address)


def _environment(directory: Path, port: int, functions_use: str) -> dict[str, str]:
    """All that the process is told. Functions inherit every variable of it, so nothing of the user's is in there."""
    home = str(directory / TEMPORARY)
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": home,
        "TMPDIR": home,
        "BIND_HOST": "127.0.0.1",
        "MINISTACK_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "MINISTACK_ACCOUNT_ID": ACCOUNT,
        "MINISTACK_REGION": REGION,
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "PERSIST_STATE": "1",
        "STATE_DIR": str(directory / STATE),
        "S3_PERSIST": "1",
        "S3_DATA_DIR": str(directory / OBJECTS),
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL_DYNAMODB": functions_use,
        "AWS_ENDPOINT_URL_DYNAMODB_STREAMS": functions_use,
    }


def _stop(directory: Path, goes_back_with_it: Sequence[Path]) -> None:
    """End the process, and put aside what a clean end wrote. A copy is complete before it takes its name."""
    if process.running(directory) is None or not process.stop(directory):
        return
    saved, before, new = directory / SAVED, directory / SAVED_BEFORE, directory / f"{SAVED}-new"
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(directory / STATE, new / STATE)
    (new / BESIDE).mkdir()
    for file in goes_back_with_it:
        if file.exists():
            shutil.copy2(file, new / BESIDE / file.name)
    if saved.exists():
        shutil.rmtree(before, ignore_errors=True)
        saved.rename(before)
    new.rename(saved)
    (directory / UNSAVED).unlink(missing_ok=True)


def _go_back(directory: Path, goes_back_with_it: Sequence[Path]) -> None:
    """Set everything to what was saved last; where nothing was, begin anew: that stack was never finished."""
    shutil.rmtree(directory / STATE, ignore_errors=True)
    copies = [copy for copy in (directory / SAVED, directory / SAVED_BEFORE) if copy.exists()]
    if copies:
        shutil.copytree(copies[0] / STATE, directory / STATE)
    else:
        shutil.rmtree(directory / OBJECTS, ignore_errors=True)
    for file in goes_back_with_it:
        file.unlink(missing_ok=True)
        if copies and (copies[0] / BESIDE / file.name).exists():
            shutil.copy2(copies[0] / BESIDE / file.name, file)
