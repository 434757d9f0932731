"""Defines the faults that the simulation injects, and decides at random when they happen.

A fault has a kind, such as "throttled", and a place. The place says which call or event the fault affects. For example,
"fulfilment dynamodb.PutItem ORDER#x/INVOICE#y 1" is the first PutItem call of the function `fulfilment` for this item.
The name of a place does not depend on other faults. If a run is repeated with only some of its faults, these faults
happen at the same places again.
"""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from tests.simulation.rng import SeededRandom

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
MAX_REPLICA_LAG_SECONDS = 90.0
"""How old the items of an eventually consistent read may be. DynamoDB states no limit, and usually needs no second."""
WRITES = {"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"}
BATCHES = {"BatchGetItem", "BatchWriteItem"}
MESSAGES = {"SendMessage", "DeleteMessage"}
EFFECTS = {*WRITES, *MESSAGES, "BatchWriteItem", "PutObject", "DeleteObject", "PutEvents", "SendEmail", "Refund"}

LATE = EFFECTS - {"Refund"}
"""The operations whose requests may be done after their client gave up. The simulated provider delays its own."""


@dataclass(frozen=True)
class ServiceCall:
    """A request from a Lambda, a client or an operator's tool to an AWS service or to the payment provider.

    `about`: the target of the request, for example an item's key. `allows_stale_read`: whether the request is an
    eventually consistent read.
    """

    function: str
    service: str
    operation: str
    about: str
    allows_stale_read: bool = False

    def __str__(self) -> str:
        return f"{self.function} {self.service}.{self.operation} {self.about}"


@dataclass(frozen=True)
class CallFault:
    """A kind of fault that the simulation injects into calls of services, for example a throttled request.

    `max_repeats`: if it is 1, the fault affects only one attempt of a call. If it is higher, the fault may also affect
    the next retries of the call. The number of affected attempts is random, and lower than `max_repeats`.
    """

    kind: str
    probability: float
    description: str
    max_repeats: int = 1
    applies_to: Callable[[ServiceCall], bool] = lambda call: True


def _is_in(operations: Collection[str]) -> Callable[[ServiceCall], bool]:
    return lambda call: call.operation in operations


