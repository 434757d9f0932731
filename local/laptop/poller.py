"""Polls the table's stream and invokes the Lambda functions, as the template's event source mappings define.

The model in local/event_source_mappings decides which actions are due. This module executes them, with one thread for
each mapping, and saves a checkpoint after each round. After a kill, a poller resumes after its checkpoint, and repeats
the batches that were in progress.
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
from typing import Any, Literal

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from functions.dynamodb.codec import Image
from functions.model.changes import make_change_id
from functions.model.lambdas import lambda_name_of_handler
from functions.model.table import ORDER, ROWS_BY_TYPE
from local.event_source_mappings import (
    Action,
    DeliverFailure,
    EventSourceMapping,
    FailureDelivered,
    InvocationFailed,
    InvocationReturned,
    Invoke,
    MappingAssumptions,
    MappingLoad,
    MappingSettings,
    NotInvoked,
    Outcome,
    StreamRecord,
    to_lambda_record,
)
from local.event_source_mappings.settings import INFINITE
from local.laptop.aws_process import ACCOUNT, LocalAws
from local.laptop.deploy import DeployedStack, resources_of_type
from local.laptop.journal import Journal
from local.world.dynamodb_engine import REGION, Engine
from ops.item_codec import decode_item

POLL_SECONDS = 0.05
PARALLELIZATION_FACTOR = 2
"""The number of batches of a shard in parallel, instead of the template's. Records of an item stay in order."""
LAPTOP_ASSUMPTIONS = MappingAssumptions(retention_seconds=None)
"""The stream has no retention limit: after a laptop has slept for days, all records are still delivered."""


MAX_IMAGE_CHARACTERS = 8192
"""If an image of a stream record has more characters, the journal stores only the beginning of long values."""
MAX_VALUE_CHARACTERS = 200


@dataclass
class CheckpointStore:
    """Stores the checkpoint of each event source mapping in one file, which each save replaces atomically."""

    file: Path
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_damaged(self) -> bool:
        """Whether the file exists but does not contain checkpoints."""
        try:
            self._read_all()
        except (ValueError, RecursionError):
            return True
        return False

    def get(self, name: str, stream_arn: str) -> dict[str, str]:
        """Return, by shard id, the sequence number after which to read. `name`: the mapping's logical id."""
        return dict(self._read_all().get(f"{name} {stream_arn}", {}))

    def save(self, name: str, stream_arn: str, position: Mapping[str, str]) -> None:
        with self._lock:
            everything = self._read_all() | {f"{name} {stream_arn}": dict(position)}
            new = self.file.with_suffix(".new")
            new.write_text(json.dumps(everything, indent=1))
            new.replace(self.file)

    def _read_all(self) -> dict[str, Any]:
        """Return all checkpoints, or {} if there is no file yet. Raises ValueError if the file is damaged."""
        found = json.loads(self.file.read_bytes()) if self.file.exists() else {}
        if not isinstance(found, dict) or not all(isinstance(position, dict) for position in found.values()):
            raise ValueError(f"{self.file} does not contain checkpoints")
        return found


