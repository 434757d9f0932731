"""Facts about the filters of event source mappings: which records reach the function."""

import json
from collections.abc import Mapping
from typing import Any

from proof.conformance.probes import sources
from proof.conformance.probes.kinds import Call, MappingProbe, Write

_WHOLE_RECORD: Mapping[str, Any] = {
    "kind": {"S": "Order"},
    "total": {"N": "300"},
    "paid": {"BOOL": True},
    "empty": {"S": ""},
    "gone": {"NULL": True},
    "tags": {"SS": ["green", "red"]},
    "lines": {"L": [{"M": {"sku": {"S": "A"}}}, {"M": {"sku": {"S": "B"}}}]},
}
_RECORD = (Write(attributes=_WHOLE_RECORD),)


def criteria(*patterns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the setting FilterCriteria of these patterns."""
    return {"FilterCriteria": {"Filters": [{"Pattern": json.dumps(pattern)} for pattern in patterns]}}


def _new_image(**rules: object) -> dict[str, Any]:
    return {"dynamodb": {"NewImage": rules}}


def _match(name: str, says: str, pattern: Mapping[str, Any], **more: Any) -> MappingProbe:
    """Return a probe of a pattern that matches a record, which inserts an item with attributes of each type."""
    facts = {"source": sources.FILTERS, "settings": criteria(pattern), "calls": (Call(records=(1,)),)} | more
    return MappingProbe(name=f"filter_{name}", says=says, writes=_RECORD, **facts)


def _no_match(name: str, says: str, pattern: Mapping[str, Any], **more: Any) -> MappingProbe:
    """Return a probe of a pattern that does not match this record."""
    return _match(name, says, pattern, calls=(), **more)


PROBES = (
    _match("equal", "A text in a pattern matches an equal value.", _new_image(kind={"S": ["Order"]})),
    _no_match("case", "A filter distinguishes upper and lower case.", _new_image(kind={"S": ["order"]})),
    _match(
        "values_are_or",
        "A field matches if one of the values in its array matches.",
        _new_image(kind={"S": ["Invoice", "Order"]}),
    ),
    _no_match(
        "fields_are_and",
        "A record matches only if all fields of the pattern match.",
        _new_image(kind={"S": ["Order"]}, paid={"BOOL": [False]}),
    ),
    _match(
        "or_across_fields",
        "`$or` matches if one of its patterns matches, also for different fields.",
        _new_image(**{"$or": [{"kind": {"S": ["Invoice"]}}, {"paid": {"BOOL": [True]}}]}),
    ),
    _match("prefix", "`prefix` matches the start of a text.", _new_image(kind={"S": [{"prefix": "Or"}]})),
    _match("suffix", "`suffix` matches the end of a text.", _new_image(kind={"S": [{"suffix": "er"}]})),
    _match(
        "ignore_case",
        "`equals-ignore-case` matches in upper and lower case.",
        _new_image(kind={"S": [{"equals-ignore-case": "oRDER"}]}),
    ),
    _no_match(
        "anything_but",
        "`anything-but` does not match a listed value.",
        _new_image(kind={"S": [{"anything-but": ["Order", "Invoice"]}]}),
    ),
    _no_match(
        "anything_but_missing",
        "`anything-but` does not match a missing field.",
        _new_image(missing={"S": [{"anything-but": ["Order"]}]}),
        open_question="EventBridge does not match a missing field. Lambda's page does not mention one. Does Lambda?",
    ),
    _no_match(
        "numeric_on_dynamodb_number",
        "`numeric` never matches a number of DynamoDB, because it is a text in the record.",
        _new_image(total={"N": [{"numeric": [">", 0]}]}),
        source=sources.FILTER_TUTORIAL,
    ),
    _match(
        "number_as_text",
        "A number of DynamoDB matches its text.",
        _new_image(total={"N": ["300"]}),
        source=sources.DYNAMODB_FILTERS,
    ),
    _no_match(
        "number_literal",
        "A JSON number in a pattern does not match a number of DynamoDB.",
        _new_image(total={"N": [300]}),
        source=sources.DYNAMODB_FILTERS,
    ),
    _match(
        "numeric_on_size",
        "`numeric` matches a field that is a number in the record, such as SizeBytes.",
        {"dynamodb": {"SizeBytes": [{"numeric": [">", 0, "<", 1_000_000]}]}},
    ),
    _match(
        "exists",
        "`exists: true` matches the value below the type of an attribute.",
        _new_image(kind={"S": [{"exists": True}]}),
        source=sources.DYNAMODB_FILTERS,
    ),
    _no_match(
        "exists_on_attribute",
        "`exists: true` on an attribute never matches, because the attribute is an object with its type as key.",
        _new_image(kind=[{"exists": True}]),
        source=sources.DYNAMODB_FILTERS,
    ),
    _match(
        "not_exists_on_attribute",
        "`exists: false` on an attribute always matches, because `exists` sees only leaf values.",
        _new_image(kind=[{"exists": False}]),
        source=sources.DYNAMODB_FILTERS,
        observed_by_others=sources.FILTER_OF_ABSENCE,
    ),
    _match(
        "not_exists_on_missing",
        "`exists: false` matches a missing attribute.",
        _new_image(missing={"S": [{"exists": False}]}),
    ),
    _no_match(
        "no_old_image",
        "A pattern on the old image does not match an INSERT.",
        {"dynamodb": {"OldImage": {"kind": {"S": ["Order"]}}}},
        source=sources.STREAM_RECORD,
    ),
    _match(
        "boolean",
        "true in a pattern matches a Boolean.",
        _new_image(paid={"BOOL": [True]}),
        source=sources.CDK_FILTER_RULES,
    ),
    _no_match(
        "boolean_as_text",
        'The text "true" does not match a Boolean.',
        _new_image(paid={"BOOL": ["true"]}),
        open_question='Lambda\'s page does not mention Booleans. Does the text "true" match the Boolean true?',
    ),
    _match(
        "empty_text",
        "An empty text matches an empty text.",
        _new_image(empty={"S": [""]}),
    ),
    _no_match(
        "null_is_not_empty",
        "null in a pattern does not match an empty text.",
        _new_image(empty={"S": [None]}),
    ),
    _match(
        "array_element",
        "A pattern matches an array if one of its elements matches.",
        _new_image(tags={"SS": ["red"]}),
        open_question="EventBridge matches one element. Lambda's page does not mention arrays. Does Lambda, too?",
    ),
    _match(
        "nested_list",
        "A pattern below a list matches if one element of the list matches.",
        _new_image(lines={"L": {"M": {"sku": {"S": ["B"]}}}}),
        open_question="EventBridge matches one element. Lambda's page shows no pattern below a list. Does Lambda, too?",
    ),
    _match(
        "event_name",
        "A pattern may name eventName.",
        {"eventName": ["INSERT"]},
        source=sources.FILTER_TUTORIAL,
        observed_by_others=sources.FILTER_OF_EVENT_NAME,
    ),
    _match(
        "keys",
        "A pattern may name the keys.",
        {"dynamodb": {"Keys": {"PK": {"S": ["a"]}}}},
        source=sources.DYNAMODB_FILTERS,
    ),
    MappingProbe(
        name="filter_of_deletions",
        says="A pattern on eventName REMOVE selects deletions.",
        source=sources.FILTER_TUTORIAL,
        settings=criteria({"eventName": ["REMOVE"]}),
        writes=(Write(), Write(), Write(action="delete")),
        calls=(Call(records=(3,)),),
    ),
    MappingProbe(
        name="filter_of_expiry",
        says="A pattern on userIdentity does not match the deletions of a client.",
        source=sources.TTL_STREAMS,
        settings=criteria({"userIdentity": {"type": ["Service"], "principalId": ["dynamodb.amazonaws.com"]}}),
        writes=(Write(), Write(action="delete")),
        calls=(),
    ),
    MappingProbe(
        name="filters_are_or",
        says="A record reaches the function if it matches at least one of the filters.",
        source=sources.FILTERS,
        settings=criteria(_new_image(kind={"S": ["Order"]}), _new_image(kind={"S": ["Invoice"]})),
        writes=tuple(Write(attributes={"kind": {"S": kind}}) for kind in ("Order", "Line", "Invoice")),
        calls=(Call(records=(1, 3)),),
    ),
    MappingProbe(
        name="filter_before_batch_size",
        says="Rejected records do not count for the batch size.",
        source=sources.FILTER_TUTORIAL,
        open_question=(
            "DynamoDB's tutorial confirms this only for a mapping with a batching window. Does a mapping without a "
            "window also fill its batches with accepted records only?"
        ),
        settings={"BatchSize": 2, **criteria(_new_image(kind={"S": ["Order"]}))},
        writes=tuple(Write(attributes={"kind": {"S": kind}}) for kind in ("Order", "Line", "Order", "Line")),
        calls=(Call(records=(1, 3)),),
    ),
    MappingProbe(
        name="filter_before_batch_size_in_a_window",
        says="With a batching window, each record is filtered before it joins the batch.",
        source=sources.FILTER_TUTORIAL,
        settings={
            "BatchSize": 2,
            "MaximumBatchingWindowInSeconds": 2,
            **criteria(_new_image(kind={"S": ["Order"]})),
        },
        writes=tuple(Write(attributes={"kind": {"S": kind}}) for kind in ("Order", "Line", "Order", "Line")),
        calls=(Call(records=(1, 3)),),
        watch_seconds=6,
    ),
    MappingProbe(
        name="rejected_records_are_passed",
        says="The mapping does not invoke the function for rejected records, and continues after them.",
        source=sources.FILTERS,
        settings=criteria(_new_image(kind={"S": ["Order"]})),
        writes=(*(Write(attributes={"kind": {"S": "Line"}}),) * 3, Write(attributes={"kind": {"S": "Order"}}, at=1)),
        calls=(Call(records=(4,)),),
    ),
)
