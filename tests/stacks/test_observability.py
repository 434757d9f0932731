"""Tests monitoring on AWS: alarms with their runbooks and receivers, the dashboard, and the stored query."""

import json
from typing import Any

import pytest

from functions.model.lambdas import resource_prefix
from functions.model.metrics import METRICS, MetricDefinition
from functions.model.reactions import REACTIONS
from functions.model.service_levels import SERVICE_LEVELS
from proof.support.synthesized import SynthesizedTemplate
from stacks import PROJECT
from stacks.alarm_definitions import ALARMS, LAG_LEVELS, RATE_LIMITED_REACTIONS, AlarmDefinition
from tests.stacks.conftest import ON_CALL
from tests.stacks.test_permissions import operators_may
from tools.declarations import declared_at

PLACES = {
    "queue": {reaction.name for reaction in REACTIONS},
    "dead letters": {reaction.name for reaction in REACTIONS}
    | {"order_deadlines", "customer_erasure", "backlog_metrics", "webhook_retries"},
    "reader": {"copies_reader", "event_publisher"},
    "api": {""},
    "api's function": {""},
    "reader's mapping": {"copies_reader", "event_publisher"},
    "schedule": {"order_deadlines", "backlog_metrics", "webhook_retries"},
    "hourly schedule": {""},
}


# alarms ---------------------------------------------------------------------------------------------------------------
def made(template: SynthesizedTemplate, alarm: AlarmDefinition) -> dict[str, Any]:
    """Return the template's alarms for a declared alarm, by the suffix that the template adds to the alarm's name."""
    stem = f"orderstream-dev-{alarm.name}"
    found = {it["AlarmName"]: it for it in template.properties("AWS::CloudWatch::Alarm").values()}
    return {name.removeprefix(stem).removeprefix("-"): it for name, it in found.items() if name.startswith(stem)}


def errors_of(properties: dict[str, Any], alarm: AlarmDefinition) -> dict[str, Any]:
    """Return the metric that counts errors, as an alarm on one metric has it. `alarm`: an alarm on an error rate."""
    assert alarm.rate
    read = {one["Id"]: one["MetricStat"] for one in properties["Metrics"] if "MetricStat" in one}
    assert [one["Expression"] for one in properties["Metrics"] if "Expression" in one] == [alarm.rate.expression]
    assert read["requests"]["Metric"]["Dimensions"] == read["errors"]["Metric"]["Dimensions"]
    return {**read["errors"]["Metric"], "Statistic": read["errors"]["Stat"], "Period": read["errors"]["Period"]}


@pytest.mark.parametrize("alarm", ALARMS, ids=lambda alarm: alarm.name)
def test_every_declared_alarm_exists_for_all_its_resources(dev: SynthesizedTemplate, alarm: AlarmDefinition) -> None:
    found = made(dev, alarm)
    assert found.keys() == (PLACES[alarm.for_each] - alarm.excluded if alarm.for_each else {""})
    (topic,) = dev.resources("AWS::SNS::Topic")
    for properties in found.values():
        it = properties | (errors_of(properties, alarm) if alarm.rate else {})
        limit, compared, without = (alarm.above, "GreaterThan", "ignore" if alarm.is_level else "notBreaching")
        if alarm.below is not None:
            limit, compared, without = alarm.below, "LessThan", "breaching"
        statistic = it.get("Statistic") or it["ExtendedStatistic"]
        assert (it["Threshold"], statistic, it["Period"]) == (limit, alarm.statistic, alarm.minutes * 60)
        assert (it["ComparisonOperator"], it["TreatMissingData"]) == (f"{compared}Threshold", without)
        assert it["AlarmActions"] == it["OKActions"] == [{"Ref": topic}], "the receivers of the alarm also get its end"
        assert it["AlarmDescription"].endswith(f"What to do: docs/runbooks/{alarm.runbook}.md")
        if isinstance(alarm.metric, MetricDefinition):
            assert (it["Namespace"], it["MetricName"]) == ("orderstream-dev", alarm.metric.name)
            read = {one["Name"]: one["Value"] for one in it.get("Dimensions", ())}
            assert read == ({"function": alarm.function} if alarm.function else {})
            assert tuple(read) in alarm.metric.dimension_sets, "the metric is emitted with the dimensions of the alarm"
        else:
            assert f"{it['Namespace']} {it['MetricName']}" == alarm.metric