class StreamPoller(threading.Thread):
    """A thread that polls the stream for one event source mapping and invokes the mapping's function.

    Chaos switches set `disabled`, and how many of the next invocations fail and of the next batches come twice.
    """

    def __init__(
        self,
        engine: Engine,
        aws: LocalAws,
        stack: DeployedStack,
        logical_id: str,
        checkpoints: CheckpointStore,
        journal: Journal,
    ) -> None:
        super().__init__(name=f"poller {logical_id}", daemon=True)
        resources = stack.template["Resources"]
        properties = resources[logical_id]["Properties"]
        function_id = properties["FunctionName"]["Ref"]
        self.function = stack.resources[function_id]
        self.reader = lambda_name_of_handler(resources[function_id]["Properties"]["Handler"])
        self.disabled = False
        self.fail_next = self.repeat_next = 0
        self._fail_lock = threading.Lock()
        self._checkpoints, self._journal = checkpoints, journal
        self._load = MappingLoad(waiting=0, in_flight=0, retrying=0, oldest_seconds=0)
        self._stopping = threading.Event()
        self._engine, self._streams = engine, engine.streams()
        once = Config(read_timeout=900, retries={"total_max_attempts": 1}, max_pool_connections=20)
        self._lambda = boto3.client("lambda", config=once, **aws.client_options)
        self._s3 = boto3.client("s3", **aws.client_options)
        self._stream_arn = self._find_stream(stack.resource_name("AWS::DynamoDB::GlobalTable"))
        settings = MappingSettings.from_template(properties, resolve=lambda value: _resolve_bucket_arn(stack, value))
        self._mapping = EventSourceMapping(
            replace(settings, max_record_age_seconds=INFINITE, parallelization_factor=PARALLELIZATION_FACTOR),
            mapping_id=mapping_id(logical_id),
            function_arn=f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{self.function}",
            stream_arn=self._stream_arn,
            new_id=lambda: str(uuid.uuid4()),
            resume_from=checkpoints.get(logical_id, self._stream_arn),
            assumptions=LAPTOP_ASSUMPTIONS,
        )
        self._logical_id = logical_id
        self._saved_checkpoint: dict[str, str] = {}
        self._iterators: dict[str, str | None] = {}
        self._workers = ThreadPoolExecutor(max_workers=PARALLELIZATION_FACTOR * 2)

    def stop(self) -> None:
        """Finish the invocations in progress, and stop the thread."""
        self._stopping.set()
        self.join()
        self._workers.shutdown()

    def status(self) -> dict[str, Any]:
        """Return the state of the poller for the web page: `lag_ms` of the oldest record, and numbers of records."""
        load = self._load
        return {
            "name": self.reader,
            "running": self.is_alive() and not self.disabled,
            "lag_ms": round(load.oldest_seconds * 1000),
            "waiting": load.waiting,
            "in_flight": load.in_flight,
            "retrying": load.retrying,
            "fail_next": self.fail_next,
            "repeat_next": self.repeat_next,
        }

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._read_stream()
                self._load = self._mapping.measure_load(time.time())
                if not self.disabled:
                    self._run_due_actions()
            except Exception as error:  # noqa: BLE001  usually the local DynamoDB is down: retry in a second
                self._iterators.clear()
                text = f"{self.reader}: failed to read the stream ({type(error).__name__}), retrying"
                self._journal.append("process", text)
                self._stopping.wait(1)
            self._stopping.wait(POLL_SECONDS)

    def _find_stream(self, table_name: str) -> str:
        (stream,) = self._streams.list_streams(TableName=table_name)["Streams"]
        return stream["StreamArn"]

    def _read_stream(self) -> None:
        """Add new records of all shards to the model, unless the parent is unfinished or the model has too many."""
        if not self._iterators:
            shards = self._streams.describe_stream(StreamArn=self._stream_arn)["StreamDescription"]["Shards"]
            for shard in shards:
                self._mapping.add_shard(shard["ShardId"], shard.get("ParentShardId"))
                self._iterators[shard["ShardId"]] = self._iterator(shard["ShardId"])
        for shard_id, iterator in list(self._iterators.items()):
            if iterator is None or not self._mapping.should_read(shard_id):
                continue
            page = self._engine.get_stream_records(iterator)
            events = [to_lambda_record(one, region=REGION, stream_arn=self._stream_arn) for one in page["Records"]]
            for event in events:
                self._mapping.add_record(shard_id, event, time.time())
            self._journal.append_all(map(_stream_record_entry, events))
            self._iterators[shard_id] = page.get("NextShardIterator")
            if self._iterators[shard_id] is None:
                self._mapping.close_shard(shard_id)

    def _iterator(self, shard_id: str) -> str:
        start = self._mapping.iterator_request(shard_id)
        position = {"SequenceNumber": start.sequence_number} if start.sequence_number else {}
        return self._streams.get_shard_iterator(
            StreamArn=self._stream_arn, ShardId=shard_id, ShardIteratorType=start.iterator_type, **position
        )["ShardIterator"]

    def _run_due_actions(self) -> None:
        """Run the due actions, those of a round in parallel, until none is left. Each round ends with a checkpoint."""
        while actions := self._mapping.due_actions(time.time()):
            outcomes = list(self._workers.map(self._execute, actions))
            for action, outcome in zip(actions, outcomes, strict=True):
                self._mapping.report_outcome(action, outcome, time.time())
            self._save_checkpoint()
            self._load = self._mapping.measure_load(time.time())
            if self._stopping.is_set() or self.disabled:
                return
        self._save_checkpoint()

    def _save_checkpoint(self) -> None:
        position = self._mapping.checkpoint()
        if position != self._saved_checkpoint:
            self._checkpoints.save(self._logical_id, self._stream_arn, position)
            self._saved_checkpoint = dict(position)

    def _execute(self, action: Action) -> Outcome:
        """Execute an action and return its outcome, also of an unexpected error: the next records would wait forever.

        An invocation is then retried without counting the attempt. A failed batch that cannot be stored is dropped.
        """
        try:
            return self._invoke(action) if isinstance(action, Invoke) else self._store_failure(action)
        except Exception as error:  # noqa: BLE001  see the docstring
            self._journal.append("process", f"{self.reader}: the delivery failed ({type(error).__name__})")
            return NotInvoked(type(error).__name__) if isinstance(action, Invoke) else FailureDelivered(succeeded=False)

    def _invoke(self, action: Invoke) -> Outcome:
        outcome = self._invoke_once(action)
        if isinstance(outcome, InvocationReturned) and self._take_planned("repeat_next"):
            return self._invoke_once(action, is_repeated=True)
        return outcome

    def _invoke_once(self, action: Invoke, *, is_repeated: bool = False) -> Outcome:
        began_at, started = time.time(), time.monotonic()
        outcome = self._call_function(action)
        self._log_delivery(action, outcome, began_at, (time.monotonic() - started) * 1000, is_repeated=is_repeated)
        return outcome

    def _call_function(self, action: Invoke) -> Outcome:
        if self._take_planned("fail_next"):
            return InvocationFailed("forced failure")
        try:
            answer = self._lambda.invoke(FunctionName=self.function, Payload=json.dumps(action.event))
            raw = answer["Payload"].read() or b"null"
        except (ClientError, BotoCoreError, OSError) as error:  # the function is unavailable or throttled
            return NotInvoked(type(error).__name__)
        if "FunctionError" in answer:
            return InvocationFailed(raw.decode(errors="replace")[:200])
        try:
            return InvocationReturned(json.loads(raw))
        except ValueError:
            return InvocationReturned(raw)

    def _take_planned(self, what: Literal["fail_next", "repeat_next"]) -> bool:
        """Return whether to fail or repeat this invocation on purpose, and decrement the field `what`. Thread-safe."""
        with self._fail_lock:
            planned: int = getattr(self, what)
            setattr(self, what, max(0, planned - 1))
        return planned > 0

    def _log_delivery(
        self, action: Invoke, outcome: Outcome, began_at: float, milliseconds: float, *, is_repeated: bool = False
    ) -> None:
        """Add a journal entry for each order in the batch, with the outcome of its records, and one for all others.

        `began_at`: epoch seconds. `is_repeated`: whether a chaos switch delivers the batch for a second time.
        """
        again = _retried_sequence_numbers(action, outcome)
        orders: dict[str | None, list[StreamRecord]] = {}
        for record in action.records:
            orders.setdefault(_order_id_of(record.event), []).append(record)
        for order_id, records in orders.items():
            failed = [record for record in records if record.sequence_number in again]
            lag = time.time() - min(record.polled_at for record in records)
            self._journal.append(
                "delivery",
                _describe_delivery(self.reader, len(records), len(failed)) + " (delivered twice)" * is_repeated,
                order_id=order_id,
                reader=self.reader,
                records=len(records),
                sequences=[record.sequence_number for record in records],
                began_at=began_at,
                version=next((it for record in records if (it := _order_version_of(record.event))), None),
                attempt=action.attempt,
                deliveries=2 if is_repeated else None,
                lag_ms=round(lag * 1000),
                ms=round(milliseconds),
                outcome="failed" if isinstance(outcome, InvocationFailed) else "retrying" if failed else "done",
                reason=getattr(outcome, "error_type", None) or getattr(outcome, "reason", None),
            )

    def _store_failure(self, action: DeliverFailure) -> Outcome:
        for order_id in dict.fromkeys(_order_id_of(record.event) for record in action.records):
            text = (
                f"{self.reader} gave up on a batch of {_format_record_count(len(action.records))} "
                "and sends it to the failure store"
            )
            self._journal.append("parked", text, order_id=order_id, reader=self.reader, object=action.key)
        bucket = action.destination.rpartition(":")[2]
        try:
            self._s3.put_object(Bucket=bucket, Key=str(action.key), Body=json.dumps(action.document).encode())
        except (ClientError, BotoCoreError):
            return FailureDelivered(succeeded=False)
        return FailureDelivered()


