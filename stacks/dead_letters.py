"""Dead-letter queues for messages that could not be processed or delivered. The messages wait there for an operator."""

from aws_cdk import Duration
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from functions.model import retention
from stacks.nag_suppressions import acknowledge
from stacks.stage import Stage

DEAD_LETTER_QUEUE_REASON = "It is a dead-letter queue."


class DeadLetterQueue(sqs.Queue):
    def __init__(self, scope: Construct, id: str, *, stage: Stage) -> None:
        super().__init__(
            scope,
            id,
            retention_period=Duration.days(retention.DLQ_DAYS),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            removal_policy=stage.removal_policy,
        )
        acknowledge(
            self,
            {"AwsSolutions-SQS3": DEAD_LETTER_QUEUE_REASON, "Serverless-SQSRedrivePolicy": DEAD_LETTER_QUEUE_REASON},
        )
