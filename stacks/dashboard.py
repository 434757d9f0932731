"""One page to look at first. Its first row answers: are orders flowing?"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from functions.model import metrics as m
from functions.model.metrics import Metric
from stacks.alarms import Places, aws, of

Line = Any
"""A metric, or an expression of some."""


class Dashboard(Construct):
    """`places`: the queues, readers and the api; `table`: the table's name."""

    def __init__(self, scope: Construct, id: str, *, places: Places, table: str) -> None:
        super().__init__(scope, id)
        queues, dead, readers = places["queue"], places["dead letters"], places["reader"]
        age, depth = "AWS/SQS ApproximateAgeOfOldestMessage", "AWS/SQS ApproximateNumberOfMessagesVisible"
        (api,) = ({"ApiId": id} for id in places["api"].values())
        rows = (
            (
                _graph(
                    "Orders a minute",
                    [self._sum(m.ORDERS_PLACED), self._sum(m.ORDERS_PAID), self._sum(m.ORDERS_FULFILLED)],
                ),
                _graph("Oldest event of each reaction, seconds", _each(age, "QueueName", queues)),
                _now(
                    "Failures waiting",
                    [*self._levels(m.PARKED_WAITING, m.GIVEN_UP_WAITING), *_each(depth, "QueueName", dead)],
                ),
            ),
            (
                _graph(
                    "API: requests and refusals",
                    [aws(f"AWS/ApiGateway {it}", api, "Sum") for it in ("Count", "4xx", "5xx")],
                ),
                _graph(
                    "API: milliseconds", [aws("AWS/ApiGateway Latency", api, it, label=it) for it in ("p50", "p99")]
                ),
            ),
            (
                _graph(
                    "Stream readers: age of the oldest record, ms",
                    _each("AWS/Lambda IteratorAge", "FunctionName", readers),
                ),
                _graph("Functions: attempts that failed", [self._by(m.FAILED, "function")]),
                _graph("Lag after the change, ms (p99)", [self._by(m.LAG, "function", "p99")]),
            ),
            (
                _graph("Queues: messages waiting", _each(depth, "QueueName", queues)),
                _graph("Effects", [self._by(m.ACCEPTED, "function"), self._by(m.DUPLICATE, "function")]),
                _graph("Put aside", [self._by(m.PARKED, "function")]),
            ),
            (
                _graph("Table: read units a minute", [self._by(m.READ_UNITS, "function")]),
                _graph("Table: write units a minute", [self._by(m.WRITE_UNITS, "function")]),
                _graph("Table: requests thrown back", [self._by(m.THROTTLES, "function"), *_throttles(table)]),
            ),
            (
                _graph("Revenue an hour, minor units", [self._by(m.REVENUE, "currency", minutes=60)]),
                _graph(
                    "Given back an hour, minor units",
                    [self._by(m.REFUNDED, "currency", minutes=60), self._sum(m.REFUNDS_FAILED, 60)],
                ),
                _now(
                    "Money that fits no order; orders that should have lapsed; archive",
                    self._levels(m.UNMATCHED, m.LAPSE_BACKLOG, m.MISMATCHES),
                ),
            ),
        )
        cloudwatch.Dashboard(
            self,
            "Dashboard",
            dashboard_name=Stack.of(self).stack_name,
            default_interval=Duration.hours(3),
            widgets=[_filling(row) for row in rows],
        )

    def _sum(self, metric: Metric, minutes: int = 1) -> Line:
        return of(self, metric, "Sum", minutes)

    def _levels(self, *metrics: Metric) -> list[Line]:
        return [of(self, metric, "Maximum", 5) for metric in metrics]

    def _by(self, metric: Metric, dimension: str, statistic: str = "Sum", minutes: int = 1) -> Line:
        """A line for each value of a dimension, whichever there are."""
        schema = f"{{{Stack.of(self).stack_name},{dimension}}}"
        search = f"""SEARCH('{schema} MetricName="{metric.name}"', '{statistic}', {60 * minutes})"""
        return cloudwatch.MathExpression(
            expression=search, using_metrics={}, period=Duration.minutes(minutes), label=""
        )


def _throttles(table: str) -> Iterable[Line]:
    """As the table itself counts them, also those of nobody's function."""
    for name in ("ReadThrottleEvents", "WriteThrottleEvents"):
        yield aws(f"AWS/DynamoDB {name}", {"TableName": table}, "Sum")


def _each(metric: str, dimension: str, resources: Mapping[str, str]) -> list[Line]:
    return [aws(metric, {dimension: resource}, "Maximum", label=name) for name, resource in resources.items()]


def _graph(title: str, lines: Sequence[Line]) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=list(lines), left_y_axis=cloudwatch.YAxisProps(min=0), height=6)


def _now(title: str, lines: Sequence[Line]) -> cloudwatch.SingleValueWidget:
    return cloudwatch.SingleValueWidget(title=title, metrics=list(lines), height=6)


def _filling(row: Sequence[cloudwatch.ConcreteWidget]) -> list[cloudwatch.IWidget]:
    """Widgets side by side over the whole width."""
    x = 0
    for widget in row:
        widget.position(x, 0)
        x += 24 // len(row)
    return list(row)
