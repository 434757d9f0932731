"""What somebody must know of, day or night: each alarm by its name, what it looks at, from when on, and its runbook.

An alarm holds as long as what it tells of is so, and ends when its runbook's cure is done.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from functions.model import metrics
from functions.model.metrics import Metric

Each = Literal["queue", "dead letters", "reader", "api", "api's function", "watch"]
"""Of what there are several: the alarm is there for each, by its name."""
DIMENSIONS: dict[Each, str] = {
    "queue": "QueueName",
    "dead letters": "QueueName",
    "reader": "FunctionName",
    "api": "ApiId",
    "api's function": "FunctionName",
    "watch": "FunctionName",
}
Statistic = Literal["Maximum", "Minimum", "Sum"]
RUNBOOKS = "docs/runbooks"
PACED = frozenset({"bulk", "notices"})
"""Reactions that take their time on purpose: a file of products, a mail to each of thousands of followers."""


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """`metric`: one of ours, or an AWS service's "namespace name". It is raised when the `statistic` of it was `over`,
    or `under`, so much in each of so many `periods` of so many `minutes`. `says`: what is so then. `runbook`: what to
    do about it. `each`: one alarm for each of these, but for the `spared` ones. `level`: what is so now, so it holds
    until it is told anew; else no news are good news, but where too few of them are what it tells of. `brake`: a new
    version of the api does not take over while it is raised."""

    name: str
    says: str
    metric: Metric | str
    statistic: Statistic
    runbook: str
    over: float | None = None
    under: float | None = None
    each: Each | None = None
    spared: frozenset[str] = frozenset()
    minutes: int = 5
    periods: int = 1
    brake: bool = False

    def __post_init__(self) -> None:
        if (self.over is None) is (self.under is None):
            raise ValueError(f"{self.name} is raised over a limit, or under one")

    @property
    def level(self) -> bool:
        return isinstance(self.metric, Metric) and self.metric.level

    @property
    def page(self) -> str:
        return f"{RUNBOOKS}/{self.runbook}.md"


LEVELS = (("5-minutes", 300), ("1-hour", 3_600), ("6-hours", 21_600))
"""How far behind is worth a look; is felt by customers; leaves half of the time until the stream's mappings give up."""


def _behind() -> Iterator[Alarm]:
    for level, seconds in LEVELS:
        yield Alarm(
            name=f"lag-{level}",
            says=f"Nobody has taken up an event for its reaction for more than {level.replace('-', ' ')}",
            metric="AWS/SQS ApproximateAgeOfOldestMessage",
            statistic="Maximum",
            over=seconds,
            runbook="lag",
            each="queue",
            spared=frozenset() if level == "6-hours" else PACED,
        )
        yield Alarm(
            name=f"stream-lag-{level}",
            says=f"A reader of the table's stream is more than {level.replace('-', ' ')} behind",
            metric="AWS/Lambda IteratorAge",
            statistic="Maximum",
            over=seconds * 1_000,
            runbook="stream-lag",
            each="reader",
        )


ALARMS: tuple[Alarm, ...] = (
    Alarm(
        name="orders-stand-still",
        says="Orders that were paid do not go to the warehouse",
        metric=metrics.STANDING,
        statistic="Minimum",
        over=0,
        runbook="orders-stand-still",
    ),
    *_behind(),
    Alarm(
        name="failure-store-not-empty",
        says="A mapping of the stream gave up on records: what should have followed from them did not",
        metric=metrics.GIVEN_UP_WAITING,
        statistic="Minimum",
        over=0,
        runbook="failure-store-not-empty",
    ),
    Alarm(
        name="parked-not-empty",
        says="A function has put something aside that it cannot read or do",
        metric=metrics.PARKED_WAITING,
        statistic="Minimum",
        over=0,
        runbook="parked-not-empty",
    ),
    Alarm(
        name="dead-letters-not-empty",
        says="A message failed at all its deliveries, or a scheduled run came to nothing",
        metric="AWS/SQS ApproximateNumberOfMessagesVisible",
        statistic="Maximum",
        over=0,
        runbook="dead-letters-not-empty",
        each="dead letters",
    ),
    Alarm(
        name="unmatched-payment",
        says="Money has come that matches no order",
        metric=metrics.UNMATCHED,
        statistic="Minimum",
        over=0,
        runbook="unmatched-payment",
    ),
    Alarm(
        name="api-5xx",
        says="The API answers that the fault is ours",
        metric="AWS/ApiGateway 5xx",
        statistic="Sum",
        over=5,
        runbook="api-5xx",
        each="api",
        brake=True,
    ),
    Alarm(
        name="api-crashes",
        says="Calls of the API's function end without an answer: it cannot start, crashes, or runs out of time",
        metric="AWS/Lambda Errors",
        statistic="Sum",
        over=2,
        minutes=1,
        runbook="api-5xx",
        each="api's function",
        brake=True,
    ),
    Alarm(
        name="throttling",
        says="DynamoDB throws requests back",
        metric=metrics.THROTTLES,
        statistic="Sum",
        over=20,
        runbook="throttling",
    ),
    Alarm(
        name="lapse-backlog",
        says="Orders whose time is over stay as they are: stock is held for nobody",
        metric=metrics.LAPSE_BACKLOG,
        statistic="Minimum",
        over=0,
        runbook="lapse-backlog",
    ),
    Alarm(
        name="archive-mismatch",
        says="An order's object in the archive lacks what the table has of it: nothing of it is deleted",
        metric=metrics.MISMATCHES,
        statistic="Minimum",
        over=0,
        runbook="archive-mismatch",
    ),
    Alarm(
        name="nobody-watches",
        says="Nobody looks any more at what waits for a person: the alarms of that stand as they were",
        metric="AWS/Lambda Invocations",
        statistic="Sum",
        under=1,
        minutes=15,
        runbook="nobody-watches",
        each="watch",
    ),
)
