"""Drives the stream's event source mappings as the template has them: reads the stream, invokes, reports back.

What is due when, and what a result means, is local/mappings' affair; here is only its doing, one thread a mapping.
Everything done is noted in a file, so that a poller that was killed goes on behind it: what was under way comes again.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from functions.model.table import BY_TYPE, ORDER
from local.aws import ACCOUNT, LocalAws
from local.deploy import Stack
from local.engine import REGION, Engine
from local.journal import Journal
from local.mappings import (
    Action,
    Deliver,
    Delivered,
    EventSourceMapping,
    Failed,
    Invoke,
    Load,
    NotInvoked,
    Outcome,
    Returned,
    Settings,
    StreamRecord,
    Switches,
    lambda_record,
)
from local.mappings.settings import INFINITE

POLL_SECONDS = 0.05
LANES = 2
"""Batches of a shard that are handled at once, each of other items: a laptop's processors are slower than AWS's."""
LAPTOP = Switches(retention_seconds=None)
"""A laptop sleeps for days: its stream keeps everything, and no record is too old (see docs/local.md)."""


@dataclass
class Checkpoints:
    """How far each mapping has come in each stream, in one file that is replaced whole."""

    file: Path
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def are_damaged(self) -> bool:
        """Whether the file is there and cannot be read."""
        try:
            self._all()
        except (ValueError, RecursionError):
            return True
        return False

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
        """Raises ValueError if the file is damaged."""
        found = json.loads(self.file.read_bytes()) if self.file.exists() else {}
        if not isinstance(found, dict) or not all(isinstance(position, dict) for position in found.values()):
            raise ValueError(f"{self.file} has no positions")
        return found


class Poller(threading.Thread):
    """One stream mapping, live. It can be stopped and made to fail, for whoever wants to see what follows."""

    def __init__(
        self,
        engine: Engine,
        aws: LocalAws,
        stack: Stack,
        logical_id: str,
        checkpoints: Checkpoints,
        journal: Journal,
    ) -> None:
        super().__init__(name=f"poller {logical_id}", daemon=True)
        resources = stack.template["Resources"]
        properties = resources[logical_id]["Properties"]
        function_id = properties["FunctionName"]["Ref"]
        self.function = stack.resources[function_id]
        self.reader = str(resources[function_id]["Properties"]["Handler"]).split(".")[1]
        self.disabled = False
        self.fail_next = 0
        self._wishing = threading.Lock()
        self._checkpoints, self._journal = checkpoints, journal
        self._load = Load(waiting=0, in_flight=0, retrying=0, oldest_seconds=0)
        self._stopping = threading.Event()
        self._engine, self._streams = engine, engine.streams()
        once = Config(read_timeout=900, retries={"total_max_attempts": 1}, max_pool_connections=20)
        self._lambda = boto3.client("lambda", config=once, **aws.access)
        self._s3 = boto3.client("s3", **aws.access)
        self._stream_arn = self._find_stream(stack.name("AWS::DynamoDB::GlobalTable"))
        settings = Settings.from_template(properties, resolve=lambda value: _bucket_arn(stack, value))
        self._mapping = EventSourceMapping(
            replace(settings, max_record_age_seconds=INFINITE, parallelization_factor=LANES),
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
        self._workers = ThreadPoolExecutor(max_workers=LANES * 2)

    def stop(self) -> None:
        """End after what is under way."""
        self._stopping.set()
        self.join()
        self._workers.shutdown()

    def status(self) -> dict[str, Any]:
        """What the mapping has to do, and what it has done so far, in records."""
        done, load = self._mapping.counters, self._load
        return {
            "name": self.reader,
            "running": self.is_alive() and not self.disabled,
            "lag_ms": round(load.oldest_seconds * 1000),
            "waiting": load.waiting,
            "in_flight": load.in_flight,
            "retrying": load.retrying,
            "delivered": done.invoked,
            "failed": done.failed_invoke,
            "given_up": done.on_failure_destination_delivered,
            "fail_next": self.fail_next,
        }

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._look()
                self._load = self._mapping.load(time.time())
                if not self.disabled:
                    self._act()
            except Exception as error:  # noqa: BLE001  mostly the engine is away: nothing is lost by waiting
                self._iterators.clear()
                text = f"{self.reader}: the stream cannot be read ({type(error).__name__}), trying again"
                self._journal.note("process", text)
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
            page = self._engine.stream_records(iterator)
            events = [lambda_record(one, region=REGION, stream_arn=self._stream_arn) for one in page["Records"]]
            for event in events:
                self._mapping.feed(shard_id, event, time.time())
            self._journal.note_all(map(_record_told, events))
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
            self._load = self._mapping.load(time.time())
            if self._stopping.is_set() or self.disabled:
                return
        self._note()

    def _note(self) -> None:
        position = self._mapping.checkpoint()
        if position != self._noted:
            self._checkpoints.note(self._name, self._stream_arn, position)
            self._noted = dict(position)

    def _do(self, action: Action) -> Outcome:
        """Whatever goes wrong here is none of the function's doing: its lane must not wait for ever."""
        try:
            return self._invoke(action) if isinstance(action, Invoke) else self._deliver(action)
        except Exception as error:  # noqa: BLE001  the same
            self._journal.note("process", f"{self.reader}: {type(error).__name__} while delivering")
            return NotInvoked(type(error).__name__) if isinstance(action, Invoke) else Delivered(succeeded=False)

    def _invoke(self, action: Invoke) -> Outcome:
        started = time.monotonic()
        outcome = self._called(action)
        self._tell(action, outcome, (time.monotonic() - started) * 1000)
        return outcome

    def _called(self, action: Invoke) -> Outcome:
        if self._is_to_fail():
            return Failed("made to fail")
        try:
            answer = self._lambda.invoke(FunctionName=self.function, Payload=json.dumps(action.event))
            raw = answer["Payload"].read() or b"null"
        except (ClientError, BotoCoreError, OSError) as error:  # the function is away, or too busy: not its failure
            return NotInvoked(type(error).__name__)
        if "FunctionError" in answer:
            return Failed(raw.decode(errors="replace")[:200])
        try:
            return Returned(json.loads(raw))
        except ValueError:
            return Returned(raw)

    def _is_to_fail(self) -> bool:
        """Whether this delivery is one of those that were wished to fail; lanes ask side by side."""
        with self._wishing:
            self.fail_next -= (fails := self.fail_next > 0)
        return fails

    def _tell(self, action: Invoke, outcome: Outcome, milliseconds: float) -> None:
        """Note for each order in the batch what became of its records."""
        again = _come_again(action, outcome)
        orders: dict[str | None, list[StreamRecord]] = {}
        for record in action.records:
            orders.setdefault(_order_in(record.event), []).append(record)
        for order_id, records in orders.items():
            failed = [record for record in records if record.sequence_number in again]
            lag = time.time() - min(record.polled_at for record in records)
            self._journal.note(
                "delivery",
                f"{self.reader} took {_counted(len(records) - len(failed))}"
                + (f", {_counted(len(failed))} come again" if failed else ""),
                order_id=order_id,
                reader=self.reader,
                records=len(records),
                version=next((it for record in records if (it := _version_of_order(record.event))), None),
                attempt=action.attempt,
                lag_ms=round(lag * 1000),
                ms=round(milliseconds),
                outcome="failed" if isinstance(outcome, Failed) else "comes again" if failed else "done",
                reason=getattr(outcome, "error_type", None) or getattr(outcome, "reason", None),
            )

    def _deliver(self, action: Deliver) -> Outcome:
        for order_id in dict.fromkeys(_order_in(record.event) for record in action.records):
            text = f"{self.reader} gave up on a batch of {_counted(len(action.records))}: kept in the failure store"
            self._journal.note("parked", text, order_id=order_id, reader=self.reader, object=action.key)
        bucket = action.destination.rpartition(":")[2]
        try:
            self._s3.put_object(Bucket=bucket, Key=str(action.key), Body=json.dumps(action.document).encode())
        except (ClientError, BotoCoreError):
            return Delivered(succeeded=False)
        return Delivered()


