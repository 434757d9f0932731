"""Declares every CloudWatch metric once. The functions record the metrics; alarms and the dashboard use them.

Do not use an id, a name or a route as a dimension: each value would be a separate metric, billed separately.
"""

from dataclasses import dataclass
from typing import Literal

Unit = Literal["Count", "Milliseconds", "None"]
Dimension = Literal["function", "currency", "resource", "reason"]


@dataclass(frozen=True)
class MetricDefinition:
    """Declares a CloudWatch metric.

    `also_total`: the metric is recorded with its dimensions, and a second time without dimensions as a total.
    `keep_each_value`: every value is recorded, for example to compute percentiles. Other metrics have one sum per
    invocation. `is_gauge`: the metric is a current level, such as a backlog. A zero is recorded only if `is_gauge` or
    `keep_each_value` is set.
    """

    name: str
    unit: Unit
    description: str
    dimensions: tuple[Dimension, ...] = ()
    also_total: bool = False
    keep_each_value: bool = False
    is_gauge: bool = False

    @property
    def dimension_sets(self) -> tuple[tuple[Dimension, ...], ...]:
        return (self.dimensions, ()) if self.also_total and self.dimensions else (self.dimensions,)


# fmt: off
ORDERS_PLACED    = MetricDefinition("OrdersPlaced",    "Count", "orders that the API accepted")
ORDERS_PAID      = MetricDefinition("OrdersPaid",      "Count", "published OrderPaid events; a redelivered stream record may count again")
ORDERS_FULFILLED = MetricDefinition("OrdersFulfilled", "Count", "orders with an invoice and a shipment request")
REVENUE          = MetricDefinition("Revenue",         "None",  "totals of the published OrderPaid events, in minor units", dimensions=("currency",))
REFUNDED         = MetricDefinition("Refunded",        "None",  "refunds that succeeded or were sent to the provider, in minor units", dimensions=("currency",))
REFUNDS_FAILED   = MetricDefinition("RefundsFailed",   "Count", "failed refunds; a person must handle them")
OVER_REFUNDED    = MetricDefinition("OverRefunded",    "Count", "published OrderOverRefunded events: more money of an order left than was paid")
BUSY_ANSWERS     = MetricDefinition("BusyAnswers",     "Count", "requests that the API answered with 503 busy: the client tries again")

READ_UNITS       = MetricDefinition("ReadUnits",       "Count", "consumed read units of the table and its indexes", dimensions=("function",))
WRITE_UNITS      = MetricDefinition("WriteUnits",      "Count", "consumed write units of the table and its indexes", dimensions=("function",))
THROTTLES_BY_FUNCTION        = MetricDefinition("ThrottlesByFunction",       "Count", "throttled requests, and batch responses with unprocessed items", dimensions=("function",), also_total=True)
THROTTLES_BY_RESOURCE        = MetricDefinition("ThrottlesByResource",       "Count", "throttled requests by DynamoDB's reason, and by the table or index that it names", dimensions=("resource", "reason"))
PROCESSING_LAG              = MetricDefinition("Lag",             "Milliseconds", "time from a change to its processing; for a stream batch, of the oldest record", dimensions=("function",), keep_each_value=True)
EFFECTS_ACCEPTED         = MetricDefinition("EffectsAccepted", "Count", "events that had an effect", dimensions=("function",))
EFFECTS_SKIPPED        = MetricDefinition("EffectsSkipped", "Count", "duplicate events, and events without an effect", dimensions=("function",))
EFFECTS_FAILED           = MetricDefinition("EffectsFailed",   "Count", "failed attempts, which are retried", dimensions=("function",), also_total=True)
OUT_OF_TIME      = MetricDefinition("OutOfTime",       "Count", "invocations that stopped before their timeout and left work for the next one", dimensions=("function",))
SELF_REQUEUED        = MetricDefinition("SelfRequeued",       "Count", "messages that a function sent to the queue that it reads, to continue its work", dimensions=("function",))
MAILS_DEFERRED   = MetricDefinition("MailsDeferred",   "Count", "messages of mails that SES refused, sent to their queue again with a delay", dimensions=("function",))
MAIL_DEFERRAL_AGE = MetricDefinition("MailDeferralAge", "Milliseconds", "how long ago a mail that SES refuses was deferred first", keep_each_value=True)
WEBHOOK_EVENTS_SENT = MetricDefinition("WebhookEventsSent", "Count", "events that webhooks have accepted")
WEBHOOK_ATTEMPTS_FAILED = MetricDefinition("WebhookAttemptsFailed", "Count", "attempts to send an event to a webhook that failed and are retried")
WEBHOOKS_PAUSED  = MetricDefinition("WebhooksPaused",  "Count", "webhooks that were paused because an event failed for days")
PARKED           = MetricDefinition("Parked",          "Count", "records and messages that were parked", dimensions=("function",))

PARKED_WAITING   = MetricDefinition("ParkedWaiting",   "Count", "parked records and messages that are not redriven yet", is_gauge=True)
FAILED_BATCHES_WAITING = MetricDefinition("FailedBatchesWaiting", "Count", "stream batches that Lambda stopped retrying and that are not redriven yet", is_gauge=True)
ARCHIVE_MISMATCHES       = MetricDefinition("ArchiveMismatches", "Count", "orders whose archive object lacks data that the table has", is_gauge=True)
ORDERS_STALLED         = MetricDefinition("OrdersStalled",  "Count", "orders that were paid more than 10 minutes ago and have no shipment request", is_gauge=True)
UNMATCHED_PAYMENTS        = MetricDefinition("UnmatchedPayments", "Count", "payments that match no order and are not refunded yet", is_gauge=True)
OVERDUE_ORDERS    = MetricDefinition("OverdueOrders",    "Count", "orders that missed their payment or delivery deadline by more than 5 minutes and were not processed", is_gauge=True)
CANARY_SUCCEEDED = MetricDefinition("CanarySucceeded", "Count", "runs of the canary that placed and cancelled an order")
OVERDUE_LAG        = MetricDefinition("OverdueLag",        "Milliseconds", "how long ago the oldest order that is not processed missed its payment or delivery deadline", is_gauge=True)
# fmt: on

METRICS: tuple[MetricDefinition, ...] = tuple(it for it in list(globals().values()) if isinstance(it, MetricDefinition))

SET_TAG, KIND_TAG = "configuration-set", "mail"
"""The message tags of mails. CloudWatch counts bounces and complaints by these tags (namespace AWS/SES)."""
