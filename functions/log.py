"""The log: one line of JSON for each thing that is told, of the same shape wherever it comes from.

{"timestamp", "level", "message": what happened in a word or two, "function", "invocation": Lambda's id of the call,
"trace": X-Ray's, and what is said of it}. What ties a request to all that follows is always called the same:
`request_id` (the API's), `order_id`, `event_id` (of a change, and of the event that tells of it) and `effect` (what was
made of it, by its key). Nothing of a person: ids, states and amounts only.
"""

import json
import logging
import os
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

LOGGER_NAME = "orderstream"
CORRELATION_FIELDS = ("request_id", "order_id", "event_id", "effect")
"""What ties a request to all that follows from it."""
LOG_RECORD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
"""What a record of the standard library bears by itself."""
invocation: ContextVar[dict[str, str]] = ContextVar("call", default={})  # noqa: B039  nobody writes into it
"""Which call of which function this is: {"function", "invocation"}."""


class JsonFormatter(logging.Formatter):
    """A record as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line: dict[str, Any] = {"timestamp": at, "level": record.levelname, "message": record.getMessage()}
        line |= invocation.get()
        if trace := os.environ.get("_X_AMZN_TRACE_ID"):
            line["trace"] = trace.partition(";")[0].removeprefix("Root=")
        line |= {name: value for name, value in vars(record).items() if name not in LOG_RECORD_ATTRIBUTES}
        return json.dumps(line, default=str, separators=(",", ":"))


def _create_logger(name: str, formatter: logging.Formatter) -> logging.Logger:
    made = logging.getLogger(name)
    if not made.handlers:  # else it was made before, and may be watched by then
        handler = logging.StreamHandler(sys.stdout)  # Lambda takes its lines as they are
        handler.setFormatter(formatter)
        made.addHandler(handler)
    made.setLevel(logging.INFO)
    made.propagate = False  # Lambda's own handler would write it once more
    return made


log = _create_logger(LOGGER_NAME, JsonFormatter())
metrics_logger = _create_logger(f"{LOGGER_NAME}.counts", logging.Formatter("%(message)s"))
"""Takes the lines that CloudWatch makes metrics of, as they are."""
