import json
from typing import Any

import pytest

from local.event_source_mappings import FilterCriteria

RECORD: dict[str, Any] = {
    "eventName": "MODIFY",
    "userIdentity": {"type": "Service", "principalId": "dynamodb.amazonaws.com"},
    "dynamodb": {
        "ApproximateCreationDateTime": 300.0,
        "SizeBytes": 300,
        "NewImage": {
            "type": {"S": "Order"},
            "note": None,
            "open": {"BOOL": True},
            "tags": {"SS": ["red", "green"]},
            "none": {"L": []},
            "lines": {"L": [{"M": {"sku": {"S": "A"}, "n": {"N": "1"}}}, {"M": {"sku": {"S": "B"}, "n": {"N": "2"}}}]},
        },
    },
}


def image(**rules: object) -> dict[str, object]:
    return {"dynamodb": {"NewImage": rules}}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (image(open={"BOOL": [1]}), False),
        (image(missing={"S": [""]}), False),
        (image(type={"S": [{"equals-ignore-case": "orders"}]}), False),
        (image(type={"S": [{"prefix": "or"}]}), False),
        (image(type={"S": [{"suffix": "Or"}]}), False),
        (image(open={"BOOL": [{"prefix": "t"}]}), False),
        (image(type={"S": [{"anything-but": ["Line", "Invoice"]}]}), True),
        (image(type={"S": [{"anything-but": "Order"}]}), False),
        (image(note=[{"anything-but": "x"}]), True),
        (image(note=[None]), True),
        (image(note=[""]), False),
        ({"dynamodb": {"SizeBytes": [{"numeric": ["=", 300]}]}}, True),
        ({"dynamodb": {"SizeBytes": [{"numeric": [">", 300]}]}}, False),
        ({"dynamodb": {"SizeBytes": [{"numeric": [">=", 300, "<", 301]}]}}, True),
        ({"dynamodb": {"SizeBytes": [{"numeric": [">", 10, "<=", 299]}]}}, False),
        (image(type={"S": [{"exists": False}]}), False),
        (image(tags={"SS": ["blue"]}), False),
        (image(none={"L": [{"exists": False}]}), True),
        # one element of the list must match all fields of the pattern
        (image(lines={"L": {"M": {"sku": {"S": ["B"]}, "n": {"N": ["2"]}}}}), True),
        (image(lines={"L": {"M": {"sku": {"S": ["A"]}, "n": {"N": ["2"]}}}}), False),
        ({"userIdentity": {"principalId": ["dynamodb.amazonaws.com"], "type": ["Service"]}}, True),
        ({"$or": [{"eventName": ["INSERT"]}, image(type={"S": ["Line"]})]}, False),
        ({"eventName": ["INSERT"], "$or": [{"eventName": ["MODIFY"]}, {"eventName": ["REMOVE"]}]}, False),
    ],
)
def test_a_pattern_is_matched_against_the_record_as_the_function_gets_it(pattern: object, expected: bool) -> None:
    assert FilterCriteria((json.dumps(pattern),)).matches(RECORD) is expected


def test_numbers_are_compared_as_written() -> None:
    for text, as_written in (("300", True), ("300.0", False), ("3e2", False)):
        pattern = '{"dynamodb": {"SizeBytes": [' + text + "]}}"
        assert FilterCriteria((pattern,)).matches(RECORD) is as_written
    assert FilterCriteria(('{"dynamodb": {"ApproximateCreationDateTime": [300.0]}}',)).matches(RECORD)


def test_of_a_key_given_twice_the_last_wins() -> None:
    assert FilterCriteria(('{"eventName": ["REMOVE"], "eventName": ["MODIFY"]}',)).matches(RECORD)


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("eventName", "not JSON"),
        ('{"eventName": [NaN]}', "NaN is not a JSON value"),
        ("[" * 4000, "not JSON"),
        ("{}", "at the top: an object"),
        ('{"eventName": []}', "at eventName: an empty array"),
        ('{"eventName": [["INSERT"]]}', "an array inside an array"),
        ('{"eventName": [{"prefix": "a", "suffix": "b"}]}', "one key"),
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
    ],
)
def test_a_pattern_aws_would_refuse_is_refused_with_its_place(pattern: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        FilterCriteria((pattern,))


def test_a_mapping_may_have_five_filters() -> None:
    assert FilterCriteria(('{"eventName": ["MODIFY"]}',) * 5).matches(RECORD)
