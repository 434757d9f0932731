"""Defer a mail that SES refuses for now: send its message to the queue of the Lambda again, with a delay.

SQS counts the receives and the retention of a message from its sending. For a new message both counts start again, so a
mail can wait longer than SQS retries one message. The body contains the time of the first deferral, and a value that
identifies the newest deferral:
{"detail": the event, "first_at": a time, "deferral": a token, or a number for a campaign}.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from functions.dynamodb.errors import Permanent
from functions.dynamodb.keys import to_instant
from functions.model import metrics
from functions.model.retention import MAIL_DEFERRAL_DAYS
from functions.model.retries import deferral_delay_seconds
from functions.runtime import clients
from functions.runtime.log import log
from functions.runtime.observability import add_metric, record_identifiers
from functions.runtime.queue_batch import queue_url
from functions.shop.order_notifications import MailRefused
from functions.shop.shop import ShopContext


def get_deferral(message: Mapping[str, Any]) -> Any:
    """Return the value that identifies the newest deferral, or None if the message was not deferred."""
    return json.loads(message["body"]).get("deferral")


def defer_message(
    shop: ShopContext, message: Mapping[str, Any], refused: MailRefused, deferral: str | int | None = None
) -> None:
    """Send a message to the queue from which it came, with a delay. Report success only after this function returned.

    `deferral`: the value that `get_deferral` returns for the new message; None keeps the value of this message. Raises
    Permanent if the message was deferred first more than MAIL_DEFERRAL_DAYS ago, or if `first_at` is no valid time.
    """
    body = json.loads(message["body"])
    now = shop.now()
    first_at = _parse_first_at(body["first_at"]) if "first_at" in body else now
    age = max(now - first_at, timedelta())
    if age > timedelta(days=MAIL_DEFERRAL_DAYS):
        raise Permanent(f"SES has refused the mail since {to_instant(first_at)}, at last with {refused}")
    following = {**body, "first_at": to_instant(first_at), "deferral": deferral or body.get("deferral")}
    sqs = clients.client("sqs")
    delay_seconds = deferral_delay_seconds(age.total_seconds(), is_daily_quota=refused.kind == "quota")
    sqs.send_message(
        QueueUrl=queue_url(sqs, message["eventSourceARN"]),
        MessageBody=json.dumps(following),
        DelaySeconds=delay_seconds,
    )
    add_metric(metrics.MAILS_DEFERRED)
    add_metric(metrics.MAIL_DEFERRAL_AGE, age.total_seconds() * 1000)
    about = {"kind": refused.kind, "error": refused.code, "first_at": following["first_at"]}
    log.warning("mail_deferred", extra=about | {"delay_seconds": delay_seconds} | record_identifiers(message))


def _parse_first_at(text: Any) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (TypeError, ValueError):
        raise Permanent("`first_at` must be a time, such as 2026-11-21T09:30:00.000Z") from None


def remove_deferral(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the message without its deferral, so that a redriven message can be deferred for the full time again."""
    try:
        body = json.loads(message["body"])
    except (LookupError, TypeError, ValueError):
        return message
    if not isinstance(body, Mapping) or not body.keys() & {"first_at", "deferral"}:
        return message
    return {**message, "body": json.dumps({name: body[name] for name in body if name not in ("first_at", "deferral")})}
