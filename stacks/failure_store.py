"""The failure store: a bucket for records and messages that no function can process, and for given-up batches."""

from aws_cdk import Duration
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from functions.model import retention
from stacks.data_bucket import DataBucket
from stacks.stage import Stage


class FailureStore(Construct):
    """The bucket of the failure store, with ARN patterns of its parts. `redriven_arn`: which of both were redriven."""

    def __init__(self, scope: Construct, id: str, *, stage: Stage, key: kms.IKey) -> None:
        super().__init__(scope, id)
        bucket = DataBucket(
            self,
            "Bucket",
            stage=stage,
            key=key,
            lifecycle_rules=[s3.LifecycleRule(expiration=Duration.days(retention.FAILURE_DAYS))],
        )
        self.name: str = bucket.bucket_name
        self.arn: str = bucket.bucket_arn
        self.parked_arn = f"{self.arn}/parked/*"
        self.given_up_arn = f"{self.arn}/aws/lambda/*"
        self.redriven_arn = f"{self.arn}/redriven/*"
