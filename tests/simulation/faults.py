"""What goes wrong, where, and how often: each fault is named by its kind and its place, and is drawn by that name.

Places do not move when another fault is left out ("fulfilment dynamodb.PutItem ORDER#x/INVOICE#y 1": that function's
first such call about that item), so a run can be repeated with only some of its faults, and still be much the same run.
"""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from tests.simulation.chance import Chance

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
WRITES = {"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"}
BATCHES = {"BatchGetItem", "BatchWriteItem"}
MESSAGES = {"SendMessage", "DeleteMessage"}
EFFECTS = {*WRITES, *MESSAGES, "BatchWriteItem", "PutObject", "DeleteObject", "PutEvents", "SendEmail", "Refund"}


@dataclass(frozen=True)
class Call:
    """A request that leaves a function: to which service, which operation, about what.

    `may_be_late`: a read that need not be consistent.
    """

    function: str
    service: str
    operation: str
    about: str
    may_be_late: bool = False

    def __str__(self) -> str:
        return f"{self.function} {self.service}.{self.operation} {self.about}"


@dataclass(frozen=True)
class OnCall:
    """A kind of fault of a call. `most`: it strikes the same call from one to so many times in a row."""

    kind: str
    probability: float
    means: str
    most: int = 1
    strikes: Callable[[Call], bool] = lambda call: True


def _is_in(operations: Collection[str]) -> Callable[[Call], bool]:
    return lambda call: call.operation in operations


# fmt: off
ON_CALLS = (
    OnCall("dies before",            0.003, "the process dies before the request is sent"),
    OnCall("dies after",             0.010, "the process dies as the request is done", 1, _is_in(EFFECTS)),
    OnCall("dies half-way",          0.100, "a batch is half done as the process dies", 1, _is_in({"BatchWriteItem"})),
    OnCall("throttled",              0.004, "the service asks to slow down", 14),
    OnCall("server error",           0.002, "the service fails, and nothing was done", 4),
    OnCall("done, but server error", 0.002, "the service fails, though it was done"),
    OnCall("unreachable",            0.002, "no connection", 4),
    OnCall("answer lost",            0.004, "the request is done, and no answer comes", 4),
    OnCall("slow",                   0.003, "an answer takes up to 15 minutes: longer than a claim, or a function"),
    OnCall("overtaken",              0.050, "a write arrives late, behind those of others", 1, _is_in(WRITES)),
    OnCall("mails throttled",        0.040, "the mail provider takes no more for now", 6, _is_in({"SendEmail"})),
    OnCall("conflict",               0.010, "another transaction has the item", 30, _is_in(WRITES)),
    OnCall("unprocessed",            0.030, "some of a batch is left", 8, _is_in(BATCHES)),
    OnCall("late replica",           0.120, "a read shows the table as it was a while ago", 1, lambda c: c.may_be_late),
    OnCall("entries refused",        0.060, "the bus refuses some entries", 20, _is_in({"PutEvents"})),
)
# fmt: on


@dataclass(frozen=True)
class Elsewhere:
    """A kind of fault that is of no single call."""

    kind: str
    probability: float
    means: str


# fmt: off
ELSEWHERE = (
    Elsewhere("delivered twice",       0.020, "a batch comes again, though it was answered"),
    Elsewhere("result lost",           0.005, "Lambda takes what a reader did for failed, for up to 20 seconds"),
    Elsewhere("not invoked",           0.010, "Lambda has no room for a function, for up to 20 seconds"),
    Elsewhere("dies at once",          0.005, "the function's process dies as it starts"),
    Elsewhere("cold start",            0.012, "a new process, which remembers nothing"),
    Elsewhere("message twice",         0.030, "a queue hands out a message that somebody has in hand"),
    Elsewhere("event twice",           0.020, "a rule sends an event twice"),
    Elsewhere("event late",            0.040, "an event comes minutes later, behind later ones"),
    Elsewhere("kept by nobody",        0.050, "what a mapping gives up is not taken by the failure store"),
    Elsewhere("clock skew",            0.200, "a function's clocks are up to two seconds wrong"),
    Elsewhere("shard split",           0.400, "a shard is closed, and two go on in its place"),
    Elsewhere("mapping replaced",      0.350, "a stream's mapping is made anew, from its checkpoint"),
    Elsewhere("mapping begun anew",    0.100, "a stream's mapping is made anew, from the oldest record there is"),
    Elsewhere("reader fails",          0.100, "a stream's reader fails for 25 or 48 hours, whatever it is called for"),
    Elsewhere("mapping off",           0.080, "a stream's mapping is off for longer than the stream remembers"),
    Elsewhere("worker fails",          0.080, "a queue's worker fails for 25 or 48 hours"),
    Elsewhere("unreadable item",       0.250, "an order is written that no version of this code can read"),
    Elsewhere("item from the future",  0.250, "an order is written by a newer version of this code"),
    Elsewhere("unreadable message",    0.200, "a queue has a message that is no event"),
    Elsewhere("event from the future", 0.200, "an event of a newer version of this code is published"),
    Elsewhere("schedule twice",        0.100, "the schedule fires twice"),
    Elsewhere("webhook twice",         0.200, "the provider tells something twice"),
    Elsewhere("webhook late",          0.150, "the provider tells something up to three days late"),
    Elsewhere("refund refused",        0.100, "the provider will never give this money back"),
    Elsewhere("refund pending",        0.250, "the provider gives money back up to 30 hours later, and tells then"),
    Elsewhere("refund fails",          0.100, "money that the provider gave back comes back to it"),
    Elsewhere("disputed",              0.120, "a customer's bank asks a payment back, and wins or loses days later"),
    Elsewhere("warehouse stumbles",    0.100, "the warehouse takes a request, and forgets it"),
    Elsewhere("operator cut off",      0.300, "an operator's tool is killed half-way, and run again later"),
)
# fmt: on

