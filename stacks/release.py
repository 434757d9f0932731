"""Release a new version of a function behind an alias. Requests move to the new version all at once or step by step.

CodeDeploy moves them in steps, and rolls back if an alarm of `roll_back_on` is raised. With neither SnapStart nor
steps, as in dev by default, there is no alias.
"""

from collections.abc import Sequence
from typing import cast

from aws_cdk import CfnCodeDeployLambdaAliasUpdate, CfnUpdatePolicy
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from stacks.function import ShopFunction, grant_actions
from stacks.stage import Stage

ALIAS = "live"


def uses_versions(stage: Stage) -> bool:
    """Return whether the stage needs published versions: if SnapStart is on, or a new version takes over in steps."""
    return stage.snap_start or stage.gradual_release != "all-at-once"


class Release(Construct):
    """The alias of a function, which callers call, and its versions. Each deploy that changes it publishes one."""

    def __init__(self, scope: Construct, id: str, *, stage: Stage, function: ShopFunction) -> None:
        super().__init__(scope, id)
        if stage.snap_start:
            resource = cast(lambda_.CfnFunction, function.function.node.default_child)
            resource.snap_start = lambda_.CfnFunction.SnapStartProperty(apply_on="PublishedVersions")
        self.alias = lambda_.Alias(self, "Alias", alias_name=ALIAS, version=function.function.current_version)
        self._function, self._shifts = function, stage.gradual_release == "linear"

    def deploy_after(self, others: Sequence[ShopFunction]) -> None:
        """Release the new version after the other functions, which might not be able to read its items before."""
        self.alias.node.add_dependency(*(other.function for other in others))

    def roll_back_on(self, alarms: Sequence[cloudwatch.Alarm]) -> None:
        """Let CodeDeploy shift the requests, unless they move at once, and roll back if one of these alarms rises."""
        if not self._shifts:
            return
        application = codedeploy.LambdaApplication(self, "Application")
        group, role = codedeploy.CfnDeploymentGroup, self._role()
        shifting = group(
            self,
            "Group",
            application_name=application.application_name,
            deployment_config_name="CodeDeployDefault.LambdaLinear10PercentEvery1Minute",
            deployment_style=group.DeploymentStyleProperty(
                deployment_option="WITH_TRAFFIC_CONTROL", deployment_type="BLUE_GREEN"
            ),
            alarm_configuration=group.AlarmConfigurationProperty(
                enabled=True, alarms=[group.AlarmProperty(name=alarm.alarm_name) for alarm in alarms]
            ),
            auto_rollback_configuration=group.AutoRollbackConfigurationProperty(
                enabled=True,
                events=["DEPLOYMENT_FAILURE", "DEPLOYMENT_STOP_ON_ALARM", "DEPLOYMENT_STOP_ON_REQUEST"],
            ),
            service_role_arn=role.role_arn,
        )
        shifting.node.add_dependency(role)  # with its policy, which CodeDeploy needs for the first shift
        self.alias.node.add_dependency(shifting)
        alias = cast(lambda_.CfnAlias, self.alias.node.default_child)
        alias.cfn_options.update_policy = CfnUpdatePolicy(
            code_deploy_lambda_alias_update=CfnCodeDeployLambdaAliasUpdate(
                application_name=application.application_name, deployment_group_name=shifting.ref
            )
        )

    def _role(self) -> iam.Role:
        """Return CodeDeploy's role. The role may point this function's alias to another version, and read alarms."""
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("codedeploy.amazonaws.com"))
        arn = self._function.function.function_arn
        moves = "lambda:GetAlias", "lambda:UpdateAlias", "lambda:GetProvisionedConcurrencyConfig"
        grant_actions(self, role, *moves, on=[arn, f"{arn}:{ALIAS}"], because="")
        knows_none = "DescribeAlarms does not support resources (IAM service authorization reference)."
        grant_actions(self, role, "cloudwatch:DescribeAlarms", on="*", because=knows_none)
        return role
