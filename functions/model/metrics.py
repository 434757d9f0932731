"""Declares every CloudWatch metric once. The functions record the metrics; alarms and the dashboard use them.

Do not use an id, a name or a route as a dimension: each value would be a separate metric, billed separately.
"""

from dataclasses import dataclass
from typing import Literal

Unit = Literal["Count", "Milliseconds", "None"]
Dimension = Literal["function", "currency"]


@dataclass(frozen=True)
class MetricDefinition:
    """Declares a metric. `dimensions`: the metric's dimensions. `also_total`: the metric is also recorded without
    dimensions.

    `keep_each_value`: every value is recorded, instead of one sum per invocation. `is_gauge`: the metric is a current
    level and is recorded even if zero; other metrics are recorded only if not zero.
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
ORDERS_PLACED    = MetricDefinition("OrdersPlaced",    "Count", "orders that the API has accepted")
ORDERS_PAID      = MetricDefinition("OrdersPaid",      "Count", "orders whose being paid was published; again where that is repeated")
ORDERS_FULFILLED = MetricDefinition("OrdersFulfilled", "Count", "orders that have their invoice and went to the warehouse")
REVENUE          = MetricDefinition("Revenue",         "None",  "what orders that were paid come to, in minor units", dimensions=("currency",))
REFUNDED         = MetricDefinition("Refunded",        "None",  "what was given back, or is with the provider, in minor units", dimensions=("currency",))
REFUNDS_FAILED   = MetricDefinition("RefundsFailed",   "Count", "refunds that could not be given: a person must look")

READ_UNITS       = MetricDefinition("ReadUnits",       "Count", "read units of the table and its indexes, as DynamoDB counts them", dimensions=("function",))
WRITE_UNITS      = MetricDefinition("WriteUnits",      "Count", "write units of the table and its indexes", dimensions=("function",))
THROTTLES        = MetricDefinition("Throttles",       "Count", "how often DynamoDB throttled a request, and answers that left some of a batch", dimensions=("function",), also_total=True)
PROCESSING_LAG              = MetricDefinition("Lag",             "Milliseconds", "how long after its change it was worked; of a batch of the stream, the oldest", dimensions=("function",), keep_each_value=True)
EFFECTS_ACCEPTED         = MetricDefinition("EffectsAccepted", "Count", "events that had their effect", dimensions=("function",))
EFFECTS_DUPLICATE        = MetricDefinition("EffectsDuplicate", "Count", "events that had had it before, or have none", dimensions=("function",))
EFFECTS_FAILED           = MetricDefinition("EffectsFailed",   "Count", "attempts that failed, and come again", dimensions=("function",), also_total=True)
PARKED           = MetricDefinition("Parked",          "Count", "records and messages that were put aside", dimensions=("function",))

PARKED_WAITING   = MetricDefinition("ParkedWaiting",   "Count", "what was put aside and not redriven yet", is_gauge=True)
GIVEN_UP_WAITING = MetricDefinition("GivenUpWaiting",  "Count", "batches of the stream that were given up and not redriven yet", is_gauge=True)
ARCHIVE_MISMATCHES       = MetricDefinition("ArchiveMismatches", "Count", "orders whose object in the archive lacks what the table has of them", is_gauge=True)
ORDERS_STALLED         = MetricDefinition("OrdersStanding",  "Count", "orders that were paid more than ten minutes ago and did not go to the warehouse", is_gauge=True)
UNMATCHED_PAYMENTS        = MetricDefinition("UnmatchedPayments", "Count", "payments that match no order and were not given back yet", is_gauge=True)
LAPSE_BACKLOG    = MetricDefinition("LapseBacklog",    "Count", "orders whose time has been over for more than five minutes, and that nobody has moved on", is_gauge=True)
# fmt: on

METRICS: tuple[MetricDefinition, ...] = tuple(it for it in list(globals().values()) if isinstance(it, MetricDefinition))
