"""Defines the faults that the simulation injects, and decides at random when they happen.

A fault has a kind, such as "throttled", and a place. The place says which call or event the fault affects. For example,
"fulfilment dynamodb.PutItem ORDER#x/INVOICE#y 1" is the first PutItem call of the function `fulfilment` for this item.
The name of a place does not depend on other faults. If a run is repeated with only some of its faults, these faults
happen at the same places again.
"""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from proof.simulation.rng import SeededRandom

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
MAX_TORN_SECONDS = 2.0
"""How long a consistent read of several items may take. Each of them is as it was at some moment of this time.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html (isolation levels)
"""
MAX_REPLICA_LAG_SECONDS = 90.0
"""How old the items of an eventually consistent read may be. DynamoDB states no limit, and usually needs no second."""
WRITES = {"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"}
BATCHES = {"BatchGetItem", "BatchWriteItem"}
MESSAGES = {"SendMessage", "DeleteMessage"}
LATE = {*WRITES, *MESSAGES, "BatchWriteItem", "PutObject", "DeleteObject", "PutEvents", "SendEmail"}
"""Operations that a service may run after its client gave up. The simulated payment provider delays its own itself."""
EFFECTS = {*LATE, "Refund", "StartPayment", "CancelPayment", "SendWebhook"}


@dataclass(frozen=True)
class ServiceCall:
    """A request to an AWS service or the payment provider. `about`: its target, for example an item's key."""

    function: str
    service: str
    operation: str
    about: str
    allows_stale_read: bool = False

    def __str__(self) -> str:
        return f"{self.function} {self.service}.{self.operation} {self.about}"


@dataclass(frozen=True)
class Fault:
    """A kind of fault. A fault of calls strikes a random number of attempts of a call, at most `max_repeats`."""

    kind: str
    probability: float
    description: str
    max_repeats: int = 1
    applies_to: Callable[[ServiceCall], bool] = lambda call: True


def _is_in(operations: Collection[str]) -> Callable[[ServiceCall], bool]:
    return lambda call: call.operation in operations


CALL_FAULTS = (
    Fault("dies before", 0.003, "the process dies before the request is sent"),
    Fault("dies after", 0.010, "the process dies after the service has executed the request", 1, _is_in(EFFECTS)),
    Fault("dies half-way", 0.100, "the process dies in the middle of a batch", 1, _is_in({"BatchWriteItem"})),
    Fault("throttled", 0.004, "the service rejects a request with one of its throttling errors", 14),
    Fault("server error", 0.002, "the service answers 5xx and has not executed the request", 4),
    Fault("done, but server error", 0.002, "the service answers 5xx, but has executed the request"),
    Fault("unreachable", 0.002, "the client cannot connect to the service", 4),
    Fault("answer lost", 0.004, "the service executes the request, but its answer is lost", 4),
    Fault("slow", 0.003, "an answer takes up to 15 minutes: longer than a claim lasts or a function may run"),
    Fault("overtaken", 0.050, "later writes of other processes overtake a write", 1, _is_in(WRITES)),
    Fault("mails throttled", 0.040, "SES throttles a mail because of its sending rate", 6, _is_in({"SendEmail"})),
    Fault("conflict", 0.010, "DynamoDB rejects a write: a transaction has the item", 30, _is_in(WRITES)),
    Fault("unprocessed", 0.030, "DynamoDB returns some items of a batch as unprocessed", 8, _is_in(BATCHES)),
    Fault("late replica", 0.120, "a read returns an old version of the table", 1, lambda c: c.allows_stale_read),
    Fault("entries refused", 0.060, "EventBridge rejects some entries of a request", 20, _is_in({"PutEvents"})),
    Fault(
        "token forgotten", 0.020, "a transaction is sent again after DynamoDB has forgotten its ClientRequestToken", 1,
        lambda call: call.operation == "TransactWriteItems" and call.function == "operator",
    ),
    Fault(
        "write under way", 0.050, "S3 rejects a write while another conditional write of the object is in progress", 4,
        _is_in({"PutObject"}),
    ),
    Fault(
        "late index", 0.120, "a query of an index returns some current items and some old ones", 1,
        lambda call: call.allows_stale_read and call.operation == "Query" and not call.about.endswith("/*"),
    ),
    Fault("lands late", 0.006, "a client gives up, and its write is executed minutes later", 4, _is_in(LATE)),
    Fault("dies, lands late", 0.006, "a process dies, and its write is executed minutes later", 1, _is_in(LATE)),
    Fault(
        "deletes late", 0.080, "a client gives up, and the service executes its deletions up to 5 minutes later", 2,
        _is_in({"BatchWriteItem", "DeleteItem"}),
    ),
    Fault(
        "torn read", 0.150, "a consistent read returns some items as they were when it began, and others as they are",
        1, lambda call: call.operation in {"BatchGetItem", "Query"} and not call.allows_stale_read,
    ),
)  # fmt: skip


