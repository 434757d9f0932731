"""The archive bucket: an object for each archived order, and objects with the activity entries of each day.

The objects never expire.
"""

from aws_cdk import Duration
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.data_bucket import DataBucket
from stacks.nag_suppressions import acknowledge
from stacks.stage import Stage

GLACIER_AFTER_DAYS = 90
NONCURRENT_VERSION_DAYS = 30
"""How many days S3 keeps the old version of a replaced or deleted object.

The time is short, because the erasure job replaces objects to remove personal data.
"""
MIN_GLACIER_BYTES = 128 * 1024
"""The size limit in bytes. Only larger objects move to Glacier Instant Retrieval.

Glacier Instant Retrieval bills at least 128 KB for each object, so smaller objects are cheaper in S3 Standard (S3
pricing).
"""


class ArchiveBucket(Construct):
    """The archive bucket.

    `name`, `arn`: name and ARN of the bucket. `object_arns`: ARN patterns of the objects that the archive Lambda may
    write and read. `orders_arn`: the ARN pattern of the archived orders.
    """

    def __init__(self, scope: Construct, id: str, *, stage: Stage, key: kms.IKey) -> None:
        super().__init__(scope, id)
        bucket = DataBucket(
            self,
            "Bucket",
            stage=stage,
            key=key,
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
        )
        self.name: str = bucket.bucket_name
        self.arn: str = bucket.bucket_arn
        self.orders_arn = f"{self.arn}/orders/*"
        self.object_arns = [self.orders_arn, f"{self.arn}/activity/*"]
        acknowledge(
            bucket,
            {
                "CloudFormation-Validate::W9003": "The CDK writes a size as a number, which CloudFormation accepts.",
            },
        )
