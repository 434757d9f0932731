"""Product alerts: send a mail to each follower of a product when the product is back in stock or costs less.

Each SQS message is about one page of followers. After its mails, the Lambda sends a message about the next page to its
own queue, and stores the progress. After a crash, at most one page is repeated, and followers who already got the mail
are skipped. A page ends after five failed mails. The next page starts only when no mail of this one needs a retry. If
SES refuses a mail for now, the Lambda defers the page: it sends the message again, with a delay.
"""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from functions.adapters.mail_pace import MailPace
from functions.adapters.mailer import Sender, send_mail
from functions.dynamodb.errors import Permanent
from functions.mails.product_alerts import render_alert
from functions.model import metrics
from functions.model.entities import Customer, Product
from functions.model.events import ReceivedEvent
from functions.model.languages import choose_language
from functions.model.public_routes import UNSUBSCRIBE_PATH
from functions.model.retention import PRODUCT_ALERTS_TIMEOUT_SECONDS
from functions.model.retries import ClaimHeld
from functions.runtime import clients, observability
from functions.runtime.environment import ProductAlertsEnvironment
from functions.runtime.log import log
from functions.runtime.mail_deferral import defer_message, remove_deferral
from functions.runtime.queue_batch import MessageBatch, queue_handler, queue_url
from functions.shop.order_notifications import MailRefused, holding_claim, latest_mail_start, mark_sent
from functions.shop.product_alerts import (
    RECIPIENTS_PER_BATCH,
    claim_alert,
    get_follower_page,
    mark_page_deferred,
    mark_page_notified,
    select_recipients,
)
from functions.shop.shop import ShopContext
from functions.shop.unsubscribe import create_unsubscribe_token

MAX_PAGES = 10_000
"""The maximum number of pages in a chain of messages: a million followers, if each page has 100 followers.

Lambda stops a function that calls itself through a queue after 16 calls. The stack turns this protection off for this
function (RecursiveLoop). So the function counts the pages itself.
https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html
"""
MAX_FAILURES_PER_PAGE = 5
"""After this number of failed mails in a page of followers, the Lambda stops. The retry sends the remaining mails."""


class PageIncomplete(ClaimHeld):
    """Some mails of a page of followers failed. The queue retries the page after the claims on these mails ended."""


@queue_handler(ProductAlertsEnvironment, parked_form=remove_deferral)
def handler(batch: MessageBatch, shop: ShopContext, environment: ProductAlertsEnvironment) -> None:
    """Lambda entry point: for each message, send the mails to one page of followers."""
    pace = MailPace(shop, environment.alerts_per_minute, latest_mail_start(shop, PRODUCT_ALERTS_TIMEOUT_SECONDS))
    for message in batch.records:
        batch.apply([message], partial(alert_followers, shop, environment, pace, message))
    pace.wait()


def alert_followers(
    shop: ShopContext,
    environment: ProductAlertsEnvironment,
    pace: MailPace,
    message: Mapping[str, Any],
    events: list[ReceivedEvent],
) -> None:
    """Send the mails about an event to one page of followers, then send the queue message for the next page.

    Defers the page if SES refuses a mail for now. Raises Permanent if the position or number of the page is malformed,
    or the chain has MAX_PAGES pages. Raises PageIncomplete or another error if the message must be delivered again.
    """
    (event,) = events
    body = json.loads(message["body"])
    after = body.get("after")
    if after is not None and not isinstance(after, str):
        raise Permanent("the page position `after` must be text")
    number = body.get("page", 1)
    if not isinstance(number, int) or not 1 <= number <= MAX_PAGES:
        raise Permanent(f"the number of the page must be 1 to {MAX_PAGES}")
    deferral = body.get("deferral")
    if deferral is not None and not isinstance(deferral, int):
        raise Permanent("the number of the deferral must be a number")
    if pace.refused_all_by:
        defer_message(shop, message, pace.refused_all_by)
        return
    page = get_follower_page(shop, event, after, environment.page_size, deferral)
    mails = 0
    if page is not None:
        try:
            mails = _send_alerts(shop, environment, pace, event, page.product, page.followers)
        except MailRefused as refused:
            defer_message(shop, message, refused, deferral=page.campaign.deferrals + 1)
            mark_page_deferred(shop, page)
            return
        if page.after is not None:
            following = json.dumps({"detail": body["detail"], "after": page.after, "page": number + 1})
            sqs = clients.client("sqs")
            sqs.send_message(QueueUrl=queue_url(sqs, message["eventSourceARN"]), MessageBody=following)
            observability.add_metric(metrics.SELF_REQUEUED)
        mark_page_notified(shop, page)
    said = {"news": event.name, "product_id": event.data.product_id, "mails": mails, "page": number}
    more = page is not None and page.after is not None
    observability.log_effect("product_alerts_sent", shop, event, effect=event.id if mails else None, more=more, **said)


