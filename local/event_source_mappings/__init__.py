"""A model of a Lambda event source mapping for a DynamoDB stream. It does no I/O and uses no clock or randomness.

The caller (the driver) reads the shards, adds the records, runs the due actions, and reports the outcomes:

    mapping.add_shard(shard_id, parent)           a shard was found
    mapping.add_record(shard_id, record, now)     a record was read
    mapping.close_shard(shard_id)                 a shard was read to its end
    mapping.due_actions(now)                      actions to run now
    mapping.report_outcome(action, outcome, now)  the outcome of an action
    mapping.next_action_at(now)                   when to call due_actions again

local/poller.py drives the model with the wall clock. The simulator drives it with a virtual clock. The model is
deterministic: the same calls return the same actions. Times are epoch seconds. The model is not thread-safe.

The model follows AWS's documentation; each module names the pages that it follows. Behaviour that AWS does not document
is a field of `MappingAssumptions`. The model does not cover tumbling windows (it rejects them),
recursive loop detection, and the minutes until changed settings take effect.
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
from local.event_source_mappings.records import StreamRecord, is_unchanged, to_lambda_record
from local.event_source_mappings.settings import MappingAssumptions, MappingSettings

__all__ = [
    "Action",
    "DeliverFailure",
    "EventSourceMapping",
    "FailureDelivered",
    "FilterCriteria",
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
