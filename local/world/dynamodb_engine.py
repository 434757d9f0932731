"""The local DynamoDB with streams, for the local shop and the tests.

It is one process of dynoxide (the engine), an emulator that stores its data in one SQLite file, also after a kill -9.
It differs from DynamoDB on AWS in these points:

- The engine does not delete expired items by itself. Call `Engine.delete_expired_items`.
- The ids of stream shards are shorter than botocore allows.
- If a table is deleted and created again under the same name, the stream keeps the old records.

The DynamoDB port requires no key. In the running shop, it is therefore one of the ports that browsers never connect to
(`BLOCKED_PORTS`). The other port serves the engine's tools, such as TTL deletions, and requires a key.
"""

from __future__ import annotations

import http.client
import json
import platform
import random
import secrets
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import boto3
import orjson
import urllib3
from botocore.config import Config

from local.world import processes

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodbstreams import DynamoDBStreamsClient

PROJECT = Path(__file__).resolve().parents[2]
REGION: Final = "eu-central-1"
# A constant user agent, because botocore needs more time to build its default user agent than to send a request.
CLIENT_CONFIG = Config(user_agent="local")
CREDENTIALS: dict[str, Any] = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
BLOCKED_PORTS = (1719, 1720, 1723, 5060, 5061, 6566, 6665, 6666, 6667, 6668, 6669, 6697, 10080)
"""Some of the ports that every browser blocks: https://fetch.spec.whatwg.org/#port-blocking.

Do not add 4190 and 6679 from this list, because Chromium 156 connects to them.
"""
TTL_ATTRIBUTE = "ttl"
DATABASE_FILE = "dynamodb.sqlite"
ADDRESS_FILE = "address.json"
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  safe, because each folder in it has a random name
MIN_SHARED_MEMORY_BYTES = 1 << 30

TABLE_PROPERTIES = ("AttributeDefinitions", "KeySchema", "LocalSecondaryIndexes")
INDEX_PROPERTIES = ("IndexName", "KeySchema", "Projection")

# At each write, the engine searches for the newest stream record. This index keeps the search fast in a long stream.
STREAM_INDEX = """
    CREATE INDEX IF NOT EXISTS orderstream_stream_records
    ON _stream_records (table_name, CAST(sequence_number AS INTEGER))
"""


# The expiry time of an item in SQL. With an index on this expression, a query finds expired items fast.
EXPIRY_EXPRESSION = "CAST(json_extract(item_json, '$.\"{attribute}\".N') AS INTEGER)"
CREATE_EXPIRY_INDEX = 'CREATE INDEX IF NOT EXISTS "{table}::ends" ON "{table}" ({ends})'
SELECT_EXPIRED = "SELECT 1 FROM \"{table}\" WHERE {ends} <= CAST(strftime('%s', 'now') AS INTEGER) LIMIT 1"


class TableDiffers(Exception):
    """The table exists with other keys or indexes."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Table {name} exists with other keys or indexes")


class EngineNotInstalled(RuntimeError):
    """The engine's binary for this machine is not installed. `make setup` installs it."""


def find_engine_binary() -> Path:
    """Return the path of the engine's binary, which `make setup` installs. Raises EngineNotInstalled."""
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}.get(platform.machine().lower(), "arm64")
    system = {"linux": "linux", "darwin": "darwin", "win32": "win32"}.get(sys.platform, sys.platform)
    folder = PROJECT / "node_modules" / "@dynoxide"
    for found in sorted(folder.glob(f"{system}-{machine}*/dynoxide*")):
        return found
    raise EngineNotInstalled(f"The local DynamoDB engine is not installed for {system}-{machine}: run `make setup`.")


