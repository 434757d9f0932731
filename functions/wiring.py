"""Shared setup of all Lambdas: AWS clients, the Shop object, logs, metrics, secrets and the failure store.

Clients and secrets are created at first use and cached while the Lambda is warm. Tests and the simulation replace these
functions.
"""

import functools
import gc
import hashlib
import json
import logging
import time
import uuid
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import datetime
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from functions import IN_LAMBDA
from functions.dynamodb.images import Image, Unreadable
from functions.dynamodb.keys import KEY_ATTRIBUTES
from functions.dynamodb.store import Table
from functions.dynamodb.units import ConsumedCapacityCounter
from functions.environment import CommonEnvironment, load_environment
from functions.log import LOGGER_NAME, invocation, metrics_logger
from functions.model import metrics
from functions.model.events import ReceivedEvent, delivery_attempt, order_id_of_message
from functions.model.metrics import MetricDefinition
from functions.model.table import ROWS_BY_TYPE
from functions.shop.shop import Shop
from functions.tally import MetricsBuffer

if TYPE_CHECKING:
    from functions.shop.settling import PaymentProvider

R = TypeVar("R")
log = logging.getLogger(LOGGER_NAME)
capacity_units = ConsumedCapacityCounter()
CLIENT_CONFIG = Config(
    connect_timeout=2,
    read_timeout=3,
    retries={"mode": "standard", "max_attempts": 3},
    user_agent="orderstream",  # otherwise botocore builds this header for each call, which takes a fifth of its time
)


@cache
def client(service: str) -> Any:
    """Return the boto3 client of an AWS service. The first call creates the client, later calls use the cache."""
    made = boto3.client(service, config=client_config(service))  # type: ignore[call-overload]  # no literal here
    if service == "dynamodb":
        capacity_units.instrument(made)
    return made


def client_config(service: str) -> Config:
    """Return the configuration for the client of an AWS service: timeouts and retries."""
    # The SES client must not retry: if SES sent the mail but its answer was lost, the customer would get the mail
    # twice.
    # The SQS queue retries later, when this attempt's claim on the mail has expired.
    return CLIENT_CONFIG.merge(Config(retries={"total_max_attempts": 1})) if service == "sesv2" else CLIENT_CONFIG


def create_shop(table_name: str, **settings: Any) -> Shop:
    """Return a Shop object for the table, with the system clock and random ids."""
    table = Table(client("dynamodb"), table_name, ROWS_BY_TYPE, on_decode_error=log_unreadable)
    return Shop(table=table, new_id=lambda: uuid.uuid4().hex, **settings)


# log and metrics of an invocation -------------------------------------------------------------------------------------
_metrics_buffer: ContextVar[MetricsBuffer] = ContextVar("tally")


def add_metric(metric: MetricDefinition, value: float = 1, *, currency: str | None = None) -> None:
    """Add a value to a metric of this invocation. Does nothing outside a Lambda handler, for example in an ops tool."""
    if metrics_buffer := _metrics_buffer.get(None):
        metrics_buffer.add_metric(metric, value, currency=currency)


def instrument_handler(
    function_name: str,
) -> Callable[[Callable[[dict[str, Any], Any], R]], Callable[[dict[str, Any], Any], R]]:
    """Return a decorator for Lambda handlers that adds the function's name to log lines and writes the metrics.

    The metrics are written even if the handler raises an error.
    """

    def decorate(handler: Callable[[dict[str, Any], Any], R]) -> Callable[[dict[str, Any], Any], R]:
        @functools.wraps(handler)
        def wrapper(event: dict[str, Any], context: Any) -> R:
            _resume_garbage_collection()
            metrics_buffer, before = MetricsBuffer(function_name), capacity_units.totals
            invocation_token = invocation.set(
                {"function": function_name, "invocation": getattr(context, "aws_request_id", "")}
            )
            buffer_token = _metrics_buffer.set(metrics_buffer)
            try:
                return handler(event, context)
            finally:
                if (age_ms := _iterator_age_ms(event)) is not None:
                    metrics_buffer.add_metric(metrics.PROCESSING_LAG, age_ms)
                consumed = (metrics.READ_UNITS, metrics.WRITE_UNITS, metrics.THROTTLES)
                for metric, by_now, then in zip(consumed, capacity_units.totals, before, strict=True):
                    metrics_buffer.add_metric(metric, by_now - then)
                for line in metrics_buffer.emf_lines(
                    load_environment(CommonEnvironment).metrics_namespace, int(time.time() * 1000)
                ):
                    metrics_logger.info(line)
                _metrics_buffer.reset(buffer_token)
                invocation.reset(invocation_token)

        return wrapper

    return decorate


def _resume_garbage_collection() -> None:
    """Turn the garbage collector on at the first invocation, and exclude all existing objects from collection."""
    if IN_LAMBDA and not gc.isenabled():
        gc.freeze()
        gc.enable()


