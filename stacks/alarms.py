"""Create the alarms declared in stacks/alarm_definitions.py, and the SNS topic that they notify."""

from collections.abc import Iterator, Mapping
from typing import Any

from aws_cdk import ArnFormat, Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from functions.model.metrics import MetricDefinition
from stacks.alarm_definitions import ALARMS, CANARY_ALARM, DIMENSIONS, AlarmDefinition, AlarmTarget, ErrorRate
from stacks.nag_suppressions import acknowledge
from stacks.stage import Stage

MonitoredResources = Mapping[AlarmTarget, Mapping[str, str]]
"""The resources that alarms watch: {kind of resource: {readable name: name of the resource in CloudWatch}}."""


EMAIL_RETRY_REASON = "SNS retries a mail for hours, and CloudWatch shows the alarm for as long as it is raised."


class Alarms(Construct):
    """All alarms and the topic to subscribe to, `topic_arn`. `rollback_alarms`: those that roll back a release."""

    def __init__(self, scope: Construct, id: str, *, stage: Stage, key: kms.Key, places: MonitoredResources) -> None:
        super().__init__(scope, id)
        topic = sns.Topic(self, "Topic", master_key=key, enforce_ssl=True)
        self.topic_arn: str = topic.topic_arn
        allow_alarms(topic, stage)
        # In a key policy, the resource "*" means only this key.
        key.add_to_resource_policy(_allowed_to_alarms(self, "kms:Decrypt", "kms:GenerateDataKey", on="*"))
        self.rollback_alarms: list[cloudwatch.Alarm] = []
        for alarm in (*ALARMS, *([CANARY_ALARM] if stage.canary_minutes else [])):
            for name, metric in _alarm_metrics(self, alarm, places):
                made = self._create_alarm(alarm, name, metric, actions.SnsAction(topic))
                self.rollback_alarms += [made] if alarm.stops_release else []

    def _create_alarm(
        self, alarm: AlarmDefinition, name: str, metric: cloudwatch.IMetric, action: actions.SnsAction
    ) -> cloudwatch.Alarm:
        made = cloudwatch.Alarm(
            self,
            name,
            alarm_name=f"{Stack.of(self).stack_name}-{name}",
            alarm_description=f"{alarm.description}. What to do: {alarm.runbook_path}",
            metric=metric,
            evaluation_periods=alarm.periods,
            **_threshold_arguments(alarm),
        )
        made.add_alarm_action(action)
        made.add_ok_action(action)
        return made


def allow_alarms(topic: sns.Topic, stage: Stage) -> None:
    """Allow only this stack's alarms to publish to a topic, and send its messages to the stage's `alarm_address`."""
    topic.add_to_resource_policy(_allowed_to_alarms(topic, "sns:Publish", on=topic.topic_arn))
    if stage.alarm_address:
        mails = topic.add_subscription(subscriptions.EmailSubscription(stage.alarm_address))
        acknowledge(mails, {"Serverless-SNSRedrivePolicy": EMAIL_RETRY_REASON})


def _allowed_to_alarms(scope: Construct, *actions: str, on: str) -> iam.PolicyStatement:
    """Return a statement that allows these actions to CloudWatch, on behalf of the alarms of this stack only."""
    stack = Stack.of(scope)
    own = stack.format_arn(
        service="cloudwatch",
        resource="alarm",
        resource_name=f"{stack.stack_name}-*",
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )
    return iam.PolicyStatement(
        actions=list(actions),
        resources=[on],
        principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
        conditions={"StringEquals": {"aws:SourceAccount": stack.account}, "ArnLike": {"aws:SourceArn": own}},
    )


def _threshold_arguments(alarm: AlarmDefinition) -> dict[str, Any]:
    """Return the CDK arguments for an alarm's threshold, and for how the alarm treats missing data."""
    compared, missing = cloudwatch.ComparisonOperator, cloudwatch.TreatMissingData
    if alarm.below is not None:
        return {
            "threshold": alarm.below,
            "comparison_operator": compared.LESS_THAN_THRESHOLD,
            "treat_missing_data": missing.BREACHING,
        }
    return {
        "threshold": alarm.above,
        "comparison_operator": compared.GREATER_THAN_THRESHOLD,
        "treat_missing_data": missing.IGNORE if alarm.is_level else missing.NOT_BREACHING,
    }


def _alarm_metrics(
    scope: Construct, alarm: AlarmDefinition, places: MonitoredResources
) -> Iterator[tuple[str, cloudwatch.IMetric]]:
    """Yield the name and metric of each alarm of a definition: one, or one for each resource that is not `excluded`."""
    if alarm.for_each is None:
        if isinstance(alarm.metric, str):
            yield alarm.name, aws_metric(alarm.metric, {}, alarm.statistic, alarm.minutes)
            return
        dimensions = {"function": alarm.function} if alarm.function else {}
        yield alarm.name, shop_metric(scope, alarm.metric, alarm.statistic, alarm.minutes, **dimensions)
        return
    assert isinstance(alarm.metric, str), f"{alarm.name}: with for_each, the metric must be an AWS metric"
    for name, resource in places[alarm.for_each].items():
        if name not in alarm.excluded:
            alone = len(places[alarm.for_each]) == 1
            dimensions = {DIMENSIONS[alarm.for_each]: resource}
            metric: cloudwatch.IMetric = aws_metric(alarm.metric, dimensions, alarm.statistic, alarm.minutes)
            if alarm.rate:
                metric = _error_rate(scope, alarm.rate, metric, dimensions, alarm.minutes)
            yield alarm.name if alone else f"{alarm.name}-{name}", metric


def _error_rate(
    scope: Construct, rate: ErrorRate, errors: cloudwatch.IMetric, dimensions: Mapping[str, str], minutes: int
) -> cloudwatch.IMetric:
    expected = {"expected": shop_metric(scope, rate.expected, "Sum", minutes)} if rate.expected else {}
    requests = aws_metric(rate.requests, dimensions, "Sum", minutes)
    return cloudwatch.MathExpression(
        expression=rate.expression,
        using_metrics={"errors": errors, "requests": requests, **expected},
        period=Duration.minutes(minutes),
        label="errors, % of the requests",
    )


def shop_metric(
    scope: Construct, metric: MetricDefinition, statistic: str, minutes: int = 1, **dimensions: str
) -> cloudwatch.Metric:
    """Return the CloudWatch metric of this deployment for one of Orderstream's own metric definitions."""
    return cloudwatch.Metric(
        namespace=Stack.of(scope).stack_name,
        metric_name=metric.name,
        dimensions_map=dimensions or None,
        statistic=statistic,
        period=Duration.minutes(minutes),
    )


def aws_metric(
    name: str, dimensions: Mapping[str, str], statistic: str, minutes: int = 1, label: str = ""
) -> cloudwatch.Metric:
    """Return a metric of an AWS service. `name`: namespace and name, such as "AWS/Lambda Errors"."""
    namespace, _, metric = name.partition(" ")
    return cloudwatch.Metric(
        namespace=namespace,
        metric_name=metric,
        dimensions_map=dict(dimensions),
        statistic=statistic,
        period=Duration.minutes(minutes),
        label=label or None,
    )
