"""Plays service probes on moto, which simulates AWS in this process (the extra `moto` of the package)."""

import importlib.metadata
import os
from collections.abc import Iterator, Sequence
from unittest import mock

from proof.conformance.probes.kinds import Probe, ServiceProbe
from proof.conformance.results import not_run
from proof.conformance.runners.aws import CONFIG, EMULATOR_VARIABLES, play_services, verify_sender
from proof.conformance.runners.clients import client_factory


class NoMoto(Exception):
    """moto is not installed."""


def versions() -> dict[str, str]:
    """Return the version of moto. Raises NoMoto."""
    try:
        return {"moto": importlib.metadata.version("moto")}
    except importlib.metadata.PackageNotFoundError as error:
        raise NoMoto("moto is not installed: run pip install 'aws-conformance[moto]'.") from error


def play(probes: Sequence[Probe]) -> Iterator[tuple[Probe, str]]:
    """Play the probes that need no functions, and yield each with its result. Raises NoMoto."""
    versions()
    from moto import mock_aws  # noqa: PLC0415  the other runners do without it

    played: list[ServiceProbe] = []
    for probe in probes:
        if isinstance(probe, ServiceProbe) and not probe.not_deployable_because and "$echo" not in str(probe.requests):
            played.append(probe)
        else:
            yield probe, not_run(probe.not_deployable_because or "moto runs no functions in its own process")
    with mock.patch.dict(os.environ, EMULATOR_VARIABLES), mock_aws(config={"core": {"reset_boto3_session": False}}):
        client = client_factory(CONFIG)
        yield from play_services(client, played, verify_sender(client), at_once=16)
