import json
from typing import Any

import pytest

from local.event_source_mappings import FilterCriteria
from tests.local.event_source_mappings.stream import record

RECORD: dict[str, Any] = {
    "eventName": "MODIFY",
    "userIdentity": {"type": "Service", "principalId": "dynamodb.amazonaws.com"},
    "dynamodb": {
        "ApproximateCreationDateTime": 300.0,
        "SizeBytes": 300,
        "Keys": {"PK": {"S": "ORDER#1"}},
        "NewImage": {
            "type": {"S": "Order"},
            "empty": {"S": ""},
            "total": {"N": "300"},
            "open": {"BOOL": True},
            "gone": {"NULL": True},
            "tags": {"SS": ["red", "green"]},
            "none": {"L": []},
            "lines": {"L": [{"M": {"sku": {"S": "A"}, "n": {"N": "1"}}}, {"M": {"sku": {"S": "B"}, "n": {"N": "2"}}}]},
        },
    },
}


def accepts(pattern: object, *, event: dict[str, Any] = RECORD) -> bool:
    return FilterCriteria((json.dumps(pattern),)).matches(event)


def image(**rules: object) -> dict[str, object]:
    return {"dynamodb": {"NewImage": rules}}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (image(type={"S": ["Order"]}), True),
        (image(type={"S": ["order"]}), False),  # values are case-sensitive
        (image(type={"S": ["Invoice", "Order"]}), True),  # one value of a list must match
        (image(type={"S": ["Order"]}, open={"BOOL": [True]}), True),  # all fields must match
        (image(type={"S": ["Order"]}, open={"BOOL": [False]}), False),
        (image(open={"BOOL": [1]}), False),
        (image(open={"BOOL": ["true"]}), False),
        (image(empty={"S": [""]}), True),
        (image(empty={"S": [None]}), False),  # null is not the empty string
        (image(missing={"S": [""]}), False),
        (image(total={"N": ["300"]}), True),
        (image(total={"N": [300]}), False),  # a DynamoDB number is a string
        (image(type={"S": [{"equals-ignore-case": "oRDER"}]}), True),
        (image(type={"S": [{"equals-ignore-case": "orders"}]}), False),
        (image(type={"S": [{"prefix": "Or"}]}), True),
        (image(type={"S": [{"prefix": "or"}]}), False),
        (image(type={"S": [{"suffix": "er"}]}), True),
        (image(type={"S": [{"suffix": "Or"}]}), False),
        (image(open={"BOOL": [{"prefix": "t"}]}), False),
        (image(type={"S": [{"anything-but": ["Line", "Invoice"]}]}), True),
        (image(type={"S": [{"anything-but": "Order"}]}), False),
        (image(missing={"S": [{"anything-but": "Order"}]}), False),  # a missing field does not match "anything-but"
        # a DynamoDB number is a string, so "numeric" never matches
        (image(total={"N": [{"numeric": [">", 0]}]}), False),
        ({"dynamodb": {"SizeBytes": [{"numeric": [">", 0]}]}}, True),
        ({"dynamodb": {"SizeBytes": [{"numeric": ["=", 300]}]}}, True),
        ({"dynamodb": {"SizeBytes": [{"numeric": [">", 300]}]}}, False),
        ({"dynamodb": {"SizeBytes": [{"numeric": [">=", 300, "<", 301]}]}}, True),
        ({"dynamodb": {"SizeBytes": [{"numeric": [">", 10, "<=", 299]}]}}, False),
        (image(type={"S": [{"exists": True}]}), True),
        (image(type={"S": [{"exists": False}]}), False),
        (image(type=[{"exists": True}]), False),  # an attribute with a type tag is not a leaf, so it does not "exist"
        (image(type=[{"exists": False}]), True),  # and "exists: false" always matches
        (image(missing={"S": [{"exists": False}]}), True),
        ({"dynamodb": {"OldImage": {"type": {"S": [{"exists": False}]}}}}, True),
        ({"dynamodb": {"OldImage": {"type": {"S": ["Order"]}}}}, False),
        (image(tags={"SS": ["green"]}), True),  # one element of an array must match
        (image(tags={"SS": ["blue"]}), False),
        (image(none={"L": [{"exists": False}]}), True),
        (image(lines={"L": {"M": {"sku": {"S": ["B"]}, "n": {"N": ["2"]}}}}), True),
        # filters do not look into the elements of a list
        (image(lines={"L": {"M": {"sku": {"S": ["A"]}, "n": {"N": ["2"]}}}}), False),
        ({"eventName": ["REMOVE"], "dynamodb": {"Keys": {"PK": {"S": [{"prefix": "ORDER#"}]}}}}, False),
        ({"userIdentity": {"principalId": ["dynamodb.amazonaws.com"], "type": ["Service"]}}, True),
        ({"$or": [{"eventName": ["INSERT"]}, image(type={"S": ["Order"]})]}, True),  # one of several fields
        ({"$or": [{"eventName": ["INSERT"]}, image(type={"S": ["Line"]})]}, False),
        ({"eventName": ["INSERT"], "$or": [{"eventName": ["MODIFY"]}, {"eventName": ["REMOVE"]}]}, False),
        (image(**{"$or": [{"type": {"S": ["Line"]}}, {"open": {"BOOL": [True]}}]}), True),
    ],
)
def test_a_pattern_is_matched_against_the_record_as_the_function_gets_it(pattern: object, expected: bool) -> None:
    assert accepts(pattern) is expected


