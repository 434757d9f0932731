"""What a Lambda is wired to: AWS clients, the shop, its log, and the place for what can never be handled.

Everything is made when first needed and kept while the Lambda is warm. A test or a simulation replaces these functions.
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
    user_agent="orderstream",  # else botocore spells out itself and all around it at each call: a fifth of its time
)


@cache
def client(service: str) -> Any:
    """The client of an AWS service: one per Lambda, made at its first call."""
    made = boto3.client(service, config=client_config(service))  # type: ignore[call-overload]  # it is not a literal here
    if service == "dynamodb":
        capacity_units.instrument(made)
    return made


def client_config(service: str) -> Config:
    """How patient the client of a service is."""
    # A mail whose answer is lost must not be sent again by the client, but when its claim has run out.
    return CLIENT_CONFIG.merge(Config(retries={"total_max_attempts": 1})) if service == "sesv2" else CLIENT_CONFIG


def create_shop(table_name: str, **settings: Any) -> Shop:
    """The shop on its table, under the wall clock."""
    table = Table(client("dynamodb"), table_name, ROWS_BY_TYPE, on_decode_error=log_unreadable)
    return Shop(table=table, new_id=lambda: uuid.uuid4().hex, **settings)


# what a call tells of itself ------------------------------------------------------------------------------------------
_metrics_buffer: ContextVar[MetricsBuffer] = ContextVar("tally")


def add_metric(metric: MetricDefinition, value: float = 1, *, currency: str | None = None) -> None:
    """Count something of this call; nothing where nobody is called (an operator's tool uses what is deployed, too)."""
    if metrics_buffer := _metrics_buffer.get(None):
        metrics_buffer.add_metric(metric, value, currency=currency)


def instrument_handler(
    function_name: str,
) -> Callable[[Callable[[dict[str, Any], Any], R]], Callable[[dict[str, Any], Any], R]]:
    """Have each call of a handler tell which function it is in its log, and what it counted, whatever came of it."""

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
    """At a Lambda's first call garbage is looked for again, but not in what is there by now."""
    if IN_LAMBDA and not gc.isenabled():
        gc.freeze()
        gc.enable()


def _iterator_age_ms(event: Mapping[str, Any]) -> int | None:
    """How many milliseconds ago the oldest change of a batch of the stream was made."""
    changes = [it.get("dynamodb") for it in event.get("Records") or () if isinstance(it, Mapping)]
    times = [it.get("ApproximateCreationDateTime") for it in changes if isinstance(it, Mapping)]
    made = [time for time in times if isinstance(time, int | float)]
    return max(0, int((time.time() - min(made)) * 1000)) if made else None


def log_unreadable(image: Image, error: Unreadable) -> None:
    """Log an item that a queue shows and nobody can read: its key, never what is in it."""
    key = {name: image.get(name, {}).get("S") for name in KEY_ATTRIBUTES["main"]}
    log.error("unreadable", extra={"item": key, "error": type(error).__name__})


def log_effect(message: str, shop: Shop, event: ReceivedEvent, *, effect: str | None, **more: Any) -> None:
    """Tell what a reaction made of an event: the effect's key, None where it had it before, or has none.

    The line says also how long after the change that was, at which delivery, and what it consumed.
    """
    lag = shop.now() - datetime.fromisoformat(event.at)
    # What ended before its time (somebody looks ahead on a laptop) is told with the time of its end.
    lag_ms = max(0, int(lag.total_seconds() * 1000))
    add_metric(metrics.PROCESSING_LAG, lag_ms)
    add_metric(metrics.EFFECTS_DUPLICATE if effect is None else metrics.EFFECTS_ACCEPTED)
    about = {"event_id": event.id, "order_id": getattr(event.data, "order_id", None), "effect": effect, **more}
    how = {"lag_ms": lag_ms, "attempt": event.attempt, "units": capacity_units.consumed_since_last_call()}
    # Money that could not be given back is for a person to look at.
    (log.warning if about.get("status") == "FAILED" else log.info)(message, extra=about | how)


@lru_cache(maxsize=8)
def get_secret(name: str, period: int = 0) -> str:  # noqa: ARG001  a new period is a new value in the cache
    """The value of a secret, read once while the Lambda is warm; once in each `period`, where it may be rotated."""
    return str(client("secretsmanager").get_secret_value(SecretId=name)["SecretString"])


def get_valid_secrets(name: str, period: int) -> list[str]:
    """The values of a secret that is changed without a gap, {"current": ..., "previous": ...}: as many as there are.
    Raises ValueError where it is not so."""
    kept = json.loads(get_secret(name, period))
    return [one for one in (kept.get("current"), kept.get("previous")) if one]


SECRET_CACHE_SECONDS = 300
"""How long a warm Lambda may go on with the value of a secret that was changed."""


def get_payment_provider(url: str, secret_name: str) -> "PaymentProvider":
    """The payment provider, asked with the key that the secret holds by now."""
    return _cached_payment_provider(url, get_secret(secret_name, int(time.time() // SECRET_CACHE_SECONDS)).strip())


@lru_cache(maxsize=2)
def _cached_payment_provider(url: str, key: str) -> "PaymentProvider":
    from functions.provider import HttpPaymentProvider  # noqa: PLC0415  all others start without it

    return HttpPaymentProvider(url, key)


def dead_letter_writer(bucket: str, reader: str) -> Callable[[Mapping[str, Any], str], None]:
    """A function that keeps a record with the reason why it can never be handled: `parked/{reader}/{hash}.json`.

    The name is made of the record, so a record that comes again is kept once: as it was kept first, or as an erasure
    has left it since.
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
    """A function that logs a failure: its kind and what finds the record again, never what is in the record."""

    def log_failure(error: Exception, record: Mapping[str, Any]) -> None:
        log.warning("failed", extra={"reader": reader, "error": type(error).__name__} | _record_identifiers(record))
        add_metric(metrics.EFFECTS_FAILED)

    return log_failure


def _record_identifiers(record: Mapping[str, Any]) -> dict[str, Any]:
    """What finds a stream record, or a queue's message, again: ids and keys, nothing else that is in it."""
    if keys := (record.get("dynamodb") or {}).get("Keys"):
        return {"record": record.get("eventID"), "item": {name: key.get("S") for name, key in keys.items()}}
    return {
        "record": record.get("messageId"),
        "order_id": order_id_of_message(record),
        "attempt": delivery_attempt(record),
    }
