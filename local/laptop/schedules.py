"""Finds the EventBridge schedules of the stack, and runs those that are due while the clock advances."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from local.laptop.aws_process import ACCOUNT
from local.laptop.deploy import DeployedStack, resources_of_type
from local.world.dynamodb_engine import REGION

RATE_UNITS = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": timedelta(days=1)}


@dataclass(frozen=True)
class Schedule:
    """A rule that invokes functions at an interval. `targets`: their names, each with its InputTransformer or None."""

    rule_arn: str
    interval: timedelta
    targets: Sequence[tuple[str, Mapping[str, Any] | None]]

    def invocations(self, at: datetime) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the function and the event of each invocation. `at`: the scheduled time."""
        for function, transformer in self.targets:
            event = self.event(at)
            yield function, transform_event(transformer, event) if transformer else event

    def event(self, at: datetime) -> dict[str, Any]:
        """Build the event with which EventBridge invokes the functions. `at` is cut to whole seconds.

        https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-run-lambda-schedule.html
        """
        return {
            "version": "0",
            "id": f"look-ahead-{at:%Y%m%dT%H%M%S}",
            "detail-type": "Scheduled Event",
            "source": "aws.events",
            "account": ACCOUNT,
            "time": at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": REGION,
            "resources": [self.rule_arn],
            "detail": {},
        }


def find_schedules(stack: DeployedStack) -> list[Schedule]:
    """Return all schedules of the template. Raises ValueError if a schedule is not a rate in minutes, hours or days."""
    return [
        Schedule(
            f"arn:aws:events:{REGION}:{ACCOUNT}:rule/{stack.resources[id]}",
            parse_rate(rule["ScheduleExpression"]),
            [(stack.resources[one["Arn"]["Fn::GetAtt"][0]], one.get("InputTransformer")) for one in rule["Targets"]],
        )
        for id, rule in resources_of_type(stack.template, "AWS::Events::Rule")
        if "ScheduleExpression" in rule
    ]


def transform_event(transformer: Mapping[str, Any], event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the event for a target with this InputTransformer. Only paths such as `$.time` are supported.

    https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-transform-target-input.html
    """
    text = transformer["InputTemplate"]
    for name, path in transformer["InputPathsMap"].items():
        text = text.replace(f"<{name}>", json.dumps(event[path.removeprefix("$.")]))
    found: dict[str, Any] = json.loads(text)
    return found


def parse_rate(expression: str) -> timedelta:
    """Return the interval of an expression such as "rate(5 minutes)". Raises ValueError for any other form."""
    found = re.fullmatch(r"rate\((\d+) (minute|hour|day)s?\)", expression)
    if not found:
        raise ValueError(f"{expression!r} is not supported here: use a rate in minutes, hours or days")
    return int(found[1]) * RATE_UNITS[found[2]]


def run_schedules(
    schedules: Sequence[Schedule], start: datetime, until: datetime, invoke: Callable[[str, dict[str, Any]], Any]
) -> Counter[str]:
    """Run schedules at several times (`run_times`), and return the sums of the numbers that the functions return."""
    done: Counter[str] = Counter()
    runs = [(at, one) for one in schedules for at in run_times(one.interval, start, until)]
    for at, schedule in sorted(runs, key=lambda run: run[0]):
        for function, event in schedule.invocations(at):
            done.update(invoke(function, event) or {})
    return done


def run_times(interval: timedelta, start: datetime, until: datetime) -> Iterator[datetime]:
    """Yield the times at which a schedule runs while the clock advances: after 1, 2, 4, 8, … intervals, and at the end.

    Each run also does the work of those left out. But some work needs two runs: the second finishes an erasure at least
    14 days after the first. So some runs come soon after the start and others far apart, about 50 in 400 days.
    """
    after = interval
    while start + after < until:
        yield start + after
        after *= 2
    yield until
