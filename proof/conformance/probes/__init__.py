"""All probes, as data."""

from collections.abc import Mapping

from proof.conformance.probes import (
    api_gateway,
    batching,
    capacity,
    concurrency,
    destinations,
    events,
    failures,
    filters,
    lifecycle,
    mapping_settings,
    partial_responses,
    queues,
    storage,
    stream_records,
    transactions,
)
from proof.conformance.probes.kinds import MappingProbe, Probe, ServiceProbe

GROUPS: Mapping[str, tuple[Probe, ...]] = {
    "batches of a stream's mapping": batching.PROBES,
    "filters": filters.PROBES,
    "parallel batches": concurrency.PROBES,
    "failures and bisection": failures.PROBES,
    "partial batch responses": partial_responses.PROBES,
    "on-failure destinations": destinations.PROBES,
    "start, end and position": lifecycle.PROBES,
    "settings of a mapping": mapping_settings.PROBES,
    "mappings of SQS queues": queues.MAPPING_PROBES,
    "records of a stream": stream_records.PROBES,
    "transactions and conditions": transactions.PROBES,
    "capacity units": capacity.PROBES,
    "events of EventBridge": events.PROBES,
    "SQS queues": queues.PROBES,
    "S3 and SES": storage.PROBES,
    "Cognito and API Gateway": api_gateway.PROBES,
}
"""All probes, by the title of their group."""
PROBES: tuple[Probe, ...] = tuple(probe for group in GROUPS.values() for probe in group)
MAPPING_PROBES = tuple(probe for probe in PROBES if isinstance(probe, MappingProbe))
SERVICE_PROBES = tuple(probe for probe in PROBES if isinstance(probe, ServiceProbe))