def test_anything_but_matches_null() -> None:
    event = {"dynamodb": {"NewImage": {"note": None}}}
    assert accepts(image(note=[{"anything-but": "x"}]), event=event)
    assert accepts(image(note=[None]), event=event)
    assert not accepts(image(note=[""]), event=event)


def test_numbers_are_compared_as_written() -> None:
    for text, as_written in (("300", True), ("300.0", False), ("3e2", False)):
        pattern = '{"dynamodb": {"SizeBytes": [' + text + "]}}"
        assert FilterCriteria((pattern,)).matches(RECORD) is as_written
    assert FilterCriteria(('{"dynamodb": {"ApproximateCreationDateTime": [300.0]}}',)).matches(RECORD)


def test_the_filters_of_a_mapping_are_ored_and_none_accept_everything() -> None:
    inserts, removals = '{"eventName": ["INSERT"]}', '{"eventName": ["REMOVE"]}'
    assert FilterCriteria((inserts, removals)).matches({"eventName": "REMOVE"})
    assert not FilterCriteria((inserts, removals)).matches({"eventName": "MODIFY"})
    assert FilterCriteria().matches({"eventName": "MODIFY"})


def test_of_a_key_given_twice_the_last_wins() -> None:
    assert FilterCriteria(('{"eventName": ["REMOVE"], "eventName": ["MODIFY"]}',)).matches(RECORD)


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("eventName", "not JSON"),
        ('{"eventName": [NaN]}', "NaN is not a JSON value"),
        ("[" * 4000, "not JSON"),
        ('["INSERT"]', "at the top: an object"),
        ("{}", "at the top: an object"),
        ('{"eventName": "INSERT"}', "at eventName: an object"),
        ('{"eventName": []}', "at eventName: an empty array"),
        ('{"eventName": [["INSERT"]]}', "an array inside an array"),
        ('{"eventName": [{"prefix": "a", "suffix": "b"}]}', "one key"),
        ('{"eventName": [{"like": "a"}]}', "operator 'like'"),
        ('{"eventName": [{"prefix": 1}]}', "prefix takes a string"),
        ('{"eventName": [{"suffix": ["a"]}]}', "suffix takes a string"),
        ('{"eventName": [{"equals-ignore-case": null}]}', "equals-ignore-case takes a string"),
        ('{"eventName": [{"exists": "true"}]}', "exists takes true or false"),
        ('{"eventName": [{"anything-but": []}]}', "anything-but takes"),
        ('{"eventName": [{"anything-but": [null]}]}', "anything-but takes"),
        ('{"eventName": [{"anything-but": {"prefix": "a"}}]}', "EventBridge's"),
        ('{"eventName": [{"wildcard": "a*"}]}', "operator 'wildcard'"),
        ('{"dynamodb": {"SizeBytes": [{"numeric": [">"]}]}}', "at dynamodb.SizeBytes: numeric takes"),
        ('{"dynamodb": {"SizeBytes": [{"numeric": ["<", 9, ">", 1]}]}}', "numeric takes"),
        ('{"dynamodb": {"SizeBytes": [{"numeric": [">", "1"]}]}}', "numeric takes"),
        ('{"dynamodb": {"SizeBytes": [{"numeric": [">", 9, "<", 1]}]}}', "not below"),
        ('{"$or": [{"eventName": ["INSERT"]}]}', "two or more"),
        ('{"$or": [{"eventName": ["INSERT"]}, {"awsRegion": ["x"]}]}', "may start with dynamodb"),
        ('{"eventSourceARN": ["x"]}', "at eventSourceARN: a DynamoDB filter may start with"),
        ('{"eventName": ["%s"]}' % ("x" * 4096), "4096 are allowed"),
    ],
)
def test_a_pattern_aws_would_refuse_is_refused_with_its_place(pattern: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        FilterCriteria((pattern,))


def test_more_filters_than_the_quota_are_refused() -> None:
    pattern = '{"eventName": ["INSERT"]}'
    assert FilterCriteria((pattern,) * 5).matches(record(1))
    with pytest.raises(ValueError, match="6 filters; a mapping may have 5"):
        FilterCriteria((pattern,) * 6)
