"""Starts and stops the local AWS: one ministack process, which emulates the AWS services that the stack uses.

ministack emulates CloudFormation, HTTP API, Lambda, S3, SQS, EventBridge, SES and Cognito. For DynamoDB, the functions
use the local DynamoDB engine instead (local/world/dynamodb_engine.py). The ministack process has the engine's address
in its environment variables, and the functions inherit these variables. local/laptop/deploy.py deploys the stack to the
local AWS.

The local AWS has two ports (local/laptop/aws_server.py). The internal port requires a key, which is part of the
endpoint's URL. The public port serves the shop's API and the sign-in of users.

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
"""The Python code that starts the server process.

The process does not start with `python -m`, because the server would then be the main module. multiprocessing would
import this main module again in each forked worker process (local/laptop/forked_workers.py).
"""
QUEUE_URL_PORT = "4566"
"""The port in the URLs of SQS queues. The saved state contains these URLs, so the port must not change.

Clients do not connect to this port. They send their requests to `LocalAws.endpoint`.
"""

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
    """The address of a local AWS (the process that emulates AWS), as stored in its address file.

    The file contains the key, so only the user who started the local AWS can read the file.

    `port`: the internal port, which serves only requests with the `key`.
    `public_port`: the port of the shop's API.
    `functions_use`: the URL of DynamoDB and DynamoDB Streams for the functions.
    `goes_back_with_it`: the paths of the files that each start restores together with the snapshot (the saved state).
    `allowed_origins`: the origins of web pages that may call the API.
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
    """A running local AWS.

    `directory`: the folder of its state.
    `was_killed`: whether the previous run was killed. If so, this run started from a snapshot made before the kill.
    """

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
        """Keyword arguments for boto3.client, for every service except DynamoDB.

        For DynamoDB, use the clients of `Engine` in local/world/dynamodb_engine.py.
        """
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
        """Return all mails that this shop has ever sent, oldest first.

        Each mail has MessageId, Source, To, Subject, BodyText, BodyHtml and Timestamp (epoch seconds).
        """
        found = map(_read_mail, sorted((self.directory / MAILS).glob("*.json")))
        return [mail for mail in found if mail]

    def find_mail(self, message_id: str) -> Mail | None:
        """Return the mail with this message id, or None if there is no such mail or its file is damaged."""
        for file in (self.directory / MAILS).glob(f"*-{glob.escape(message_id)}.json"):
            return _read_mail(file)
        return None

    def save_snapshot(self) -> LocalAws:
        """Stop the local AWS, make a snapshot, and start the local AWS again. This takes less than a second.

        The address stays the same. Call this after every deploy, while no requests or events are in progress.
        """
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
    """Start the local AWS with the state in `directory` and wait until it answers (about half a second).

    If a process of an earlier run is still running, it is stopped first. The internal port and the key are new at each
    start.

    `dynamodb_endpoint`: the URL of DynamoDB and DynamoDB Streams for the functions.
    `public_port`: the port of the shop's API. If it is None, a free port is used.
    `rollback_files`: files outside ministack's state that must match this state, such as checkpoints. Each snapshot
    includes these files, and each start restores them, or deletes a file that the snapshot does not contain.
    `allowed_origins`: the origins of web pages that may call the API.

    Raises processes.ProcessFailed if the process does not start or a port is taken, and DamagedState if the snapshot
    cannot be used.
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
    """Read a mail file and return the mail, or None if the file is damaged.

    A damaged file is no error, because only people and tests read the sent mails.
    """
    try:
        found: Any = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found.keys() >= MAIL_FIELDS else None


def _environment(directory: Path, address: LocalAwsAddress) -> dict[str, str]:
    """Return the environment variables of the ministack process.

    The functions inherit these variables, so the result contains none of the user's own, such as credentials.
    """
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
    """Stop the local AWS. If it stops cleanly, make a snapshot of its state.

    The snapshot is complete before it gets its final name, so a kill never leaves a partial snapshot.
    """
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
    """Return the folder of the snapshot that the next start restores, or None if there is no snapshot.

    Raises DamagedState if the snapshot's files changed or the folder of S3 objects is missing.
    """
    for copy in (directory / SNAPSHOT, directory / PREVIOUS_SNAPSHOT):
        if copy.exists():
            check_manifest(copy)
            if not (directory / OBJECTS_FOLDER).exists():
                raise DamagedState(directory / OBJECTS_FOLDER, "is missing: it contains the archive")
            return copy
    return None


def _restore_snapshot(directory: Path, rollback_files: Sequence[str]) -> None:
    """Restore the newest snapshot. If there is no snapshot, delete the state of the local AWS and its S3 objects.

    Without a snapshot, no deploy has finished, so the state is incomplete.

    `rollback_files`: see `start`.
    """
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
