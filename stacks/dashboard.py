"""The CloudWatch dashboard. Its first row shows whether orders are processed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from functions.model import metrics as m
from functions.model.metrics import MetricDefinition
from stacks.alarms import MonitoredResources, aws_metric, shop_metric

GraphMetric = Any
"""A metric, or a math expression over metrics."""
WidgetRow = Sequence[tuple[Callable[[str, Sequence[GraphMetric], int], Any], str, Sequence[GraphMetric]]]
"""The widgets of one dashboard row. Each widget is (function that creates it, title, metrics)."""
QUEUE_AGE_METRIC, QUEUE_DEPTH_METRIC = (
    "AWS/SQS ApproximateAgeOfOldestMessage",
    "AWS/SQS ApproximateNumberOfMessagesVisible",
)
WIDTH, HEIGHT = 24, 6


class Dashboard(Construct):
    """The dashboard of the deployment, with the monitored queues, stream readers and API, and the table."""

    def __init__(self, scope: Construct, id: str, *, places: MonitoredResources, table: str) -> None:
        super().__init__(scope, id)
        self._monitored, self._table = places, table
        rows = self._orders(), self._api(), self._stream(), self._queues(), self._units(), self._money()
        stack = Stack.of(self)
        cloudwatch.Dashboard(
            self,
            "Dashboard",
            dashboard_name=f"{stack.stack_name}-{stack.region}",  # names must be unique across all regions
            default_interval=Duration.hours(3),
            widgets=[_fill_width(row) for row in rows],
        )

    def _orders(self) -> WidgetRow:
        """Return the first row: numbers of orders, waiting times of events, and failures that wait for an operator."""
        steps = [self._sum_metric(metric) for metric in (m.ORDERS_PLACED, m.ORDERS_PAID, m.ORDERS_FULFILLED)]
        levels = self._level_metrics(m.ORDERS_STALLED, m.PARKED_WAITING, m.FAILED_BATCHES_WAITING)
        failures = [*levels, *_metric_per_resource(QUEUE_DEPTH_METRIC, self._monitored["dead letters"])]
        return [
            (_graph_widget, "Orders per minute", steps),
            (
                _graph_widget,
                "Oldest waiting event of each reaction, seconds",
                _metric_per_resource(QUEUE_AGE_METRIC, self._monitored["queue"]),
            ),
            (_single_value_widget, "Stalled orders and waiting failures", failures),
        ]

    def _api(self) -> WidgetRow:
        (api,) = ({"ApiId": id} for id in self._monitored["api"].values())
        answers = [aws_metric(f"AWS/ApiGateway {answer}", api, "Sum") for answer in ("Count", "4xx", "5xx")]
        answers += [self._sum_metric(m.BUSY_ANSWERS), self._sum_metric(m.CANARY_SUCCEEDED)]
        times = [aws_metric("AWS/ApiGateway Latency", api, share, label=share) for share in ("p50", "p99")]
        sent = (m.WEBHOOK_EVENTS_SENT, m.WEBHOOK_ATTEMPTS_FAILED, m.WEBHOOKS_PAUSED)
        return [
            (_graph_widget, "API: requests and errors", answers),
            (_graph_widget, "API: latency, ms", times),
            (_graph_widget, "Webhooks: events sent, failed attempts, paused", [self._sum_metric(one) for one in sent]),
        ]

    def _stream(self) -> WidgetRow:
        ages = _metric_per_resource("AWS/Lambda IteratorAge", self._monitored["reader"], "FunctionName")
        return [
            (_graph_widget, "Stream readers: age of the oldest record, ms", ages),
            (
                _graph_widget,
                "Functions: failed attempts, and runs out of time",
                [self._metric_by_dimension(m.EFFECTS_FAILED), self._metric_by_dimension(m.OUT_OF_TIME)],
            ),
            (
                _graph_widget,
                "Lag from change to processing, ms (p99)",
                [self._metric_by_dimension(m.PROCESSING_LAG, "p99")],
            ),
        ]

    def _queues(self) -> WidgetRow:
        return [
            (
                _graph_widget,
                "Queues: messages waiting",
                _metric_per_resource(QUEUE_DEPTH_METRIC, self._monitored["queue"]),
            ),
            (
                _graph_widget,
                "Effects",
                [self._metric_by_dimension(m.EFFECTS_ACCEPTED), self._metric_by_dimension(m.EFFECTS_SKIPPED)],
            ),
            (
                _graph_widget,
                "Parked, and continued by a message to the own queue",
                [self._metric_by_dimension(m.PARKED), self._metric_by_dimension(m.SELF_REQUEUED)],
            ),
            (
                _graph_widget,
                "Mails that SES refused: deferred, and for how long, ms",
                [self._metric_by_dimension(m.MAILS_DEFERRED), *self._level_metrics(m.MAIL_DEFERRAL_AGE)],
            ),
        ]

    def _units(self) -> WidgetRow:
        return [
            (_graph_widget, "Table: read units per minute", [self._metric_by_dimension(m.READ_UNITS)]),
            (_graph_widget, "Table: write units per minute", [self._metric_by_dimension(m.WRITE_UNITS)]),
            (
                _graph_widget,
                "Table: throttled requests",
                [
                    self._metric_by_dimension(m.THROTTLES_BY_FUNCTION),
                    self._metric_by_dimension(m.THROTTLES_BY_RESOURCE),
                    *_table_throttles(self._table),
                ],
            ),
        ]

    def _money(self) -> WidgetRow:
        back = [
            self._metric_by_dimension(m.REFUNDED, minutes=60),
            *(self._sum_metric(metric, 60) for metric in (m.REFUNDS_FAILED, m.OVER_REFUNDED)),
        ]
        levels = self._level_metrics(m.UNMATCHED_PAYMENTS, m.OVERDUE_ORDERS, m.ARCHIVE_MISMATCHES)
        return [
            (_graph_widget, "Revenue per hour, minor units", [self._metric_by_dimension(m.REVENUE, minutes=60)]),
            (_graph_widget, "Refunds per hour, minor units", back),
            (_single_value_widget, "Unmatched payments, overdue orders, archive mismatches", levels),
            (_graph_widget, "Oldest overdue order, ms", self._level_metrics(m.OVERDUE_LAG)),
        ]

    def _sum_metric(self, metric: MetricDefinition, minutes: int = 1) -> GraphMetric:
        return shop_metric(self, metric, "Sum", minutes)

    def _level_metrics(self, *metrics: MetricDefinition) -> list[GraphMetric]:
        return [shop_metric(self, metric, "Maximum", 5) for metric in metrics]

    def _metric_by_dimension(self, metric: MetricDefinition, statistic: str = "Sum", minutes: int = 1) -> GraphMetric:
        """Return a search expression that draws one line for each value of the metric's dimensions."""
        schema = f'{{"{Stack.of(self).stack_name}",{",".join(metric.dimensions)}}}'
        search = f"""SEARCH('{schema} MetricName="{metric.name}"', '{statistic}', {60 * minutes})"""
        return cloudwatch.MathExpression(
            expression=search, using_metrics={}, period=Duration.minutes(minutes), label=""
        )