def _send_alerts(
    shop: ShopContext,
    environment: ProductAlertsEnvironment,
    pace: MailPace,
    event: ReceivedEvent,
    product: Product,
    followers: tuple[str, ...],
) -> int:
    """Send the mails to these followers within the mail rate limit. Return how many mails were sent.

    A permanent rejection is only logged. Raises MailRefused if the provider refuses for now, and PageIncomplete if a
    mail failed for another reason. Stops early if all are refused, or after MAX_FAILURES_PER_PAGE.
    """
    mails, failures = 0, list[Exception]()
    batches = (
        followers[start : start + RECIPIENTS_PER_BATCH] for start in range(0, len(followers), RECIPIENTS_PER_BATCH)
    )
    for customer in (customer for batch in batches for customer in select_recipients(shop, event, batch)):
        pace.acquire()
        try:
            mails += _send_alert(shop, environment, pace, event, product, customer)
        except Permanent as error:  # the mail provider will never accept this address
            log.warning("product_alert_rejected", extra={"event_id": event.id, "error": type(error).__name__})
        except Exception as error:  # noqa: BLE001  the other followers get their mails
            failures.append(error)
            reason = error.reason if isinstance(error, ClaimHeld) else error
            log.warning("product_alert_failed", extra={"event_id": event.id, "error": type(reason).__name__})
            if pace.refused_all_by or len(failures) == MAX_FAILURES_PER_PAGE:
                break
    if failures:
        raise _page_failure(failures)
    return mails


def _page_failure(failures: list[Exception]) -> Exception:
    """Return the error to raise for a page: a MailRefused if there is one, because the page is then deferred."""
    refused = [error for error in failures if isinstance(error, MailRefused)]
    claimed_until = max((error.claimed_until for error in failures if isinstance(error, ClaimHeld)), default=0)
    return refused[-1] if refused else PageIncomplete(claimed_until)


def _send_alert(
    shop: ShopContext,
    environment: ProductAlertsEnvironment,
    pace: MailPace,
    event: ReceivedEvent,
    product: Product,
    customer: Customer,
) -> bool:
    """Send the alert to one follower. Returns False and sends nothing if the follower already got this alert."""
    notification = claim_alert(shop, event, customer.customer_id, pace.latest_start)
    if notification is None:
        return False
    language = choose_language(customer.language, environment.language)
    unsubscribe_url = _get_unsubscribe_url(shop, environment, customer.customer_id, language.code)
    mail = render_alert(
        event.name, customer, product, environment.shop_name, language, environment.product_url, unsubscribe_url
    )
    sender = Sender(environment.sender, environment.configuration_set)
    with holding_claim(shop, notification):
        message_id = pace.send(lambda: send_mail(sender, customer.email, mail, notification.effect_id))
        mark_sent(shop, notification, message_id)
    return True


def _get_unsubscribe_url(
    shop: ShopContext, environment: ProductAlertsEnvironment, customer_id: str, language: str
) -> str:
    """Return the link with which a follower turns off all product alerts, without signing in."""
    token = create_unsubscribe_token(shop, customer_id, "product_alerts")
    return f"{environment.public_url}{UNSUBSCRIBE_PATH}?token={token}&language={language}"