CALL_FAULTS = (
    CallFault("dies before", 0.003, "the process dies before the request is sent"),
    CallFault("dies after", 0.010, "the process dies as the request is done", 1, _is_in(EFFECTS)),
    CallFault("dies half-way", 0.100, "a batch is half done as the process dies", 1, _is_in({"BatchWriteItem"})),
    CallFault("throttled", 0.004, "the service asks to slow down, with one of its own error codes", 14),
    CallFault("server error", 0.002, "the service fails, and nothing was done", 4),
    CallFault("done, but server error", 0.002, "the service fails, though it was done"),
    CallFault("unreachable", 0.002, "no connection", 4),
    CallFault("answer lost", 0.004, "the request is done, and no answer comes", 4),
    CallFault("slow", 0.003, "an answer takes up to 15 minutes: longer than a claim, or a function"),
    CallFault("overtaken", 0.050, "a write arrives late, behind those of others", 1, _is_in(WRITES)),
    CallFault("mails throttled", 0.040, "the mail provider takes no more for now", 6, _is_in({"SendEmail"})),
    CallFault("conflict", 0.010, "another transaction has the item", 30, _is_in(WRITES)),
    CallFault("unprocessed", 0.030, "some of a batch is left", 8, _is_in(BATCHES)),
    CallFault("late replica", 0.120, "a read shows the table as it was a while ago", 1, lambda c: c.allows_stale_read),
    CallFault("entries refused", 0.060, "the bus refuses some entries", 20, _is_in({"PutEvents"})),
    CallFault(
        "token forgotten", 0.020, "a transaction is done, and is sent again after DynamoDB has forgotten its token", 1,
        lambda call: call.operation == "TransactWriteItems" and call.function == "operator",
    ),
    CallFault(
        "write under way", 0.050, "another conditional write of the object is under way", 4, _is_in({"PutObject"})
    ),
    CallFault(
        "late index", 0.120, "an index shows some items as they are, and others as they were a while ago", 1,
        lambda call: call.allows_stale_read and call.operation == "Query" and not call.about.endswith("/*"),
    ),
    CallFault("lands late", 0.006, "a client gives up, and its write is done up to 5 minutes later", 4, _is_in(LATE)),
    CallFault("dies, lands late", 0.006, "a process dies, its write is done up to 5 minutes later", 1, _is_in(LATE)),
    CallFault(
        "deletes late", 0.080, "a client gives up, and its deletions are done up to 5 minutes later", 2,
        _is_in({"BatchWriteItem", "DeleteItem"}),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class OtherFault:
    """A kind of injected fault that does not affect a service call, for example a message that is delivered twice."""

    kind: str
    probability: float
    description: str


OTHER_FAULTS = (
    OtherFault("delivered twice", 0.020, "a batch comes again, though it was answered"),
    OtherFault("result lost", 0.005, "Lambda takes what a reader did for failed, for up to 20 seconds"),
    OtherFault("not invoked", 0.010, "Lambda has no room for a function, for up to 20 seconds"),
    OtherFault("dies at once", 0.005, "the function's process dies as it starts"),
    OtherFault("cold start", 0.012, "a new process, which remembers nothing"),
    OtherFault("message twice", 0.030, "a queue hands out a message that somebody has in hand"),
    OtherFault("event twice", 0.020, "a rule sends an event twice"),
    OtherFault("event late", 0.040, "an event comes minutes later, behind later ones"),
    OtherFault("kept by nobody", 0.050, "what a mapping gives up is not taken by the failure store"),
    OtherFault("clock skew", 0.200, "a function's clocks are up to two seconds wrong"),
    OtherFault("shard split", 0.400, "a shard is closed, and two go on in its place"),
    OtherFault("mapping replaced", 0.350, "a stream's mapping is made anew, from its checkpoint"),
    OtherFault("mapping begun anew", 0.100, "a stream's mapping is made anew, from the oldest record there is"),
    OtherFault("reader fails", 0.100, "a stream's reader fails for 25 or 48 hours, whatever it is called for"),
    OtherFault("mapping off", 0.080, "a stream's mapping is off for longer than the stream remembers"),
    OtherFault("worker fails", 0.080, "a queue's worker fails for 25 or 48 hours"),
    OtherFault("unreadable item", 0.250, "an order is written that no version of this code can read"),
    OtherFault("item from the future", 0.250, "an order is written by a newer version of this code"),
    OtherFault("unreadable message", 0.200, "a queue has a message that is no event"),
    OtherFault("event from the future", 0.200, "an event of a newer version of this code is published"),
    OtherFault("schedule twice", 0.100, "the schedule fires twice"),
    OtherFault("webhook twice", 0.200, "the provider tells something twice"),
    OtherFault("webhook late", 0.150, "the provider tells something up to three days late"),
    OtherFault("refund refused", 0.100, "the provider will never give this money back"),
    OtherFault("refund pending", 0.250, "the provider gives money back up to 30 hours later, and tells then"),
    OtherFault("refund fails", 0.100, "money that the provider gave back comes back to it"),
    OtherFault("disputed", 0.120, "a customer's bank asks a payment back, and wins or loses days later"),
    OtherFault("refunded outside", 0.120, "a person gives money back in the provider's dashboard"),
    OtherFault("warehouse stumbles", 0.100, "the warehouse takes a request, and forgets it"),
    OtherFault("operator cut off", 0.300, "an operator's tool is killed half-way, and run again later"),
    OtherFault("address refused", 0.060, "the mail provider refuses an address for up to two days"),
    OtherFault("address suppressed", 0.060, "the mail provider accepts the mails to an address, and sends none"),
    OtherFault("mails paused", 0.080, "the mail provider refuses all mails for 3 or 16 hours"),
    OtherFault("mail quota", 0.080, "the mail provider takes only a few mails a day, for 6 or 26 hours"),
    OtherFault("rule fails", 0.040, "a rule of the bus delivers nothing for two or four days"),
    OtherFault("deadly record", 0.060, "a record or message kills its function's process, for 25 or 48 hours"),
    OtherFault("secret rotated", 0.100, "a secret changes, and its new value is used while caches have the old one"),
    OtherFault("restored at once", 0.200, "an order is restored as soon as the archive allows it"),
)

KINDS: dict[str, str] = {fault.kind: fault.description for fault in (*CALL_FAULTS, *OTHER_FAULTS)}
FAULT_BOOST = {
    "api": 2,
    "fulfilment": 5,
    "order_deadlines": 5,
    "refund": 5,
    "customer_erasure": 5,
    "product_alert": 2,
    "operator": 5,
}
"""By function: a factor for the probability of faults in the function's calls that change data.

The listed functions make few calls that change data. Without the factor, faults would rarely affect these calls. A
function that is not listed has the factor 1.
"""
FAULT_WEIGHTS = (0.0, 0.25, 0.5, 1.0, 1.0, 2.0)
"""Factors for the probability of a fault. Each simulation run chooses one factor at random for each kind of fault.

So each kind of fault is frequent in some runs, and rare or absent in other runs.
"""
FIERCE_FACTOR = 2.0
"""In a run with the option `fierce`, the probability of each fault is multiplied by this factor.

Many bugs that the tests plant become visible only if two faults affect the same item or process.
"""


@dataclass(frozen=True)
class Strike:
    """An injected fault that happens now.

    `share`: a random number from 0 to 1, which decides details of the fault, for example how long a delay is.
    """

    kind: str
    place: str
    share: float

    @property
    def name(self) -> str:
        return f"{self.kind} @ {self.place}"


@dataclass
class FaultInjector:
    """Decides at random which faults happen in a simulation run, and records them in `strikes`.

    `only`: the names of the faults that may happen. None: all faults may happen. `is_off`: no fault happens for now.
    `fierce`: faults happen more often. Each run chooses its own probability for each kind of fault, sometimes 0, so
    that the runs differ more from each other.
    """

    rng: SeededRandom
    only: Collection[str] | None = None
    is_off: bool = False
    fierce: bool = False
    on_strike: Callable[[Strike], None] = lambda strike: None
    strikes: list[Strike] = field(default_factory=list)
    _places: Counter[str] = field(default_factory=Counter)
    _again: dict[str, tuple[Strike, int]] = field(default_factory=dict)
    _probability: dict[str, float] = field(default_factory=dict)
    _any: float = 0.0

    def __post_init__(self) -> None:
        for fault in (*CALL_FAULTS, *OTHER_FAULTS):
            liking = self.rng.choice(FAULT_WEIGHTS, "liking", fault.kind) * (FIERCE_FACTOR if self.fierce else 1.0)
            self._probability[fault.kind] = fault.probability * liking
        self._any = sum(self._probability[fault.kind] for fault in CALL_FAULTS)

    def draw_for_call(self, call: ServiceCall, *, mortal: bool) -> Strike | None:
        """Return the injected fault that affects this call, or None if there is none.

        `mortal`: whether the fault may kill the calling process.
        """
        if self.is_off:
            return None
        text = str(call)
        if text in self._again:
            return self._repeat_strike(text)
        self._places[text] += 1
        place = f"{text} {self._places[text]}"
        drawn = self.rng.random("call", place)
        if call.operation in EFFECTS:
            drawn /= FAULT_BOOST.get(call.function, 1)
        if drawn >= self._any:
            return None
        for fault in CALL_FAULTS:
            if not fault.applies_to(call) or (not mortal and fault.kind.startswith("dies")):
                continue
            drawn -= self._probability[fault.kind]
            if drawn < 0:
                strike = self._strike(fault.kind, place)
                if strike and fault.max_repeats > 1:
                    times = int(fault.max_repeats ** self.rng.random("times", place))
                    self._again[text] = (strike, times - 1)
                return strike
        return None

    def _repeat_strike(self, text: str) -> Strike | None:
        strike, left = self._again.pop(text)
        if not left:
            return None
        self._again[text] = (strike, left - 1)
        return strike

    def draw(self, kind: str, *place: object, even_if_off: bool = False) -> Strike | None:
        """Return the fault if this kind of fault happens at this place, else None.

        `place`: a unique name for the affected call or event. While `is_off` is True, no fault happens, except with
        `even_if_off`: this is for faults of the operator's tools, which run while all other faults are off.
        """
        if self.is_off and not even_if_off:
            return None
        text = " ".join(map(str, place))
        return self._strike(kind, text) if self.rng.happens(self._probability[kind], kind, text) else None

    def _strike(self, kind: str, place: str) -> Strike | None:
        strike = Strike(kind, place, self.rng.random("share", kind, place))
        if self.only is not None and strike.name not in self.only:
            return None
        self.strikes.append(strike)
        self.on_strike(strike)
        return strike