KINDS: dict[str, str] = {fault.kind: fault.means for fault in (*ON_CALLS, *ELSEWHERE)}
STRUCK_MORE = {"api": 2, "fulfilment": 5, "lapse": 5, "refunds": 5, "erasure": 5, "notices": 2, "operator": 5}
"""How much more often than others what functions write is struck that write little."""
LIKING = (0.0, 0.25, 0.5, 1.0, 1.0, 2.0)
"""How much more, or less, often than elsewhere a kind of fault may strike in a seed."""
FIERCE = 2.0
"""How much more often in a fierce seed: a planted fault needs another, at its place, to be seen."""


@dataclass(frozen=True)
class Strike:
    """A fault that strikes now. `share`: from 0 to 1, how much of it, where that can vary."""

    kind: str
    place: str
    share: float

    @property
    def name(self) -> str:
        return f"{self.kind} @ {self.place}"


@dataclass
class Faults:
    """Draws faults, and notes which struck. `only`: the names of those that may (None: all). `off`: the dust settles.
    `fierce`: there are more of them.

    Each seed likes some kinds better than others, and leaves some out, so that seeds differ more than chance alone
    would have them.
    """

    chance: Chance
    only: Collection[str] | None = None
    off: bool = False
    fierce: bool = False
    told: Callable[[Strike], None] = lambda strike: None
    struck: list[Strike] = field(default_factory=list)
    _places: Counter[str] = field(default_factory=Counter)
    _again: dict[str, tuple[Strike, int]] = field(default_factory=dict)
    _probability: dict[str, float] = field(default_factory=dict)
    _any: float = 0.0

    def __post_init__(self) -> None:
        for fault in (*ON_CALLS, *ELSEWHERE):
            liking = self.chance.one_of(LIKING, "liking", fault.kind) * (FIERCE if self.fierce else 1.0)
            self._probability[fault.kind] = fault.probability * liking
        self._any = sum(self._probability[fault.kind] for fault in ON_CALLS)

    def at_call(self, call: Call, *, mortal: bool) -> Strike | None:
        """What goes wrong with a call. `mortal`: its process is one of ours and can die."""
        if self.off:
            return None
        text = str(call)
        if text in self._again:
            return self._goes_on(text)
        self._places[text] += 1
        place = f"{text} {self._places[text]}"
        drawn = self.chance.number("call", place)
        if call.operation in EFFECTS:
            drawn /= STRUCK_MORE.get(call.function, 1)
        if drawn >= self._any:
            return None
        for fault in ON_CALLS:
            if not fault.strikes(call) or (not mortal and fault.kind.startswith("dies")):
                continue
            drawn -= self._probability[fault.kind]
            if drawn < 0:
                strike = self._strike(fault.kind, place)
                if strike and fault.most > 1:
                    times = int(fault.most ** self.chance.number("times", place))
                    self._again[text] = (strike, times - 1)
                return strike
        return None

    def _goes_on(self, text: str) -> Strike | None:
        strike, left = self._again.pop(text)
        if not left:
            return None
        self._again[text] = (strike, left - 1)
        return strike

    def at(self, kind: str, *place: object, though_off: bool = False) -> Strike | None:
        """Whether this kind of fault strikes here; `though_off`: also while the dust settles."""
        if self.off and not though_off:
            return None
        text = " ".join(map(str, place))
        return self._strike(kind, text) if self.chance.happens(self._probability[kind], kind, text) else None

    def _strike(self, kind: str, place: str) -> Strike | None:
        strike = Strike(kind, place, self.chance.number("share", kind, place))
        if self.only is not None and strike.name not in self.only:
            return None
        self.struck.append(strike)
        self.told(strike)
        return strike
