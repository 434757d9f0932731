"""Starts the whole shop on this machine, and ends it in order: the synthesized stack on the local AWS and engine."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3

from local import aws as local_aws
from local import deploy as local_deploy
from local import engine as local_engine
from local import process, users
from local.api import Api
from local.aws import LocalAws
from local.clock import keep_expiring
from local.deploy import Stack
from local.engine import Engine
from local.narrator import Narrator
from local.poller import Checkpoints, start_pollers
from local.provider import Provider
from local.warehouse import Warehouse

PROJECT = Path(__file__).parent.parent
STATE = PROJECT / ".local"
STACK_NAME = "orderstream-dev"
API_PORT, PROVIDER_PORT = 4566, 4567
SYNTHESIZED_FROM = ("app.py", "cdk.json", "stacks", "functions/model", "functions/dynamodb", "functions/environment.py")
READY = "ready.json"
RUNNING_HERE = "The shop is running here already: stop it first (Ctrl-C where it runs)."


@dataclass(frozen=True)
class Running:
    """The shop as it runs here: the processes, the stack, and where people reach it."""

    engine: Engine
    aws: LocalAws
    stack: Stack
    provider_url: str

    @property
    def api_url(self) -> str:
        return self.stack.api_url(self.aws)

    @property
    def table_name(self) -> str:
        return self.stack.name("AWS::DynamoDB::GlobalTable")

    @property
    def warehouse_queue(self) -> str:
        return self.stack.outputs["WarehouseQueueUrl"]

    def api(self, user: str | None = None) -> Api:
        """The API as that user calls it; a token is renewed before it ends."""
        return Api(self.api_url, _renewed(self.aws, self.stack, user) if user else None)


def find(state: Path = STATE) -> Running | None:
    """The shop that `up` runs, seen from another process; None where it is not running, or not ready yet."""
    ready = _ready(state)
    if ready is None:
        return None
    engine, aws = local_engine.find(state / "engine"), local_aws.find(state / "aws")
    # A kill leaves the sign of readiness behind; who starts next takes it away before anything else.
    if engine is None or aws is None or _ready(state) != ready:
        return None
    return Running(engine, aws, local_deploy.deployed(aws, STACK_NAME), ready["provider_url"])


def _ready(state: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads((state / READY).read_text())
    except (FileNotFoundError, ValueError):
        return None
    return found


def up(
    state: Path = STATE, *, api_port: int = API_PORT, provider_port: int = PROVIDER_PORT, with_warehouse: bool = True
) -> None:
    """Run until Ctrl-C, SIGTERM, or the end of the terminal. State stays in `state`, over a kill -9 too.

    `with_warehouse`: false where somebody plays the warehouse themselves. Raises process.ProcessFailed where it runs
    already, or a port is taken.
    """
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stopping.set())
    with ExitStack() as ending:
        ending.enter_context(process.alone(state, RUNNING_HERE))
        _check_ports(state, api_port, provider_port)
        (state / READY).unlink(missing_ok=True)
        running, narrator = _start(state, api_port, provider_port, ending)
        if with_warehouse:
            warehouse = Warehouse(running.aws, running.warehouse_queue, running.api("warehouse"), narrator.tell)
            warehouse.start()
            ending.callback(warehouse.stop)
        (state / READY).write_text(json.dumps({"provider_url": running.provider_url, "since": time.time()}))
        ending.callback((state / READY).unlink)
        print(welcome(running), flush=True)
        narrator.start()
        stopping.wait()
        print("\nStopping; the state stays. (A second Ctrl-C is not needed.)", flush=True)


def _check_ports(state: Path, *ports: int) -> None:
    """Raises process.ProcessFailed where a port is taken, but for what a kill -9 left behind: the start ends that."""
    left_behind = local_aws.find(state / "aws")
    for port in ports:
        if process.accepts(port) and not (left_behind and left_behind.port == port):
            others = 'make up ARGS="--port N --provider-port M"'
            raise process.ProcessFailed(f"Port {port} of 127.0.0.1 is taken. To use others: {others}")


def reset(state: Path = STATE) -> None:
    """Wipe the state, and end what a kill -9 left behind. Raises process.ProcessFailed where the shop is running."""
    with process.alone(state, RUNNING_HERE):
        for part in ("aws", "engine"):
            process.stop(state / part)
        shutil.rmtree(state)


def _start(state: Path, api_port: int, provider_port: int, ending: ExitStack) -> tuple[Running, Narrator]:
    """Start every part, and have `ending` stop them in the opposite order."""
    template = _step("synthesizing the stack", lambda: synthesized(state))
    engine = _step("starting DynamoDB", lambda: local_engine.start(state / "engine"))
    ending.callback(engine.stop)
    checkpoints = Checkpoints(state / "checkpoints.json")
    aws = _step(
        "starting the local AWS",
        lambda: local_aws.start(state / "aws", engine.endpoint, port=api_port, goes_back_with_it=[checkpoints.file]),
    )
    ending.callback(aws.stop)
    told = {"PROVIDER_URL": f"http://127.0.0.1:{provider_port}"}
    stack = _step("deploying", lambda: local_deploy.deploy(aws, STACK_NAME, template, PROJECT / "functions", told))
    engine.create_table(stack.name("AWS::DynamoDB::GlobalTable"), stack.properties("AWS::DynamoDB::GlobalTable"))
    for name in users.USERS:
        users.token(aws, stack, name)
    if stack.changed:  # from here on a kill -9 goes back to this moment at most
        aws = _step("saving what was deployed", aws.save)
    narrator = Narrator(aws, stack.names("AWS::Logs::LogGroup"))
    ending.callback(narrator.stop)
    if aws.interrupted:
        narrator.tell("the run before was killed: what had happened since the last clean stop is delivered again")
    pollers = start_pollers(engine, aws, stack, checkpoints, narrator.tell)
    for poller in pollers:
        ending.callback(poller.stop)
    stop_expiring = threading.Event()
    expiring = threading.Thread(target=keep_expiring, args=(engine, stop_expiring), daemon=True)
    expiring.start()
    ending.callback(stop_expiring.set)
    secret, key = json.loads(_secret(aws, stack, "WebhookSecret"))["current"], _secret(aws, stack, "ProviderSecret")
    webhook_url = f"{stack.api_url(aws)}/payments/events"
    provider = Provider(state / "provider", provider_port, webhook_url, lambda: secret, lambda: key).start()
    ending.callback(provider.stop)
    return Running(engine, aws, stack, provider.url), narrator


def synthesized(state: Path) -> dict[str, Any]:
    """The stack's template, synthesized anew when anything it is made of has changed."""
    digest = hashlib.sha256()
    for name in SYNTHESIZED_FROM:
        path = PROJECT / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.read_bytes())
    known = state / f"template-{digest.hexdigest()[:16]}.json"
    if not known.exists():
        out = state / "cdk.out"
        subprocess.run(
            [sys.executable, "-c", f"import app; app.build({{'laptop': 'true'}}, outdir={str(out)!r}).synth()"],
            cwd=PROJECT,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        for old in state.glob("template-*.json"):
            old.unlink()
        new = known.with_suffix(".new")
        new.write_bytes((out / f"{STACK_NAME}.template.json").read_bytes())
        new.rename(known)
    found: dict[str, Any] = json.loads(known.read_text())
    return found


def welcome(running: Running) -> str:
    """What a newcomer can do now."""
    python = ".venv/bin/python -m local"
    return f"""
The shop is open.

  API        {running.api_url}
  its docs   {running.api_url}/docs
  payments   {running.provider_url}   (a provider that answers)
  people     alice (customer), staff, warehouse; any other name is one more customer

A first order, in another terminal:

  API={running.api_url} PROVIDER={running.provider_url}
  as() {{ WHO=$1; shift; curl -s -w '\\n' -H "Authorization: Bearer $({python} token $WHO)" \\
    -H 'Content-Type: application/json' "$@"; }}
  as alice $API/customers -d '{{"name": "Alice Ash"}}'
  as staff $API/products -d '{{"product_id": "mug", "name": "Blue mug", "price": 1250, "currency": "EUR"}}'
  as staff $API/products/mug/receipts -H 'Idempotency-Key: first' -d '{{"quantity": 10}}'
  ORDER=$(as alice $API/orders -H 'Idempotency-Key: my-first-order' -d '{{
    "lines": [{{"product_id": "mug", "quantity": 2}}],
    "address": {{"name": "Alice Ash", "street": "1 Elm Row", "postcode": "1010", "city": "Wien", "country": "AT"}}}}' \\
    | tee /dev/stderr | sed 's/.*"order_id":"\\([^"]*\\)".*/\\1/')
  curl -s $PROVIDER/v1/payment_intents -d amount=2990 -d currency=eur -d "metadata[order_id]=$ORDER"
  as alice $API/orders/$ORDER/whole

  make demo                   tells an order's whole way, from request to archive
  {python} mail          the mails so far
  {python} advance 400d  let end what ends in that time

What happens, as it happens (Ctrl-C stops, make reset wipes):
"""


def _step(what: str, do: Callable[[], Any]) -> Any:
    """Say what is being done, do it, say how long it took."""
    print(f"{what} ... ", end="", flush=True)
    began = time.monotonic()
    result = do()
    print(f"{time.monotonic() - began:.1f} s", flush=True)
    return result


def _secret(aws: LocalAws, stack: Stack, output: str) -> str:
    """The value of the secret that an output of the stack names."""
    client = boto3.client("secretsmanager", **aws.access)
    return str(client.get_secret_value(SecretId=stack.outputs[output])["SecretString"])


def _renewed(aws: LocalAws, stack: Stack, user: str) -> Callable[[], str]:
    """A function that gives this user's token, a new one every half hour."""
    kept: dict[str, Any] = {}

    def token() -> str:
        if kept.get("until", 0) < time.monotonic():
            kept.update(token=users.token(aws, stack, user), until=time.monotonic() + 1800)
        return str(kept["token"])

    return token
