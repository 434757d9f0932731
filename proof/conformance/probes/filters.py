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
_MATCHES, _NO_MATCH = (Call(records=(1,)),), ()


def criteria(*patterns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the setting FilterCriteria of these patterns."""
    return {"FilterCriteria": {"Filters": [{"Pattern": json.dumps(pattern)} for pattern in patterns]}}


def _new_image(**rules: object) -> dict[str, Any]:
    return {"dynamodb": {"NewImage": rules}}


def _pattern_probe(
    name: str,
    says: str,
    pattern: Mapping[str, Any],
    *,
    matches: bool,
    source: str = sources.FILTERS,
    open_question: str = "",
) -> MappingProbe:
    """Return a probe of one pattern against one record, which inserts an item with attributes of each type."""
    return MappingProbe(
        name=f"filter_{name}",
        says=says,
        source=source,
        open_question=open_question,
        settings=criteria(pattern),
        writes=_RECORD,
        calls=_MATCHES if matches else _NO_MATCH,
    )


PROBES = (
    _pattern_probe(
        "equal", "A text in a pattern matches an equal value.", _new_image(kind={"S": ["Order"]}), matches=True
    ),
    _pattern_probe(
        "case", "A filter distinguishes upper and lower case.", _new_image(kind={"S": ["order"]}), matches=False
    ),
    _pattern_probe(
        "values_are_or",
        "A field matches if one of the values in its array matches.",
        _new_image(kind={"S": ["Invoice", "Order"]}),
        matches=True,
    ),
    _pattern_probe(
        "fields_are_and",
        "A record matches only if all fields of the pattern match.",
        _new_image(kind={"S": ["Order"]}, paid={"BOOL": [False]}),
        matches=False,
    ),
    _pattern_probe(
        "or_across_fields",
        "`$or` matches if one of its patterns matches, also for different fields.",
        _new_image(**{"$or": [{"kind": {"S": ["Invoice"]}}, {"paid": {"BOOL": [True]}}]}),
        matches=True,
    ),
    _pattern_probe(
        "prefix", "`prefix` matches the start of a text.", _new_image(kind={"S": [{"prefix": "Or"}]}), matches=True
    ),
    _pattern_probe(
        "suffix", "`suffix` matches the end of a text.", _new_image(kind={"S": [{"suffix": "er"}]}), matches=True
    ),
    _pattern_probe(
        "ignore_case",
        "`equals-ignore-case` matches in upper and lower case.",
        _new_image(kind={"S": [{"equals-ignore-case": "oRDER"}]}),
        matches=True,
    ),
    _pattern_probe(
        "anything_but",
        "`anything-but` does not match a listed value.",
        _new_image(kind={"S": [{"anything-but": ["Order", "Invoice"]}]}),
        matches=False,
    ),
    _pattern_probe(
        "anything_but_missing",
        "`anything-but` does not match a missing field.",
        _new_image(missing={"S": [{"anything-but": ["Order"]}]}),
        matches=False,
        open_question="EventBridge does not match a missing field. Lambda's page does not mention one. Does Lambda?",
    ),
    _pattern_probe(
        "numeric_on_dynamodb_number",
        "`numeric` never matches a number of DynamoDB, because it is a text in the record.",
        _new_image(total={"N": [{"numeric": [">", 0]}]}),
        matches=False,
        source=sources.FILTER_TUTORIAL,
    ),
    _pattern_probe(
        "number_as_text",
        "A number of DynamoDB matches its text.",
        _new_image(total={"N": ["300"]}),
        matches=True,
        source=sources.DYNAMODB_FILTERS,
    ),
    _pattern_probe(
        "number_literal",
        "A JSON number in a pattern does not match a number of DynamoDB.",
        _new_image(total={"N": [300]}),
        matches=False,
        source=sources.DYNAMODB_FILTERS,
    ),
    _pattern_probe(
        "numeric_on_size",
        "`numeric` matches a field that is a number in the record, such as SizeBytes.",
        {"dynamodb": {"SizeBytes": [{"numeric": [">", 0, "<", 1_000_000]}]}},
        matches=True,
    ),
    _pattern_probe(
        "exists",
        "`exists: true` matches the value below the type of an attribute.",
        _new_image(kind={"S": [{"exists": True}]}),
        matches=True,
        source=sources.DYNAMODB_FILTERS,
    ),
    _pattern_probe(
        "exists_on_attribute",
        "`exists: true` on an attribute never matches, because the attribute is an object with its type as key.",
        _new_image(kind=[{"exists": True}]),
        matches=False,
        source=sources.DYNAMODB_FILTERS,
    ),
    _pattern_probe(
        "not_exists_on_attribute",
        "`exists: false` on an attribute always matches, because `exists` sees only leaf values.",
        _new_image(kind=[{"exists": False}]),
        matches=True,
        source=sources.DYNAMODB_FILTERS,
        open_question="AWS's page says that `exists` works on leaf values only. Does `exists: false` match an object?",
    ),
    _pattern_probe(
        "not_exists_on_missing",
        "`exists: false` matches a missing attribute.",
        _new_image(missing={"S": [{"exists": False}]}),
        matches=True,
    ),
    _pattern_probe(
        "no_old_image",
        "A pattern on the old image does not match an INSERT.",
        {"dynamodb": {"OldImage": {"kind": {"S": ["Order"]}}}},
        matches=False,
        source=sources.STREAM_RECORD,
    ),
    _pattern_probe(
        "boolean",
        "true in a pattern matches a Boolean.",
        _new_image(paid={"BOOL": [True]}),
        matches=True,
        open_question="EventBridge matches Booleans. Lambda's page does not mention any. Does Lambda match Booleans?",
    ),
    _pattern_probe(
        "boolean_as_text",
        'The text "true" does not match a Boolean.',
        _new_image(paid={"BOOL": ["true"]}),
        matches=False,
        open_question='Lambda\'s page does not mention Booleans. Does the text "true" match the Boolean true?',
    ),
    _pattern_probe("empty_text", "An empty text matches an empty text.", _new_image(empty={"S": [""]}), matches=True),
    _pattern_probe(
        "null_is_not_empty",
        "null in a pattern does not match an empty text.",
        _new_image(empty={"S": [None]}),
        matches=False,
    ),
    _pattern_probe(
        "array_element",
        "A pattern matches an array if one of its elements matches.",
        _new_image(tags={"SS": ["red"]}),
        matches=True,
        open_question="EventBridge matches one element. Lambda's page does not mention arrays. Does Lambda, too?",
    ),
    _pattern_probe(
        "nested_list",
        "A pattern below a list matches if one element of the list matches.",
        _new_image(lines={"L": {"M": {"sku": {"S": ["B"]}}}}),
        matches=True,
        open_question="EventBridge matches one element. Lambda's page shows no pattern below a list. Does Lambda, too?",
    ),
    _pattern_probe(
        "event_name",
        "A pattern may name eventName.",
        {"eventName": ["INSERT"]},
        matches=True,
        source=sources.FILTER_TUTORIAL,
        open_question="A tutorial uses eventName, but Lambda's page allows only the key dynamodb. Which is right?",
    ),
    _pattern_probe(
        "keys",
        "A pattern may name the keys.",
        {"dynamodb": {"Keys": {"PK": {"S": ["a"]}}}},
        matches=True,
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
        open_question="DynamoDB's page uses userIdentity, but Lambda's allows only the key dynamodb. Which is right?",
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
