"""The local DynamoDB: one small process (dynoxide) on one SQLite file, with streams, for the laptop run and the tests.

What it does differently from AWS, as far as this project meets it: nothing expires by itself (`Engine.expire`), shard
ids are shorter than botocore allows, and a table made again under an old name still has the old stream records.
It is durable: after a kill -9 a new process on the same file continues, sequence numbers included.

It asks no caller for a key, and it answers every web page. The running shop's engine therefore listens on a port that
browsers never connect to (`BLOCKED_PORTS`); its tools, which expire items, ask for a key.
"""

from __future__ import annotations

import http.client
import json
import platform
import random
import secrets
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import boto3
import orjson
import urllib3
from botocore.config import Config

from local import process

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodbstreams import DynamoDBStreamsClient

PROJECT = Path(__file__).resolve().parent.parent
REGION: Final = "eu-central-1"
CLIENT_CONFIG = Config(user_agent="local")  # to spell out who asks costs more than to ask
CREDENTIALS: dict[str, Any] = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
BLOCKED_PORTS = (1719, 1720, 1723, 5060, 5061, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080)
"""Ports that every browser refuses for every kind of request. Source: https://fetch.spec.whatwg.org/#port-blocking"""
TTL_ATTRIBUTE = "ttl"
DATABASE_FILE = "dynamodb.sqlite"
ADDRESS_FILE = "address.json"
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  a folder made in it has a name nobody can guess
MIN_SHARED_MEMORY_BYTES = 1 << 30

TABLE_PROPERTIES = ("AttributeDefinitions", "KeySchema", "LocalSecondaryIndexes")
INDEX_PROPERTIES = ("IndexName", "KeySchema", "Projection")

# Without it each write gets slower with every record the stream has seen: the engine looks for the newest one.
STREAM_INDEX = """
    CREATE INDEX IF NOT EXISTS orderstream_stream_records
    ON _stream_records (table_name, CAST(sequence_number AS INTEGER))
"""


# What is due is found without looking at all that is not.
EXPIRY_EXPRESSION = "CAST(json_extract(item_json, '$.\"{attribute}\".N') AS INTEGER)"
CREATE_EXPIRY_INDEX = 'CREATE INDEX IF NOT EXISTS "{table}::ends" ON "{table}" ({ends})'
SELECT_EXPIRED = "SELECT 1 FROM \"{table}\" WHERE {ends} <= CAST(strftime('%s', 'now') AS INTEGER) LIMIT 1"


class EngineNotInstalled(RuntimeError):
    """The engine's program is not installed for this machine."""


def find_engine_binary() -> Path:
    """The engine's program for this machine, as `make setup` installs it. Raises EngineMissing."""
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}.get(platform.machine().lower(), "arm64")
    system = {"linux": "linux", "darwin": "darwin", "win32": "win32"}.get(sys.platform, sys.platform)
    folder = PROJECT / "node_modules" / "@dynoxide"
    for found in sorted(folder.glob(f"{system}-{machine}*/dynoxide*")):
        return found
    raise EngineNotInstalled(f"The local DynamoDB engine is not installed for {system}-{machine}: run `make setup`.")


