"""The archive bucket: one object per archived order, and one per day of activity. Objects never expire."""

from aws_cdk import Duration
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.acknowledged import acknowledge
from stacks.stage import Stage

GLACIER_AFTER_DAYS = 90
NONCURRENT_VERSION_DAYS = 30
"""How long a replaced object can be restored. Not longer, because an erasure also replaces objects."""
MIN_GLACIER_BYTES = 128 * 1024
"""The smallest object moved to Glacier Instant Retrieval, which bills at least 128 KB per object.

Smaller objects are cheaper in S3 Standard (S3 pricing).
"""


class ArchiveBucket(Construct):
    """The archive bucket.

    `name`, `arn`. `object_arns`: the objects that the archive Lambda may write and read. `orders_arn`: the orders among
    them.
    """

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