OTHER_FAULTS = (
    Fault("delivered twice", 0.020, "Lambda delivers a batch again although the function succeeded"),
    Fault("result lost", 0.005, "for up to 20 seconds, Lambda treats a reader's successes as failures"),
    Fault("not invoked", 0.010, "for up to 20 seconds, Lambda throttles all invocations of a function"),
    Fault("dies at once", 0.005, "the function's process dies at the start of an invocation"),
    Fault("cold start", 0.012, "Lambda starts a new process for the function, without cached data"),
    Fault("message twice", 0.030, "a queue delivers a message again while a consumer still processes it"),
    Fault("event twice", 0.020, "a rule of the event bus sends an event twice"),
    Fault("event late", 0.040, "an event arrives minutes late, after newer events"),
    Fault("kept by nobody", 0.050, "the failure store rejects a batch that a mapping no longer retries"),
    Fault("clock skew", 0.200, "a function's clock is up to two seconds wrong"),
    Fault("shard split", 0.400, "a shard of the stream is split into two child shards"),
    Fault("mapping replaced", 0.350, "a stream's mapping is created again and continues at its checkpoint"),
    Fault("mapping begun anew", 0.100, "a stream's mapping is created again and starts at the oldest record"),
    Fault("reader fails", 0.100, "every invocation of a stream reader fails, for 25 or 48 hours"),
    Fault("mapping off", 0.080, "a stream's mapping is disabled for longer than the stream keeps records"),
    Fault("worker fails", 0.080, "every invocation of a queue's worker fails, for 25 or 48 hours"),
    Fault("unreadable item", 0.250, "the table contains an order that no version of the code can read"),
    Fault("item from the future", 0.250, "the table contains an order that a newer version of the code wrote"),
    Fault("unreadable message", 0.200, "a queue contains a message that is not an event"),
    Fault("event from the future", 0.200, "a newer version of the code publishes an event"),
    Fault("schedule twice", 0.100, "a schedule invokes its function twice"),
    Fault("webhook twice", 0.200, "the payment provider sends a webhook twice"),
    Fault("webhook late", 0.150, "the payment provider sends a webhook up to three days late"),
    Fault("refund refused", 0.100, "the payment provider rejects a refund permanently"),
    Fault("refund pending", 0.250, "the payment provider pays a refund, and reports it, up to 30 hours later"),
    Fault("refund fails", 0.100, "a refund that the payment provider has paid fails later"),
    Fault("disputed", 0.120, "a customer's bank disputes a payment, and wins or loses days later"),
    Fault("refunded outside", 0.120, "a person makes a refund in the payment provider's dashboard"),
    Fault("warehouse stumbles", 0.100, "the warehouse accepts a request and loses it"),
    Fault("operator cut off", 0.300, "an operator's command is killed while it runs, and started again later"),
    Fault("address refused", 0.060, "SES rejects all mails to an address, for up to two days"),
    Fault("address suppressed", 0.060, "SES accepts the mails to a suppressed address, but sends none"),
    Fault("mails paused", 0.080, "SES rejects all mails, for 1 or 4 hours"),
    Fault("mail quota", 0.080, "SES accepts only a few mails a day, for 2 or 8 hours"),
    Fault("rule fails", 0.040, "a rule of the event bus delivers no events, for two or four days"),
    Fault("deadly record", 0.060, "for 25 or 48 hours, a record or message kills each process that gets it"),
    Fault("secret rotated", 0.100, "a secret changes while caches still contain its old value"),
    Fault("subscriber stumbles", 0.150, "an endpoint of a webhook fails, is slow, or its answer is lost"),
    Fault("subscriber fails", 0.300, "an endpoint of a webhook fails at every request, for 2 or 80 hours"),
    Fault("restored at once", 0.200, "an operator restores an order from the archive as soon as possible"),
)
"""The kinds of faults that do not affect a service call, for example a message that is delivered twice."""
KINDS: dict[str, str] = {fault.kind: fault.description for fault in (*CALL_FAULTS, *OTHER_FAULTS)}
FAULT_BOOST = {
    "api": 2,
    "fulfilment": 5,
    "order_deadlines": 5,
    "payment_starter": 5,
    "refund": 5,
    "customer_erasure": 5,
    "product_alert": 2,
    "webhook": 2,
    "webhook_retries": 5,
    "operator": 5,
}
"""By function: a factor for the probability of faults in its calls that change data, which are few."""
PROVED_REACTION_BOOST = 5
FAULT_WEIGHTS = (0.0, 0.25, 0.5, 1.0, 1.0, 2.0)
"""Factors for the probability of a fault. Each run chooses one by kind, so a kind is frequent in some runs only."""
FIERCE_FACTOR = 2.0
"""The factor of a run with `fierce`: many bugs become visible only if two faults affect the same item or process."""


@dataclass(frozen=True)
class Strike:
    """An injected fault. `share`: a random number from 0 to 1, which decides details, such as how long a delay is."""

    kind: str
    place: str
    share: float

    @property
    def name(self) -> str:
        return f"{self.kind} @ {self.place}"


@dataclass
class FaultInjector:
    """Decides at random which faults happen in a simulation run, and records them in `strikes`.

    `only`: the names of the faults that may happen, or None for all. Each run chooses its own probability for each kind
    of fault, sometimes 0, so that the runs differ more from each other.
    """

    rng: SeededRandom
    only: Collection[str] | None = None
    is_off: bool = False
    fierce: bool = False
    reaction: str = ""
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
        """Return the fault that affects this call, or None. `mortal`: whether it may kill the calling process."""
        if self.is_off:
            return None
        text = str(call)
        if text in self._again:
            return self._repeat_strike(text)
        self._places[text] += 1
        place = f"{text} {self._places[text]}"
        drawn = self.rng.random("call", place)
        if call.operation in EFFECTS:
            drawn /= FAULT_BOOST.get(call.function, PROVED_REACTION_BOOST if call.function == self.reaction else 1)
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
        """Return the fault that happens at this unique place, or None. `even_if_off`: for operators' tools."""
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
