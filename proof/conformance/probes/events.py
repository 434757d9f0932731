"""Facts about EventBridge. A rule of "$bus" sends the events of the source "probe" to "$target", a queue."""

from collections.abc import Mapping
from typing import Any

from proof.conformance.probes import sources
from proof.conformance.probes.kinds import Request, ServiceProbe


def _entry(detail: str = "{}", source: str = "probe") -> dict[str, Any]:
    return {"EventBusName": "$bus", "Source": source, "DetailType": "Tested", "Detail": detail}


def _put_events(*entries: dict[str, Any], **expected: Any) -> Request:
    return Request.of("events", "put_events", Entries=list(entries), **expected)


def _receive(returns: Mapping[str, Any]) -> Request:
    seconds = 2 if returns == _NOTHING else 10
    asked = {"QueueUrl": "$target", "MaxNumberOfMessages": 10, "WaitTimeSeconds": seconds}
    return Request.of("sqs", "receive_message", **asked, returns=returns)


_NOTHING = {"Messages": None}


PROBES = (
    ServiceProbe.of(
        "an_event_reaches_the_queue_of_its_rule",
        "An event that matches a rule reaches the rule's queue as JSON with source, detail-type and detail.",
        _put_events(_entry('{"order": "o1"}'), returns={"FailedEntryCount": 0, "Entries[0].EventId": "$any"}),
        _receive(
            {
                "length(Messages)": 1,
                'contains(Messages[0].Body, \'"source":"probe"\') '
                '|| contains(Messages[0].Body, \'"source": "probe"\')': True,
                "contains(Messages[0].Body, '\"detail-type\"')": True,
                "contains(Messages[0].Body, 'o1')": True,
            }
        ),
        source=sources.EVENT_PATTERNS,
    ),
    ServiceProbe.of(
        "an_event_without_rule_is_dropped",
        "An event that matches no rule is accepted and reaches no target.",
        _put_events(_entry(source="other"), returns={"FailedEntryCount": 0}),
        _receive(_NOTHING),
        source=sources.EVENT_PATTERNS,
    ),
    ServiceProbe.of(
        "put_events_may_fail_in_part",
        "PutEvents succeeds although an entry is not JSON. The results have the order of the entries.",
        _put_events(
            _entry(),
            _entry("this is not JSON"),
            _entry(),
            returns={
                "FailedEntryCount": 1,
                "length(Entries)": 3,
                "Entries[0].EventId": "$any",
                "Entries[0].ErrorCode": None,
                "Entries[1].EventId": None,
                "Entries[1].ErrorCode": "MalformedDetail",
                "Entries[2].EventId": "$any",
            },
        ),
        source=sources.ENTRY_RESULT,
    ),
    ServiceProbe.of(
        "the_other_entries_are_published",
        "If an entry of PutEvents fails, the other entries reach their targets.",
        _put_events(_entry("this is not JSON"), _entry('{"order": "o1"}'), returns={"FailedEntryCount": 1}),
        _receive({"length(Messages)": 1, "contains(Messages[0].Body, 'o1')": True}),
        source=sources.FAILED_ENTRIES,
    ),
    ServiceProbe.of(
        "put_events_takes_ten_entries",
        "PutEvents accepts 10 entries.",
        _put_events(*(_entry(),) * 10, returns={"FailedEntryCount": 0, "length(Entries)": 10}),
        source=sources.PUT_EVENTS,
    ),
    ServiceProbe.of(
        "put_events_refuses_eleven_entries",
        "PutEvents refuses 11 entries with ValidationException, and publishes none of them.",
        _put_events(*(_entry(),) * 11, error="ValidationException"),
        _receive(_NOTHING),
        source=sources.PUT_EVENTS,
    ),
    ServiceProbe.of(
        "put_events_has_a_total_size",
        "PutEvents refuses entries of more than 1 MB in all.",
        _put_events(_entry('{"text": "=1100000*x"}'), error="ValidationException"),
        source=sources.PUT_EVENTS,
        open_question=(
            f"The error was ValidationException [at the former limit of 256 KB]({sources.TOO_LARGE_EVENT.url}). "
            "Is it the same at 1 MB?"
        ),
    ),
    ServiceProbe.of(
        "an_entry_needs_a_detail_type",
        "An entry without DetailType fails with InvalidArgument, while the other entries succeed.",
        _put_events(
            _entry(),
            {"EventBusName": "$bus", "Source": "probe", "Detail": "{}"},
            returns={
                "FailedEntryCount": 1,
                "Entries[0].EventId": "$any",
                "Entries[1].ErrorCode": "InvalidArgument",
            },
        ),
        source=sources.ENTRY_RESULT,
        open_question=(
            f"The error code is InvalidArgument [for an empty DetailType]({sources.EMPTY_DETAIL_TYPE.url}). "
            "Is it the same for a missing one?"
        ),
    ),
)
