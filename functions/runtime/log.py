"""The structured log of all Lambdas: each log entry is one line of JSON.

Every line has `timestamp`, `level`, `message` (a short constant), `function`, `invocation` (Lambda's request id),
`trace` (the X-Ray trace id) and the entry's own fields. Four fields link an API request to its effects: `request_id`
(the id of the API request), `order_id`, `event_id` (the id of a change and of its event) and `effect` (the key of the
result, such as the id of an invoice). The log contains no personal data, only ids, states and amounts.
"""

import json
import logging
import os
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from functions.dynamodb.codec import Image
from functions.dynamodb.errors import Unreadable
from functions.dynamodb.keys import KEY_ATTRIBUTES

LOGGER_NAME = "orderstream"
CORRELATION_FIELDS = ("request_id", "order_id", "event_id", "effect")
"""The log fields that link an API request to everything that it caused, such as an invoice or a mail."""
LOG_RECORD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
"""The attributes that every LogRecord has. The formatter does not write them as fields of the log entry."""
invocation: ContextVar[dict[str, str]] = ContextVar("call", default={})  # noqa: B039  the default is never modified
"""The log fields of the running invocation: {"function": its name, "invocation": Lambda's request id}."""


class JsonFormatter(logging.Formatter):
    """Format a log record as one line of JSON."""

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
    if not made.handlers:  # a second handler would write each line a second time
        handler = logging.StreamHandler(sys.stdout)  # Lambda sends the lines of stdout to CloudWatch Logs unchanged
        handler.setFormatter(formatter)
        made.addHandler(handler)
    made.setLevel(logging.INFO)
    made.propagate = False  # otherwise Lambda's own handler would write each line a second time
    return made


log = _create_logger(LOGGER_NAME, JsonFormatter())
metrics_logger = _create_logger(f"{LOGGER_NAME}.counts", logging.Formatter("%(message)s"))
"""The logger for metrics: it writes lines in CloudWatch's embedded metric format without adding fields."""


def log_unreadable(image: Image, error: Unreadable) -> None:
    """Log that an item in a query result cannot be decoded. The log shows only the item's key, never its content."""
    key = {name: image.get(name, {}).get("S") for name in KEY_ATTRIBUTES["main"]}
    log.error("item_decode_failed", extra={"item": key, "error": type(error).__name__})
