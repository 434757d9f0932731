"""Starts all parts of the shop on this machine, and stops them in reverse order.

The main parts are the local DynamoDB, the local AWS with the deployed stack, the payment provider and the web page.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import boto3

from local.laptop import aws_process as local_aws
from local.laptop import deploy as local_deploy
from local.laptop import users
from local.laptop.aws_process import LocalAws
from local.laptop.backlog import FILE as BACKLOG
from local.laptop.backlog import BacklogMonitor, waiting_message_counter
from local.laptop.deploy import DeployedStack
from local.laptop.journal import FILE as JOURNAL
from local.laptop.journal import Journal
from local.laptop.log_files import rotate_log
from local.laptop.log_tailer import LogTailer
from local.laptop.payment_provider import PaymentProviderServer
from local.laptop.poller import CheckpointStore, StreamPoller, start_pollers
from local.laptop.queues import StackQueues
from local.laptop.shop_client import (
    PROJECT,
    READY_FILE,
    STACK_NAME,
    STATE_FOLDER,
    RunningShop,
    shop_command,
    state_option,
)
from local.laptop.state_checks import (
    DamagedState,
    Fingerprint,
    check_database,
    check_fingerprint,
    check_free_space,
    read_fingerprint,
    write_fingerprint,
)
from local.laptop.supervisor import ProcessSupervisor
from local.laptop.terminal import TerminalPrinter, run_step
from local.laptop.warehouse import LocalWarehouse
from local.page.server import PageServer
from local.world import dynamodb_engine as local_engine
from local.world import processes
from local.world.dynamodb_engine import BLOCKED_PORTS, Engine
from local.world.expiry import run_expiry_loop
from ops.terminal_text import colored
from stacks import stage, synth_cache

API_PORT, PROVIDER_PORT, PAGE_PORT = 4566, 4567, 4568
DEPLOYED_SIGNAL = signal.SIGUSR1
"""The signal to send to `make up` after a deploy, so that the stream pollers use the new mappings."""
ALREADY_RUNNING = "The shop is already running. Stop it first: press Ctrl-C in its terminal."


def run_shop(
    state: Path = STATE_FOLDER,
    *,
    api_port: int = API_PORT,
    provider_port: int = PROVIDER_PORT,
    page_port: int = PAGE_PORT,
    with_warehouse: bool = True,
    settings: Mapping[str, str] | None = None,
) -> None:
    """Run the shop until Ctrl-C, SIGTERM, or the terminal closes.

    `state`: the folder of the shop's data, with which the next run continues, also after a kill -9. `with_warehouse`:
    if not, a person answers the requests to the warehouse. `settings`: those that differ from the stage "dev". Raises
    processes.ProcessFailed if it cannot start, and DamagedState or UnusableFolder if the data cannot be used.
    """
    stopping = threading.Event()

    def stop_or_kill(*_: object) -> None:
        if stopping.is_set():
            processes.kill_children()
            os._exit(1)
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop_or_kill)
    processes.require_open_files()
    with ExitStack() as exit_stack:
        exit_stack.enter_context(processes.exclusive_lock(state, ALREADY_RUNNING))
        state.chmod(0o700)
        check_free_space(state)
        _check_ports(state, api_port, provider_port, page_port)
        (state / READY_FILE).unlink(missing_ok=True)
        terminal = TerminalPrinter()
        journal = Journal(state / JOURNAL, terminal.print_entry)
        exit_stack.callback(journal.close)
        if journal.was_damaged:
            print(f"{state / JOURNAL} was damaged: the activity before this start is lost")
        ports = (api_port, provider_port, page_port)
        running, keeper = _start_parts(state, settings or {}, ports, journal, exit_stack)
        queues = StackQueues(running.aws, running.stack)
        backlog = BacklogMonitor(lambda: keeper.readers, waiting_message_counter(queues), journal, state / BACKLOG)
        backlog.start()
        exit_stack.callback(backlog.stop)
        if with_warehouse:
            api = running.api_client("warehouse")
            warehouse = LocalWarehouse(
                running.aws, running.warehouse_queue_url, api, partial(journal.append, "warehouse")
            )
            warehouse.start()
            exit_stack.callback(warehouse.stop)
        page = PageServer(running, keeper, journal, queues, backlog, page_port).start()
        exit_stack.callback(page.stop)
        ready = {"provider_url": running.provider_url, "process_id": os.getpid(), "since": time.time()}
        (state / READY_FILE).write_text(json.dumps(ready))
        exit_stack.callback((state / READY_FILE).unlink, missing_ok=True)
        print(welcome_message(running, page.url), flush=True)
        terminal.is_muted = False
        stopping.wait()
        kept = "The state is kept" if state.exists() else f"The state is lost, because {state} was deleted"
        print(f"\nStopping. {kept}. A second Ctrl-C kills the shop at once.", flush=True)


def _check_ports(state: Path, *ports: int) -> None:
    """Raise processes.ProcessFailed if ports are equal or taken, except by the local AWS of a killed run."""
    if len(set(ports)) < len(ports):
        raise processes.ProcessFailed("The API, the payment provider and the page need different ports.")
    left_behind = local_aws.find(state / "aws")
    remedy = f"To use other ports: {shop_command(state, 'up', '--port N --provider-port M --page-port P')}"
    for port in ports:
        if not (left_behind and left_behind.address.public_port == port):
            processes.require_free_port(port, remedy)


def reset_state(state: Path = STATE_FOLDER, confirm: Callable[[], None] = lambda: None) -> None:
    """Stop processes that are left after a kill, and delete the folder of the shop's data.

    `confirm`: asks a person, and exits if the answer is no. Raises processes.ProcessFailed if the shop runs.
    """
    with processes.exclusive_lock(state, ALREADY_RUNNING):
        confirm()
        for part in ("aws", "engine"):
            processes.stop(state / part)
        shutil.rmtree(state)


def _start_parts(
    state: Path,
    settings: Mapping[str, str],
    ports: tuple[int, int, int],
    journal: Journal,
    exit_stack: ExitStack,
) -> tuple[RunningShop, ProcessSupervisor]:
    """Start the parts from DynamoDB to the payment provider, with a callback of each that stops it.

    `ports`: the ports of the API, the payment provider and the web page.
    """
    api_port, provider_port, page_port = ports
    template = run_step(
        "synthesizing the stack with the CDK (slow only after a change of its code)",
        lambda: synthesize_template(settings),
    )
    _check_previous_state(state)
    engine = run_step("starting DynamoDB", lambda: local_engine.start(state / "engine", ports=BLOCKED_PORTS))
    exit_stack.callback(engine.stop)
    checkpoints = CheckpointStore(state / "checkpoints.json")
    if checkpoints.is_damaged:
        print(f"{checkpoints.file} was damaged: the stream is read again from the last clean stop", flush=True)
    aws = run_step(
        "starting the local AWS",
        lambda: local_aws.start(
            state / "aws",
            engine.endpoint,
            public_port=api_port,
            rollback_files=[checkpoints.file],
            allowed_origins=local_deploy.allowed_origins(template),
        ),
    )
    exit_stack.callback(aws.stop)
    provider_url = settings.get("provider_url") or f"http://127.0.0.1:{provider_port}"
    addresses = {
        "PROVIDER_URL": provider_url,
        "WEBHOOK_TEST_HOST": "127.0.0.1",
        "PAGE_URL": f"http://127.0.0.1:{page_port}/",
    }
    variables = {**addresses, "PUBLIC_URL": aws.public_url}
    stack = run_step(
        "deploying", lambda: local_deploy.deploy(aws, STACK_NAME, template, PROJECT / "functions", variables)
    )
    aws = _create_table(engine, aws, stack)
    narrator = LogTailer(aws.function_log, aws.directory / local_aws.SPANS_FILE, journal)
    narrator.start()
    exit_stack.callback(narrator.stop)
    if aws.was_killed:
        text = "the previous run was killed: stream records since its last clean stop are delivered again"
        print(text, flush=True)
        journal.append("process", text)

    def start_readers() -> list[StreamPoller]:
        deployed = local_deploy.describe_deployed_stack(aws, STACK_NAME)
        return start_pollers(engine, aws, deployed, checkpoints, journal)

    keeper = ProcessSupervisor(engine, aws, start_readers, journal)
    keeper.start()
    signal.signal(DEPLOYED_SIGNAL, lambda *_: keeper.restart_readers())
    exit_stack.callback(keeper.stop)
    stop_expiring = threading.Event()
    expiring = threading.Thread(target=run_expiry_loop, args=(engine, stop_expiring), daemon=True)
    expiring.start()
    exit_stack.callback(stop_expiring.set)
    secret = json.loads(_get_secret(aws, stack.outputs["WebhookSecret"]))["current"]
    key = _get_secret(aws, stack.outputs["ProviderSecret"])
    webhook_url = f"{aws.public_url}/payments/events"
    provider = PaymentProviderServer(
        state / "provider", provider_port, webhook_url, lambda: secret, lambda: key
    ).start()
    exit_stack.callback(provider.stop)
    return RunningShop(engine, aws, stack, provider.url, os.getpid()), keeper


def _check_previous_state(state: Path) -> None:
    """Rename the logs of the previous run, and check its data. Raises DamagedState if the data cannot be used."""
    for log in ("engine/log", "aws/log", f"aws/{local_aws.FUNCTION_LOG}", f"aws/{local_aws.SPANS_FILE}"):
        rotate_log(state / log)
    check_database(state / "engine")
    if read_fingerprint(state / "engine") and not local_aws.find_snapshot(state / "aws"):
        raise DamagedState(state / "aws", "is missing or empty, but the table contains the data of its shop")


def _create_table(engine: Engine, aws: LocalAws, stack: DeployedStack) -> LocalAws:
    """Create the table and the users if they do not exist. A deploy that changed the stack saves a snapshot.

    Raises DamagedState if the table belongs to another shop, or if that of an existing stack is missing.
    """
    fingerprint = _fingerprint(aws, stack)
    check_fingerprint(engine, aws.directory, fingerprint, stack_is_new=stack.created)
    engine.create_table(fingerprint["table"], stack.resource_properties("AWS::DynamoDB::GlobalTable"))
    for name in users.USERS:
        users.get_access_token(aws, stack, name)
    if stack.changed:  # without a snapshot, a start after a kill -9 would lose this stack
        aws = run_step("saving the deployed stack", aws.save_snapshot)
    write_fingerprint(engine, fingerprint)
    return aws


SETTINGS_OF_AWS = {
    **dict.fromkeys(("sign_in_prefix", "issuer", "audience", "page_client_id", "web_acl", "domain", "certificate"), ""),
    **dict.fromkeys(("permissions_boundary", "backup_copy_vault"), ""),
    **dict.fromkeys(("monthly_budget", "daily_backup_days", "monthly_backup_days", "backup_lock_days"), "0"),
    "firewall": "false",
    "analytics": "false",
    "origin_secret_version": "",
    "stream_arn": "",
    "mails_per_second": "50000",
}
"""The settings of dev that the local shop cannot use, with the values that it uses instead: the defaults.

