"""Log and measure each invocation: a decorator for all Lambda handlers, and functions that log results and failures."""

import functools
import gc
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import Any, TypeVar

from functions import IN_LAMBDA
from functions.dynamodb.capacity import ThrottlingReason
from functions.model import metrics
from functions.model.events import ReceivedEvent, delivery_attempt, order_id_of_message
from functions.model.lambdas import lambda_name_of_module
from functions.model.metrics import MetricDefinition
from functions.runtime.clients import capacity_units
from functions.runtime.environment import CommonEnvironment, load_environment
from functions.runtime.log import invocation, log, metrics_logger
from functions.runtime.metrics_buffer import MetricsBuffer
from functions.shop.shop import ShopContext

R = TypeVar("R")

_metrics_buffer: ContextVar[MetricsBuffer] = ContextVar("tally")
SHARED_PARTITIONS = ("DISCOUNT#", "SALES_MINUTE#", "PRODUCT#", "SALES#", "SEASON#", "SERIES#", "STATUS#", "STOCK#")
"""Prefixes of the partition keys that many customers share. Such a key can become hot, and identifies no customer."""


def add_metric(metric: MetricDefinition, value: float = 1, **dimensions: str) -> None:
    """Add a value to a metric of this invocation. Does nothing outside a Lambda handler, for example in an ops tool.

    `dimensions`: the values of the metric's dimensions except `function`, for example `currency`.
    """
    if metrics_buffer := _metrics_buffer.get(None):
        metrics_buffer.add_metric(metric, value, **dimensions)


def instrument_handler(handler: Callable[[dict[str, Any], Any], R]) -> Callable[[dict[str, Any], Any], R]:
    """Decorate a Lambda handler: add the Lambda's name to log lines, and log the metrics, also after an error."""
    function_name = lambda_name_of_module(handler.__module__)

    @functools.wraps(handler)
    def wrapper(event: dict[str, Any], context: Any) -> R:
        _resume_garbage_collection()
        metrics_buffer, before = MetricsBuffer(function_name), capacity_units.totals
        throttled_before = capacity_units.throttling_reasons
        invocation_token = invocation.set(
            {"function": function_name, "invocation": getattr(context, "aws_request_id", "")}
        )
        buffer_token = _metrics_buffer.set(metrics_buffer)
        try:
            return handler(event, context)
        finally:
            _add_invocation_metrics(metrics_buffer, event, before)
            _report_throttling(metrics_buffer, capacity_units.throttling_reasons - throttled_before)
            namespace = load_environment(CommonEnvironment).metrics_namespace
            for line in metrics_buffer.emf_lines(namespace, int(time.time() * 1000)):
                metrics_logger.info(line)
            _metrics_buffer.reset(buffer_token)
            invocation.reset(invocation_token)

    return wrapper


def _add_invocation_metrics(
    metrics_buffer: MetricsBuffer, event: Mapping[str, Any], before: tuple[float, float, int]
) -> None:
    """Add metrics: the age of the stream records, the units consumed since `before`, and throttled requests."""
    if (age_ms := _iterator_age_ms(event)) is not None:
        metrics_buffer.add_metric(metrics.PROCESSING_LAG, age_ms)
    consumed = (metrics.READ_UNITS, metrics.WRITE_UNITS, metrics.THROTTLES_BY_FUNCTION)
    for metric, by_now, then in zip(consumed, capacity_units.totals, before, strict=True):
        metrics_buffer.add_metric(metric, by_now - then)


def _report_throttling(metrics_buffer: MetricsBuffer, throttled: Counter[ThrottlingReason]) -> None:
    """Log and count the throttled requests of an invocation, by reason and table or index.

    It has the last partition key, or only its kind, such as "CUSTOMER", if a customer owns it.
    """
    for why, requests in throttled.items():
        key = capacity_units.last_throttled_key(why)
        key = key if key.startswith(SHARED_PARTITIONS) else key.partition("#")[0]
        log.warning("requests_throttled", extra={**why._asdict(), "key": key, "requests": requests})
        metrics_buffer.add_metric(metrics.THROTTLES_BY_RESOURCE, requests, resource=why.target, reason=why.reason)


def _resume_garbage_collection() -> None:
    """Turn the garbage collector on at the first invocation, without imported modules, which are never garbage."""
    if IN_LAMBDA and not gc.isenabled():
        gc.freeze()
        gc.enable()


def _iterator_age_ms(event: Mapping[str, Any]) -> int | None:
    """Return the age in milliseconds of the oldest change in a batch of stream records; None for other events."""
    changes = [it.get("dynamodb") for it in event.get("Records") or () if isinstance(it, Mapping)]
    times = [it.get("ApproximateCreationDateTime") for it in changes if isinstance(it, Mapping)]
    made = [time for time in times if isinstance(time, int | float)]
    return max(0, int((time.time() - min(made)) * 1000)) if made else None


def log_effect(message: str, shop: ShopContext, event: ReceivedEvent, *, effect: str | None, **more: Any) -> None:
    """Log the outcome of an event, with its age, its delivery attempt and the capacity units, and count it in the
    metrics.

    `message`: the constant text of the log line. `effect`: the key of the result, such as an invoice id; None if the
    event is a duplicate or had no result. `more`: additional fields.
    """
    lag = shop.now() - datetime.fromisoformat(event.at)
    # In the local shop (on one machine, for development), a command can delete items as if their `ttl` had passed. The
    # event of such a deletion has the time of the `ttl`, which is in the future. Then the lag is negative: count 0.
    lag_ms = max(0, int(lag.total_seconds() * 1000))
    add_metric(metrics.PROCESSING_LAG, lag_ms)
    add_metric(metrics.EFFECTS_SKIPPED if effect is None else metrics.EFFECTS_ACCEPTED)
    about = {"event_id": event.id, "order_id": getattr(event.data, "order_id", None), "effect": effect, **more}
    how = {"lag_ms": lag_ms, "attempt": event.attempt, "units": capacity_units.consumed_since_last_call()}
    # Log a failed refund as a warning, because a person must handle it.
    (log.warning if about.get("status") == "FAILED" else log.info)(message, extra=about | how)


def failure_logger(reader: str) -> Callable[[Exception, Mapping[str, Any]], None]:
    """Return a function that logs and counts a failed record: only the error's type and ids, no personal data."""

    def log_failure(error: Exception, record: Mapping[str, Any]) -> None:
        log.warning(
            "record_failed", extra={"reader": reader, "error": type(error).__name__} | record_identifiers(record)
        )
        add_metric(metrics.EFFECTS_FAILED)

    return log_failure


def record_identifiers(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ids and keys of a stream record or an SQS message for the log. Other content may be personal data."""
    if keys := (record.get("dynamodb") or {}).get("Keys"):
        return {"record": record.get("eventID"), "item": {name: key.get("S") for name, key in keys.items()}}
    return {
        "record": record.get("messageId"),
        "order_id": order_id_of_message(record),
        "attempt": delivery_attempt(record),
    }
