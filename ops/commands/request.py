"""The `request` command: find a request of the API by its id, which each answer has as the header X-Request-Id.

It prints what the API's function and API Gateway logged about the request. The command writes nothing. The logs and
its output have no personal data.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from functions.dynamodb.keys import to_instant
from ops import targets
from ops.cli_errors import RecordNotFound, UsageError
from ops.commands.failures import parse_time
from ops.targets import ShopTarget
from ops.terminal_text import colored

REQUEST_ID = re.compile(r"[A-Za-z0-9+/_=-]{1,128}")
LOG_GROUPS = re.compile(r"/orderstream/[^/]+/(api|payment_starter)|/aws/vendedlogs/apis/.+")
"""The names of the log groups of the API's functions, and of the access log of API Gateway."""

LogLine = Mapping[str, Any]


def find_log_lines(target: ShopTarget, request_id: str, since: datetime) -> list[LogLine]:
    """Return the log lines of a request: at most one of a function, and one of the access log.

    A line of a function has `request_id`, a line of the access log has `requestId`. The local shop has no access log.
    On AWS, the search reads each log group from this time to the request, or to its end:
    https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_FilterLogEvents.html
    """
    if "--stack" not in target.options:
        texts: Iterator[str] = iter(target.function_log().decode(errors="replace").splitlines())
        return [line for line in _parse_lines(texts, request_id) if line["timestamp"] >= to_instant(since)]
    logs, found = target.client("logs"), list[LogLine]()
    for group in filter(LOG_GROUPS.fullmatch, target.resources("AWS::Logs::LogGroup")):
        pages = logs.get_paginator("filter_log_events").paginate(
            logGroupName=group,
            startTime=int(since.timestamp() * 1000),
            filterPattern=f'{{ ($.request_id = "{request_id}") || ($.requestId = "{request_id}") }}',
        )
        texts = (event["message"] for page in pages for event in page["events"])
        if line := next(_parse_lines(texts, request_id), None):
            found.append(line)
    return found


def _parse_lines(texts: Iterator[str], request_id: str) -> Iterator[LogLine]:
    for text in texts:
        if text.startswith("{") and request_id in text:  # other lines are of Lambda itself
            line = json.loads(text)
            if request_id in (line.get("request_id"), line.get("requestId")):
                yield line


def describe_request(target: ShopTarget, request_id: str, lines: Sequence[LogLine]) -> Iterator[str]:
    """Yield lines of text about a request from its log lines, at least one, and the command that shows its order."""
    handled = next((line for line in lines if "request_id" in line), {})
    gateway = next((line for line in lines if "requestId" in line), {})
    shown = handled or gateway
    yield colored(f"request {request_id}: {shown['route']} answered {shown['status']}", "bold")
    for name, text in {**_describe_handled(handled), **_describe_gateway(gateway)}.items():
        if text:
            yield f"  {name:11}  {text}"
    if not handled:
        yield "The function logged nothing: API Gateway answered itself, or the function ended without an answer."
    if order_id := handled.get("order_id"):
        yield f"To see what happened to its order: {target.ops_command(f'order {order_id}')}"


def _describe_handled(line: LogLine) -> dict[str, str]:
    if not line:
        return {}
    units = line["units"]
    return {
        "time": line["timestamp"],
        "function": f"{line['function']}, {line['ms']} ms, invocation {line['invocation']}",
        "units": f"{units['read']:g} read, {units['write']:g} write",
        "sent by": f"staff:{line['staff_id']}" if "staff_id" in line else "not staff",
        "problem": line.get("problem", ""),
        "fault": _describe_fault(line["fault"]) if "fault" in line else "",
        "order": line.get("order_id", ""),
    }


def _describe_fault(fault: Mapping[str, Any]) -> str:
    """Return the error with its place: the last stack frame in the code of the shop, or the last one if none is."""
    frames = fault["at"]
    place = next((frame for frame in reversed(frames) if "/functions/" in frame), frames[-1])
    return " ".join(filter(None, (fault["error"], fault["says"], "at", place)))


def _describe_gateway(line: LogLine) -> dict[str, str]:
    if not line:
        return {}
    errors = [line[name] for name in ("authorizerError", "integrationError") if line[name] != "-"]
    took = f"{line['time']}, {line['status']}, {line['latencyMilliseconds']} ms"
    return {"API Gateway": ", ".join([took, *errors])}


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: targets.Subparsers) -> None:
    parser = commands.add_parser(
        "request",
        parents=[targets.target_options(needs_stack=True)],
        help="show what the logs have about one request of the API",
        description="On AWS, the search reads all log lines since WHEN. A short time is faster.",
    )
    parser.add_argument("request_id", metavar="ID", help="the header X-Request-Id of an answer")
    parser.add_argument("--since", metavar="WHEN", default="1d", help="as 3d, 12h, or 2026-11-21T09:30Z (default: 1d)")
    parser.set_defaults(run=show_request)


def show_request(args: argparse.Namespace) -> None:
    """Print what the logs have about a request. Raises RecordNotFound if they have nothing, and UsageError."""
    if not REQUEST_ID.fullmatch(args.request_id):
        raise UsageError(f"{args.request_id!r} is not the id of a request. Use the header X-Request-Id of an answer.")
    since = parse_time(args.since, datetime.now(UTC))
    target = targets.resolve_target(args)
    lines = find_log_lines(target, args.request_id, since)
    if not lines:
        raise RecordNotFound(f"no log line since {to_instant(since)} has this request id: search more with --since 7d")
    for line in describe_request(target, args.request_id, lines):
        print(line)