Only the rate of mails differs: the local AWS runs two invocations, and not 1,000 that share it.
"""


def synthesize_template(settings: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the template with these settings, maybe from a cache. Raises processes.ProcessFailed for a bad setting."""
    try:
        return synth_cache.load_template(STACK_NAME, {"laptop": "true", **SETTINGS_OF_AWS, **(settings or {})})
    except stage.InvalidSetting as wrong:
        raise processes.ProcessFailed(f"The stack cannot be synthesized: {wrong}.") from None
    except synth_cache.SynthFailed as failed:
        *_, reason = str(failed).strip().splitlines() or ["the CDK printed no reason"]
        raise processes.ProcessFailed(f"The stack cannot be synthesized: {reason}") from None


def welcome_message(running: RunningShop, page_url: str) -> str:
    """Return the text that `make up` prints when the shop is ready: addresses and the first commands to try."""
    python = f".venv/bin/python -m local{state_option(running.state)}"
    return f"""
The shop is running. Open its page: {colored(page_url, "bold")}

  API        {running.api_url}
  API docs   {page_url}/docs.html
  payments   {running.provider_url}   (a local payment provider)
  users      alice, bob (customers), staff, warehouse; any other name is a new customer

To place a first order, run this in another terminal:

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
  curl -s $PROVIDER/v1/payment_intents -d amount=2500 -d currency=eur -d "metadata[order_id]=$ORDER" -d confirm=true
  as alice $API/orders/$ORDER/whole

  make demo                               runs typical orders in a shop of their own
  {python} mail          prints all sent mails
  {python} advance 400d  expires everything that is due within 400 days
  {python} reset         deletes the state, after Ctrl-C has stopped the shop

Activity:
"""


def _fingerprint(aws: LocalAws, stack: DeployedStack) -> Fingerprint:
    """Return the values that must not change while the table is used; of the pepper (a secret), only a hash."""
    pepper = hashlib.sha256(
        _get_secret(aws, stack.find_resource_name("AWS::SecretsManager::Secret", "Pepper")).encode()
    ).hexdigest()
    pool = stack.resource_name("AWS::Cognito::UserPool")
    return {"pepper": pepper, "user pool": pool, "table": stack.resource_name("AWS::DynamoDB::GlobalTable")}


def _get_secret(aws: LocalAws, name: str) -> str:
    """Return the value of a secret. Raises DamagedState if the local AWS has lost it."""
    client = boto3.client("secretsmanager", **aws.client_options)
    try:
        return str(client.get_secret_value(SecretId=name)["SecretString"])
    except client.exceptions.ResourceNotFoundException:
        raise DamagedState(aws.directory, "does not contain the secrets of this shop") from None
