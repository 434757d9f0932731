"""All probes, as data. Only access_patterns.py imports something of the product: the declarations of the patterns."""

from proof.conformance.probes import (
    access_patterns,
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
from proof.conformance.probes.kinds import MappingProbe, Probe, QueueProbe, ServiceProbe

MAPPING_PROBES: tuple[MappingProbe, ...] = (
    *batching.PROBES,
    *filters.PROBES,
    *concurrency.PROBES,
    *failures.PROBES,
    *partial_responses.PROBES,
    *destinations.PROBES,
    *lifecycle.PROBES,
    *mapping_settings.PROBES,
)
SERVICE_PROBES: tuple[ServiceProbe, ...] = (
    *stream_records.PROBES,
    *transactions.PROBES,
    *capacity.PROBES,
    *events.PROBES,
    *queues.PROBES,
    *storage.PROBES,
    *api_gateway.PROBES,
)
QUEUE_PROBES: tuple[QueueProbe, ...] = queues.MAPPING_PROBES
PROBES: tuple[Probe, ...] = (*MAPPING_PROBES, *QUEUE_PROBES, *SERVICE_PROBES, *access_patterns.PROBES)