def test_an_error_rate_is_the_share_of_all_requests_except_expected_errors(dev: SynthesizedTemplate) -> None:
    read = {}
    for it in dev.properties("AWS::CloudWatch::Alarm").values():
        if "Metrics" in it:
            rate, *metrics = it["Metrics"]
            assert [one["ReturnData"] for one in it["Metrics"]] == [True, *[False] * len(metrics)], "compare the rate"
            stats = [one["MetricStat"] for one in metrics]
            counted = [f"{one['Metric']['Namespace']} {one['Metric']['MetricName']}" for one in stats]
            read[it["AlarmName"]] = rate["Expression"], counted, {(one["Stat"], one["Period"]) for one in stats}
    assert read == {
        "orderstream-dev-api-5xx": (
            "100 * (FILL(errors, 0) - FILL(expected, 0)) / IF(FILL(requests, 0) < 250, 250, requests)",
            ["AWS/ApiGateway 5xx", "AWS/ApiGateway Count", "orderstream-dev BusyAnswers"],
            {("Sum", 300)},
        ),
        "orderstream-dev-api-crashes": (
            "100 * (FILL(errors, 0)) / IF(FILL(requests, 0) < 100, 100, requests)",
            ["AWS/Lambda Errors", "AWS/Lambda Invocations"],
            {("Sum", 60)},
        ),
    }


def test_an_alarm_of_a_queue_looks_at_that_queue(dev: SynthesizedTemplate) -> None:
    for alarm in ALARMS:
        if alarm.for_each not in ("queue", "dead letters"):
            continue
        for name, it in made(dev, alarm).items():
            (dimension,) = it["Dimensions"]
            queue = dimension["Value"]["Fn::GetAtt"][0]
            assert queue.startswith(resource_prefix(name))
            assert ("DeadLetters" in queue) is (alarm.for_each == "dead letters")


def test_the_page_shows_each_service_level() -> None:
    text = (PROJECT / "docs" / "observability.md").read_text(encoding="utf-8")
    shown = [line for line in text.splitlines() if "| `slow-" in line]
    assert shown == [
        f"| {level.effect} | `{level.function}` | {level.seconds} s | `slow-{level.function}` |"
        for level in SERVICE_LEVELS
    ]


def test_every_runbook_of_an_alarm_has_the_same_parts() -> None:
    assert len({alarm.name for alarm in ALARMS}) == len(ALARMS)
    for alarm in ALARMS:
        text = (PROJECT / alarm.runbook_path).read_text(encoding="utf-8")
        for part in ("**Symptoms.**", "**Diagnosis.**", "**Causes.**", "**Fix.**", "**Resolved** when"):
            assert text.count(part) == 1, (alarm.runbook_path, part)


def test_every_alarm_of_a_reader_is_raised_long_before_its_mapping_gives_up_and_that_before_the_stream_forgets(
    dev: SynthesizedTemplate,
) -> None:
    for reader in ("copies_reader", "event_publisher"):
        gives_up = dev.mapping(reader)["MaximumRecordAgeInSeconds"]
        assert dev.mapping(reader)["MaximumRetryAttempts"] == -1, "the number of attempts is not limited"
        assert 2 * max(seconds for _, seconds in LAG_LEVELS) <= gives_up <= 18 * 60 * 60


def test_every_rate_limited_lambda_is_a_reaction() -> None:
    assert {reaction.name for reaction in REACTIONS} >= RATE_LIMITED_REACTIONS


