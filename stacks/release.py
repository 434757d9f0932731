"""How a new version of a function takes over: behind an alias, all at once or shifted by CodeDeploy, which turns back
as soon as calls fail.

A function that nobody releases so is called as it was deployed last: on a laptop, and where no setting asks for more.
"""

from collections.abc import Sequence
from typing import cast

from aws_cdk import CfnCodeDeployLambdaAliasUpdate, CfnUpdatePolicy, Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from stacks.function import Function, allow
from stacks.stage import Stage

ALIAS = "live"
FAILED_CALLS_A_MINUTE = 3
"""As many calls of the new version that end without an answer (it crashed, or ran out of time) stop the shift. A 500
that the api answers is none: these are the API's own to count."""


def is_wanted(stage: Stage) -> bool:
    """Whether the stage's settings ask for versions."""
    return stage.snap_start or stage.shift != "all-at-once"


class Release(Construct):
    """`alias`: what is to be called instead of the function. Each deploy that changes the function makes a version."""

    def __init__(self, scope: Construct, id: str, *, stage: Stage, function: Function) -> None:
        super().__init__(scope, id)
        if stage.snap_start:
            resource = cast(lambda_.CfnFunction, function.function.node.default_child)
            resource.snap_start = lambda_.CfnFunction.SnapStartProperty(apply_on="PublishedVersions")
        self.alias = lambda_.Alias(self, "Alias", alias_name=ALIAS, version=function.function.current_version)
        if stage.shift == "linear":
            self._shift(function)

    def after(self, others: Sequence[Function]) -> None:
        """Have the new version take over when the others are new already: what it writes they must be able to read."""
        self.alias.node.add_dependency(*(other.function for other in others))

    def _shift(self, function: Function) -> None:
        failing = cloudwatch.Alarm(
            self,
            "Failing",
            alarm_description=f"calls of the new version of {function.node.id} fail: CodeDeploy goes back to the old",
            metric=self.alias.metric_errors(period=Duration.minutes(1), statistic="Sum"),
            threshold=FAILED_CALLS_A_MINUTE,
            evaluation_periods=1,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        application = codedeploy.LambdaApplication(self, "Application")
        group = codedeploy.CfnDeploymentGroup
        shifting = group(
            self,
            "Group",
            application_name=application.application_name,
            deployment_config_name="CodeDeployDefault.LambdaLinear10PercentEvery1Minute",
            deployment_style=group.DeploymentStyleProperty(
                deployment_option="WITH_TRAFFIC_CONTROL", deployment_type="BLUE_GREEN"
            ),
            alarm_configuration=group.AlarmConfigurationProperty(
                enabled=True, alarms=[group.AlarmProperty(name=failing.alarm_name)]
            ),
            auto_rollback_configuration=group.AutoRollbackConfigurationProperty(
                enabled=True,
                events=["DEPLOYMENT_FAILURE", "DEPLOYMENT_STOP_ON_ALARM", "DEPLOYMENT_STOP_ON_REQUEST"],
            ),
            service_role_arn=self._role(function).role_arn,
        )
        alias = cast(lambda_.CfnAlias, self.alias.node.default_child)
        alias.cfn_options.update_policy = CfnUpdatePolicy(
            code_deploy_lambda_alias_update=CfnCodeDeployLambdaAliasUpdate(
                application_name=application.application_name, deployment_group_name=shifting.ref
            )
        )

    def _role(self, function: Function) -> iam.Role:
        """What CodeDeploy may do: move this function's aliases, and look at alarms."""
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("codedeploy.amazonaws.com"))
        arn = function.function.function_arn
        moves = "lambda:GetAlias", "lambda:UpdateAlias", "lambda:GetProvisionedConcurrencyConfig"
        allow(self, role, *moves, on=[arn, f"{arn}:{ALIAS}"], because="")
        knows_none = "DescribeAlarms knows no resources (Amazon CloudWatch in the IAM reference)."
        allow(self, role, "cloudwatch:DescribeAlarms", on="*", because=knows_none)
        return role
