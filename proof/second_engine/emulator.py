"""Starts LocalEmu, and ends it with this process."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import urllib3
from botocore.config import Config

from local.world import processes
from local.world.dynamodb_engine import REGION

SERVER = Path(__file__).with_name("server.py")
ROOT = {"aws_access_key_id": "AKIAIOSFODNN7EXAMPLE", "aws_secret_access_key": "root"}
"""The credentials of the account's root user in LocalEmu."""
NOT_CREATED = re.compile(r'No resource provider found for "([\w:]+)"')
CONFIG = Config(retries={"total_max_attempts": 1}, read_timeout=120)


@dataclass(frozen=True)
class Emulator:
    """A running LocalEmu. `endpoint`: HTTPS, because policies of buckets and queues deny HTTP. `folder`: its files."""

    endpoint: str
    folder: Path

    def client(self, service: str, credentials: dict[str, str] | None = None) -> Any:
        """Return a boto3 client with these credentials; default: those of the root user, whom no policy limits."""
        return _create_client(service, self.endpoint, tuple((credentials or ROOT).items()))

    def types_not_created(self) -> set[str]:
        """Return the resource types that LocalEmu's CloudFormation has accepted without creating anything."""
        return set(NOT_CREATED.findall((self.folder / processes.LOG_FILE).read_text(errors="replace")))


@cache
def _create_client(service: str, endpoint: str, credentials: tuple[tuple[str, str], ...]) -> Any:
    options: dict[str, Any] = dict(credentials)
    return boto3.client(service, endpoint_url=endpoint, verify=False, region_name=REGION, config=CONFIG, **options)  # type: ignore[call-overload]


@contextmanager
def run_emulator(python: str) -> Iterator[Emulator]:
    """Run LocalEmu with IAM enforced during a `with` block. Raises processes.ProcessFailed if it does not start."""
    folder, port = Path(tempfile.mkdtemp(prefix="orderstream-second-")), processes.free_port()
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "GATEWAY_LISTEN": f"127.0.0.1:{port}",
        "IAM_ENFORCEMENT": "1",
        "SKIP_INFRA_DOWNLOADS": "1",
        "DISABLE_EVENTS": "1",
    }
    endpoint = f"https://127.0.0.1:{port}"
    urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # LocalEmu signs its certificate itself
    try:
        process = processes.start(
            [python, str(SERVER)],
            directory=folder,
            env=environment,
            is_ready=lambda: _answers(endpoint),
            timeout_seconds=120,
        )
        with processes.ended_with_this_process(process.pid, folder=folder):
            yield Emulator(endpoint, folder)
    finally:
        processes.kill_children()
        shutil.rmtree(folder, ignore_errors=True)


def _answers(endpoint: str) -> bool:
    with suppress(urllib3.exceptions.HTTPError), urllib3.PoolManager(cert_reqs="CERT_NONE") as pool:
        return pool.request("GET", f"{endpoint}/_localemu/health", retries=False, timeout=5).status == 200
    return False