def start_pollers(
    engine: Engine, aws: LocalAws, stack: Stack, checkpoints: Checkpoints, journal: Journal
) -> list[Poller]:
    """A running poller for each stream mapping of the template."""
    resources = stack.template["Resources"]
    of_streams = [
        id
        for id, resource in resources.items()
        if resource["Type"] == "AWS::Lambda::EventSourceMapping" and "StartingPosition" in resource["Properties"]
    ]
    pollers = [Poller(engine, aws, stack, id, checkpoints, journal) for id in of_streams]
    for poller in pollers:
        poller.start()
    return pollers


# what is told --------------------------------------------------------------------------------------------------------
def _record_told(event: Mapping[str, Any]) -> dict[str, Any]:
    """A stream record as an entry of the journal; it is noted once, whoever reads it first."""
    change = event["dynamodb"]
    image: Mapping[str, Any] = change.get("NewImage") or change.get("OldImage") or {}
    type_name = str(image.get("type", {}).get("S", "an item of no type"))
    row = BY_TYPE.get(type_name)
    by_expiry = event.get("userIdentity") is not None
    what = f"{event['eventName']} {type_name}" + (" by its time to live" if by_expiry else "")
    return {
        "kind": "record",
        "text": f"{what}, which is a copy" if row and row.kind in ("snapshot", "log") else what,
        "once": f"record {change['SequenceNumber']}",
        "order_id": _order_in(event),
        "event": event["eventName"],
        "type": type_name,
        "PK": change["Keys"]["PK"].get("S"),
        "SK": change["Keys"]["SK"].get("S"),
        "version": image.get("version", {}).get("N"),
        "sequence": change["SequenceNumber"],
        "by": "expiry" if by_expiry else "us",
        "bytes": change.get("SizeBytes"),
    }