@dataclass(frozen=True)
class Engine:
    """A running engine: where its file is, and the two ports of 127.0.0.1 it answers on (DynamoDB and its tools).

    `tools_key`: the bearer token that the tools ask for.
    """

    directory: Path
    port: int
    tools_port: int
    tools_key: str = field(repr=False)
    started: subprocess.Popen[bytes] | None = field(default=None, repr=False, compare=False)

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
        """A new client. Thread-safe, as every client of boto3 is."""
        config = CLIENT_CONFIG.merge(config) if config else CLIENT_CONFIG
        return boto3.client("dynamodb", endpoint_url=self.endpoint, region_name=REGION, config=config, **CREDENTIALS)

    def streams(self) -> DynamoDBStreamsClient:
        """A new client that lets the engine's shard ids pass, which are shorter than botocore's minimum."""
        lenient = CLIENT_CONFIG.merge(Config(parameter_validation=False))
        return boto3.client(
            "dynamodbstreams", endpoint_url=self.endpoint, region_name=REGION, config=lenient, **CREDENTIALS
        )

    def get_stream_records(self, shard_iterator: str) -> dict[str, Any]:
        """The answer to GetRecords as it is in JSON: botocore takes ten times as long to read it. Raises OSError."""
        target = {"X-Amz-Target": "DynamoDBStreams_20120810.GetRecords", "X-Amz-Date": "20260101T000000Z"}
        signed = "AWS4-HMAC-SHA256 Credential=local/20260101/local/dynamodb/aws4_request, SignedHeaders=, Signature=0"
        headers = {**target, "Authorization": signed, "Content-Type": "application/x-amz-json-1.0"}
        body = orjson.dumps({"ShardIterator": shard_iterator, "Limit": 1000})
        answer = self._pool.request("POST", self.endpoint, body=body, headers=headers)
        if answer.status != HTTPStatus.OK:
            raise OSError(f"GetRecords answered {answer.status}: {answer.data[:200]!r}")
        found: dict[str, Any] = orjson.loads(answer.data)
        return found

    def create_table(self, name: str, definition: Mapping[str, Any]) -> None:
        """Make the table, unless it exists. Safe to repeat.

        `definition` has the properties of an AWS::DynamoDB::GlobalTable (or ::Table), or is a request for CreateTable:
        both name keys, attributes and indexes alike, and nothing else of them matters to the engine. Raises
        RuntimeError when the table exists with other keys or indexes.
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
                raise RuntimeError(
                    f"Table {name} was made from another definition: `make reset` begins anew."
                ) from None
        if client.describe_time_to_live(TableName=name)["TimeToLiveDescription"]["TimeToLiveStatus"] == "DISABLED":
            ttl = definition.get("TimeToLiveSpecification", {}).get("AttributeName", TTL_ATTRIBUTE)
            client.update_time_to_live(TableName=name, TimeToLiveSpecification={"Enabled": True, "AttributeName": ttl})

    def has_expired_items(self) -> bool:
        """Whether `expire` would find something: asked of an index, which is made at the first time, where `expire`
        itself reads every item of every table."""
        with closing(sqlite3.connect(self.database, timeout=30)) as database:
            tables = database.execute("SELECT table_name, ttl_attribute FROM _tables WHERE ttl_enabled").fetchall()
            for table, attribute in tables:
                ends = EXPIRY_EXPRESSION.format(attribute=attribute)
                database.execute(CREATE_EXPIRY_INDEX.format(table=table, ends=ends))
                if database.execute(SELECT_EXPIRED.format(table=table, ends=ends)).fetchone():
                    return True
        return False

    def delete_expired_items(self) -> int:
        """Delete what is due by now, as DynamoDB does in its own time; the stream records carry its user identity.

        Returns how many items of all tables that were. It also deletes what was due more than five years ago, which
        DynamoDB leaves alone.
        """
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "sweep_ttl", "arguments": {}}}
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        headers["Authorization"] = f"Bearer {self.tools_key}"
        with closing(http.client.HTTPConnection("127.0.0.1", self.tools_port, timeout=60)) as connection:
            connection.request("POST", "/mcp", json.dumps(call), headers)
            answer = json.loads(connection.getresponse().read())
        if "error" in answer or answer["result"].get("isError"):
            raise RuntimeError(f"The engine could not expire anything: {answer}")
        deleted: int = json.loads(answer["result"]["content"][0]["text"])["items_deleted"]
        return deleted

    def stop(self) -> None:
        """End the process; nothing is lost, however it ends."""
        process.stop(self.directory)
        if self.started:
            self.started.wait()


def start(directory: Path, *, ports: Sequence[int] = ()) -> Engine:
    """Start the engine on the file in `directory` and wait until it answers (well under a second).

    Continues where an earlier process on the same directory left off, and ends that one first if it still runs: two on
    one file would give out the same sequence numbers. `ports`: those it may listen on; any free one if there are none
    (tests). Raises EngineMissing, or process.ProcessFailed if it does not start or all ports are taken.
    """
    # A port that was free a moment ago may be taken, by another shop that starts at the same time, too.
    candidates = random.sample(ports, len(ports)) if ports else [process.free_port() for _ in range(3)]
    free = [port for port in candidates if not process.is_listening(port)]
    if not free:
        raise process.ProcessFailed(f"All ports for the local DynamoDB are taken: {', '.join(map(str, ports))}.")
    *others, last = (Engine(directory, port, process.free_port(), secrets.token_urlsafe(32)) for port in free)
    for engine in others:
        with suppress(process.ProcessFailed):
            return restart(engine)
    return restart(last)


def restart(engine: Engine) -> Engine:
    """Start an engine that has ended again, with the same ports and key. Raises as `start`."""
    directory = engine.directory
    binary = find_engine_binary()
    process.stop(directory)
    started = _start_process(binary, engine)
    with closing(sqlite3.connect(engine.database, timeout=30)) as database:
        database.execute(STREAM_INDEX)
    address = {"port": engine.port, "tools_port": engine.tools_port, "tools_key": engine.tools_key}
    process.write_private_file(directory / ADDRESS_FILE, json.dumps(address))
    return replace(engine, started=started)


@contextmanager
def temporary_engine() -> Iterator[Engine]:
    """An engine for a while, whose file lies in memory where there is room: it is gone afterwards."""
    roomy = SHARED_MEMORY.is_dir() and shutil.disk_usage(SHARED_MEMORY).free > MIN_SHARED_MEMORY_BYTES
    with tempfile.TemporaryDirectory(prefix="orderstream-", dir=SHARED_MEMORY if roomy else None) as directory:
        started = start(Path(directory))
        try:
            yield started
        finally:
            started.stop()


def find(directory: Path) -> Engine | None:
    """The engine that another process started in this directory, while it runs."""
    if process.running_process_id(directory) is None:
        return None
    return process.read_address(directory / ADDRESS_FILE, partial(Engine, directory))


def _start_process(binary: Path, engine: Engine) -> subprocess.Popen[bytes]:
    if process.is_listening(engine.port):
        raise process.ProcessFailed(f"port {engine.port} of 127.0.0.1 is taken")
    command = [str(binary), "serve", "--host", "127.0.0.1", "--port", str(engine.port)]
    command += ["--db-path", str(engine.database), "--mcp", "--mcp-port", str(engine.tools_port)]
    return process.start(
        command,
        directory=engine.directory,
        env={"DYNOXIDE_MCP_AUTH_TOKEN": engine.tools_key},
        is_ready=lambda: process.is_listening(engine.port) and process.is_listening(engine.tools_port),
        timeout_seconds=10,
    )


def _table_schema(table: Mapping[str, Any]) -> tuple[Any, ...]:
    """What of a table cannot be changed by making it again: its keys and indexes, in no particular order."""
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
