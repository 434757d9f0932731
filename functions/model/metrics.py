"""What is counted: every metric by its name, declared once. The functions tell them, alarms and dashboard look at them.

Never an id, a name or a route as a dimension: each of its values would be a metric of its own, and paid for as one.
"""

from dataclasses import dataclass
from typing import Literal

Unit = Literal["Count", "Milliseconds", "None"]
Dimension = Literal["function", "currency"]


@dataclass(frozen=True)
class Metric:
    """`by`: told apart by these. `whole`: told of the shop as a whole, too. `each`: every value by itself, else the
    sum of what one call counted. `level`: what is so now, told with zero, too; what only happens is not told then."""

    name: str
    unit: Unit
    means: str
    by: tuple[Dimension, ...] = ()
    whole: bool = False
    each: bool = False
    level: bool = False

    @property
    def dimension_sets(self) -> tuple[tuple[Dimension, ...], ...]:
        return (self.by, ()) if self.whole and self.by else (self.by,)


# fmt: off
ORDERS_PLACED    = Metric("OrdersPlaced",    "Count", "orders that the API has accepted")
ORDERS_PAID      = Metric("OrdersPaid",      "Count", "orders whose being paid was published; again where that is repeated")
ORDERS_FULFILLED = Metric("OrdersFulfilled", "Count", "orders that have their invoice and went to the warehouse")
REVENUE          = Metric("Revenue",         "None",  "what orders that were paid come to, in minor units", by=("currency",))
REFUNDED         = Metric("Refunded",        "None",  "what was given back, or is with the provider, in minor units", by=("currency",))
REFUNDS_FAILED   = Metric("RefundsFailed",   "Count", "refunds that could not be given: a person must look")

READ_UNITS       = Metric("ReadUnits",       "Count", "read units of the table and its indexes, as DynamoDB counts them", by=("function",))
WRITE_UNITS      = Metric("WriteUnits",      "Count", "write units of the table and its indexes", by=("function",))
THROTTLES        = Metric("Throttles",       "Count", "how often DynamoDB throttled a request, and answers that left some of a batch", by=("function",), whole=True)
LAG              = Metric("Lag",             "Milliseconds", "how long after its change it was worked; of a batch of the stream, the oldest", by=("function",), each=True)
ACCEPTED         = Metric("EffectsAccepted", "Count", "events that had their effect", by=("function",))
DUPLICATE        = Metric("EffectsDuplicate", "Count", "events that had had it before, or have none", by=("function",))
FAILED           = Metric("EffectsFailed",   "Count", "attempts that failed, and come again", by=("function",), whole=True)
PARKED           = Metric("Parked",          "Count", "records and messages that were put aside", by=("function",))

PARKED_WAITING   = Metric("ParkedWaiting",   "Count", "what was put aside and not redriven yet", level=True)
GIVEN_UP_WAITING = Metric("GivenUpWaiting",  "Count", "batches of the stream that were given up and not redriven yet", level=True)
MISMATCHES       = Metric("ArchiveMismatches", "Count", "orders whose object in the archive lacks what the table has of them", level=True)
STANDING         = Metric("OrdersStanding",  "Count", "orders that were paid more than ten minutes ago and did not go to the warehouse", level=True)
UNMATCHED        = Metric("UnmatchedPayments", "Count", "payments that match no order and were not given back yet", level=True)
LAPSE_BACKLOG    = Metric("LapseBacklog",    "Count", "orders whose time has been over for more than five minutes, and that nobody has moved on", level=True)
# fmt: on

METRICS: tuple[Metric, ...] = tuple(it for it in list(globals().values()) if isinstance(it, Metric))