def mapping_id(logical_id: str) -> str:
    """Return the id (UUID) of an event source mapping of the template. The keys of its failed batches contain it."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, logical_id))


def start_pollers(
    engine: Engine, aws: LocalAws, stack: DeployedStack, checkpoints: CheckpointStore, journal: Journal
) -> list[StreamPoller]:
    """Start and return the pollers: one for each event source mapping of the table's stream in the template."""
    mappings = resources_of_type(stack.template, "AWS::Lambda::EventSourceMapping")
    pollers = [
        StreamPoller(engine, aws, stack, id, checkpoints, journal)
        for id, properties in mappings
        if "StartingPosition" in properties
    ]
    for poller in pollers:
        poller.start()
    return pollers


def _stream_record_entry(event: Mapping[str, Any]) -> dict[str, Any]:
    """Build the journal entry for a stream record. Its `once` is the same for each poller, so it is stored once."""
    change = event["dynamodb"]
    image: Mapping[str, Any] = change.get("NewImage") or change.get("OldImage") or {}
    type_name = str(image.get("type", {}).get("S", "an item without a type"))
    row = ROWS_BY_TYPE.get(type_name)
    by_expiry = event.get("userIdentity") is not None
    what = f"{event['eventName']} {type_name}" + (" by TTL" if by_expiry else "")
    order_id = _order_id_of(event)
    images = {"old": change.get("OldImage"), "new": change.get("NewImage")} if order_id else {}
    return {
        "kind": "record",
        "text": f"{what} (copy)" if row and row.kind in ("snapshot", "log") else what,
        "once": f"record {change['SequenceNumber']}",
        "order_id": order_id,
        "event": event["eventName"],
        "type": type_name,
        "PK": change["Keys"]["PK"].get("S"),
        "SK": change["Keys"]["SK"].get("S"),
        "version": image.get("version", {}).get("N"),
        "sequence": change["SequenceNumber"],
        "by": "expiry" if by_expiry else "shop",
        "bytes": change.get("SizeBytes"),
        "event_id": _change_id(event, image) if row else None,
        **{name: _shorten_image(found) for name, found in images.items()},
    }


