"""What one call of a function counts, told as a line of its log, of which CloudWatch makes metrics. No request is made.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from functions.model.metrics import Metric

MOST_VALUES = 100
"""So many values of a metric one line may hold."""


class Tally:
    """The counts of one call of a function."""

    def __init__(self, function: str) -> None:
        self._function = function
        self._values: dict[tuple[str | None, Metric], list[float]] = defaultdict(list)

    def count(self, metric: Metric, value: float = 1, *, currency: str | None = None) -> None:
        """Add to a metric; `currency`: of which, where it is told by that. Nothing that happened is nothing to tell."""
        if not value and not metric.level and not metric.each:
            return
        values = self._values[currency, metric]
        if metric.each or not values:
            values.append(value)
        else:
            values[0] += value

    def lines(self, namespace: str, at_ms: int) -> Iterator[str]:
        """Lines for the log: one, and one more for each currency, and where there are more values than one may hold."""
        left: dict[str | None, dict[Metric, list[float]]] = defaultdict(dict)
        for (currency, metric), values in self._values.items():
            left[currency][metric] = values
        for currency, metrics in left.items():
            for start in range(0, max(map(len, metrics.values())), MOST_VALUES):
                now = {metric: values[start : start + MOST_VALUES] for metric, values in metrics.items()}
                yield self._line(namespace, at_ms, currency, {it: values for it, values in now.items() if values})

    def _line(self, namespace: str, at_ms: int, currency: str | None, metrics: dict[Metric, list[float]]) -> str:
        directives: dict[tuple[Any, ...], list[dict[str, str]]] = defaultdict(list)
        for metric in metrics:
            directives[metric.dimension_sets].append({"Name": metric.name, "Unit": metric.unit})
        told = [
            {"Namespace": namespace, "Dimensions": [list(names) for names in sets], "Metrics": named}
            for sets, named in directives.items()
        ]
        line: dict[str, Any] = {"_aws": {"Timestamp": at_ms, "CloudWatchMetrics": told}, "function": self._function}
        if currency is not None:
            line["currency"] = currency
        line |= {metric.name: values if metric.each else values[0] for metric, values in metrics.items()}
        return json.dumps(line, separators=(",", ":"))