def _table_throttles(table: str) -> Iterable[GraphMetric]:
    """Yield DynamoDB's own throttle metrics. They also count requests that do not come from a Lambda."""
    for name in ("ReadThrottleEvents", "WriteThrottleEvents"):
        yield aws_metric(f"AWS/DynamoDB {name}", {"TableName": table}, "Sum")


def _metric_per_resource(metric: str, resources: Mapping[str, str], dimension: str = "QueueName") -> list[GraphMetric]:
    return [aws_metric(metric, {dimension: resource}, "Maximum", label=name) for name, resource in resources.items()]


def _fill_width(row: WidgetRow) -> list[Any]:
    """Return the widgets of a row with equal widths, so that they fill the width of the dashboard."""
    width = WIDTH // len(row)
    return [kind(title, list(lines), width) for kind, title, lines in row]


def _graph_widget(title: str, lines: Sequence[GraphMetric], width: int) -> Any:
    axis = cloudwatch.YAxisProps(min=0)
    return cloudwatch.GraphWidget(title=title, left=lines, left_y_axis=axis, width=width, height=HEIGHT)


def _single_value_widget(title: str, lines: Sequence[GraphMetric], width: int) -> Any:
    return cloudwatch.SingleValueWidget(title=title, metrics=lines, width=width, height=HEIGHT)
