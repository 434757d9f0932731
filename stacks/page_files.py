"""The files of the shop's web page: each deploy uploads them to a bucket, and deleting the stack deletes them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_cloudfront as cloudfront
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_deployment as deployment
from constructs import Construct

from stacks.function import grant_actions
from stacks.log_group import LogGroup
from stacks.nag_suppressions import acknowledge
from stacks.stage import Stage

CDN_CACHE_SECONDS = 24 * 60 * 60
CACHE_CONTROL = f"max-age=0, must-revalidate, s-maxage={CDN_CACHE_SECONDS}"
"""Browsers check at each use whether a file has changed. CloudFront caches it for a day, or until a deploy."""
UPLOADER_ID_PREFIX = "Custom::CDKBucketDeployment"
CDK_FUNCTION_REASON = "The function is part of the CDK, which sets its runtime."


class PageFiles(Construct):
    """Uploads `folders` to one folder of the bucket, with `settings` as settings.json, by the CDK's own Lambda.

    It may not read the tags of the bucket, which mark the target of uploads: else it would keep the files when the
    stack is deleted, and CloudFormation could not delete the bucket.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        stage: Stage,
        folder: str,
        folders: Sequence[Path],
        settings: Mapping[str, Any],
        bucket: s3.IBucket,
        distribution: cloudfront.IDistribution,
    ) -> None:
        super().__init__(scope, id)
        log = LogGroup(self, "Log", stage=stage, function="page_files")
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        files = deployment.BucketDeployment(
            self,
            "Deployment",
            sources=[
                *(deployment.Source.asset(str(one), exclude=["*.py", "__pycache__"]) for one in folders),
                deployment.Source.json_data("settings.json", settings),
            ],
            destination_bucket=bucket,
            destination_key_prefix=folder,
            cache_control=[deployment.CacheControl.from_string(CACHE_CONTROL)],
            distribution=distribution,
            distribution_paths=[f"/{folder}/*"],
            retain_on_delete=False,
            role=role.without_policy_updates(),
            log_group=log,
        )
        named = "The CDK names the files of a deploy by their hash."
        one_each = "One object for each file."
        grant_actions(self, role, "logs:CreateLogStream", "logs:PutLogEvents", on=log.log_group_arn)
        grant_actions(self, role, "s3:GetObject", on=f"{_asset_bucket_arn(self)}/*", because=named)
        grant_actions(
            self, role, "s3:PutObject", "s3:DeleteObject", on=f"{bucket.bucket_arn}/{folder}/*", because=one_each
        )
        grant_actions(self, role, "s3:ListBucket", on=bucket.bucket_arn)
        invalidating = "cloudfront:CreateInvalidation", "cloudfront:GetInvalidation"
        grant_actions(self, role, *invalidating, on=_distribution_arn(self, distribution))
        files.node.add_dependency(role)
        (uploader,) = [one for one in Stack.of(self).node.children if one.node.id.startswith(UPLOADER_ID_PREFIX)]
        acknowledge(
            uploader,
            {
                "AwsSolutions-L1": CDK_FUNCTION_REASON,
                "Serverless-LambdaLatestVersion": CDK_FUNCTION_REASON,
                "Serverless-LambdaDLQ": "CloudFormation waits for its response and reports a failure.",
                "Serverless-LambdaTracing": "It runs only at a deploy, which reports its errors.",
            },
        )


def _asset_bucket_arn(scope: Construct) -> str:
    """Return the ARN of the bucket to which `cdk deploy` uploads assets."""
    stack = Stack.of(scope)
    name = f"cdk-{stack.synthesizer.bootstrap_qualifier}-assets-{stack.account}-{stack.region}"
    arn: str = stack.format_arn(service="s3", region="", account="", resource=name)
    return arn


def _distribution_arn(scope: Construct, distribution: cloudfront.IDistribution) -> str:
    id = distribution.distribution_id
    stack = Stack.of(scope)
    arn: str = stack.format_arn(service="cloudfront", region="", resource="distribution", resource_name=id)
    return arn
