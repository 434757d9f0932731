"""Plays the probes in the AWS account of the credentials in the environment. It costs some cents.

All resources have a random prefix and are deleted at the end. If the runner is killed, delete what has the prefix.
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
from tests.conformance.probes.kinds import MappingProbe, PatternProbe, Probe, QueueProbe, ServiceProbe
from tests.conformance.runners import patterns, services
from tests.conformance.runners.clients import client_factory
from tests.conformance.runners.deployed import Patience, play_mappings, play_queue
from tests.conformance.runners.deployment import deploy
from tests.conformance.runners.services import System
from tests.support.wire_tap import WireTap

GROUP = 20
"""How many mapping probes run at the same time. An account creates a limited number of tables at the same time."""
PATIENCE = Patience(enabled=300, extra=120)
QUIET_SECONDS = 5
CONFIG = Config(parameter_validation=False, retries={"mode": "standard", "total_max_attempts": 8})


def has_credentials() -> bool:
    """Return whether boto3 finds credentials and a region."""
    session = boto3.Session()
    return session.get_credentials() is not None and session.region_name is not None


def play(probes: Sequence[Probe], sender: str = "") -> Iterator[tuple[Probe, str]]:
    """Play probes, and yield each with its result. `sender`: a mail address that SES has verified in the account."""
    client = client_factory(CONFIG)
    mappings = [probe for probe in probes if isinstance(probe, MappingProbe)]
    yield from ((probe, f"not run: {probe.needs_model}") for probe in mappings if probe.needs_model)
    yield from _play_mappings(client, [probe for probe in mappings if not probe.needs_model])
    yield from _play_queues(client, [probe for probe in probes if isinstance(probe, QueueProbe)])
    system = System(
        client=client,
        read_stream=functools.partial(_read_stream, client),
        region=str(boto3.Session().region_name),
        sender=sender,
    )
    for probe in probes:
        if isinstance(probe, ServiceProbe):
            reason = _cannot_play(probe, sender)
            yield probe, reason or result_of(functools.partial(services.check, probe, system))
    yield from _play_patterns(client, [probe for probe in probes if isinstance(probe, PatternProbe)])


def result_of(check: Callable[[], str]) -> str:
    """Return the result of a check: "as expected", how the answers differ, or why the check could not run."""
    try:
        difference = check()
    except (ClientError, BotoCoreError, OSError) as error:
        return f"not run: {type(error).__name__}: {error}"
    return f"differs: {difference}" if difference else "as expected"


def _prefix() -> str:
    prefix = f"conformance-{secrets.token_hex(4)}"
    print(f"The resources of this run start with {prefix}.", flush=True)
    return prefix


def _play_mappings(client: Callable[[str], Any], probes: Sequence[MappingProbe]) -> Iterator[tuple[Probe, str]]:
    for start in range(0, len(probes), GROUP):
        with deploy(client, _prefix(), {}) as deployment:
            for probe, difference in play_mappings(deployment, probes[start : start + GROUP], PATIENCE):
                yield probe, f"differs: {difference}" if difference else "as expected"


def _play_queues(client: Callable[[str], Any], probes: Sequence[QueueProbe]) -> Iterator[tuple[Probe, str]]:
    for probe in probes:
        with deploy(client, _prefix(), {}) as deployment:
            yield probe, result_of(functools.partial(play_queue, deployment, probe, PATIENCE))


def _cannot_play(probe: ServiceProbe, sender: str) -> str:
    if any(request.service == "ttl" for request in probe.requests):
        return "not run: DynamoDB deletes expired items within days"
    if "$sender" in str(probe.requests) and not sender:
        return "not run: it needs a verified sender (--sender)"
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
            yield probe, result_of(functools.partial(patterns.check, probe, table, wire))
    finally:
        dynamodb.delete_table(TableName=name)
