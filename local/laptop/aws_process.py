"""Starts and stops the local AWS: one ministack process, which emulates the AWS services that the stack uses.

For DynamoDB, the functions use the local engine (local/world/dynamodb_engine.py), whose address they inherit from the
ministack process. local/laptop/aws_server.py explains its two ports.

ministack saves its state only when SIGTERM stops the process. After each clean stop, this module copies the saved state
to a snapshot with checksums. Every start restores the last snapshot, together with the checkpoints of the stream
pollers, which must match it. So after a kill -9, the stream records since the snapshot are delivered again. This is
harmless, because all consumers expect at-least-once delivery. The snapshot does not contain the S3 objects, because
ministack writes them to disk at once.
"""

from __future__ import annotations

import glob
import json
import secrets
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from local.laptop.state_checks import DamagedState, check_manifest, write_manifest
from local.world import processes
from local.world.dynamodb_engine import ADDRESS_FILE, CREDENTIALS, PROJECT, REGION, Engine

ACCOUNT = "000000000000"
API_PATH = "/_aws/execute-api"
SERVER_COMMAND = "import sys, pathlib; from local.laptop.aws_server import main; main(pathlib.Path(sys.argv[1]))"
"""Starts the server, which with `python -m` would be the main module that each forked worker imports again."""
QUEUE_URL_PORT = "4566"
"""The port in the URLs of SQS queues, which the saved state contains. No client connects to it."""

# Folders in the directory of the local AWS: ministack's state, the S3 objects, temporary files such as the unpacked
# functions, and all sent mails. UNSAVED_MARKER is a file that exists until a snapshot has the state of the current run.
# If a start finds this file, the previous run was killed.
STATE, OBJECTS_FOLDER, TEMPORARY, MAILS, UNSAVED_MARKER = "state", "s3", "tmp", "mails", "unsaved"
# The file with the log lines of all functions in the current run.
FUNCTION_LOG = "functions.log"
# The file with the measured invocations and requests of all functions in the current run.
SPANS_FILE = "spans.log"
REFUSED_MAILS = "refused-mails"
"""The file in the directory of the local AWS that says how SES refuses mails. Without it, SES accepts all mails."""
MAIL_FAULTS = ("rate", "quota", "paused", "sandbox", "unknown", "suppressed")
"""The possible contents of REFUSED_MAILS (local/laptop/mail_refusals.py). "suppressed": SES accepts mails, but sends
none."""
# The folder of the newest snapshot, and the folder of the previous snapshot while a new snapshot is saved. In each
# snapshot, ROLLBACK_FILES has copies of files outside ministack's state, such as the checkpoints of stream pollers.
SNAPSHOT, PREVIOUS_SNAPSHOT, ROLLBACK_FILES = "saved", "saved-before", "beside"


Mail = dict[str, Any]
MAIL_FIELDS = {"MessageId", "Source", "To", "Subject", "BodyText", "BodyHtml", "Timestamp"}


class FunctionFailed(RuntimeError):
    """The invoked Lambda function raised an error or timed out."""


@dataclass(frozen=True)
class LocalAwsAddress:
    """The address of a local AWS, as stored in its address file, which only its user can read because of the `key`.

    `port`: internal, only with the key. `public_port`: the shop's API. `functions_use`: the URL of DynamoDB and its
    streams. `goes_back_with_it`: the files that each start restores together with the snapshot. `allowed_origins`: of
    web pages that may call the API.
    """

    port: int
    public_port: int
    key: str = field(repr=False)
    functions_use: str
    goes_back_with_it: Sequence[str] = ()
    allowed_origins: Sequence[str] = ()

    @classmethod
    def read(cls, directory: Path) -> LocalAwsAddress:
        """Read the address file in this directory. Raises processes.ProcessFailed if the file is missing or damaged."""
        return processes.read_address(directory / ADDRESS_FILE, cls)

    def write(self, directory: Path) -> None:
        processes.write_private_file(directory / ADDRESS_FILE, json.dumps(asdict(self)))


