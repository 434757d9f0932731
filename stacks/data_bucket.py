"""A bucket with data of the shop."""

from collections.abc import Sequence

from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.nag_suppressions import acknowledge
from stacks.stage import Stage


class DataBucket(s3.Bucket):
    """A bucket, encrypted with the shop's key, never public, and only over TLS. Kept if the stage is protected."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        stage: Stage,
        key: kms.IKey,
        lifecycle_rules: Sequence[s3.LifecycleRule],
        versioned: bool = False,
    ) -> None:
        super().__init__(
            scope,
            id,
            encryption=s3.BucketEncryption.KMS,
            encryption_key=key,
            bucket_key_enabled=True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            versioned=versioned,
            lifecycle_rules=lifecycle_rules,
            removal_policy=stage.removal_policy,
        )
        acknowledge(
            self,
            {"AwsSolutions-S1": "Only a trail of data events records who reads the objects: docs/threat-model.md."},
        )
