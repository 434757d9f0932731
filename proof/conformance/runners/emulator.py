"""Plays mapping probes and queue probes on the mappings of ministack, the emulator of AWS in the local shop."""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from local.laptop.aws_process import LocalAws
from proof.conformance.probes.kinds import MappingProbe, Probe, QueueProbe
from proof.conformance.results import as_result, not_run
from proof.conformance.runners.clients import client_factory
from proof.conformance.runners.deployed import WaitLimits, play_mappings, play_queue
from proof.conformance.runners.deployment import Deployment, deploy

GROUP = 8
"""How many mapping probes run at the same time. ministack has one thread for all mappings of streams."""
WAIT_LIMITS = WaitLimits(mapping_enabled_seconds=10, extra_seconds=6)


def play(aws: LocalAws, probes: Sequence[Probe]) -> Iterator[tuple[Probe, str]]:
    """Play mapping probes and queue probes, and yield each with its result. Other probes are left out."""
    client = client_factory(**aws.client_options)
    mappings = [probe for probe in probes if isinstance(probe, MappingProbe)]
    yield from ((probe, not_run(probe.not_deployable_because)) for probe in mappings if probe.not_deployable_because)
    mappings = [probe for probe in mappings if not probe.not_deployable_because]
    for group in _groups(mappings):
        with _deploy(client, aws) as deployment:
            for probe, difference in play_mappings(deployment, group, WAIT_LIMITS):
                yield probe, as_result(difference)
    for queue_probe in probes:
        if isinstance(queue_probe, QueueProbe):
            with _deploy(client, aws) as deployment:
                difference = play_queue(deployment, queue_probe, WAIT_LIMITS)
                yield queue_probe, as_result(difference)


def _groups(probes: Sequence[MappingProbe]) -> Iterator[Sequence[MappingProbe]]:
    """Yield groups of probes to play at the same time. A probe with times runs alone, so that nothing delays it."""
    timed = [probe for probe in probes if any(call.at is not None for call in probe.calls)]
    others = [probe for probe in probes if probe not in timed]
    yield from ([probe] for probe in timed)
    yield from (others[start : start + GROUP] for start in range(0, len(others), GROUP))


def _deploy(client: Any, aws: LocalAws) -> AbstractContextManager[Deployment]:
    # The functions of the local AWS use the engine for DynamoDB. These probes use the tables of ministack instead.
    environment = {"AWS_ENDPOINT_URL_DYNAMODB": aws.endpoint}
    return deploy(client, f"conformance-{secrets.token_hex(4)}", environment)
