"""The local AWS: one ministack process that plays CloudFormation, HTTP API, Lambda, S3, SQS, EventBridge, SES, Cognito.

Everything of DynamoDB goes to the local engine instead (local/engine.py): the functions learn its address from the
environment that they inherit from this process. local/deploy.py puts the stack into it. Its internal port asks for a
key, which is a part of its endpoint's URL; its public port serves the shop's API alone: local/aws_server.py.

It writes its state down when it is ended by SIGTERM, and only then. So each clean stop, and `save` after a deploy, puts
a copy aside with the checksums of its files. Every start begins with that copy, together with the files that must go
back in time with it (the checkpoints of the stream's readers). After a clean stop that changes nothing. After a kill -9
what had happened since is delivered once more, which is harmless: deliveries are at least once everywhere. Objects are
not part of that: they are on disk as soon as they are put.
"""

from __future__ import annotations

import glob
import json
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from local import process
from local.engine import ADDRESS_FILE, CREDENTIALS, PROJECT, REGION, Engine
from local.kept_state import DamagedState, check_manifest, write_manifest

ACCOUNT = "000000000000"
API_PATH = "/_aws/execute-api"
SERVER_COMMAND = "import sys, pathlib; from local.aws_server import main; main(pathlib.Path(sys.argv[1]))"
"""Not `-m`: a forked process would import the main module again."""
QUEUE_URL_PORT = "4566"
"""The port in the URLs of queues, which the state keeps: always the same, whichever ports are in use."""

# What a directory holds: ministack's state, the copy that is put aside (with the files that go back in time with it),
# the objects of S3, what the functions were unpacked to, all mails so far, the sign of a run that was not saved, and
# what the functions have logged in this run.
STATE, OBJECTS_FOLDER, TEMPORARY, MAILS, UNSAVED_MARKER = "state", "s3", "tmp", "mails", "unsaved"
FUNCTION_LOG = "functions.log"
SNAPSHOT, PREVIOUS_SNAPSHOT, ROLLBACK_FILES = "saved", "saved-before", "beside"


Mail = dict[str, Any]
MAIL_FIELDS = {"MessageId", "Source", "To", "Subject", "BodyText", "BodyHtml", "Timestamp"}


class FunctionFailed(RuntimeError):
    """A function that was called raised an error, or took too long."""


@dataclass(frozen=True)
class LocalAwsAddress:
    """How a local AWS is reached. The file with it is readable by its user alone, because it has the key.

    `port`: internal, for callers with the `key`. `public_port`: of the shop's API. `functions_use`: the endpoint of
    DynamoDB and its streams for the functions. `goes_back_with_it`: see `start`. `allowed_origins`: the web pages that
    may call the API from another origin.
    """

    port: int
    public_port: int
    key: str = field(repr=False)
    functions_use: str
    goes_back_with_it: Sequence[str] = ()
    allowed_origins: Sequence[str] = ()

    @classmethod
    def read(cls, directory: Path) -> LocalAwsAddress:
        """Raises process.ProcessFailed if the file is damaged."""
        return process.read_address(directory / ADDRESS_FILE, cls)

    def write(self, directory: Path) -> None:
        process.write_private_file(directory / ADDRESS_FILE, json.dumps(asdict(self)))


