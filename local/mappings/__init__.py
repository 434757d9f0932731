"""A Lambda event source mapping over a DynamoDB stream, as a model: no I/O, no clock, no randomness of its own.

A driver reads shards and feeds what it read, asks what is due, does it, and reports how it went:

    mapping.shard(shard_id, parent)       a shard was found      mapping.due(now)                      what to do now
    mapping.feed(shard_id, record, now)   a record was read      mapping.result(action, outcome, now)  how it went
    mapping.close_shard(shard_id)         a shard ended          mapping.next_at(now)                  when to ask again

The laptop's poller drives it with the wall clock, the simulator with a virtual one; the same calls give the same
actions. Times are epoch seconds. One thread at a time may call it.

What AWS documents is followed, with the page named where it is used; what it leaves open is a field of `Switches` or
`Dialect`. Not modelled: tumbling windows (refused), recursive loop detection, the minutes a change of settings takes.
"""

from local.mappings.actions import (
    Action,
    DeliverFailure,
    FailureDelivered,
    InvocationFailed,
    InvocationReturned,
    Invoke,
    MappingCounters,
    MappingLoad,
    NotInvoked,
    Outcome,
    ShardIteratorRequest,
)
from local.mappings.filters import FilterCriteria, FilterDialect
from local.mappings.mapping import EventSourceMapping
from local.mappings.records import StreamRecord, is_unchanged, to_lambda_record
from local.mappings.settings import MappingAssumptions, MappingSettings

__all__ = [
    "Action",
    "DeliverFailure",
    "EventSourceMapping",
    "FailureDelivered",
    "FilterCriteria",
    "FilterDialect",
    "InvocationFailed",
    "InvocationReturned",
    "Invoke",
    "MappingAssumptions",
    "MappingCounters",
    "MappingLoad",
    "MappingSettings",
    "NotInvoked",
    "Outcome",
    "ShardIteratorRequest",
    "StreamRecord",
    "is_unchanged",
    "to_lambda_record",
]
