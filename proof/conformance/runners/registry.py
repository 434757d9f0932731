"""The runners by name: each plays all the probes that its system can play, and yields their results."""

import importlib.metadata
import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from moto import mock_aws

from functions.model.table import create_table_request
from local.laptop.aws_process import LocalAws
from local.world.dynamodb_engine import REGION, Engine, find_engine_binary, temporary_engine
from local.world.harness import MOTO
from proof.conformance.probes.kinds import MappingProbe, PatternProbe, Probe, QueueProbe, ServiceProbe
from proof.conformance.results import as_result, not_run
from proof.conformance.runners import model, patterns, pollers, services
from proof.conformance.runners.aws import check_result
from proof.conformance.runners.clients import client_factory
from proof.conformance.runners.deployed import WaitLimits, play_queue
from proof.conformance.runners.deployment import deploy
from proof.conformance.runners.laptop import SENDER, local_aws, local_system
from proof.conformance.runners.services import System
from proof.support.client_faults import WireTap

Results = Iterator[tuple[Probe, str]]
MOTO_SERVICES = ("s3", "sqs", "events", "sesv2")
MOTO_LACKS = "_suppressed_destination"
"""The end of the names of operations that moto does not know."""
GROUP = 25
WAIT_LIMITS = WaitLimits(mapping_enabled_seconds=10, extra_seconds=6)


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
            yield from play_queues(aws, probes)


def play_queues(aws: LocalAws, probes: Sequence[Probe]) -> Results:
    """Play queue probes on the mappings of ministack, which uses its own tables for the state of their function."""
    client, environment = client_factory(**aws.client_options), {"AWS_ENDPOINT_URL_DYNAMODB": aws.endpoint}
    for probe in probes:
        if isinstance(probe, QueueProbe):
            with deploy(client, f"conformance-{secrets.token_hex(4)}", environment) as deployment:
                yield probe, as_result(play_queue(deployment, probe, WAIT_LIMITS))


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


RUNNERS: Mapping[str, Callable[[Sequence[Probe]], Results]] = {
    "model": play_model,
    "laptop": play_laptop,
    "moto": play_moto,
}


def versions(runner: str) -> dict[str, str]:
    """Return the versions of the software that a runner plays the probes on."""
    package: Any = json.loads((find_engine_binary().parent / "package.json").read_text(encoding="utf-8"))
    return {
        "laptop": {"dynoxide": package["version"], "ministack": importlib.metadata.version("ministack")},
        "moto": {"moto": importlib.metadata.version("moto")},
        "aws": {"boto3": importlib.metadata.version("boto3")},
    }.get(runner, {})
