"""Plays the probes in the AWS account of the credentials in the environment.

All resources have a random prefix and are deleted at the end. If the runner is killed, delete the resources with this
prefix. So far, only an emulator has played this runner. A real account needs about an hour and less than a dollar.
"""

import functools
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from functions.model.table import create_table_request
from local.event_source_mappings import to_lambda_record
from proof.conformance.probes.kinds import MappingProbe, PatternProbe, Probe, QueueProbe, ServiceProbe
from proof.conformance.results import as_result, not_run
from proof.conformance.runners import patterns, services
from proof.conformance.runners.clients import client_factory
from proof.conformance.runners.deployed import WaitLimits, play_mappings, play_queue
from proof.conformance.runners.deployment import deploy
from proof.conformance.runners.services import System
from proof.support.client_faults import WireTap

GROUP = 20
"""How many mapping probes run at the same time. An account creates a limited number of tables at the same time."""
WAIT_LIMITS = WaitLimits(mapping_enabled_seconds=300, extra_seconds=120)
QUIET_SECONDS = 5
AWS_ERRORS = (ClientError, BotoCoreError, OSError)
CONFIG = Config(parameter_validation=False, retries={"mode": "standard", "total_max_attempts": 8})


def has_credentials() -> bool:
    """Return whether boto3 finds credentials and a region."""
    session = boto3.Session()
    return session.get_credentials() is not None and session.region_name is not None


def play(probes: Sequence[Probe], sender: str = "") -> Iterator[tuple[Probe, str]]:
    """Play probes, and yield each with its result. `sender`: a mail address that SES has verified in the account."""
    client = client_factory(CONFIG)
    mappings = [probe for probe in probes if isinstance(probe, MappingProbe)]
    yield from ((probe, not_run(probe.not_deployable_because)) for probe in mappings if probe.not_deployable_because)
    mappings = [probe for probe in mappings if not probe.not_deployable_because]
    for start in range(0, len(mappings), GROUP):
        yield from _play_group(client, mappings[start : start + GROUP])
    yield from _play_queues(client, [probe for probe in probes if isinstance(probe, QueueProbe)])
    system = System(
        client=client,
        read_stream=functools.partial(_read_stream, client),
        region=str(boto3.Session().region_name),
        sender=sender,
    )
    for probe in probes:
        if isinstance(probe, ServiceProbe):
            yield probe, _cannot_play(probe, sender) or check_result(functools.partial(services.check, probe, system))
    yield from _play_patterns(client, [probe for probe in probes if isinstance(probe, PatternProbe)])


def check_result(check: Callable[[], str]) -> str:
    """Return the result of a probe, which `check` plays. If AWS answers with an error, the result is "not run"."""
    try:
        return as_result(check())
    except AWS_ERRORS as error:
        return not_run(error)


def _prefix() -> str:
    prefix = f"conformance-{secrets.token_hex(4)}"
    print(f"The resources of this run start with {prefix}.", flush=True)
    return prefix


def _play_group(client: Callable[[str], Any], probes: Sequence[MappingProbe]) -> list[tuple[Probe, str]]:
    try:
        with deploy(client, _prefix(), {}) as deployment:
            return [(probe, as_result(found)) for probe, found in play_mappings(deployment, probes, WAIT_LIMITS)]
    except AWS_ERRORS as error:
        return [(probe, not_run(error)) for probe in probes]


def _play_queues(client: Callable[[str], Any], probes: Sequence[QueueProbe]) -> Iterator[tuple[Probe, str]]:
    for probe in probes:
        yield probe, check_result(functools.partial(_play_queue, client, probe))


def _play_queue(client: Callable[[str], Any], probe: QueueProbe) -> str:
    with deploy(client, _prefix(), {}) as deployment:
        return play_queue(deployment, probe, WAIT_LIMITS)


def _cannot_play(probe: ServiceProbe, sender: str) -> str:
    """Return the result of a probe that cannot be played in this account, or ""."""
    if any(request.service == "ttl" for request in probe.requests):
        return not_run("DynamoDB deletes expired items within days")
    if "$sender" in str(probe.requests) and not sender:
        return not_run("it needs a verified sender (--sender)")
    return ""


def _read_stream(client: Callable[[str], Any], table: str) -> list[dict[str, Any]]:
    """Return all records of a table. A record may be late, so read until no record came for some seconds."""
    streams = client("dynamodbstreams")
    arn = client("dynamodb").describe_table(TableName=table)["Table"]["LatestStreamArn"]
    region = str(streams.meta.region_name)
    found: list[dict[str, Any]] = []
    iterators = [
        streams.get_shard_iterator(StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON")
        for shard in streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    ]
    waiting = [answer["ShardIterator"] for answer in iterators]
    quiet_since = time.monotonic()
    while time.monotonic() - quiet_since < QUIET_SECONDS:
        pages = [streams.get_records(ShardIterator=iterator) for iterator in waiting if iterator]
        waiting = [page.get("NextShardIterator") for page in pages]
        if new := [record for page in pages for record in page["Records"]]:
            quiet_since = time.monotonic()
            found += [to_lambda_record(record, region=region, stream_arn=arn) for record in new]
        time.sleep(0.5)
    return sorted(found, key=lambda record: int(record["dynamodb"]["SequenceNumber"]))


def _play_patterns(client: Callable[[str], Any], probes: Sequence[PatternProbe]) -> Iterator[tuple[Probe, str]]:
    if not probes:
        return
    dynamodb, name = client("dynamodb"), _prefix()
    dynamodb.create_table(**create_table_request(name))
    try:
        dynamodb.get_waiter("table_exists").wait(TableName=name)
        table = patterns.load_items(dynamodb, name)
        time.sleep(QUIET_SECONDS)  # the indexes are eventually consistent
        wire = WireTap(boto3.client("dynamodb", config=CONFIG))
        for probe in probes:
            yield probe, check_result(functools.partial(patterns.check, probe, table, wire))
    finally:
        dynamodb.delete_table(TableName=name)