def _iterator_age_ms(event: Mapping[str, Any]) -> int | None:
    """Return the age in milliseconds of the oldest change in a batch of stream records.

    None if the event has no stream records.
    """
    changes = [it.get("dynamodb") for it in event.get("Records") or () if isinstance(it, Mapping)]
    times = [it.get("ApproximateCreationDateTime") for it in changes if isinstance(it, Mapping)]
    made = [time for time in times if isinstance(time, int | float)]
    return max(0, int((time.time() - min(made)) * 1000)) if made else None


def log_unreadable(image: Image, error: Unreadable) -> None:
    """Log that an item in a query result cannot be decoded. Logs the key of the item, never its content."""
    key = {name: image.get(name, {}).get("S") for name in KEY_ATTRIBUTES["main"]}
    log.error("unreadable", extra={"item": key, "error": type(error).__name__})


def log_effect(message: str, shop: Shop, event: ReceivedEvent, *, effect: str | None, **more: Any) -> None:
    """Log the outcome of an event and count it in the metrics.

    `effect`: the key of the result, or None for duplicates and no-ops. The log line also has the lag after the change,
    the delivery attempt and the consumed capacity units.
    """
    lag = shop.now() - datetime.fromisoformat(event.at)
    # A negative lag counts as 0. It occurs if a local run advances the clock and the time of the event is an expiry.
    lag_ms = max(0, int(lag.total_seconds() * 1000))
    add_metric(metrics.PROCESSING_LAG, lag_ms)
    add_metric(metrics.EFFECTS_DUPLICATE if effect is None else metrics.EFFECTS_ACCEPTED)
    about = {"event_id": event.id, "order_id": getattr(event.data, "order_id", None), "effect": effect, **more}
    how = {"lag_ms": lag_ms, "attempt": event.attempt, "units": capacity_units.consumed_since_last_call()}
    # Log a failed refund as a warning, because a person must handle it.
    (log.warning if about.get("status") == "FAILED" else log.info)(message, extra=about | how)


@lru_cache(maxsize=8)
def get_secret(name: str, period: int = 0) -> str:  # noqa: ARG001  a new period is a new cache key
    """Return the value of a secret, cached while the Lambda is warm.

    `period`: a number that changes over time, such as the current hour. Each new period reads the secret again, so a
    rotated value takes effect.
    """
    return str(client("secretsmanager").get_secret_value(SecretId=name)["SecretString"])


def get_valid_secrets(name: str, period: int) -> list[str]:
    """Return all valid values of a rotatable secret, which is JSON {"current": ..., "previous": ...}.

    Raises ValueError if the secret is not JSON.
    """
    kept = json.loads(get_secret(name, period))
    return [one for one in (kept.get("current"), kept.get("previous")) if one]


SECRET_CACHE_SECONDS = 300
"""How many seconds a warm Lambda may use the old value of a secret after a rotation."""


def get_payment_provider(url: str, secret_name: str) -> "PaymentProvider":
    """Return the client of the payment provider, with the current API key from the secret."""
    return _cached_payment_provider(url, get_secret(secret_name, int(time.time() // SECRET_CACHE_SECONDS)).strip())


@lru_cache(maxsize=2)
def _cached_payment_provider(url: str, key: str) -> "PaymentProvider":
    from functions.provider import HttpPaymentProvider  # noqa: PLC0415  the other Lambdas start faster without it

    return HttpPaymentProvider(url, key)


def dead_letter_writer(bucket: str, reader: str) -> Callable[[Mapping[str, Any], str], None]:
    """Return a function that parks a record: it stores the record and the reason in the failure store.

    The object's key is `parked/{reader}/{hash of the record}.json`, so a redelivered record is stored once. An existing
    object is never replaced, because an erasure may have removed personal data from it.
    """

    def park(record: Mapping[str, Any], reason: str) -> None:
        text = json.dumps(record, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()
        body = json.dumps({"reader": reader, "reason": reason, "record": record}).encode()
        key = f"parked/{reader}/{digest}.json"
        try:
            client("s3").put_object(Bucket=bucket, Key=key, Body=body, ContentType="application/json", IfNoneMatch="*")
        except ClientError as error:
            if error.response["Error"]["Code"] != "PreconditionFailed":
                raise
        summary = {"reader": reader, "reason": reason.partition(":")[0], "object": digest}
        log.error("parked", extra=summary | _record_identifiers(record))
        add_metric(metrics.PARKED)

    return park


def failure_logger(reader: str) -> Callable[[Exception, Mapping[str, Any]], None]:
    """Return a function that logs why a record failed: the error's type and the record's ids, never its content."""

    def log_failure(error: Exception, record: Mapping[str, Any]) -> None:
        log.warning("failed", extra={"reader": reader, "error": type(error).__name__} | _record_identifiers(record))
        add_metric(metrics.EFFECTS_FAILED)

    return log_failure


def _record_identifiers(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ids and keys that identify a stream record or an SQS message in the log.

    No other content of the record is safe to log.
    """
    if keys := (record.get("dynamodb") or {}).get("Keys"):
        return {"record": record.get("eventID"), "item": {name: key.get("S") for name, key in keys.items()}}
    return {
        "record": record.get("messageId"),
        "order_id": order_id_of_message(record),
        "attempt": delivery_attempt(record),
    }
