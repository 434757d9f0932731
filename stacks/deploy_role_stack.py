"""The stack with the role that GitHub's workflow `deploy` assumes (docs/ci.md)."""

from aws_cdk import Aws, CfnOutput, DefaultStackSynthesizer, Duration, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.nag_suppressions import acknowledge_wildcard
from stacks.stage import Stage, cost_tags

PROVIDER = "token.actions.githubusercontent.com"
"""GitHub's identity provider. A person creates it once in the account, because all stacks share it."""


class DeployRoleStack(Stack):
    """The role for GitHub jobs of the repository `deploy_from`, in the GitHub environment with the stage's name.

    GitHub issues a token for each such job, and stores no AWS key.
    https://docs.github.com/en/actions/how-tos/secure-your-work/security-harden-deployments/oidc-in-aws
    """

    def __init__(self, scope: Construct, id: str, *, stage: Stage) -> None:
        super().__init__(
            scope,
            id,
            description=f"The role that deploys {stage.shop_name} ({stage.name})",
            termination_protection=stage.has_protections,
            tags=cost_tags(stage),
        )
        claims = {
            f"{PROVIDER}:aud": "sts.amazonaws.com",
            f"{PROVIDER}:sub": f"repo:{stage.deploy_from}:environment:{stage.name}",
        }
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.FederatedPrincipal(
                f"arn:{Aws.PARTITION}:iam::{Aws.ACCOUNT_ID}:oidc-provider/{PROVIDER}",
                {"StringEquals": claims},
                "sts:AssumeRoleWithWebIdentity",
            ),
            max_session_duration=Duration.hours(2),
        )
        if stage.permissions_boundary:
            policy = iam.ManagedPolicy.from_managed_policy_arn(self, "Boundary", stage.permissions_boundary)
            iam.PermissionsBoundary.of(self).apply(policy)
        # The roles of the stage's `cdk bootstrap` do the work of a deploy. By default, one of them is an administrator.
        qualifier = stage.bootstrap_qualifier or DefaultStackSynthesizer.DEFAULT_QUALIFIER
        bootstrap_roles = f"arn:{Aws.PARTITION}:iam::{Aws.ACCOUNT_ID}:role/cdk-{qualifier}-*"
        # `make deploy` needs these permissions for its own requests, before and after the CDK's deploy.
        for actions, resource in (
            (["sts:AssumeRole"], bootstrap_roles),
            (
                ["cloudformation:DescribeStacks", "cloudformation:GetTemplate"],
                self._arn("cloudformation", "stack/orderstream-*"),
            ),
            (["dynamodb:DescribeTable"], self._arn("dynamodb", "table/orderstream-*")),
        ):
            role.add_to_policy(iam.PolicyStatement(actions=actions, resources=[resource]))
            acknowledge_wildcard(role, resource, "The names of these roles, stacks and tables have a common prefix.")
        CfnOutput(self, "DeployRole", value=role.role_arn)

    def _arn(self, service: str, resource: str) -> str:
        return f"arn:{Aws.PARTITION}:{service}:{Aws.REGION}:{Aws.ACCOUNT_ID}:{resource}"
