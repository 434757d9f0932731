"""Plays mapping probes and queue probes on real mappings: in an AWS account, or in an emulator of AWS."""

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from proof.conformance.probes.kinds import MappingProbe, QueueProbe, Write
from proof.conformance.runners.deployment import ON_DEMAND, ONE_PARTITION, STREAM, TWO_KEYS, Deployment
from proof.conformance.runners.model import deletions, function_rules, send_write
from proof.conformance.runners.observations import Observation, ObservedCall, differences
from proof.conformance.runners.resources import is_role_error, retry_until_role_is_known

POLL_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True)
class WaitLimits:
    """The longest waits. `silence_seconds`: how long to watch for an invocation that must not come."""

    mapping_enabled_seconds: float
    extra_seconds: float
    silence_seconds: float = 8


@dataclass
class _Running:
    """A mapping probe that is being played."""

    probe: MappingProbe
    table: str
    stream: str = ""
    mapping: str = ""
    queue: tuple[str, str] = ("", "")
    created: float = 0
    seen: Observation = field(default_factory=Observation)


def play_mappings(
    deployment: Deployment, probes: Sequence[MappingProbe], limits: WaitLimits
) -> Iterator[tuple[MappingProbe, str]]:
    """Play probes at the same time. Yield each probe with a text: how the mapping differs from the probe, or ""."""
    running = [_Running(probe, f"{deployment.prefix}-{probe.name}"[:200]) for probe in probes]
    for one in running:
        # The records of one item are always in one shard. Several items need a table with one partition.
        items = {write.item for write in one.probe.writes}
        deployment.create_table(one.table, TWO_KEYS | STREAM | (ONE_PARTITION if len(items) > 1 else ON_DEMAND))
    for one in running:
        one.stream = deployment.wait_for_table(one.table)
        script = {"rules": function_rules(one.probe), "seconds": one.probe.function_seconds}
        deployment.store_script(one.table, script | {"deletions": deletions(one.probe)})
        for number, write in enumerate(one.probe.writes, 1):
            if write.at == 0:
                send_write(deployment.client("dynamodb"), one.table, number, write)
    for one in running:
        _create_mapping(deployment, one)
    started = [one for one in running if one.mapping]
    for one in started:
        deployment.wait_for_mapping(one.mapping, limits.mapping_enabled_seconds)
    _watch(deployment, started, limits)
    for one in running:
        yield one.probe, "; ".join(differences(one.probe, one.seen, exact_times=False))


def _create_mapping(deployment: Deployment, one: _Running) -> None:
    settings: dict[str, Any] = {"StartingPosition": "TRIM_HORIZON", **one.probe.settings}
    destination = settings.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination")
    if destination == "$queue":
        one.queue = deployment.create_queue(f"{deployment.prefix}-{one.probe.name}"[:80], {})
    if destination:
        arn = one.queue[1] or f"arn:aws:s3:::{deployment.bucket}"
        settings["DestinationConfig"] = {"OnFailure": {"Destination": arn}}
    one.created = time.time()
    try:
        one.mapping = retry_until_role_is_known(lambda: deployment.create_mapping(one.stream, settings))
    except ClientError as error:
        if is_role_error(error):
            raise
        one.seen.refused = True


def _watch(deployment: Deployment, running: list[_Running], limits: WaitLimits) -> None:
    """Make the later writes at their times, and read the log until nothing is missing or `extra_seconds` are over."""
    start = time.time()
    late = [(one, number, write) for one in running for number, write in enumerate(one.probe.writes, 1) if write.at > 0]
    silent = {one.table for one in running if one.probe.behaviour or not one.probe.calls}
    longest_watch = max(
        (one.probe.watch_seconds + limits.silence_seconds * (one.table in silent) for one in running), default=0
    )
    while True:
        calls = {one.table: deployment.logged_calls(one.table) for one in running}
        now = time.time()
        due = [entry for entry in late if _is_due(*entry, calls[entry[0].table], start, now)]
        for one, number, write in due:
            send_write(deployment.client("dynamodb"), one.table, number, write)
        late = [entry for entry in late if entry not in due]
        missing = [one for one in running if len(calls[one.table]) < len(one.probe.calls)]
        if now - start > longest_watch + limits.extra_seconds or (
            now - start > longest_watch and not missing and not late
        ):
            break
        time.sleep(POLL_SECONDS)
    for one in running:
        _observe(deployment, one)


def _is_due(one: _Running, _: int, write: Write, calls: list[dict[str, Any]], start: float, now: float) -> bool:
    """Return whether it is time for a write. `calls`: the invocations of the probe until now. `now`: epoch seconds."""
    if not write.follows_call:
        return now >= start + write.at
    expected_first = one.probe.calls[0].at or 0
    return bool(calls) and now >= calls[0]["started"] + write.at - expected_first


def _observe(deployment: Deployment, one: _Running) -> None:
    calls = deployment.logged_calls(one.table)
    sequence_numbers = {sequence: number for call in calls for number, sequence in call["numbers"]}
    for call in sorted(calls, key=lambda call: float(call["started"])):
        numbers = tuple(number for number, _ in call["numbers"])
        started = call["started"] - one.created
        ended = started + one.probe.function_seconds
        one.seen.calls.append(ObservedCall(numbers=numbers, started=started, ended=ended))
    documents = deployment.stored_documents(one.mapping)
    if one.queue[0]:
        documents += [json.loads(body) for body in deployment.take_messages(one.queue[0])]
    for document in documents:
        one.seen.add_document(document, sequence_numbers)


def play_queue(deployment: Deployment, probe: QueueProbe, limits: WaitLimits) -> str:
    """Play a queue probe, and return how the mapping differs from the probe, or "" if it does not differ."""
    name = f"{deployment.prefix}-{probe.name}"[:75]
    dead_url, dead_arn = deployment.create_queue(f"{name}-dlq", {})
    attributes = {key: value.replace("$dead_letters", dead_arn) for key, value in probe.queue.items()}
    url, arn = deployment.create_queue(name, attributes)
    script = {"failing": dict(probe.failing), "by": probe.by, "queue": url}
    deployment.store_script(name, script)
    for body in probe.messages:
        deployment.client("sqs").send_message(QueueUrl=url, MessageBody=body)
    mapping = retry_until_role_is_known(lambda: deployment.create_mapping(arn, probe.settings))
    deployment.wait_for_mapping(mapping, limits.mapping_enabled_seconds)
    time.sleep(probe.watch_seconds)
    give_up = time.monotonic() + limits.extra_seconds
    while (seen := _deliveries(deployment, name)) != probe.deliveries and time.monotonic() < give_up:
        time.sleep(POLL_SECONDS)
    dead = sorted(deployment.take_messages(dead_url))
    found = [f"deliveries {seen} instead of {dict(probe.deliveries)}"] if seen != probe.deliveries else []
    found += [f"dead letters {dead} instead of {sorted(probe.dead)}"] if dead != sorted(probe.dead) else []
    return "; ".join(found)


def _deliveries(deployment: Deployment, queue: str) -> dict[str, int]:
    return dict(Counter(call["body"] for call in deployment.logged_calls(queue)))