@dataclass(frozen=True)
class Engine:
    """A running engine. `port` serves DynamoDB and its streams, `tools_port` its tools, such as TTL deletions."""

    directory: Path
    port: int
    tools_port: int
    tools_key: str = field(repr=False)

    @property
    def database(self) -> Path:
        return self.directory / DATABASE_FILE

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @cached_property
    def _pool(self) -> urllib3.PoolManager:
        return urllib3.PoolManager(maxsize=4, retries=False, timeout=60)

    @cached_property
    def _client(self) -> DynamoDBClient:
        return self.dynamodb()

    def dynamodb(self, config: Config | None = None) -> DynamoDBClient:
        """Return a new boto3 client of this DynamoDB. The client is thread-safe."""
        config = CLIENT_CONFIG.merge(config) if config else CLIENT_CONFIG
        return boto3.client("dynamodb", endpoint_url=self.endpoint, region_name=REGION, config=config, **CREDENTIALS)

    def streams(self) -> DynamoDBStreamsClient:
        """Return a boto3 client of DynamoDB Streams without validation: botocore would reject the short shard ids."""
        lenient = CLIENT_CONFIG.merge(Config(parameter_validation=False))
        return boto3.client(
            "dynamodbstreams", endpoint_url=self.endpoint, region_name=REGION, config=lenient, **CREDENTIALS
        )

    def get_stream_records(self, shard_iterator: str) -> dict[str, Any]:
        """Call GetRecords without botocore, whose parsing takes ten times as long. Raises OSError if the call fails."""
        target = {"X-Amz-Target": "DynamoDBStreams_20120810.GetRecords", "X-Amz-Date": "20260101T000000Z"}
        signed = "AWS4-HMAC-SHA256 Credential=local/20260101/local/dynamodb/aws4_request, SignedHeaders=, Signature=0"
        headers = {**target, "Authorization": signed, "Content-Type": "application/x-amz-json-1.0"}
        body = orjson.dumps({"ShardIterator": shard_iterator, "Limit": 1000})
        answer = self._pool.request("POST", self.endpoint, body=body, headers=headers)
        if answer.status != HTTPStatus.OK:
            raise OSError(f"GetRecords returned {answer.status}: {answer.data[:200]!r}")
        found: dict[str, Any] = orjson.loads(answer.data)
        return found

    def create_table(self, name: str, definition: Mapping[str, Any]) -> None:
        """Create the table with a stream and TTL, if it does not exist. Safe to repeat.

        `definition`: the Properties of a table in a template, or the arguments of CreateTable. Raises TableDiffers if
        the table exists with other keys or indexes.
        """
        indexes = [{k: index[k] for k in INDEX_PROPERTIES} for index in definition.get("GlobalSecondaryIndexes", ())]
        request: dict[str, Any] = {k: definition[k] for k in TABLE_PROPERTIES if k in definition}
        request |= {"GlobalSecondaryIndexes": indexes} if indexes else {}
        client = self._client
        try:
            client.create_table(
                TableName=name,
                BillingMode="PAY_PER_REQUEST",
                StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
                **request,
            )
        except client.exceptions.ResourceInUseException:
            if _table_schema(client.describe_table(TableName=name)["Table"]) != _table_schema(request):
                raise TableDiffers(name) from None
        if client.describe_time_to_live(TableName=name)["TimeToLiveDescription"]["TimeToLiveStatus"] == "DISABLED":
            ttl = definition.get("TimeToLiveSpecification", {}).get("AttributeName", TTL_ATTRIBUTE)
            client.update_time_to_live(TableName=name, TimeToLiveSpecification={"Enabled": True, "AttributeName": ttl})

    def has_expired_items(self) -> bool:
        """Return whether any table has an expired item, from an index: `delete_expired_items` reads every item."""
        with closing(sqlite3.connect(self.database, timeout=30)) as database:
            tables = database.execute("SELECT table_name, ttl_attribute FROM _tables WHERE ttl_enabled").fetchall()
            for table, attribute in tables:
                ends = EXPIRY_EXPRESSION.format(attribute=attribute)
                database.execute(CREATE_EXPIRY_INDEX.format(table=table, ends=ends))
                if database.execute(SELECT_EXPIRED.format(table=table, ends=ends)).fetchone():
                    return True
        return False

    def delete_expired_items(self) -> int:
        """Delete the expired items of all tables, with the identity of DynamoDB's TTL process, and return their number.

        AWS does not delete items that expired more than five years ago. Raises RuntimeError if the engine fails.
        """
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "sweep_ttl", "arguments": {}}}
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        headers["Authorization"] = f"Bearer {self.tools_key}"
        with closing(http.client.HTTPConnection("127.0.0.1", self.tools_port, timeout=60)) as connection:
            connection.request("POST", "/mcp", json.dumps(call), headers)
            answer = json.loads(connection.getresponse().read())
        if "error" in answer or answer["result"].get("isError"):
            raise RuntimeError(f"The engine failed to delete expired items: {answer}")
        deleted: int = json.loads(answer["result"]["content"][0]["text"])["items_deleted"]
        return deleted

    def stop(self) -> None:
        """Stop the engine's process. No data is lost, even if the process is killed."""
        processes.stop(self.directory)


