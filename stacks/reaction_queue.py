"""The infrastructure of a reaction to events: a rule, a queue with its dead-letter queue, and the Lambda's mapping."""

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from functions.model import retention, retries
from functions.model.reactions import Reaction
from stacks.dead_letters import DeadLetterQueue
from stacks.function import ShopFunction
from stacks.nag_suppressions import acknowledge
from stacks.stage import Stage

EXTERNAL_WORKER_SECONDS = 300
"""The visibility timeout, in seconds, of a queue that an external system of the shop reads."""
EXTERNAL_MAX_RECEIVE_COUNT = 5


class ReactionQueue(Construct):
    """The queue of a reaction, its dead-letter queue and its rule. `mapping_id`: "" for an external reader."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        stage: Stage,
        bus: events.IEventBus,
        reaction: Reaction,
        function: ShopFunction | None,
    ) -> None:
        super().__init__(scope, id)
        # The visibility timeout is six times the function's timeout, plus the batch window. The Lambda developer guide
        # recommends this ("Using Lambda with Amazon SQS").
        visible_again_seconds = (
            6 * function.timeout_seconds + reaction.batch_window_seconds if function else EXTERNAL_WORKER_SECONDS
        )
        receives = (
            retries.max_receive_count(visible_again_seconds, reaction.waits) if function else EXTERNAL_MAX_RECEIVE_COUNT
        )
        self.dead_letter_queue = DeadLetterQueue(self, "DeadLetters", stage=stage)
        self.queue = sqs.Queue(
            self,
            "Queue",
            visibility_timeout=Duration.seconds(visible_again_seconds),
            # A message that is never read expires and is no dead letter. An external system may be down for days.
            retention_period=Duration.days(retention.QUEUE_DAYS if function else retention.MAX_QUEUE_DAYS),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            dead_letter_queue=sqs.DeadLetterQueue(max_receive_count=receives, queue=self.dead_letter_queue),
            removal_policy=stage.removal_policy,
        )
        pattern = reaction.event_pattern
        self.rule = events.Rule(
            self,
            "Rule",
            event_bus=bus,
            description=f"{reaction.name}: {reaction.effect}",
            event_pattern=events.EventPattern(
                source=pattern["source"], detail_type=pattern.get("detail-type"), detail=pattern.get("detail")
            ),
            targets=[targets.SqsQueue(self.queue, dead_letter_queue=self.dead_letter_queue)],
        )
        self.mapping_id = self._map_to_function(reaction, function) if function else ""

    def _map_to_function(self, reaction: Reaction, function: ShopFunction) -> str:
        mapping = lambda_.EventSourceMapping(
            self,
            "Mapping",
            target=function.function,
            event_source_arn=self.queue.queue_arn,
            batch_size=reaction.batch_size,
            max_batching_window=Duration.seconds(reaction.batch_window_seconds),
            max_concurrency=reaction.concurrency,
            report_batch_item_failures=True,
            metrics_config=lambda_.MetricsConfig(metrics=[lambda_.MetricType.EVENT_COUNT]),
        )
        acknowledge(
            mapping,
            {"Serverless-LambdaEventSourceMappingDestination": "The queue has a dead-letter queue."},
        )
        return str(mapping.event_source_mapping_id)