def _order_in(event: Mapping[str, Any]) -> str | None:
    """The order that a record's item belongs to."""
    change = event["dynamodb"]
    image: Mapping[str, Any] = change.get("NewImage") or change.get("OldImage") or {}
    order_id: str | None = image.get("order_id", {}).get("S")
    return order_id


def _version_of_order(event: Mapping[str, Any]) -> str | None:
    """The version that an order got, where a record tells of an order."""
    image: Mapping[str, Any] = event["dynamodb"].get("NewImage") or {}
    version: str | None = image.get("version", {}).get("N") if image.get("type", {}).get("S") == ORDER.type else None
    return version


def _come_again(action: Invoke, outcome: Outcome) -> set[str]:
    """The sequence numbers of the records that the function did not take: from the lowest that it reports."""
    numbers = [record.sequence_number for record in action.records]
    match outcome:
        case Returned(response={"batchItemFailures": list(reported)}):
            failed = {one.get("itemIdentifier") for one in reported if isinstance(one, Mapping)}
            lowest = min((place for place, number in enumerate(numbers) if number in failed), default=len(numbers))
            return set(numbers[lowest:])
        case Returned():
            return set()
    return set(numbers)


def _counted(records: int) -> str:
    return "1 record" if records == 1 else f"{records} records"


def _bucket_arn(stack: Stack, value: object) -> str:
    """The ARN behind {"Fn::GetAtt": [bucket, "Arn"]}, the only reference a mapping makes that we follow."""
    match value:
        case {"Fn::GetAtt": [str(id), "Arn"]}:
            return f"arn:aws:s3:::{stack.resources[id]}"
    raise ValueError(f"a mapping's destination is {value}")