@cache
def shared_streams(engine: Engine) -> DynamoDBStreamsClient:
    """Return the same client of DynamoDB Streams at each call, because creating one takes longer than most tests."""
    return engine.streams()


def start(directory: Path, *, ports: Sequence[int] = ()) -> Engine:
    """Start the engine with the database file in `directory`, and wait until it answers.

    An earlier process of this file is stopped: two would assign the same sequence numbers. `ports`: for DynamoDB; any
    if empty. Raises EngineNotInstalled, or processes.ProcessFailed if it does not start or all ports are taken.
    """
    # Try several ports: another process, such as a second shop, may take a free port before the engine listens on it.
    candidates = random.sample(ports, len(ports)) if ports else [processes.free_port() for _ in range(3)]
    free = [port for port in candidates if not processes.is_listening(port)]
    if not free:
        raise processes.ProcessFailed(f"All ports for the local DynamoDB are in use: {', '.join(map(str, ports))}.")
    *others, last = (Engine(directory, port, processes.free_port(), secrets.token_urlsafe(32)) for port in free)
    for engine in others:
        with suppress(processes.ProcessFailed):
            return restart(engine)
    return restart(last)


def restart(engine: Engine) -> Engine:
    """Start a new process for this engine, with its ports and key, and return it. Raises as `start`."""
    directory = engine.directory
    binary = find_engine_binary()
    processes.stop(directory)
    _start_process(binary, engine)
    with closing(sqlite3.connect(engine.database, timeout=30)) as database:
        database.execute(STREAM_INDEX)
    address = {"port": engine.port, "tools_port": engine.tools_port, "tools_key": engine.tools_key}
    processes.write_private_file(directory / ADDRESS_FILE, json.dumps(address))
    return engine


@contextmanager
def temporary_engine() -> Iterator[Engine]:
    """Run a new local DynamoDB in a `with` block, in shared memory if 1 GB is free there. Deletes its file."""
    roomy = SHARED_MEMORY.is_dir() and shutil.disk_usage(SHARED_MEMORY).free > MIN_SHARED_MEMORY_BYTES
    with tempfile.TemporaryDirectory(prefix="orderstream-", dir=SHARED_MEMORY if roomy else None) as directory:
        started = start(Path(directory))
        process_id = processes.running_process_id(started.directory)
        try:
            with processes.ended_with_this_process(process_id or 0, folder=started.directory):
                yield started
        finally:
            started.stop()


def find(directory: Path) -> Engine | None:
    """Return the engine that another process started in this directory, or None if it is not running."""
    if processes.running_process_id(directory) is None:
        return None
    return processes.read_address(directory / ADDRESS_FILE, partial(Engine, directory))


def _start_process(binary: Path, engine: Engine) -> None:
    if processes.is_listening(engine.port):
        raise processes.ProcessFailed(
            f"{processes.describe_listener(engine.port)} uses port {engine.port} of 127.0.0.1"
        )
    command = [str(binary), "serve", "--host", "127.0.0.1", "--port", str(engine.port)]
    command += ["--db-path", str(engine.database), "--mcp", "--mcp-port", str(engine.tools_port)]
    processes.start(
        command,
        directory=engine.directory,
        env={"DYNOXIDE_MCP_AUTH_TOKEN": engine.tools_key},
        is_ready=lambda: processes.is_listening(engine.port) and processes.is_listening(engine.tools_port),
        timeout_seconds=10,
    )


def _table_schema(table: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the comparable keys and indexes of a table description, or of the arguments of a CreateTable request."""
    indexes = {index["IndexName"]: index for index in table.get("GlobalSecondaryIndexes", ())}
    return (
        _key_schema(table),
        {
            name: (
                _key_schema(index),
                index["Projection"]["ProjectionType"],
                set(index["Projection"].get("NonKeyAttributes", ())),
            )
            for name, index in indexes.items()
        },
    )


def _key_schema(schema: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(key["AttributeName"], key["KeyType"]) for key in schema["KeySchema"]]
