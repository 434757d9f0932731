"""Calls a function every minute, with an event whose `time` is that minute."""

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from functions.model import lives
from stacks.function import Function
from stacks.stage import Stage

MOST_AGE_SECONDS = 5 * 60
"""A run that could not start for that long is given up: each run works from the table's state, so the next one does
what it would have done."""


class EveryMinute(Construct):
    """`dead_letters`: the runs that failed or never came to be, told by EventBridge or by Lambda."""

    def __init__(self, scope: Construct, id: str, *, stage: Stage, function: Function) -> None:
        super().__init__(scope, id)
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            retention_period=Duration.days(lives.DLQ_DAYS),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            removal_policy=RemovalPolicy.RETAIN if stage.protect else RemovalPolicy.DESTROY,
        )
        events.Rule(
            self,
            "Rule",
            description="Every minute: what has waited too long lapses",
            schedule=events.Schedule.rate(Duration.minutes(1)),
            targets=[
                targets.LambdaFunction(
                    function.function,
                    dead_letter_queue=self.dead_letters,
                    max_event_age=Duration.seconds(MOST_AGE_SECONDS),
                    retry_attempts=2,
                )
            ],
        )
        config = lambda_.CfnEventInvokeConfig
        config(
            self,
            "Invocation",
            function_name=function.name,
            qualifier="$LATEST",
            maximum_event_age_in_seconds=MOST_AGE_SECONDS,
            maximum_retry_attempts=0,
            destination_config=config.DestinationConfigProperty(
                on_failure=config.OnFailureProperty(destination=self.dead_letters.queue_arn)
            ),
        )
