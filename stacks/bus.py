"""The EventBridge event bus, and the archive from which its events can be replayed."""

from aws_cdk import Duration
from aws_cdk import aws_events as events
from constructs import Construct

from functions.model import retention
from functions.model.events import EVENT_SOURCE


class ShopEventBus(Construct):
    """The event bus and its archive.

    `event_bus`: the construct of the bus, on which rules can be created. `name`, `arn`: the name and the ARN of the
    bus. `archive_arn`: the ARN of the archive.
    """

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        self.event_bus = events.EventBus(self, "Bus")
        archive = self.event_bus.archive(
            "Archive",
            event_pattern=events.EventPattern(source=[EVENT_SOURCE]),
            retention=Duration.days(retention.BUS_ARCHIVE_DAYS),
        )
        self.name: str = self.event_bus.event_bus_name
        self.arn: str = self.event_bus.event_bus_arn
        self.archive_arn: str = archive.archive_arn
