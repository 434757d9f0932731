"""Plays probes on the local shop: its stream pollers, the local DynamoDB engine, and ministack for other services."""

import functools
import importlib.metadata
import json
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from local.event_source_mappings import is_unchanged
from local.laptop import aws_process
from local.laptop.aws_process import API_PATH, LocalAws
from local.world.dynamodb_engine import REGION, Engine, find_engine_binary, temporary_engine
from proof.conformance.probes.kinds import MappingProbe, Probe, QueueProbe, ServiceProbe
from proof.conformance.results import as_result, not_run
from proof.conformance.runners import services
from proof.conformance.runners.aws import EMULATOR_LIMITS, SENDER
from proof.conformance.runners.clients import UNCHECKED, client_factory
from proof.conformance.runners.deployed import play_queue
from proof.conformance.runners.deployment import deploy
from proof.conformance.runners.services import System
from proof.shop_probes import access_patterns, pollers
from proof.support.stream_records import read_stream_records

GROUP = 25
"""How many pollers run at the same time."""
Results = Iterator[tuple[Probe, str]]


def versions() -> dict[str, str]:
    """Return the versions of the emulators of the local shop."""
    package: Any = json.loads((find_engine_binary().parent / "package.json").read_text(encoding="utf-8"))
    return {"dynoxide": package["version"], "ministack": importlib.metadata.version("ministack")}


def play_laptop(probes: Sequence[Probe]) -> Results:
    """Play facts about AWS on the components of the local shop."""
    with temporary_engine() as engine:
        yield from play_pollers(engine, [probe for probe in probes if isinstance(probe, MappingProbe)])
        with local_aws(engine.endpoint) as aws:
            system = local_system(engine, aws)
            for probe in probes:
                if isinstance(probe, ServiceProbe):
                    yield probe, as_result(services.check(probe, system))
            yield from play_queues(aws, [probe for probe in probes if isinstance(probe, QueueProbe)])


def play_patterns() -> Results:
    """Play the probes of the access patterns on the local DynamoDB engine."""
    with temporary_engine() as engine:
        yield from access_patterns.play(engine.dynamodb())


def play_queues(aws: LocalAws, probes: Sequence[QueueProbe]) -> Results:
    """Play queue probes on the mappings of ministack, which uses its own tables for the state of their function."""
    client, environment = client_factory(**aws.client_options), {"AWS_ENDPOINT_URL_DYNAMODB": aws.endpoint}
    for probe in probes:
        with deploy(client, f"conformance-{secrets.token_hex(4)}", environment) as deployment:
            yield probe, as_result(play_queue(deployment, probe, EMULATOR_LIMITS))


def play_pollers(engine: Engine, probes: Sequence[MappingProbe]) -> Results:
    """Play mapping probes on the pollers of the local shop."""
    yield from ((probe, not_run(reason)) for probe in probes if (reason := pollers.cannot_play(probe)))
    playable = [probe for probe in probes if not pollers.cannot_play(probe)]
    for start in range(0, len(playable), GROUP):
        for probe, difference in pollers.play_mappings(engine, playable[start : start + GROUP]):
            yield probe, as_result(difference)


@contextmanager
def local_aws(engine_endpoint: str) -> Iterator[LocalAws]:
    """Run a new local AWS during a `with` block. Its functions use DynamoDB at this endpoint."""
    with tempfile.TemporaryDirectory(prefix="orderstream-conformance-") as directory:
        aws = aws_process.start(Path(directory), engine_endpoint)
        try:
            yield aws
        finally:
            aws.stop()


def engine_system(engine: Engine) -> System:
    """Return the local DynamoDB. It plays the probes of DynamoDB and its stream."""
    client = engine.dynamodb(UNCHECKED)
    return System(
        client=lambda _: client,
        read_stream=functools.partial(read_changes, engine),
        region=REGION,
        delete_expired=engine.delete_expired_items,
    )


def local_system(engine: Engine, aws: LocalAws) -> System:
    """Return the services of the local shop: DynamoDB of the engine, and the other services of the local AWS."""
    dynamodb, others = engine_system(engine), client_factory(**aws.client_options)
    others("sesv2").create_email_identity(EmailIdentity=SENDER)
    return replace(
        dynamodb,
        client=lambda service: dynamodb.client(service) if service == "dynamodb" else others(service),
        api_url=lambda api, _: (f"{aws.endpoint}{API_PATH}/{api}/$default", ""),
        sender=SENDER,
    )


def read_changes(engine: Engine, table: str) -> list[dict[str, Any]]:
    """Return the records of a table as the local pollers deliver them: without those of writes that changed nothing."""
    return [record for record in read_stream_records(engine, table) if not is_unchanged(record)]