def _change_id(event: Mapping[str, Any], image: Image) -> str | None:
    """Return the id of the event that this change causes, or None if it causes no event.

    Also returns None if the item's version is not a number. Any program can write such an item, and the poller must
    continue."""
    try:
        version = int(image.get("version", {}).get("N", "1"))
    except ValueError:
        return None
    return make_change_id(ROWS_BY_TYPE[image["type"]["S"]], image, version, event["eventName"])


def _shorten_image(image: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return an order's image for this laptop with plain values; in a large image, long values are cut."""
    if image is None:
        return None
    text = json.dumps(decode_item(image), default=_plain)
    values: dict[str, Any] = json.loads(text)
    if len(text) <= MAX_IMAGE_CHARACTERS:
        return values
    return {name: _cut(value) for name, value in values.items()}


def _plain(value: object) -> Any:
    """Return a value that JSON lacks as JSON: a set as a list, binary data as the word, a fraction as text."""
    return sorted(value) if isinstance(value, set) else "binary" if isinstance(value, bytes) else str(value)


def _cut(value: Any) -> Any:
    text = json.dumps(value)
    return value if len(text) <= MAX_VALUE_CHARACTERS else f"{text[:MAX_VALUE_CHARACTERS]} … ({len(text)} characters)"


def _order_id_of(event: Mapping[str, Any]) -> str | None:
    """Return the id of the order that the record's item belongs to, or None if it belongs to no order."""
    change = event["dynamodb"]
    image: Mapping[str, Any] = change.get("NewImage") or change.get("OldImage") or {}
    order_id: str | None = image.get("order_id", {}).get("S")
    return order_id


def _order_version_of(event: Mapping[str, Any]) -> str | None:
    """Return the `version` of an order after a change, or None for another item or a deletion."""
    image: Mapping[str, Any] = event["dynamodb"].get("NewImage") or {}
    version: str | None = image.get("version", {}).get("N") if image.get("type", {}).get("S") == ORDER.type else None
    return version


def _retried_sequence_numbers(action: Invoke, outcome: Outcome) -> set[str]:
    """Return the sequence numbers that will be delivered again: from the first failed record on, or all."""
    numbers = [record.sequence_number for record in action.records]
    match outcome:
        case InvocationReturned(response={"batchItemFailures": list(reported)}):
            failed = {one.get("itemIdentifier") for one in reported if isinstance(one, Mapping)}
            lowest = min((place for place, number in enumerate(numbers) if number in failed), default=len(numbers))
            return set(numbers[lowest:])
        case InvocationReturned():
            return set()
    return set(numbers)


def _describe_delivery(reader: str, records: int, failed: int) -> str:
    """Return the text of a journal entry about records for this Lambda function, of which some are retried."""
    if not failed:
        return f"{reader} processed {_format_record_count(records)}"
    if failed == records:
        return f"{reader} failed: {_format_record_count(failed)} will be retried"
    return f"{reader} processed {_format_record_count(records - failed)}, {failed} more will be retried"


def _format_record_count(records: int) -> str:
    return "1 record" if records == 1 else f"{records} records"


def _resolve_bucket_arn(stack: DeployedStack, value: object) -> str:
    """Return the ARN of the bucket in {"Fn::GetAtt": [bucket, "Arn"]}. Raises ValueError for any other reference."""
    match value:
        case {"Fn::GetAtt": [str(id), "Arn"]}:
            return f"arn:aws:s3:::{stack.resources[id]}"
    raise ValueError(f"this destination of an event source mapping is not supported: {value}")
