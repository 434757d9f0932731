"""The runners by name: each plays all the probes that its system can play, and yields their results."""

import importlib.metadata
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from moto import mock_aws

from functions.model.table import create_table_request
from local.world.dynamodb_engine import REGION, Engine, find_engine_binary, temporary_engine
from local.world.harness import MOTO
from proof.conformance.probes.kinds import MappingProbe, PatternProbe, Probe, QueueProbe, ServiceProbe
from proof.conformance.results import as_result, not_run
from proof.conformance.runners import emulator, model, patterns, pollers, services
from proof.conformance.runners.aws import check_result
from proof.conformance.runners.clients import client_factory
from proof.conformance.runners.laptop import SENDER, local_aws, local_system
from proof.conformance.runners.services import System
from proof.support.client_faults import WireTap

Results = Iterator[tuple[Probe, str]]
MOTO_SERVICES = ("s3", "sqs", "events", "sesv2")
MOTO_LACKS = "_suppressed_destination"
"""The end of the names of operations that moto does not know."""
GROUP = 25


def play_model(probes: Sequence[Probe]) -> Results:
    """Play mapping probes on the model of event source mappings."""
    yield from ((probe, as_result(model.check(probe))) for probe in probes if isinstance(probe, MappingProbe))


def play_laptop(probes: Sequence[Probe]) -> Results:
    """Play all probes on the components of the local shop."""
    with temporary_engine() as engine:
        yield from play_pollers(engine, probes)
        yield from play_patterns(engine, probes)
        with local_aws(engine.endpoint) as aws:
            system = local_system(engine, aws)
            for probe in probes:
                if isinstance(probe, ServiceProbe):
                    yield probe, as_result(services.check(probe, system))
            yield from emulator.play(aws, [probe for probe in probes if isinstance(probe, QueueProbe)])


def play_pollers(engine: Engine, probes: Sequence[Probe]) -> Results:
    """Play mapping probes on the pollers of the local shop."""
    mappings = [probe for probe in probes if isinstance(probe, MappingProbe)]
    yield from ((probe, not_run(reason)) for probe in mappings if (reason := pollers.cannot_play(probe)))
    mappings = [probe for probe in mappings if not pollers.cannot_play(probe)]
    for start in range(0, len(mappings), GROUP):
        for probe, difference in pollers.play_mappings(engine, mappings[start : start + GROUP]):
            yield probe, as_result(difference)


def play_patterns(engine: Engine, probes: Sequence[Probe]) -> Results:
    """Play the probes of access patterns on the local DynamoDB engine."""
    chosen = [probe for probe in probes if isinstance(probe, PatternProbe)]
    if chosen:
        engine.create_table("conformance-patterns", create_table_request("conformance-patterns"))
        table = patterns.load_items(engine.dynamodb(), "conformance-patterns")
        wire = WireTap(engine.dynamodb())
        yield from ((probe, as_result(patterns.check(probe, table, wire))) for probe in chosen)


@contextmanager
def moto_system() -> Iterator[System]:
    """Simulate S3, SQS, EventBridge and SES with moto during a `with` block, as the tests of the shop do."""
    with mock_aws(config=MOTO):
        client = client_factory(region_name=REGION)
        for service in MOTO_SERVICES:  # creating a client is not thread-safe
            client(service)
        client("sesv2").create_email_identity(EmailIdentity=SENDER)
        yield System(client=client, read_stream=lambda _: [], region=REGION, sender=SENDER)


def play_moto(probes: Sequence[Probe]) -> Results:
    """Play the probes of S3, SQS, EventBridge and SES on moto, at the same time, because many of them wait."""
    chosen = [probe for probe in probes if isinstance(probe, ServiceProbe) and probe.service in MOTO_SERVICES]
    lacking = [probe for probe in chosen if any(one.operation.endswith(MOTO_LACKS) for one in probe.requests)]
    yield from ((probe, not_run("moto has no suppression list")) for probe in lacking)
    chosen = [probe for probe in chosen if probe not in lacking]
    with moto_system() as system, ThreadPoolExecutor(len(chosen) or 1) as pool:
        yield from zip(
            chosen, pool.map(lambda probe: check_result(lambda: services.check(probe, system)), chosen), strict=True
        )


def play_emulator(probes: Sequence[Probe]) -> Results:
    """Play mapping probes and queue probes on the mappings of ministack."""
    with temporary_engine() as engine, local_aws(engine.endpoint) as aws:
        yield from emulator.play(aws, probes)


RUNNERS: Mapping[str, Callable[[Sequence[Probe]], Results]] = {
    "model": play_model,
    "laptop": play_laptop,
    "moto": play_moto,
    "emulator": play_emulator,
}


def versions(runner: str) -> dict[str, str]:
    """Return the versions of the software that a runner plays the probes on."""
    package: Any = json.loads((find_engine_binary().parent / "package.json").read_text(encoding="utf-8"))
    dynoxide, ministack = {"dynoxide": package["version"]}, {"ministack": importlib.metadata.version("ministack")}
    return {
        "laptop": dynoxide | ministack,
        "moto": {"moto": importlib.metadata.version("moto")},
        "emulator": ministack,
        "aws": {"boto3": importlib.metadata.version("boto3")},
    }.get(runner, {})
