"""Collect the metrics of one invocation, and log them in embedded metric format, which needs no API call.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from functions.model.metrics import MetricDefinition

Dimensions = tuple[tuple[str, str], ...]
"""The names and values of a metric's dimensions, except `function`."""
MAX_VALUES_PER_METRIC = 100
"""How many values of one metric a line in embedded metric format can hold."""


class MetricsBuffer:
    """Collects the metrics of one invocation of a Lambda function."""

    def __init__(self, function: str) -> None:
        self._function = function
        self._values: dict[tuple[Dimensions, MetricDefinition], list[float]] = defaultdict(list)

    def add_metric(self, metric: MetricDefinition, value: float = 1, **dimensions: str) -> None:
        """Add a value to a metric. `dimensions`: such as `currency` for an amount, but not `function`.

        The log line has each value if the metric has `keep_each_value`, otherwise the sum. A zero is ignored, unless
        the metric has `keep_each_value` or is a gauge (a current level).
        """
        if not value and not metric.is_gauge and not metric.keep_each_value:
            return
        values = self._values[tuple(dimensions.items()), metric]
        if metric.keep_each_value or not values:
            values.append(value)
        else:
            values[0] += value

    def emf_lines(self, namespace: str, at_ms: int) -> Iterator[str]:
        """Yield the log lines with all metrics: one for equal dimensions, and more if it cannot hold all values."""
        left: dict[Dimensions, dict[MetricDefinition, list[float]]] = defaultdict(dict)
        for (dimensions, metric), values in self._values.items():
            left[dimensions][metric] = values
        for dimensions, metrics in left.items():
            for start in range(0, max(map(len, metrics.values())), MAX_VALUES_PER_METRIC):
                now = {metric: values[start : start + MAX_VALUES_PER_METRIC] for metric, values in metrics.items()}
                some = {metric: values for metric, values in now.items() if values}
                yield self._emf_line(namespace, at_ms, dict(dimensions), some)

    def _emf_line(
        self, namespace: str, at_ms: int, dimensions: dict[str, str], metrics: dict[MetricDefinition, list[float]]
    ) -> str:
        directives: dict[tuple[Any, ...], list[dict[str, str]]] = defaultdict(list)
        for metric in metrics:
            directives[metric.dimension_sets].append({"Name": metric.name, "Unit": metric.unit})
        metric_directives = [
            {"Namespace": namespace, "Dimensions": [list(names) for names in sets], "Metrics": named}
            for sets, named in directives.items()
        ]
        line: dict[str, Any] = {
            "_aws": {"Timestamp": at_ms, "CloudWatchMetrics": metric_directives},
            "function": self._function,
            **dimensions,
        }
        line |= {metric.name: values if metric.keep_each_value else values[0] for metric, values in metrics.items()}
        return json.dumps(line, separators=(",", ":"))