# receivers of alarms --------------------------------------------------------------------------------------------------
def test_alarm_messages_are_encrypted_and_come_only_from_the_alarms_of_this_stack(dev: SynthesizedTemplate) -> None:
    (key,) = dev.resources("AWS::KMS::Key")
    topic, policy = dev.only_properties("AWS::SNS::Topic"), dev.only_properties("AWS::SNS::TopicPolicy")
    assert topic["KmsMasterKeyId"] == {"Fn::GetAtt": [key, "Arn"]}
    statements = [
        *policy["PolicyDocument"]["Statement"],
        *dev.only_properties("AWS::KMS::Key")["KeyPolicy"]["Statement"],
    ]
    denied = [it for it in statements if it["Effect"] == "Deny"]
    assert [it["Condition"] for it in denied] == [{"Bool": {"aws:SecureTransport": "false"}}]
    given = [it for it in statements if it["Principal"] == {"Service": "cloudwatch.amazonaws.com"}]
    assert [it["Action"] for it in given] == ["sns:Publish", ["kms:Decrypt", "kms:GenerateDataKey"]]
    for statement in given:
        assert statement["Condition"]["StringEquals"] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}
        assert json.dumps(statement["Condition"]["ArnLike"]).count(":alarm:orderstream-dev-*") == 1
    services = {str(it["Principal"]) for it in policy["PolicyDocument"]["Statement"] if it["Effect"] == "Allow"}
    assert services == {"{'Service': 'cloudwatch.amazonaws.com'}"}


def test_operators_may_raise_one_alarm_to_test_its_receivers(dev: SynthesizedTemplate) -> None:
    for action in ("cloudwatch:SetAlarmState", "cloudwatch:DescribeAlarmHistory"):
        arn = str(operators_may(dev)[action])
        assert arn.count("arn:") == arn.count(":alarm:orderstream-dev-over-refunded") == 1


def test_alarms_are_mailed_to_the_address_of_the_stage_if_it_has_one(
    dev: SynthesizedTemplate, prod: SynthesizedTemplate
) -> None:
    assert not dev.resources("AWS::SNS::Subscription")
    (topic,) = prod.resources("AWS::SNS::Topic")
    mails = prod.only_properties("AWS::SNS::Subscription")
    assert (mails["Protocol"], mails["Endpoint"], mails["TopicArn"]) == ("email", ON_CALL, {"Ref": topic})


# the dashboard --------------------------------------------------------------------------------------------------------
def board(template: SynthesizedTemplate) -> list[dict[str, Any]]:
    """Return the dashboard's widgets, with the text that is known at synthesis."""
    body = template.only_properties("AWS::CloudWatch::Dashboard")["DashboardBody"]["Fn::Join"][1]
    text = "".join(part if isinstance(part, str) else next(iter(part.values()), "")[0] or "x" for part in body)
    widgets: list[dict[str, Any]] = json.loads(text)["widgets"]
    return widgets


def test_everything_that_is_counted_is_on_the_dashboard_and_each_row_fills_its_width(dev: SynthesizedTemplate) -> None:
    widgets = board(dev)
    text = json.dumps(widgets)
    for metric in METRICS:
        if f'"{metric.name}"' not in text and f'\\"{metric.name}\\"' not in text:
            at = declared_at("metrics", metric.name)
            pytest.fail(f"{at}: no graph shows {metric.name}: add it to stacks/dashboard.py", pytrace=False)
    rows = {widget["y"] for widget in widgets}
    for row in rows:
        across = sorted((widget["x"], widget["width"]) for widget in widgets if widget["y"] == row)
        assert sum(width for _, width in across) == 24
        assert [x for x, _ in across] == [sum(width for _, width in across[:number]) for number in range(len(across))]


def test_one_query_asks_the_logs_of_all_functions(dev: SynthesizedTemplate) -> None:
    query = dev.only_properties("AWS::Logs::QueryDefinition")
    asked = {group["Ref"] for group in query["LogGroupNames"]}
    functions = dev.properties("AWS::Lambda::Function").values()
    assert asked == {function["LoggingConfig"]["LogGroup"]["Ref"] for function in functions}
