"""`python -m ops hot-keys`: reports the keys that DynamoDB throttled, by partition, and ignores errors of clients."""

from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from ops.commands import hot_keys
from tests.ops.conftest import measured

UNTIL = datetime.now(UTC).replace(second=0, microsecond=0)
SINCE = UNTIL - timedelta(hours=24)
RULE = "DynamoDBContributorInsights-PKT-orders-1763712000000"


def put(metric: str, value: int, minutes_ago: int = 60, **named: str) -> None:
    """Store the value that a metric of the table had in a past minute, as DynamoDB does."""
    measured(metric, value, "AWS/DynamoDB", UNTIL - timedelta(minutes=minutes_ago), TableName="orders", **named)


def look(cloudwatch: Any, rules: dict[str, list[str]] | None = None) -> hot_keys.ThrottleReport:
    """Return the report if these rules of Contributor Insights exist, by index ("" is the table)."""
    dynamodb = boto3.client("dynamodb")
    with Stubber(dynamodb) as stubber:
        for index in ("", "GSI1", "GSI2", "GSI3"):
            named = {"TableName": "orders"} | ({"IndexName": index} if index else {})
            on = (rules or {}).get(index)
            told: dict[str, Any] = {"ContributorInsightsRuleList": on} if on else {}
            told |= named | {"ContributorInsightsStatus": "ENABLED" if on else "DISABLED"}
            stubber.add_response("describe_contributor_insights", told, named)
        found = hot_keys.fetch_throttle_report(cloudwatch, dynamodb, "orders", SINCE, UNTIL)
        stubber.assert_no_pending_responses()
    return found


def test_rejected_requests_of_a_faulty_client_are_no_hot_key(cloudwatch: Any) -> None:
    put("UserErrors", 50_000)
    put("UserErrors", 50_000, Operation="PutItem")
    put("ConditionalCheckFailedRequests", 9_000)
    put("TransactionConflict", 900)
    put("SystemErrors", 30, Operation="GetItem")
    found = look(cloudwatch)
    assert found.counted == ()
    assert list(hot_keys.format_report(found))[1:] == ["No requests were throttled."]
    assert not hot_keys.has_hot_partition(found)


def test_a_hot_partition_is_reported_by_its_metric_with_the_index_and_the_worst_minute(cloudwatch: Any) -> None:
    for metric in ("WriteThrottleEvents", "WriteKeyRangeThroughputThrottleEvents"):
        put(metric, 40, 90, GlobalSecondaryIndexName="GSI2")
        put(metric, 900, 30, GlobalSecondaryIndexName="GSI2")
    put("ThrottledRequests", 7, Operation="UpdateItem")
    put("ThrottledRequests", 310, Operation="TransactWriteItems")
    found = look(cloudwatch)
    assert hot_keys.has_hot_partition(found)
    worst = (UNTIL - timedelta(minutes=30)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    cause = hot_keys.CAUSES[hot_keys.HOT_PARTITION_CAUSE]
    assert list(hot_keys.format_report(found))[1:] == [
        f"GSI2: 940 writes throttled, 900 of them in the minute of {worst}: {cause}",
        "  to see the key, enable Contributor Insights for GSI2 in mode THROTTLED_KEYS",
        "throttled requests: 310 TransactWriteItems, 7 UpdateItem",
    ]


@pytest.mark.parametrize("cause", ["ProvisionedThroughput", "MaxOnDemandThroughput", "AccountLimit"])
def test_a_table_that_is_too_small_is_throttled_and_has_no_hot_key(cloudwatch: Any, cause: str) -> None:
    put("ReadThrottleEvents", 12)
    put(f"Read{cause}ThrottleEvents", 12)
    found = look(cloudwatch)
    assert not hot_keys.has_hot_partition(found)
    (line,) = list(hot_keys.format_report(found))[1:]
    assert line.startswith("table: 12 reads throttled, 12 of them in the minute of ")
    assert line.endswith(hot_keys.CAUSES[cause])


def test_throttling_without_a_known_cause_is_reported_as_that(cloudwatch: Any) -> None:
    put("ReadThrottleEvents", 3)
    put("ReadThrottleEvents", 99, 60 * 30)  # on the day before
    assert list(hot_keys.format_report(look(cloudwatch)))[1:] == ["table: 3 reads throttled; CloudWatch has no cause"]


def test_the_keys_are_those_that_contributor_insights_saw_throttled(
    cloudwatch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("ReadKeyRangeThroughputThrottleEvents", 500)
    answer = {
        "KeyLabels": ["PK"],
        "AggregationStatistic": "Sum",
        "AggregateValue": 500.0,
        "ApproximateUniqueCount": 2,
        "Contributors": [
            {"Keys": ["PRODUCT#pot"], "ApproximateAggregateValue": 20.0, "Datapoints": []},
            {"Keys": ["PRODUCT#mug"], "ApproximateAggregateValue": 480.0, "Datapoints": []},
        ],
    }
    other = boto3.client("cloudwatch")
    with Stubber(other) as stubber:  # moto does not implement this operation
        expected = {"RuleName": RULE, "StartTime": SINCE, "EndTime": UNTIL, "Period": 3600}
        expected |= {"MaxContributorCount": 10, "OrderBy": "Sum"}
        stubber.add_response("get_insight_rule_report", answer, expected)
        monkeypatch.setattr(cloudwatch, "get_insight_rule_report", other.get_insight_rule_report)
        found = look(cloudwatch, {"": [RULE.replace("PKT", "PKC"), RULE, RULE.replace("PKT", "SKT")]})
    assert list(hot_keys.format_report(found))[2:] == ["       480  PRODUCT#mug", "        20  PRODUCT#pot"]
