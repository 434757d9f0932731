"""Evaluates alarms as CloudWatch would, from the metrics that the Lambdas log, and runs the commands of runbooks."""

import json
import logging
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from string import Template
from typing import Any

import pytest

from functions.model.metrics import MetricDefinition
from functions.runtime import clients
from functions.runtime.log import metrics_logger
from ops.__main__ import main
from proof.support.http_client import Token, http_event, invoke_api
from stacks import PROJECT
from stacks.alarm_definitions import AlarmDefinition

BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
STATISTICS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "Maximum": max,
    "Minimum": min,
    "Sum": sum,
    "SampleCount": len,
    "p99": lambda values: sorted(values)[-1 - len(values) // 100],
}


@dataclass
class EmittedMetrics:
    """The metrics that Lambdas wrote to the log, as lines in the embedded metric format (EMF) of CloudWatch."""

    lines: list[dict[str, Any]] = field(default_factory=list)

    def values(self, metric: MetricDefinition, **dimensions: str) -> list[float]:
        """Return the values of a metric with exactly these dimensions, as CloudWatch extracts them from log lines."""
        found: list[float] = []
        for line in self.lines:
            for directive in line["_aws"]["CloudWatchMetrics"]:
                sets = [{name: line[name] for name in names} for names in directive["Dimensions"]]
                if metric.name in [one["Name"] for one in directive["Metrics"]] and dimensions in sets:
                    value = line[metric.name]
                    found += value if isinstance(value, list) else [value]
        return found

    def clear(self) -> None:
        """Delete the metrics that were captured so far, as when the alarm's next evaluation period begins."""
        self.lines.clear()


@contextmanager
def capture_metrics() -> Iterator[EmittedMetrics]:
    """Capture the metrics logged inside the `with` block."""
    told = EmittedMetrics()
    handler = logging.Handler()
    handler.emit = lambda record: told.lines.append(json.loads(record.getMessage()))  # type: ignore[method-assign]
    metrics_logger.addHandler(handler)
    try:
        yield told
    finally:
        metrics_logger.removeHandler(handler)


def alarm_state(alarm: AlarmDefinition, values: Sequence[float], before: str = "OK") -> str:
    """Return the alarm's state after one period with these metric values, as CloudWatch would evaluate the alarm.

    Without values, an alarm with a lower limit goes to ALARM, one on a gauge keeps the state `before`, others go to OK.
    """
    assert alarm.periods == 1, "judged over one period"
    if not values:
        if alarm.below is not None:
            return "ALARM"
        return before if alarm.is_level else "OK"
    found = STATISTICS[alarm.statistic](values)
    is_raised = found > alarm.above if alarm.above is not None else found < (alarm.below or 0)
    return "ALARM" if is_raised else "OK"


def error_rate(expression: str, errors: float, requests: float, expected: float = 0) -> float:
    """Return the value of an alarm's metric math expression, as CloudWatch would compute it, in a period with data."""
    functions = {"FILL": lambda value, default: value, "IF": lambda condition, yes, no: yes if condition else no}
    values = {"errors": errors, "requests": requests, "expected": expected}
    return float(eval(expression, functions, values))  # noqa: S307  the expression is in stacks/alarm_definitions.py


# runbooks -------------------------------------------------------------------------------------------------------------
STAFF_TOKEN = "staff"


def runbook_commands(page: str) -> list[str]:
    """Return the shell commands in a runbook, from top to bottom. `page`: the path of the runbook in the project."""
    text = (PROJECT / page).read_text(encoding="utf-8")
    blocks: list[str] = BLOCK.findall(text)
    lines = [line for block in blocks for line in block.splitlines()]
    assert lines
    assert all(line.startswith("$ ") for line in lines), page
    return [line.removeprefix("$ ") for line in lines]


def run_command(command: str, known: Mapping[str, str], *, deploy: Callable[[], None]) -> None:
    """Run a shell command of a runbook. Fails if `python -m ops` exits with a status other than 0 or 1."""
    words = shlex.split(Template(command).substitute(known))
    match words:
        case ["python", "-m", "ops", *arguments]:
            assert _run_ops(arguments) in (None, 0, 1), command
        case ["make", "deploy", stage, *_] if stage.startswith("STAGE="):
            deploy()
        case ["aws", service, operation, *options]:
            _call_aws(service.removesuffix("api"), operation, options)
        case ["curl", "-X", method, url, *headers]:
            _send_request(method, url, headers)
        case _:
            pytest.fail(f"the test cannot run {command}")


def _run_ops(arguments: Sequence[str]) -> object:
    try:
        main(arguments)
    except SystemExit as ended:
        return 1 if isinstance(ended.code, str) else ended.code
    return 0


def _call_aws(service: str, operation: str, options: Sequence[str]) -> None:
    def camel(text: str) -> str:
        return "".join(word.capitalize() for word in text.split("-"))

    named: dict[str, Any] = {}
    for name, follows in zip(options, [*options[1:], "--"], strict=True):
        if name.startswith("--"):  # if the next word is an option too, this option has no value
            bare = not name.startswith("--no-")
            named[name if bare else f"--{name.removeprefix('--no-')}"] = bare if follows.startswith("--") else follows
    shape = clients.client(service).meta.service_model.operation_model(camel(operation)).input_shape
    spelled = {member.lower(): member for member in shape.members}
    given = {spelled[camel(name.removeprefix("--")).lower()]: value for name, value in named.items()}
    getattr(clients.client(service), operation.replace("-", "_"))(**given)


def _send_request(method: str, url: str, options: Sequence[str]) -> None:
    pairs = [*zip(options[::2], options[1::2], strict=True)]
    headers = dict(text.lower().split(": ", 1) for name, text in pairs if name == "-H")
    body = next((text for name, text in pairs if name == "-d"), None)
    assert headers.pop("authorization") == f"bearer {STAFF_TOKEN}"
    answered = invoke_api(http_event(method, url, token=Token("staff-1", ("staff",)), body=body, headers=headers))
    assert answered.status < 300, answered.text
