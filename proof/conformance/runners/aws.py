"""Plays the probes in the AWS account of the credentials in the environment, or on an emulator of AWS.

All resources have a random prefix and are deleted at the end. If the runner is killed, delete the resources with this
prefix. So far, only emulators have played this runner. A real account needs about an hour and less than a dollar.
"""

import functools
import os
import secrets
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from local.event_source_mappings import to_lambda_record
from proof.conformance.probes.kinds import MappingProbe, Probe, QueueProbe, ServiceProbe
from proof.conformance.results import DIFFERS, as_result, not_run
from proof.conformance.runners import resources, services
from proof.conformance.runners.clients import client_factory
from proof.conformance.runners.deployed import WaitLimits, play_mappings, play_queue
from proof.conformance.runners.deployment import NoFunctions, deploy
from proof.conformance.runners.services import NotKnown, System

AWS_LIMITS = WaitLimits(mapping_enabled_seconds=300, extra_seconds=120)
EMULATOR_LIMITS = WaitLimits(mapping_enabled_seconds=30, extra_seconds=15)
AWS_GROUP, EMULATOR_GROUP = 20, 1
"""How many mapping probes run at the same time. An account creates a limited number of tables at the same time, and the
mappings of an emulator may wait for each other."""
AWS_ERRORS = (ClientError, BotoCoreError, OSError)
STOPPED = (NoFunctions, NotKnown, NotImplementedError)
CONFIG = Config(parameter_validation=False, retries={"mode": "standard", "total_max_attempts": 8})
SENDER = "shop@example.com"
"""The sender that a runner verifies on an emulator."""
EMULATOR_VARIABLES = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""What boto3 needs, and an emulator does not check."""


class NoEmulator(Exception):
    """No emulator answers at the address."""


def use_emulator(url: str) -> None:
    """Send the requests of this process and its children to an emulator. Raises NoEmulator if none answers."""
    for name, value in EMULATOR_VARIABLES.items():
        os.environ.setdefault(name, value)
    os.environ["AWS_ENDPOINT_URL"] = url
    try:
        # Any answer will do, because no path exists on every emulator.
        with suppress(urllib.error.HTTPError), urllib.request.urlopen(url, timeout=10):  # noqa: S310  the user's choice
            pass
    except (OSError, ValueError) as error:
        raise NoEmulator(f"No emulator of AWS answers at {url}. Start it, or correct --endpoint. ({error})") from error


def has_credentials() -> bool:
    """Return whether boto3 finds credentials and a region."""
    session = boto3.Session()
    return session.get_credentials() is not None and session.region_name is not None


def play(probes: Sequence[Probe], sender: str = "", *, endpoint: str = "") -> Iterator[tuple[Probe, str]]:
    """Play probes, and yield each with its result.

    `sender`: a mail address that SES has verified in the account. `endpoint`: of the emulator, or "" for AWS.
    """
    client = client_factory(CONFIG)
    limits, group = (EMULATOR_LIMITS, EMULATOR_GROUP) if endpoint else (AWS_LIMITS, AWS_GROUP)
    yield from ((probe, not_run(probe.not_deployable_because)) for probe in probes if probe.not_deployable_because)
    probes = [probe for probe in probes if not probe.not_deployable_because]
    if endpoint and (
        needing := [one for one in probes if not isinstance(one, ServiceProbe) or "$echo" in str(one.requests)]
    ):
        reason = _why_no_functions(client)
        yield from ((probe, reason) for probe in needing if reason)
        probes = [probe for probe in probes if not (reason and probe in needing)]
    mappings = [probe for probe in probes if isinstance(probe, MappingProbe)]
    for start in range(0, len(mappings), group):
        for probe, result in _play_group(client, mappings[start : start + group], limits):
            # A mapping of an emulator on a busy machine may only be late, so a difference must show twice.
            again = endpoint and result.startswith(DIFFERS)
            yield from _play_group(client, [probe], limits) if again else [(probe, result)]
    for queue_probe in probes:
        if isinstance(queue_probe, QueueProbe):
            yield queue_probe, check_result(functools.partial(_play_queue, client, queue_probe, limits))
    if endpoint:
        sender = verify_sender(client)
    yield from play_services(client, [probe for probe in probes if isinstance(probe, ServiceProbe)], sender, endpoint)


def _why_no_functions(client: Callable[[str], Any]) -> str:
    """Return the result of each probe that needs functions if an emulator cannot run one, or "" if it can."""
    try:
        with deploy(client, _prefix(), {}):
            return ""
    except NoFunctions as stopped:
        return not_run(str(stopped))
    except AWS_ERRORS as error:
        return not_run(error)


def check_result(check: Callable[[], str]) -> str:
    """Return the result of a probe, which `check` plays. If AWS answers with an error, the result is "not run"."""
    try:
        return as_result(check())
    except STOPPED as stopped:
        return not_run(str(stopped))
    except AWS_ERRORS as error:
        return not_run(error)


def _prefix() -> str:
    prefix = f"conformance-{secrets.token_hex(4)}"
    print(f"The resources of this run start with {prefix}.", file=sys.stderr, flush=True)
    return prefix


def _play_group(
    client: Callable[[str], Any], probes: Sequence[MappingProbe], limits: WaitLimits
) -> list[tuple[MappingProbe, str]]:
    try:
        with deploy(client, _prefix(), {}) as deployment:
            return [(probe, as_result(found)) for probe, found in play_mappings(deployment, probes, limits)]
    except (*STOPPED, *AWS_ERRORS) as error:
        return [(probe, not_run(error)) for probe in probes]


def _play_queue(client: Callable[[str], Any], probe: QueueProbe, limits: WaitLimits) -> str:
    with deploy(client, _prefix(), {}) as deployment:
        return play_queue(deployment, probe, limits)


def verify_sender(client: Callable[[str], Any]) -> str:
    """Verify the address of a sender on an emulator, and return it, or "" if the emulator does not know SES."""
    with suppress(*AWS_ERRORS):
        client("sesv2").create_email_identity(EmailIdentity=SENDER)
        return SENDER
    return ""


def play_services(
    client: Callable[[str], Any], probes: Sequence[ServiceProbe], sender: str, endpoint: str = "", *, at_once: int = 1
) -> Iterator[tuple[Probe, str]]:
    """Play service probes, `at_once` at the same time: many of them wait, but those of SES share a list."""
    system = System(
        client=client,
        read_stream=functools.partial(_read_stream, client),
        region=str(boto3.Session().region_name),
        api_url=lambda _, api: (endpoint or api, urlsplit(api).netloc if endpoint else ""),
        sender=sender,
    )

    def play_one(probe: ServiceProbe) -> str:
        if "$sender" in str(probe.requests) and not sender:
            return not_run("it needs a verified sender (--sender)")
        return check_result(functools.partial(services.check, probe, system))

    with ThreadPoolExecutor(at_once) as pool:
        yield from zip(probes, pool.map(play_one, probes), strict=True)


def _read_stream(client: Callable[[str], Any], table: str) -> list[dict[str, Any]]:
    region = str(client("dynamodbstreams").meta.region_name)
    return [to_lambda_record(one, region=region, stream_arn="") for one in resources.read_stream(client, table)]
