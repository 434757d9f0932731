"""The archive bucket: an object for each archived order, and objects with the activity entries of each day.

The objects never expire. If the stage makes backups, S3 copies each object of an order to a second bucket.
"""

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.data_bucket import DataBucket
from stacks.function import USE_KEY_ACTIONS, grant_actions
from stacks.nag_suppressions import acknowledge
from stacks.stage import Stage

GLACIER_AFTER_DAYS = 90
NONCURRENT_VERSION_DAYS = 30
"""How many days S3 keeps old versions: not long, because the erasure job replaces objects to remove personal data."""
MIN_GLACIER_BYTES = 128 * 1024
"""Glacier Instant Retrieval bills at least 128 KB, so smaller objects are cheaper in S3 Standard (S3 pricing)."""


class ArchiveBucket(Construct):
    """The archive bucket. `object_arns`, `orders_arn`: ARN patterns. `copy_name`: the bucket of copies, or ""."""

    def __init__(self, scope: Construct, id: str, *, stage: Stage, key: kms.IKey) -> None:
        super().__init__(scope, id)
        bucket = self._create_bucket("Bucket", stage, key)
        self.name: str = bucket.bucket_name
        self.arn: str = bucket.bucket_arn
        self.orders_arn = f"{self.arn}/orders/*"
        self.object_arns = [self.orders_arn, f"{self.arn}/activity/*"]
        self.copy_name: str = ""
        if stage.daily_backup_days or stage.monthly_backup_days:
            copy = self._create_bucket("Copy", stage, key)
            self._replicate_orders(bucket, copy, key)
            self.copy_name = copy.bucket_name

    def _create_bucket(self, id: str, stage: Stage, key: kms.IKey) -> DataBucket:
        bucket = DataBucket(
            self,
            id,
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
        acknowledge(
            bucket,
            {
                "CloudFormation-Validate::W9003": "The CDK writes a size as a number, which CloudFormation accepts.",
            },
        )
        return bucket

    def _replicate_orders(self, bucket: DataBucket, copy: DataBucket, key: kms.IKey) -> None:
        """Let S3 copy each new version of an archived order, but not deletions.

        https://docs.aws.amazon.com/AmazonS3/latest/userguide/replication-config-for-kms-objects.html
        """
        role = iam.Role(self, "CopyRole", assumed_by=iam.ServicePrincipal("s3.amazonaws.com"))
        each = "One object for each order."
        grant_actions(self, role, "s3:GetReplicationConfiguration", "s3:ListBucket", on=self.arn)
        read = "s3:GetObjectVersionForReplication", "s3:GetObjectVersionAcl", "s3:GetObjectVersionTagging"
        grant_actions(self, role, *read, on=self.orders_arn, because=each)
        copied = f"{copy.bucket_arn}/orders/*"
        grant_actions(self, role, "s3:ReplicateObject", "s3:ReplicateTags", on=copied, because=each)
        grant_actions(self, role, *USE_KEY_ACTIONS, on=key.key_arn)
        of = s3.CfnBucket
        resource = bucket.node.default_child
        assert isinstance(resource, s3.CfnBucket)
        resource.replication_configuration = of.ReplicationConfigurationProperty(
            role=role.role_arn,
            rules=[
                of.ReplicationRuleProperty(
                    status="Enabled",
                    priority=1,
                    filter=of.ReplicationRuleFilterProperty(prefix="orders/"),
                    delete_marker_replication=of.DeleteMarkerReplicationProperty(status="Disabled"),
                    source_selection_criteria=of.SourceSelectionCriteriaProperty(
                        sse_kms_encrypted_objects=of.SseKmsEncryptedObjectsProperty(status="Enabled")
                    ),
                    destination=of.ReplicationDestinationProperty(
                        bucket=copy.bucket_arn,
                        encryption_configuration=of.EncryptionConfigurationProperty(replica_kms_key_id=key.key_arn),
                    ),
                )
            ],
        )
