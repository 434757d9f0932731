"""Finds the running local shop, also from another process, and describes its addresses and parts."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from local.laptop import aws_process as local_aws
from local.laptop import backlog, journal, users
from local.laptop import deploy as local_deploy
from local.laptop.aws_process import LocalAws
from local.laptop.deploy import DeployedStack
from local.world import dynamodb_engine as local_engine
from local.world.dynamodb_engine import Engine
from ops.api_client import ApiClient
from ops.targets import ConsumerLag

PROJECT = Path(__file__).parents[2]
STATE_FOLDER = Path(os.environ.get("ORDERSTREAM_STATE") or PROJECT / ".local").absolute()
"""The folder of the shop's data. Another one is another shop: the tutorial has its own."""
STACK_NAME = "orderstream-dev"
READY_FILE = "ready.json"
TOKEN_CACHE_SECONDS = 1800
"""How long an access token is reused: half of the lifetime of a token."""


@dataclass(frozen=True)
class RunningShop:
    """The running local shop: its processes, its deployed stack, and its addresses."""

    engine: Engine
    aws: LocalAws
    stack: DeployedStack
    provider_url: str
    process_id: int
    """The process id of `make up` itself."""

    @property
    def state(self) -> Path:
        """The folder of the shop's state."""
        return self.engine.directory.parent

    @property
    def journal_file(self) -> Path:
        return self.state / journal.FILE

    @property
    def api_url(self) -> str:
        return self.aws.public_url

    @property
    def table_name(self) -> str:
        return self.stack.resource_name("AWS::DynamoDB::GlobalTable")

    def consumer_lags(self) -> list[ConsumerLag]:
        """Return how far each consumer was behind at the last measurement; [] while the shop starts or stops."""
        return backlog.read_consumer_lags(self.state / backlog.FILE)

    @property
    def warehouse_queue_url(self) -> str:
        return self.stack.outputs["WarehouseQueueUrl"]

    def api_client(self, user: str | None = None) -> ApiClient:
        """Return an API client that acts as this user, with renewed access tokens; anonymous if None."""
        return ApiClient(self.api_url, self.token_supplier(user) if user else None)

    def token_supplier(self, user: str) -> Callable[[], str]:
        """Return a function that returns an access token of this user, valid for at least half an hour."""
        kept: dict[str, Any] = {}

        def token() -> str:
            if kept.get("until", 0) < time.monotonic():
                new = users.get_access_token(self.aws, self.stack, user)
                kept.update(token=new, until=time.monotonic() + TOKEN_CACHE_SECONDS)
            return str(kept["token"])

        return token


def find(state: Path = STATE_FOLDER) -> RunningShop | None:
    """Return the shop that another process runs, or None if it is not running or not ready."""
    ready = _read_ready_file(state)
    if ready is None:
        return None
    engine, aws = local_engine.find(state / "engine"), local_aws.find(state / "aws")
    # The shop writes the ready file when it is ready. After a kill, this file remains until the next start deletes it.
    # So read the file again after `engine` and `aws` were found. If it changed, a new start began meanwhile. Then
    # `engine` and `aws` may be of the previous run, so do not return them.
    if engine is None or aws is None or _read_ready_file(state) != ready:
        return None
    try:
        stack = local_deploy.describe_deployed_stack(aws, STACK_NAME)
    except (BotoCoreError, ClientError):  # the shop is stopping or restarting
        return None
    return RunningShop(engine, aws, stack, ready["provider_url"], ready["process_id"])


def state_option(state: Path) -> str:
    """Return the option `--state` for a printed command, or "" if this folder of the state is the default."""
    return "" if state == STATE_FOLDER else f" --state {shlex.quote(str(state))}"


def shop_command(state: Path, command: str, options: str = "") -> str:
    """Return the command line for a command of the local shop, such as "up", with this folder of the state."""
    if option := state_option(state):
        return f".venv/bin/python -m local{option} {command} {options}".rstrip()
    return f'make {command} ARGS="{options}"' if options else f"make {command}"


def require_running_shop(state: Path) -> RunningShop:
    """Return the running shop. Exit with an error message if the shop is not running or not ready."""
    found = find(state)
    if found is None:
        sys.exit(f"The shop is not running here, or not ready yet. Start it with: {shop_command(state, 'up')}")
    return found


def _read_ready_file(state: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((state / READY_FILE).read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and {"provider_url", "process_id"} <= found.keys() else None
