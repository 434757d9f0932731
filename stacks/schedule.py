"""Invoke a function at a fixed interval of minutes. The `time` field of the event is the scheduled time of the run."""

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from stacks.dead_letters import DeadLetterQueue
from stacks.function import ShopFunction
from stacks.stage import Stage

MAX_EVENT_AGE_SECONDS = 5 * 60
"""How late a run may start, else it is a dead letter. The next run reads the due work from the table anyway."""


MAX_TARGETS = 5
"""How many targets a rule can have. https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-quota.html"""


class Schedule(Construct):
    """The schedule of a function. `groups`: how many runs start at the same time, each for its group of shards.

    The event then has only the time, the group and their number. `dead_letter_queue`: for runs that failed or did not
    start.
    """

    def __init__(
        self, scope: Construct, id: str, *, stage: Stage, function: ShopFunction, minutes: int, groups: int = 1
    ) -> None:
        super().__init__(scope, id)
        self.dead_letter_queue = DeadLetterQueue(self, "DeadLetters", stage=stage)
        self.rule = events.Rule(
            self,
            "Rule",
            description=f"{function.lambda_name}, every {minutes} minute{'s' * (minutes > 1)}",
            schedule=events.Schedule.rate(Duration.minutes(minutes)),
            targets=[
                targets.LambdaFunction(
                    function.function,
                    event=events.RuleTargetInput.from_object(
                        {"time": events.EventField.time, "group": group, "groups": groups}
                    )
                    if groups > 1
                    else None,
                    dead_letter_queue=self.dead_letter_queue,
                    max_event_age=Duration.seconds(MAX_EVENT_AGE_SECONDS),
                    retry_attempts=2,
                )
                for group in range(groups)
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