@dataclass(frozen=True)
class LocalAws:
    """A running local AWS. `interrupted`: the run before was killed, and this one went back to what was saved last."""

    directory: Path
    address: LocalAwsAddress
    was_killed: bool = False
    started: subprocess.Popen[bytes] | None = field(default=None, repr=False, compare=False)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.address.port}/{self.address.key}"

    @property
    def public_url(self) -> str:
        """Where the shop's API answers, without a slash at the end."""
        return f"http://127.0.0.1:{self.address.public_port}"

    @property
    def function_log(self) -> Path:
        """What all functions log, a line each."""
        return self.directory / FUNCTION_LOG

    @property
    def client_options(self) -> dict[str, Any]:
        """What boto3.client needs beside the name of a service (not of DynamoDB, which is the engine's)."""
        return {"endpoint_url": self.endpoint, "region_name": REGION, **CREDENTIALS}

    def invoke(self, function_name: str, event: Mapping[str, Any]) -> Any:
        """Call a function and wait for its answer. Raises FunctionFailed with the error it raised; never repeats."""
        config = Config(read_timeout=900, retries={"total_max_attempts": 1})
        client = boto3.client("lambda", config=config, **self.client_options)
        answer = client.invoke(FunctionName=function_name, Payload=json.dumps(event))
        payload = json.loads(answer["Payload"].read())
        if "FunctionError" in answer:
            raise FunctionFailed(f"{function_name}: {payload}")
        return payload

    def list_mails(self) -> list[Mail]:
        """All mails that this shop has ever sent, oldest first: MessageId, Source, To, Subject, BodyText, BodyHtml,
        Timestamp (epoch seconds).
        """
        found = map(_read_mail, sorted((self.directory / MAILS).glob("*.json")))
        return [mail for mail in found if mail]

    def find_mail(self, message_id: str) -> Mail | None:
        """One mail, if it was sent."""
        for file in (self.directory / MAILS).glob(f"*-{glob.escape(message_id)}.json"):
            return _read_mail(file)
        return None

    def save_snapshot(self) -> LocalAws:
        """Stop, put the state aside, and start again (under a second): from now on a kill -9 goes back to this moment.

        The address stays. To be called after every deploy, while nothing is on its way.
        """
        self.stop()
        return restart(self)

    def stop(self) -> None:
        """End the process and put its state aside."""
        _stop(self.directory, self.address.goes_back_with_it)
        if self.started:
            self.started.wait()


def start(
    directory: Path,
    dynamodb_endpoint: str,
    *,
    public_port: int | None = None,
    rollback_files: Sequence[Path] = (),
    allowed_origins: Sequence[str] = (),
) -> LocalAws:
    """Start the local AWS on the state in `directory` and wait until it answers (about half a second).

    `functions_use` is the endpoint of DynamoDB and its streams for the functions. Ends the process that an earlier run
    left behind first. The files of `goes_back_with_it` are put aside with each save, and after a kill -9 they are set
    back to that (those that were not there yet are removed). Without `public_port` it takes a free one. The internal
    port and the key are new at each start. Raises process.ProcessFailed, or DamagedState.
    """
    files = [str(file) for file in rollback_files]
    ports = process.free_port(), public_port or process.free_port()
    return _start(
        directory, LocalAwsAddress(*ports, secrets.token_urlsafe(32), dynamodb_endpoint, files, list(allowed_origins))
    )


def restart(aws: LocalAws) -> LocalAws:
    """Start a local AWS that has ended again, with the same ports and key. Raises as `start`."""
    return _start(aws.directory, aws.address)


def _start(directory: Path, address: LocalAwsAddress) -> LocalAws:
    _stop(directory, address.goes_back_with_it)
    interrupted = (directory / UNSAVED_MARKER).exists()
    _restore_snapshot(directory, address.goes_back_with_it)
    shutil.rmtree(directory / TEMPORARY, ignore_errors=True)
    for folder in (STATE, OBJECTS_FOLDER, TEMPORARY, MAILS):
        (directory / folder).mkdir(parents=True, exist_ok=True)
    for port in (address.port, address.public_port):
        if process.is_listening(port):
            raise process.ProcessFailed(f"port {port} of 127.0.0.1 is taken")
    (directory / UNSAVED_MARKER).touch()
    address.write(directory)
    started = process.start(
        [sys.executable, "-c", SERVER_COMMAND, str(directory)],
        directory=directory,
        env=_environment(directory, address),
        is_ready=lambda: process.is_listening(address.port) and process.is_listening(address.public_port),
        timeout_seconds=30,
        cwd=PROJECT,
    )
    return LocalAws(directory, address, interrupted, started)


def find(directory: Path) -> LocalAws | None:
    """The local AWS that another process started in this directory, while it runs."""
    if process.running_process_id(directory) is None:
        return None
    return LocalAws(directory, LocalAwsAddress.read(directory))


