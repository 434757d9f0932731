"""Models a Lambda event source mapping: Lambda's poller that reads a DynamoDB stream and invokes a function.

The model only decides the next action. It does no I/O, and it uses no clock and no random numbers. Its caller (the
driver) reads the shards, adds the records, runs the due actions, and reports the outcomes:

    mapping.add_shard(shard_id, parent)           a shard was found
    mapping.add_record(shard_id, record, now)     a record was read
    mapping.close_shard(shard_id)                 a shard was read to its end
    mapping.due_actions(now)                      actions to run now
    mapping.report_outcome(action, outcome, now)  the outcome of an action
    mapping.next_action_at(now)                   when to call due_actions again

`play` drives the model with a virtual clock, to test a function: it returns what happened. The local shop drives the
model with the wall clock. The same calls always return the same actions. Times are epoch seconds. The model is not
thread-safe.

The model follows AWS's documentation, and each module names the pages that it follows. If AWS does not document a
behaviour, a field of `MappingAssumptions` selects the behaviour. The model rejects tumbling windows. It does not model
recursive loop detection, or the minutes that AWS needs to apply changed settings.
"""

from local.event_source_mappings.actions import (
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
from local.event_source_mappings.filters import FilterCriteria
from local.event_source_mappings.mapping import EventSourceMapping
from local.event_source_mappings.playing import Invocation, Played, drive, insertions, new_mapping, play
from local.event_source_mappings.records import StreamRecord, is_unchanged, to_lambda_record
from local.event_source_mappings.settings import MappingAssumptions, MappingSettings

__all__ = [
    "Action",
    "DeliverFailure",
    "EventSourceMapping",
    "FailureDelivered",
    "FilterCriteria",
    "Invocation",
    "InvocationFailed",
    "InvocationReturned",
    "Invoke",
    "MappingAssumptions",
    "MappingCounters",
    "MappingLoad",
    "MappingSettings",
    "NotInvoked",
    "Outcome",
    "Played",
    "ShardIteratorRequest",
    "StreamRecord",
    "drive",
    "insertions",
    "is_unchanged",
    "new_mapping",
    "play",
    "to_lambda_record",
]