@dataclass(frozen=True)
class LocalAws:
    """A running local AWS with its state in `directory`. `was_killed`: whether it continues after a kill."""

    directory: Path
    address: LocalAwsAddress
    was_killed: bool = False

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.address.port}/{self.address.key}"

    @property
    def public_url(self) -> str:
        """The URL of the shop's API, without a slash at the end."""
        return f"http://127.0.0.1:{self.address.public_port}"

    @property
    def function_log(self) -> Path:
        """The file with the log lines of all Lambda functions."""
        return self.directory / FUNCTION_LOG

    @property
    def client_options(self) -> dict[str, Any]:
        """Keyword arguments for boto3.client, except for DynamoDB, which has the clients of `Engine`."""
        return {"endpoint_url": self.endpoint, "region_name": REGION, **CREDENTIALS}

    def invoke(self, function_name: str, event: Mapping[str, Any]) -> Any:
        """Invoke a Lambda function once and return its result. Raises FunctionFailed if the function fails."""
        config = Config(read_timeout=900, retries={"total_max_attempts": 1})
        client = boto3.client("lambda", config=config, **self.client_options)
        answer = client.invoke(FunctionName=function_name, Payload=json.dumps(event))
        payload = json.loads(answer["Payload"].read())
        if "FunctionError" in answer:
            raise FunctionFailed(f"{function_name}: {payload}")
        return payload

    def list_mails(self) -> list[Mail]:
        """Return all mails ever sent, oldest first, with Source, To, Subject, BodyText, BodyHtml and Timestamp."""
        found = map(_read_mail, sorted((self.directory / MAILS).glob("*.json")))
        return [mail for mail in found if mail]

    def find_mail(self, message_id: str) -> Mail | None:
        """Return the mail with this message id, or None if there is no such mail or its file is damaged."""
        for file in (self.directory / MAILS).glob(f"*-{glob.escape(message_id)}.json"):
            return _read_mail(file)
        return None

    def save_snapshot(self) -> LocalAws:
        """Restart the local AWS at its address with a new snapshot, within a second. Call this after every deploy."""
        self.stop()
        return restart(self)

    def stop(self) -> None:
        """Stop the local AWS. If it stops cleanly, make a snapshot of its state."""
        _stop(self.directory, self.address.goes_back_with_it)


def start(
    directory: Path,
    dynamodb_endpoint: str,
    *,
    public_port: int | None = None,
    rollback_files: Sequence[Path] = (),
    allowed_origins: Sequence[str] = (),
) -> LocalAws:
    """Start the local AWS with the state in `directory`, stop an earlier process, and wait until it answers (0.5 s).

    `public_port`: of the shop's API; a free port if None. `rollback_files`: files outside ministack's state that must
    match it, such as checkpoints. Each start restores them with the snapshot, or deletes those that it does not have.
    Raises processes.ProcessFailed if the process does not start, and DamagedState if the snapshot cannot be used.
    """
    files = [str(file) for file in rollback_files]
    ports = processes.free_port(), public_port or processes.free_port()
    return _start(
        directory, LocalAwsAddress(*ports, secrets.token_urlsafe(32), dynamodb_endpoint, files, list(allowed_origins))
    )


def restart(aws: LocalAws) -> LocalAws:
    """Start a stopped local AWS again, with the same ports and the same key. Raises the same errors as `start`."""
    return _start(aws.directory, aws.address)


def _start(directory: Path, address: LocalAwsAddress) -> LocalAws:
    _stop(directory, address.goes_back_with_it)
    interrupted = (directory / UNSAVED_MARKER).exists()
    _restore_snapshot(directory, address.goes_back_with_it)
    shutil.rmtree(directory / TEMPORARY, ignore_errors=True)
    for folder in (STATE, OBJECTS_FOLDER, TEMPORARY, MAILS):
        (directory / folder).mkdir(parents=True, exist_ok=True)
    for port in (address.port, address.public_port):
        processes.require_free_port(port)
    (directory / UNSAVED_MARKER).touch()
    address.write(directory)
    processes.start(
        [sys.executable, "-c", SERVER_COMMAND, str(directory)],
        directory=directory,
        env=_environment(directory, address),
        is_ready=lambda: processes.is_listening(address.port) and processes.is_listening(address.public_port),
        timeout_seconds=30,
        cwd=PROJECT,
    )
    return LocalAws(directory, address, interrupted)


def find(directory: Path) -> LocalAws | None:
    """Return the local AWS that another process started in this directory, or None if it is not running."""
    if processes.running_process_id(directory) is None:
        return None
    return LocalAws(directory, LocalAwsAddress.read(directory))


def shell_environment(aws: LocalAws, engine: Engine) -> str:
    """Return shell commands that point the AWS CLI and every SDK at this local AWS and its DynamoDB."""
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
    """Return the mail in a file, or None if it is damaged: only people and tests read the sent mails."""
    try:
        found: Any = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found.keys() >= MAIL_FIELDS else None


def _environment(directory: Path, address: LocalAwsAddress) -> dict[str, str]:
    """Return the environment variables of ministack, and so of the functions: none of the user's own."""
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
        "MALLOC_ARENA_MAX": "1",  # with more arenas (heaps), glibc uses several MB more per process
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
    """Stop the local AWS. If it stops cleanly, make a snapshot, which gets its final name when it is complete."""
    if processes.running_process_id(directory) is None or not processes.stop(directory):
        return
    if not (directory / UNSAVED_MARKER).exists():  # the user deleted the folder of the state
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
    """Return the folder of the snapshot for the next start, or None. Raises DamagedState if its files changed."""
    for copy in (directory / SNAPSHOT, directory / PREVIOUS_SNAPSHOT):
        if copy.exists():
            check_manifest(copy)
            if not (directory / OBJECTS_FOLDER).exists():
                raise DamagedState(directory / OBJECTS_FOLDER, "is missing: it contains the archive")
            return copy
    return None


def _restore_snapshot(directory: Path, rollback_files: Sequence[str]) -> None:
    """Restore the newest snapshot. Without one, no deploy has finished: delete the incomplete state and S3 objects."""
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
