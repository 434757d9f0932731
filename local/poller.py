"""Drives the stream's event source mappings as the template has them: reads the stream, invokes, reports back.

What is due when, and what a result means, is local/mappings' affair; here is only its doing, one thread a mapping.
Everything done is noted in a file, so that a poller that was killed goes on behind it: what was under way comes again.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from local.aws import ACCOUNT, LocalAws
from local.deploy import Stack
from local.engine import REGION, Engine
from local.mappings import (
    Action,
    Deliver,
    Delivered,
    EventSourceMapping,
    Failed,
    Invoke,
    NotInvoked,
    Outcome,
    Returned,
    Settings,
    Switches,
    lambda_record,
)
from local.mappings.settings import INFINITE

POLL_SECONDS = 0.05
LAPTOP = Switches(retention_seconds=None)
"""A laptop sleeps for days: its stream keeps everything, and no record is too old (see docs/local.md)."""


@dataclass
class Checkpoints:
    """How far each mapping has come in each stream, in one file that is replaced whole."""

    file: Path
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, name: str, stream_arn: str) -> dict[str, str]:
        """Shard → sequence number behind which a mapping resumes."""
        return dict(self._all().get(f"{name} {stream_arn}", {}))

    def note(self, name: str, stream_arn: str, position: Mapping[str, str]) -> None:
        with self._lock:
            everything = self._all() | {f"{name} {stream_arn}": dict(position)}
            new = self.file.with_suffix(".new")
            new.write_text(json.dumps(everything, indent=1))
            new.replace(self.file)

    def _all(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.file.read_text()) if self.file.exists() else {}
        return found


class Poller(threading.Thread):
    """One stream mapping, live. `tell(text, milliseconds)` hears of each invocation that failed."""

    def __init__(
        self,
        engine: Engine,
        aws: LocalAws,
        stack: Stack,
        logical_id: str,
        checkpoints: Checkpoints,
        tell: Callable[[str, float], None],
    ) -> None:
        super().__init__(name=f"poller {logical_id}", daemon=True)
        properties = stack.template["Resources"][logical_id]["Properties"]
        self.function = stack.resources[properties["FunctionName"]["Ref"]]
        self._checkpoints, self._tell = checkpoints, tell
        self._stopping = threading.Event()
        self._streams = engine.streams()
        once = Config(read_timeout=900, retries={"total_max_attempts": 1}, max_pool_connections=20)
        self._lambda = boto3.client("lambda", config=once, **aws.access)
        self._s3 = boto3.client("s3", **aws.access)
        self._stream_arn = self._find_stream(stack.name("AWS::DynamoDB::GlobalTable"))
        settings = Settings.from_template(properties, resolve=lambda value: _bucket_arn(stack, value))
        self._mapping = EventSourceMapping(
            replace(settings, max_record_age_seconds=INFINITE),
            mapping_id=str(uuid.uuid5(uuid.NAMESPACE_URL, logical_id)),
            function_arn=f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{self.function}",
            stream_arn=self._stream_arn,
            new_id=lambda: str(uuid.uuid4()),
            resume=checkpoints.of(logical_id, self._stream_arn),
            switches=LAPTOP,
        )
        self._name = logical_id
        self._noted: dict[str, str] = {}
        self._iterators: dict[str, str | None] = {}
        self._workers = ThreadPoolExecutor(max_workers=max(2, settings.parallelization_factor * 2))

    def stop(self) -> None:
        """End after what is under way."""
        self._stopping.set()
        self.join()
        self._workers.shutdown()

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._look()
                self._act()
            except (ClientError, BotoCoreError, OSError) as error:  # the engine is away: nothing is lost by waiting
                self._iterators.clear()
                self._tell(f"{self.function}: the stream cannot be read ({type(error).__name__}), trying again", 0)
                self._stopping.wait(1)
            self._stopping.wait(POLL_SECONDS)

    def _find_stream(self, table_name: str) -> str:
        (stream,) = self._streams.list_streams(TableName=table_name)["Streams"]
        return stream["StreamArn"]

    def _look(self) -> None:
        """Feed the mapping what is new in every shard it wants."""
        if not self._iterators:
            shards = self._streams.describe_stream(StreamArn=self._stream_arn)["StreamDescription"]["Shards"]
            for shard in shards:
                self._mapping.shard(shard["ShardId"], shard.get("ParentShardId"))
                self._iterators[shard["ShardId"]] = self._iterator(shard["ShardId"])
        for shard_id, iterator in list(self._iterators.items()):
            if iterator is None or not self._mapping.wants(shard_id):
                continue
            page = self._streams.get_records(ShardIterator=iterator, Limit=1000)
            for record in page["Records"]:
                event = lambda_record(record, region=REGION, stream_arn=self._stream_arn)
                self._mapping.feed(shard_id, event, time.time())
            self._iterators[shard_id] = page.get("NextShardIterator")
            if self._iterators[shard_id] is None:
                self._mapping.close_shard(shard_id)

    def _iterator(self, shard_id: str) -> str:
        start = self._mapping.start_of(shard_id)
        position = {"SequenceNumber": start.sequence_number} if start.sequence_number else {}
        return self._streams.get_shard_iterator(
            StreamArn=self._stream_arn, ShardId=shard_id, ShardIteratorType=start.iterator_type, **position
        )["ShardIterator"]

    def _act(self) -> None:
        """Do all that is due, lanes side by side, and note how far that has brought us."""
        while actions := self._mapping.due(time.time()):
            outcomes = list(self._workers.map(self._do, actions))
            for action, outcome in zip(actions, outcomes, strict=True):
                self._mapping.result(action, outcome, time.time())
            self._note()
            if self._stopping.is_set():
                return
        self._note()

    def _note(self) -> None:
        position = self._mapping.checkpoint()
        if position != self._noted:
            self._checkpoints.note(self._name, self._stream_arn, position)
            self._noted = dict(position)

    def _do(self, action: Action) -> Outcome:
        return self._invoke(action) if isinstance(action, Invoke) else self._deliver(action)

    def _invoke(self, action: Invoke) -> Outcome:
        started = time.monotonic()
        try:
            answer = self._lambda.invoke(FunctionName=self.function, Payload=json.dumps(action.event))
        except (ClientError, BotoCoreError, OSError) as error:  # the function is away, or too busy: not its failure
            return NotInvoked(type(error).__name__)
        raw = answer["Payload"].read() or b"null"
        milliseconds = (time.monotonic() - started) * 1000
        if "FunctionError" in answer:
            self._tell(f"{self.function} failed: {raw.decode(errors='replace')[:200]}", milliseconds)
            return Failed(answer["FunctionError"])
        try:
            payload = json.loads(raw)
        except ValueError:
            return Returned(raw)
        if isinstance(payload, dict) and payload.get("batchItemFailures"):
            self._tell(f"{self.function}: {len(payload['batchItemFailures'])} records come again", milliseconds)
        return Returned(payload)

    def _deliver(self, action: Deliver) -> Outcome:
        self._tell(f"{self.function} gave up on {len(action.records)} records: kept in the failure store", 0)
        bucket = action.destination.rpartition(":")[2]
        try:
            self._s3.put_object(Bucket=bucket, Key=str(action.key), Body=json.dumps(action.document).encode())
        except (ClientError, BotoCoreError):
            return Delivered(succeeded=False)
        return Delivered()


def start_pollers(
    engine: Engine, aws: LocalAws, stack: Stack, checkpoints: Checkpoints, tell: Callable[[str, float], None]
) -> list[Poller]:
    """A running poller for each stream mapping of the template."""
    resources = stack.template["Resources"]
    of_streams = [
        id
        for id, resource in resources.items()
        if resource["Type"] == "AWS::Lambda::EventSourceMapping" and "StartingPosition" in resource["Properties"]
    ]
    pollers = [Poller(engine, aws, stack, id, checkpoints, tell) for id in of_streams]
    for poller in pollers:
        poller.start()
    return pollers


def _bucket_arn(stack: Stack, value: object) -> str:
    """The ARN behind {"Fn::GetAtt": [bucket, "Arn"]}, the only reference a mapping makes that we follow."""
    match value:
        case {"Fn::GetAtt": [str(id), "Arn"]}:
            return f"arn:aws:s3:::{stack.resources[id]}"
    raise ValueError(f"a mapping's destination is {value}")
