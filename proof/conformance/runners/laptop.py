"""Builds the systems of the laptop runner: the local DynamoDB engine, and ministack for all other services."""

import functools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from local.event_source_mappings import is_unchanged
from local.laptop import aws_process
from local.laptop.aws_process import API_PATH, LocalAws
from local.world.dynamodb_engine import REGION, Engine
from proof.conformance.runners.clients import UNCHECKED, client_factory
from proof.conformance.runners.services import System
from proof.support.stream_records import read_stream_records

SENDER = "shop@example.com"


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
        api_url=lambda api, _: f"{aws.endpoint}{API_PATH}/{api}/$default",
        sender=SENDER,
    )


def read_changes(engine: Engine, table: str) -> list[dict[str, Any]]:
    """Return the records of a table as the local pollers deliver them: without those of writes that changed nothing."""
    return [record for record in read_stream_records(engine, table) if not is_unchanged(record)]
