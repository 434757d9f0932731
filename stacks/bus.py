"""The EventBridge event bus, the archive from which its events can be replayed, and the log of failed deliveries."""

from aws_cdk import Duration, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_logs as logs
from constructs import Construct

from functions.model import retention
from functions.model.events import EVENT_SOURCE
from stacks.log_group import LogGroup
from stacks.stage import Stage


class ShopEventBus(Construct):
    """The event bus, its archive and its log of errors, such as an event that no target accepted.

    The log has no details of events, because they contain personal data.
    https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-event-bus-logs.html
    """

    def __init__(self, scope: Construct, id: str, *, stage: Stage) -> None:
        super().__init__(scope, id)
        errors_only = events.LogConfig(include_detail=events.IncludeDetail.NONE, level=events.Level.ERROR)
        self.event_bus = events.EventBus(self, "Bus", log_config=errors_only)
        archive = self.event_bus.archive(
            "Archive",
            event_pattern=events.EventPattern(source=[EVENT_SOURCE]),
            retention=Duration.days(retention.BUS_ARCHIVE_DAYS),
        )
        self.name: str = self.event_bus.event_bus_name
        self.arn: str = self.event_bus.event_bus_arn
        self.archive_arn: str = archive.archive_arn
        self._deliver_log(stage)

    def _deliver_log(self, stage: Stage) -> None:
        """Let EventBridge write the log of the bus to a log group."""
        log = LogGroup(self, "Log", stage=stage, vended_by="events")
        name = f"{Stack.of(self).stack_name}-bus"
        source = logs.CfnDeliverySource(self, "LogSource", name=name, resource_arn=self.arn, log_type="ERROR_LOGS")
        destination = logs.CfnDeliveryDestination(
            self, "LogDestination", name=name, destination_resource_arn=log.log_group_arn
        )
        delivery = logs.CfnDelivery(
            self, "LogDelivery", delivery_source_name=name, delivery_destination_arn=destination.attr_arn
        )
        delivery.node.add_dependency(source)
