"""Calls a function every so many minutes, with an event whose `time` is when it was due."""

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from stacks.dead_letters import DeadLetterQueue
from stacks.function import ShopFunction
from stacks.stage import Stage

MAX_EVENT_AGE_SECONDS = 5 * 60
"""A run that could not start for that long is given up: each run works from the table's state, so the next one does
what it would have done."""


class Schedule(Construct):
    """`rule`; `dead_letters`: the runs that failed or never came to be, told by EventBridge or by Lambda."""

    def __init__(self, scope: Construct, id: str, *, stage: Stage, function: ShopFunction, minutes: int) -> None:
        super().__init__(scope, id)
        self.dead_letter_queue = DeadLetterQueue(self, "DeadLetters", stage=stage)
        self.rule = events.Rule(
            self,
            "Rule",
            description=f"{function.node.id}, every {minutes} minutes",
            schedule=events.Schedule.rate(Duration.minutes(minutes)),
            targets=[
                targets.LambdaFunction(
                    function.function,
                    dead_letter_queue=self.dead_letter_queue,
                    max_event_age=Duration.seconds(MAX_EVENT_AGE_SECONDS),
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
            maximum_event_age_in_seconds=MAX_EVENT_AGE_SECONDS,
            maximum_retry_attempts=0,
            destination_config=config.DestinationConfigProperty(
                on_failure=config.OnFailureProperty(destination=self.dead_letter_queue.queue_arn)
            ),
        )
