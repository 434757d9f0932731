"""Where what has ended lies for good: an object per order, and days of activity."""

from aws_cdk import Duration
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.acknowledged import acknowledge
from stacks.stage import Stage

GLACIER_AFTER_DAYS = 90
NONCURRENT_VERSION_DAYS = 30
"""How long an object that was replaced can be brought back. Not longer: an erasure replaces objects, too."""
MIN_GLACIER_BYTES = 128 * 1024
"""Glacier Instant Retrieval charges for no less, so a small object is cheaper where it is (S3 pricing)."""


class ArchiveBucket(Construct):
    """`name`, `arn`; `object_arns`: what the archive may write and read; `orders_arn`: the orders of these."""

    def __init__(self, scope: Construct, id: str, *, stage: Stage, key: kms.IKey) -> None:
        super().__init__(scope, id)
        bucket = s3.Bucket(
            self,
            "Bucket",
            encryption=s3.BucketEncryption.KMS,
            encryption_key=key,
            bucket_key_enabled=True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            versioned=True,
            lifecycle_rules=[
                s3.LifecycleRule(
                    object_size_greater_than=MIN_GLACIER_BYTES,
                    transitions=[
                        s3.Transition(
                            storage_class=s3.StorageClass.GLACIER_INSTANT_RETRIEVAL,
                            transition_after=Duration.days(GLACIER_AFTER_DAYS),
                        )
                    ],
                ),
                s3.LifecycleRule(
                    noncurrent_version_expiration=Duration.days(NONCURRENT_VERSION_DAYS),
                    abort_incomplete_multipart_upload_after=Duration.days(7),
                ),
            ],
            removal_policy=stage.removal_policy,
        )
        self.name: str = bucket.bucket_name
        self.arn: str = bucket.bucket_arn
        self.orders_arn = f"{self.arn}/orders/*"
        self.object_arns = [self.orders_arn, f"{self.arn}/activity/*"]
        acknowledge(
            bucket,
            {
                "AwsSolutions-S1": "CloudTrail's data events name who reads it; access logs come at best effort.",
                "CloudFormation-Validate::W9003": "The CDK writes a size as the number that it is; both are taken.",
            },
        )