def shell_environment(aws: LocalAws, engine: Engine) -> str:
    """Lines of a shell that point the AWS CLI and every SDK at this local AWS and its DynamoDB."""
    values = {
        "AWS_ENDPOINT_URL": aws.endpoint,
        "AWS_ENDPOINT_URL_DYNAMODB": engine.endpoint,
        "AWS_ENDPOINT_URL_DYNAMODB_STREAMS": engine.endpoint,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        **{name.upper(): value for name, value in CREDENTIALS.items()},
    }
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in values.items())


def _read_mail(file: Path) -> Mail | None:
    """None if the file is damaged: it is a record of what was sent, and nothing depends on it."""
    try:
        found: Any = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found.keys() >= MAIL_FIELDS else None


def _environment(directory: Path, address: LocalAwsAddress) -> dict[str, str]:
    """The variables of the process. Functions inherit all of them, so nothing of the user's is among them."""
    home = str(directory / TEMPORARY)
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": home,
        "TMPDIR": home,
        "BIND_HOST": "127.0.0.1",
        "MINISTACK_HOST": "127.0.0.1",
        "GATEWAY_PORT": QUEUE_URL_PORT,
        "MINISTACK_ACCOUNT_ID": ACCOUNT,
        "MINISTACK_REGION": REGION,
        "LAMBDA_WARM_TTL_SECONDS": "60",
        "MALLOC_ARENA_MAX": "1",  # of glibc: a heap for each thread would cost each function's process megabytes
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "PERSIST_STATE": "1",
        "STATE_DIR": str(directory / STATE),
        "S3_PERSIST": "1",
        "S3_DATA_DIR": str(directory / OBJECTS_FOLDER),
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{address.port}/{address.key}",
        "AWS_ENDPOINT_URL_DYNAMODB": address.functions_use,
        "AWS_ENDPOINT_URL_DYNAMODB_STREAMS": address.functions_use,
    }


def _stop(directory: Path, rollback_files: Sequence[str]) -> None:
    """End the process, and put aside what a clean end wrote. A copy is complete before it takes its name."""
    if process.running_process_id(directory) is None or not process.stop(directory):
        return
    saved, before, new = directory / SNAPSHOT, directory / PREVIOUS_SNAPSHOT, directory / f"{SNAPSHOT}-new"
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(directory / STATE, new / STATE)
    (new / ROLLBACK_FILES).mkdir()
    for file in map(Path, rollback_files):
        if file.exists():
            shutil.copy2(file, new / ROLLBACK_FILES / file.name)
    write_manifest(new)
    if saved.exists():
        shutil.rmtree(before, ignore_errors=True)
        saved.rename(before)
    new.rename(saved)
    shutil.rmtree(before, ignore_errors=True)
    (directory / UNSAVED_MARKER).unlink(missing_ok=True)


def find_snapshot(directory: Path) -> Path | None:
    """The copy that the next start begins with. Raises DamagedState if its files are not as they were saved."""
    for copy in (directory / SNAPSHOT, directory / PREVIOUS_SNAPSHOT):
        if copy.exists():
            check_manifest(copy)
            if not (directory / OBJECTS_FOLDER).exists():
                raise DamagedState(directory / OBJECTS_FOLDER, "is missing: it has the archive")
            return copy
    return None


def _restore_snapshot(directory: Path, rollback_files: Sequence[str]) -> None:
    """Set everything to what was saved last; begin from nothing if nothing was: that stack was never finished."""
    copy = find_snapshot(directory)
    shutil.rmtree(directory / STATE, ignore_errors=True)
    if copy:
        shutil.copytree(copy / STATE, directory / STATE)
    else:
        shutil.rmtree(directory / OBJECTS_FOLDER, ignore_errors=True)
    for file in map(Path, rollback_files):
        file.unlink(missing_ok=True)
        if copy and (copy / ROLLBACK_FILES / file.name).exists():
            shutil.copy2(copy / ROLLBACK_FILES / file.name, file)
