"""Product alerts: send a mail to each follower of a product when the product is back in stock or costs less.

Each SQS message is about one page of the list of followers. After all mails of a page are sent, the Lambda sends a
message about the next page to its own queue. Then it stores the progress in the table.

After a crash, at most one page is repeated, and followers who already got the mail are skipped. If a mail fails, the
Lambda continues with the next follower of the page. After five failed mails, it stops. In both cases, SQS delivers the
message again. The next page starts only when no mail of the current page needs a retry.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from functions.adapters.mailer import Sender, send_mail
from functions.dynamodb.errors import Permanent
from functions.mails.product_alerts import render_alert
from functions.model import metrics
from functions.model.entities import Customer, Product
from functions.model.events import ReceivedEvent
from functions.model.public_routes import UNSUBSCRIBE_PATH
from functions.model.retention import PRODUCT_ALERTS_TIMEOUT_SECONDS
from functions.model.retries import ClaimHeld
from functions.runtime import clients, observability, secrets
from functions.runtime.environment import ProductAlertsEnvironment
from functions.runtime.log import log
from functions.runtime.queue_batch import MessageBatch, queue_handler
from functions.runtime.rate_limiter import RateLimiter
from functions.shop.order_notifications import holding_claim, latest_mail_start, mark_sent
from functions.shop.product_alerts import (
    RECIPIENTS_PER_BATCH,
    claim_alert,
    get_follower_page,
    mark_page_notified,
    select_recipients,
)
from functions.shop.shop import Shop
from functions.shop.unsubscribe import create_unsubscribe_token

MAX_PAGES = 10_000
"""After this number of pages, a chain of messages ends: a million followers, if a page has 100.

Lambda stops a function that calls itself through a queue after 16 calls. The stack turns that off for this function
(RecursiveLoop), and then Lambda counts nothing. So the function counts the pages itself.
https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html
"""
MAX_FAILURES_PER_PAGE = 5
"""After this number of failed mails in a page of followers, the Lambda stops. The retry sends the remaining mails."""


class PageIncomplete(ClaimHeld):
    """Some mails of a page of followers failed. The queue retries the page when the claims on them have ended."""


@queue_handler(ProductAlertsEnvironment)
def handler(batch: MessageBatch, shop: Shop, environment: ProductAlertsEnvironment) -> None:
    """Lambda entry point: for each message, send the mails to one page of followers."""
    for message in batch.records:
        batch.apply([message], partial(alert_followers, shop, environment, message))


def alert_followers(
    shop: Shop, environment: ProductAlertsEnvironment, message: Mapping[str, Any], events: list[ReceivedEvent]
) -> None:
    """Send the mails about an event to one page of followers, then send the queue message for the next page.

    Raises Permanent if the position or number of the page in the message is malformed, or if the chain has MAX_PAGES
    pages. Raises PageIncomplete or another error if the
    message must be delivered again.
    """
    latest_start = latest_mail_start(shop, PRODUCT_ALERTS_TIMEOUT_SECONDS)
    (event,) = events
    body = json.loads(message["body"])
    after = body.get("after")
    if after is not None and not isinstance(after, str):
        raise Permanent("the page position `after` must be text")
    number = body.get("page", 1)
    if not isinstance(number, int) or not 1 <= number <= MAX_PAGES:
        raise Permanent(f"the number of the page must be 1 to {MAX_PAGES}")
    page = get_follower_page(shop, event, after, environment.page_size)
    mails = 0
    if page is not None:
        mails = _send_alerts(shop, environment, event, page.product, page.followers, latest_start)
        if page.after is not None:
            following = json.dumps({"detail": body["detail"], "after": page.after, "page": number + 1})
            clients.client("sqs").send_message(QueueUrl=environment.queue_url, MessageBody=following)
            observability.add_metric(metrics.CONTINUED)
        mark_page_notified(shop, page)
    said = {"news": event.name, "product_id": event.data.product_id, "mails": mails, "page": number}
    more = page is not None and page.after is not None
    observability.log_effect("product_alerts_sent", shop, event, effect=event.id if mails else None, more=more, **said)


def _send_alerts(
    shop: Shop,
    environment: ProductAlertsEnvironment,
    event: ReceivedEvent,
    product: Product,
    followers: tuple[str, ...],
    latest_start: datetime,
) -> int:
    """Send the mails to these followers within the mail rate limit. Returns how many mails were sent.

    If the mail provider rejects a mail permanently, the error is only logged. Raises PageIncomplete if a mail failed
    for another reason.
    """
    mails = failures = claimed_until = 0
    rate_limiter = RateLimiter(shop.table.clock, shop.table.sleep, environment.mails_per_second)
    for start in range(0, len(followers), RECIPIENTS_PER_BATCH):
        for customer in select_recipients(shop, event, followers[start : start + RECIPIENTS_PER_BATCH]):
            rate_limiter.acquire()
            try:
                mails += _send_alert(shop, environment, event, product, customer, latest_start)
            except Permanent as error:  # the mail provider will never accept this address
                log.warning("product_alert_rejected", extra={"event_id": event.id, "error": type(error).__name__})
            except Exception as error:
                failures += 1
                if isinstance(error, ClaimHeld):
                    claimed_until = max(claimed_until, error.claimed_until)
                reason = error.reason if isinstance(error, ClaimHeld) else error
                log.warning("product_alert_failed", extra={"event_id": event.id, "error": type(reason).__name__})
                if failures == MAX_FAILURES_PER_PAGE:
                    raise PageIncomplete(claimed_until) from error
    if failures:
        raise PageIncomplete(claimed_until)
    return mails


def _send_alert(
    shop: Shop,
    environment: ProductAlertsEnvironment,
    event: ReceivedEvent,
    product: Product,
    customer: Customer,
    latest_start: datetime,
) -> bool:
    """Send the alert to one follower. Returns False and sends nothing if the follower already got this alert."""
    notification = claim_alert(shop, event, customer.customer_id, latest_start)
    if notification is None:
        return False
    unsubscribe_url = _get_unsubscribe_url(shop, environment, customer.customer_id)
    mail = render_alert(event.name, customer, product, environment.shop_name, environment.product_url, unsubscribe_url)
    sender = Sender(environment.sender, environment.configuration_set)
    with holding_claim(notification):
        mark_sent(shop, notification, send_mail(sender, customer.email, mail, notification.effect_id))
    return True


def _get_unsubscribe_url(shop: Shop, environment: ProductAlertsEnvironment, customer_id: str) -> str:
    """Return the link with which a follower turns off all product alerts, without signing in."""
    with_pepper = replace(shop, pepper=lambda: secrets.get_secret(environment.pepper_secret).encode())
    token = create_unsubscribe_token(with_pepper, customer_id, "product_alerts")
    return f"{environment.public_url}{UNSUBSCRIBE_PATH}?token={token}"
