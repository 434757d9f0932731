"""Fetch the sums of DynamoDB's metrics of a table from CloudWatch."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

MetricOfTable = tuple[str, Mapping[str, str]]
"""The name of a metric, and its dimensions besides the table. A dimension with the value "" is left out."""


def fetch_sums(
    cloudwatch: Any, table: str, wanted: Sequence[MetricOfTable], period_seconds: int, since: datetime, until: datetime
) -> list[dict[datetime, float]]:
    """Return for each wanted metric: its sum by the start of the period. A period without requests is left out."""
    queries = []
    for number, (metric, others) in enumerate(wanted):
        dimensions = [{"Name": name, "Value": value} for name, value in {"TableName": table, **others}.items() if value]
        counted = {"Namespace": "AWS/DynamoDB", "MetricName": metric, "Dimensions": dimensions}
        queries.append({"Id": f"m{number}", "MetricStat": {"Metric": counted, "Period": period_seconds, "Stat": "Sum"}})
    sums: list[dict[datetime, float]] = [{} for _ in wanted]
    pages = cloudwatch.get_paginator("get_metric_data").paginate(
        MetricDataQueries=queries, StartTime=since, EndTime=until
    )
    for page in pages:
        for result in page["MetricDataResults"]:
            sums[int(result["Id"][1:])] |= dict(zip(result["Timestamps"], result["Values"], strict=True))
    return sums
