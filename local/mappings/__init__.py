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
    Counters,
    Deliver,
    Delivered,
    Failed,
    Invoke,
    Load,
    NotInvoked,
    Outcome,
    Returned,
    StartAt,
)
from local.mappings.filters import Dialect, Filters
from local.mappings.mapping import EventSourceMapping
from local.mappings.records import StreamRecord, is_unchanged, lambda_record
from local.mappings.settings import Settings, Switches

__all__ = [
    "Action",
    "Counters",
    "Deliver",
    "Delivered",
    "Dialect",
    "EventSourceMapping",
    "Failed",
    "Filters",
    "Invoke",
    "Load",
    "NotInvoked",
    "Outcome",
    "Returned",
    "Settings",
    "StartAt",
    "StreamRecord",
    "Switches",
    "is_unchanged",
    "lambda_record",
]
