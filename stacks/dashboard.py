"""One page to look at first. Its first row answers: are orders flowing?"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from functions.model import metrics as m
from functions.model.metrics import Metric
from stacks.alarms import Places, aws, of

Line = Any
"""A metric, or an expression of some."""
Row = Sequence[tuple[Callable[[str, Sequence[Line], int], Any], str, Sequence[Line]]]
"""Widgets: of which kind, with which title, showing what."""
AGE, DEPTH = "AWS/SQS ApproximateAgeOfOldestMessage", "AWS/SQS ApproximateNumberOfMessagesVisible"
WIDTH, HEIGHT = 24, 6


class Dashboard(Construct):
    """`places`: the queues, readers and the api; `table`: the table's name."""

    def __init__(self, scope: Construct, id: str, *, places: Places, table: str) -> None:
        super().__init__(scope, id)
        self._places, self._table = places, table
        rows = self._orders(), self._api(), self._stream(), self._queues(), self._units(), self._money()
        stack = Stack.of(self)
        cloudwatch.Dashboard(
            self,
            "Dashboard",
            dashboard_name=f"{stack.stack_name}-{stack.region}",  # an account has each name once, in all regions
            default_interval=Duration.hours(3),
            widgets=[_filling(row) for row in rows],
        )

    def _orders(self) -> Row:
        """Are orders flowing?"""
        steps = [self._sum(metric) for metric in (m.ORDERS_PLACED, m.ORDERS_PAID, m.ORDERS_FULFILLED)]
        levels = self._levels(m.STANDING, m.PARKED_WAITING, m.GIVEN_UP_WAITING)
        failures = [*levels, *_each(DEPTH, self._places["dead letters"])]
        return [
            (_graph, "Orders a minute", steps),
            (_graph, "Oldest event of each reaction, seconds", _each(AGE, self._places["queue"])),
            (_now, "Orders that stand still, and failures waiting", failures),
        ]

    def _api(self) -> Row:
        (api,) = ({"ApiId": id} for id in self._places["api"].values())
        answers = [aws(f"AWS/ApiGateway {answer}", api, "Sum") for answer in ("Count", "4xx", "5xx")]
        times = [aws("AWS/ApiGateway Latency", api, share, label=share) for share in ("p50", "p99")]
        return [(_graph, "API: requests and refusals", answers), (_graph, "API: milliseconds", times)]

    def _stream(self) -> Row:
        ages = _each("AWS/Lambda IteratorAge", self._places["reader"], "FunctionName")
        return [
            (_graph, "Stream readers: age of the oldest record, ms", ages),
            (_graph, "Functions: attempts that failed", [self._by(m.FAILED)]),
            (_graph, "Lag after the change, ms (p99)", [self._by(m.LAG, "p99")]),
        ]

    def _queues(self) -> Row:
        return [
            (_graph, "Queues: messages waiting", _each(DEPTH, self._places["queue"])),
            (_graph, "Effects", [self._by(m.ACCEPTED), self._by(m.DUPLICATE)]),
            (_graph, "Put aside", [self._by(m.PARKED)]),
        ]

    def _units(self) -> Row:
        return [
            (_graph, "Table: read units a minute", [self._by(m.READ_UNITS)]),
            (_graph, "Table: write units a minute", [self._by(m.WRITE_UNITS)]),
            (_graph, "Table: requests thrown back", [self._by(m.THROTTLES), *_throttles(self._table)]),
        ]

    def _money(self) -> Row:
        back = [self._by(m.REFUNDED, minutes=60), self._sum(m.REFUNDS_FAILED, 60)]
        levels = self._levels(m.UNMATCHED, m.LAPSE_BACKLOG, m.MISMATCHES)
        return [
            (_graph, "Revenue an hour, minor units", [self._by(m.REVENUE, minutes=60)]),
            (_graph, "Given back an hour, minor units", back),
            (_now, "Payments that match no order; orders that should have lapsed; archive", levels),
        ]

    def _sum(self, metric: Metric, minutes: int = 1) -> Line:
        return of(self, metric, "Sum", minutes)

    def _levels(self, *metrics: Metric) -> list[Line]:
        return [of(self, metric, "Maximum", 5) for metric in metrics]

    def _by(self, metric: Metric, statistic: str = "Sum", minutes: int = 1) -> Line:
        """A line for each value of the metric's dimension, whichever there are."""
        (dimension,) = metric.by
        schema = f'{{"{Stack.of(self).stack_name}",{dimension}}}'
        search = f"""SEARCH('{schema} MetricName="{metric.name}"', '{statistic}', {60 * minutes})"""
        return cloudwatch.MathExpression(
            expression=search, using_metrics={}, period=Duration.minutes(minutes), label=""
        )


def _throttles(table: str) -> Iterable[Line]:
    """As the table itself counts them, also those of nobody's function."""
    for name in ("ReadThrottleEvents", "WriteThrottleEvents"):
        yield aws(f"AWS/DynamoDB {name}", {"TableName": table}, "Sum")


def _each(metric: str, resources: Mapping[str, str], dimension: str = "QueueName") -> list[Line]:
    return [aws(metric, {dimension: resource}, "Maximum", label=name) for name, resource in resources.items()]


def _filling(row: Row) -> list[Any]:
    """Widgets side by side over the whole width."""
    width = WIDTH // len(row)
    return [kind(title, list(lines), width) for kind, title, lines in row]


def _graph(title: str, lines: Sequence[Line], width: int) -> Any:
    axis = cloudwatch.YAxisProps(min=0)
    return cloudwatch.GraphWidget(title=title, left=lines, left_y_axis=axis, width=width, height=HEIGHT)


def _now(title: str, lines: Sequence[Line], width: int) -> Any:
    return cloudwatch.SingleValueWidget(title=title, metrics=lines, width=width, height=HEIGHT)
