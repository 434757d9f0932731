"""Plays mapping probes on the local shop's pollers, with the local engine and the real clock. A retry waits 10 ms."""

import functools
import io
import json
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from botocore.exceptions import ClientError

from local.laptop import poller
from local.laptop.deploy import DeployedStack
from local.laptop.journal import Journal
from local.world.dynamodb_engine import Engine
from proof.conformance.probes.kinds import MappingProbe
from proof.conformance.runners.deployment import TWO_KEYS
from proof.conformance.runners.function import decide, record_number
from proof.conformance.runners.model import deletions, function_rules, send_write
from proof.conformance.runners.observations import Observation, ObservedCall, differences

MAX_WAIT_SECONDS = 15.0
SETTLE_SECONDS = 0.3
"""How long a poller may make a wrong invocation after the last expected one."""
BUCKET = {"OnFailure": {"Destination": {"Fn::GetAtt": ["Bucket", "Arn"]}}}


def cannot_play(probe: MappingProbe) -> str:
    """Return why the local pollers cannot play a probe, or ""."""
    to_queue = probe.settings.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination") == "$queue"
    reasons = {
        "the local shop stores failed batches only in a bucket": to_queue,
        "the local engine has one shard for each table": probe.parents or probe.closed,
        "the local engine writes no records with an age": any(write.age for write in probe.writes),
        "the position is checked with a virtual clock": probe.checkpoint is not None or probe.resume_after is not None,
    }
    return next((reason for reason, applies in reasons.items() if applies), "")


def play_mappings(engine: Engine, probes: Sequence[MappingProbe]) -> Iterator[tuple[MappingProbe, str]]:
    """Play probes at the same time. Yield each probe with a text: how its poller differs from the probe, or ""."""
    with tempfile.TemporaryDirectory(prefix="orderstream-pollers-") as directory, _quick_pollers():
        folder, running = Path(directory), []
        for probe in probes:
            one = _Running(probe, f"probe-{uuid.uuid4().hex[:12]}", engine)
            one.start(folder)
            running.append(one)
        start = time.monotonic()
        for one in running:
            one.wait(start + MAX_WAIT_SECONDS)
        time.sleep(SETTLE_SECONDS)
        for one in running:
            one.stop()
            yield one.probe, "; ".join(differences(one.probe, one.seen, exact_times=False))


@contextmanager
def _quick_pollers() -> Iterator[None]:
    """Let pollers retry after 10 ms and share a client of the stream."""
    assumptions = replace(poller.LAPTOP_ASSUMPTIONS, retry_delays_seconds=(0.01,))
    with (
        mock.patch.object(poller, "LAPTOP_ASSUMPTIONS", assumptions),
        mock.patch.object(Engine, "streams", functools.cache(Engine.streams)),
    ):
        yield


@dataclass
class _Running:
    """A probe that is being played. It stands in for the clients of Lambda and S3 that its poller uses."""

    probe: MappingProbe
    table: str
    engine: Engine
    seen: Observation = field(default_factory=Observation)

    def __post_init__(self) -> None:
        self._lock, self._uses = threading.Lock(), Counter[str]()
        self._numbers: dict[str, int] = {}
        self._timers: list[threading.Timer] = []
        self._poller: poller.StreamPoller | None = None

    def start(self, folder: Path) -> None:
        self.engine.create_table(self.table, TWO_KEYS)
        for number, write in enumerate(self.probe.writes, 1):
            if write.at == 0:
                send_write(self.engine._client, self.table, number, write)
        client = SimpleNamespace(invoke=self.invoke, put_object=self.put_object)
        stack = DeployedStack(
            {"Resources": self._resources()}, {}, {"Function": "probe", "Table": self.table, "Bucket": "failures"}
        )
        log, store = Journal(folder / f"{self.table}.log"), poller.CheckpointStore(folder / f"{self.table}.json")
        aws: Any = SimpleNamespace(client_options={})
        self.started = time.time()
        with mock.patch.object(poller, "boto3", SimpleNamespace(client=lambda *_, **__: client)):
            try:
                self._poller = poller.StreamPoller(self.engine, aws, stack, "Mapping", store, log)
            except ValueError:
                self.seen.refused = True
                return
        for number, write in enumerate(self.probe.writes, 1):
            if write.at > 0:
                self._timers.append(
                    threading.Timer(write.at, send_write, (self.engine._client, self.table, number, write))
                )
        for thread in (self._poller, *self._timers):
            thread.start()

    def _resources(self) -> dict[str, Any]:
        properties = {"StartingPosition": "TRIM_HORIZON", **self.probe.settings, "FunctionName": {"Ref": "Function"}}
        properties |= {"DestinationConfig": BUCKET} if "DestinationConfig" in properties else {}
        handler = {"Handler": "functions.handlers.copies_reader.handler"}
        return {
            "Mapping": {"Type": "AWS::Lambda::EventSourceMapping", "Properties": properties},
            "Function": {"Type": "AWS::Lambda::Function", "Properties": handler},
            "Table": {"Type": "AWS::DynamoDB::GlobalTable"},
            "Bucket": {"Type": "AWS::S3::Bucket"},
        }

    def wait(self, give_up: float) -> None:
        """Wait until the poller made all expected invocations."""
        expected = len(self.probe.calls), len(self.probe.failed_batches)
        while self._progress() < expected and time.monotonic() < give_up and not self.seen.refused:
            time.sleep(0.02)

    def _progress(self) -> tuple[int, int]:
        return len(self.seen.calls), len(self.seen.failed_batches) + len(self.seen.malformed_documents)

    def stop(self) -> None:
        for timer in self._timers:
            timer.join()
        if self._poller:
            self._poller.stop()
        self.seen.calls.sort(key=lambda call: call.started)
        self.engine._client.delete_table(TableName=self.table)

    def invoke(self, *, FunctionName: str, Payload: str) -> dict[str, Any]:  # noqa: N803  as in boto3
        started, records = time.time(), json.loads(Payload)["Records"]
        with self._lock:
            numbers = {record_number(one, deletions(self.probe)): one["dynamodb"]["SequenceNumber"] for one in records}
            self._numbers |= {sequence: number for number, sequence in numbers.items()}
            kind, response = decide(function_rules(self.probe), numbers, self._count)
        time.sleep(self.probe.function_seconds)
        call = ObservedCall(numbers=tuple(numbers), started=started - self.started, ended=time.time() - self.started)
        with self._lock:
            self.seen.calls.append(call)
        if kind == "throttle":
            raise ClientError({"Error": {"Code": "TooManyRequestsException"}}, "Invoke")
        failed = {"FunctionError": "Unhandled"} if kind in ("error", "timeout") else {}
        return {"Payload": io.BytesIO(json.dumps(response).encode()), **failed}

    def put_object(self, *, Bucket: str, Key: str, Body: bytes) -> None:  # noqa: N803  as in boto3
        with self._lock:
            self.seen.add_document(json.loads(Body), self._numbers)

    def _count(self, rule: str) -> int:
        self._uses[rule] += 1
        return self._uses[rule]
