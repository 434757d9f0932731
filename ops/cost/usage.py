"""Declare the AWS usage of an order from placement to archive, and of a shop without orders.

tests/docs/test_cost.py compares these numbers with the usage of a real order.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from functions.model import retention
from stacks.stage import Stage


@dataclass(frozen=True)
class Usage:
    """The AWS usage of a function in one step of an order: invocations, read and write units, and received messages."""

    calls: int = 0
    read: float = 0
    written: float = 0
    messages: int = 0


@dataclass(frozen=True)
class LifeStep:
    """The AWS usage of one step in the life of an order, including all its reactions."""

    usage: Mapping[str, Usage]
    events: int = 0
    mails: int = 0
    objects: int = 0

    def total(self, kind: str) -> float:
        """Return the usage of all functions together. `kind`: a field of Usage or of this class, such as "read"."""
        return float(getattr(self, kind, 0) or sum(getattr(one, kind, 0) for one in self.usage.values()))


@dataclass(frozen=True)
class Stored:
    """The bytes that an order's items of one type take in the table and in its indexes.

    `days`: how long; None until the archive. `kept`: the bytes that stay for ever.
    """

    table: int
    indexes: int = 0
    days: int | None = None
    kept: tuple[int, int] = (0, 0)

    def byte_days(self, closed_order_days: int) -> tuple[int, int]:
        days = closed_order_days if self.days is None else self.days
        return self.table * days, self.indexes * days


# fmt: off
ORDER_LIFE: Mapping[str, LifeStep] = {
    "placed": LifeStep(events=1, mails=1, usage={
        "api": Usage(calls=1, read=6, written=7),
        "copies_reader": Usage(calls=1, read=1, written=5),
        "event_publisher": Usage(calls=1),
        "order_notification": Usage(calls=1, read=2, written=2, messages=1),
    }),
    "payment started": LifeStep(usage={"payment_starter": Usage(calls=1, read=3, written=1)}),
    "paid": LifeStep(events=5, mails=1, usage={
        "api": Usage(calls=1, read=2, written=8),
        "copies_reader": Usage(calls=2, read=4, written=19),
        "event_publisher": Usage(calls=2),
        "fulfilment": Usage(calls=1, read=2.5, written=13, messages=1),
        "order_notification": Usage(calls=1, read=2, written=2, messages=1),
        "warehouse": Usage(messages=1),
    }),
    "dispatched": LifeStep(events=2, mails=1, usage={
        "api": Usage(calls=1, read=1, written=7),
        "copies_reader": Usage(calls=1, written=3),
        "event_publisher": Usage(calls=1),
        "order_notification": Usage(calls=1, read=2, written=2, messages=1),
    }),
    "delivered": LifeStep(events=2, mails=1, usage={
        "api": Usage(calls=1, read=1, written=8),
        "copies_reader": Usage(calls=1, written=3),
        "event_publisher": Usage(calls=1),
        "order_notification": Usage(calls=1, read=2, written=2, messages=1),
    }),
    "archived": LifeStep(events=3, objects=2, usage={
        "copies_reader": Usage(calls=1, written=1),
        "event_publisher": Usage(calls=2),
        "archive": Usage(calls=1, read=3, written=6, messages=2),
    }),
}
"""The AWS usage of an order of two products in one parcel, by step.

Each step's stream records are one batch, as in low traffic. Lambda invokes a reader only for records that its filters
accept."""
ORDER_STORAGE: Mapping[str, Stored] = {
    "Order": Stored(750, kept=(480, 0)),
    "Invoice": Stored(670, 1_940, kept=(670, 1_940)),
    "Shipment": Stored(420, 520),
    "Payment": Stored(350),
    "StartedPayment": Stored(250),
    "PaymentClaim": Stored(140, kept=(140, 0)),
    "OrderSummary": Stored(280, kept=(240, 0)),
    "OrderNumber": Stored(225, 325, kept=(225, 325)),
    "FeedEntry": Stored(195, kept=(195, 0)),
    "ExpiryMarker": Stored(170),
    "Sale": Stored(490, days=retention.SALE_DAYS),
    "Notification": Stored(1_580, days=retention.NOTIFICATION_DAYS),
    "Activity": Stored(1_730, 2_230, days=retention.ACTIVITY_DAYS),
    "Contribution": Stored(390, days=30 + retention.SEASON_OPEN_DAYS),
    "SalesMinute": Stored(170, days=retention.METRIC_DAYS),
}
"""The items of a delivered order, by type. Excludes items that many orders share, such as totals and invoice series."""
# fmt: on
WEBHOOK_EVENT: Mapping[str, Usage] = {
    "event_publisher": Usage(calls=1, written=1),
    "webhook": Usage(calls=1, read=3, written=3, messages=1),
}
"""The AWS usage of an event of up to 1 KB that one webhook accepts, beside the usage of the event itself.

The publisher writes to the outbox. The worker reads webhook, cursor and outbox, and writes lease, attempt and cursor.
Each further webhook costs the worker's units again, in the same invocation.
"""
SCHEDULED_READS: Mapping[str, float] = {
    "order_deadlines": 1,
    "backlog_metrics": 6.5,
    "customer_erasure": 2,
    "webhook_retries": 1,
}
"""The read units of a run that finds no work, by scheduled function. Excludes the canary, which places an order."""

CALL_SECONDS = 0.05
"""The assumed duration of an invocation."""
LOG_BYTES = 1_000
"""The log bytes of an invocation: its log line, its metrics, and, for an API request, the line of the access log."""
EVENT_BYTES = 800
"""The bytes of an event on the bus: its own fields, and the fields that EventBridge adds."""
ARCHIVED_BYTES = 4_500
"""The bytes of an order in the archive: the object with its items, and its entries in the activity log."""
ANSWER_BYTES = 2_000
"""The assumed bytes of an answer of the API."""
VIEWS_PER_ORDER = 20
"""The assumed number of reads of products, baskets and orders for each placed order. A read costs half a unit."""
USERS_PER_ORDER = 1
"""The assumed number of users who sign in during a month, for each order of the month."""
REQUESTS_PER_MESSAGE = 3
"""The SQS requests of a message: send, receive and delete."""
POLLERS, POLLS_A_MINUTE = 5, 3
"""How many pollers Lambda uses for each queue, even for an empty queue. A long poll takes 20 seconds.

https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html
"""
TRACES_PER_SECOND, TRACED_SHARE = 1, 0.05
"""The default sampling rule of X-Ray: one trace a second, and this share of all other requests."""
CUSTOM_METRICS = 97
"""The number of metrics that a busy shop writes (docs/observability.md)."""
KEY_REQUESTS = 149_000
"""The assumed KMS requests in a month: for each of 17 functions, DynamoDB sends one every five minutes."""
HOURS_A_MONTH = 730
MINUTES_A_MONTH = HOURS_A_MONTH * 60
MONTH_DAYS = HOURS_A_MONTH / 24
DAY_SECONDS = 24 * 60 * 60
VOLUMES = (1_000, 100_000, 10_000_000)
"""The default numbers of orders a day."""


def days_until_archived(stage: Stage) -> int:
    """Return how many days a delivered order stays in the table."""
    return stage.closed_order_days + stage.return_window_days
