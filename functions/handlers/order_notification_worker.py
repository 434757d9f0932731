"""Order notifications Lambda: send a mail to the customer for each event of an order.

1. A conditional write stores a claim: an item that says that this invocation is sending the mail.
2. SES sends the mail.
3. A second write marks the mail as sent.

If the Lambda crashes before step 3, the claim expires after some seconds, and then a retry sends the mail. If SES had
already accepted the mail, the customer gets it twice.

If SES refuses the mail for now, for example because the daily quota is used up, the Lambda defers it: it sends the
message to its own queue again, with a delay. If SES refuses all mails, the Lambda defers all remaining messages.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from functions.adapters.mail_pace import MailPace
from functions.adapters.mailer import Sender, send_mail
from functions.mails.order_notifications import render_notification
from functions.model.entities import Customer
from functions.model.events import InvoiceData, ReceivedEvent, RefundData
from functions.model.languages import choose_language
from functions.model.mail_kinds import MAIL_KIND_BY_EVENT
from functions.model.retention import MAIL_ATTEMPT_SECONDS, MAIL_SENDER_TIMEOUT_SECONDS
from functions.runtime import observability
from functions.runtime.environment import OrderNotificationsEnvironment
from functions.runtime.mail_deferral import defer_message, get_deferral, remove_deferral
from functions.runtime.queue_batch import MessageBatch, queue_handler
from functions.shop.guest_links import create_token, link_to_order
from functions.shop.invoices import create_mail_link
from functions.shop.order_notifications import (
    MailRefused,
    claim_order_notification,
    get_mail_context,
    get_refund,
    holding_claim,
    latest_mail_start,
    mark_deferred,
    mark_sent,
)
from functions.shop.shop import ShopContext


@queue_handler(OrderNotificationsEnvironment, margin_seconds=MAIL_ATTEMPT_SECONDS, parked_form=remove_deferral)
def handler(batch: MessageBatch, shop: ShopContext, environment: OrderNotificationsEnvironment) -> None:
    """Lambda entry point: send a mail to the customer for each event of an order."""
    pace = MailPace(shop, environment.order_mails_per_minute, latest_mail_start(shop, MAIL_SENDER_TIMEOUT_SECONDS))
    for message in batch.records:
        batch.apply([message], partial(_send_or_defer, shop, environment, pace, message))
    pace.wait()


def _send_or_defer(
    shop: ShopContext,
    environment: OrderNotificationsEnvironment,
    pace: MailPace,
    message: Mapping[str, Any],
    events: list[ReceivedEvent],
) -> None:
    """Send the mail of a message. If SES refuses all mails for now, defer the message without a request to SES."""
    (event,) = events
    if refused := pace.refused_all_by:
        defer_message(shop, message, refused)
    else:
        send_notification(shop, environment, pace, message, event)


def send_notification(
    shop: ShopContext,
    environment: OrderNotificationsEnvironment,
    pace: MailPace,
    message: Mapping[str, Any],
    event: ReceivedEvent,
) -> None:
    """Send the mail about an order event to the customer, and log the result. Defer the mail if SES refuses it for now.

    Sends nothing if the mail was already sent, the event has no customer, the customer was erased or wants no mails, or
    the order is archived. Raises Permanent to have the event parked, NoTimeLeft, and other errors for a retry.
    """
    customer_id = event.data.customer_id  # None if the event is the refund of a payment that has no order
    kind = MAIL_KIND_BY_EVENT[event.name]
    recipient = get_mail_context(shop, event.data.order_id, kind) if customer_id else None
    if recipient is None:
        observability.log_effect("notification_skipped", shop, event, effect=None)
        return
    pace.acquire()
    notification = claim_order_notification(
        shop,
        event.name,
        event.id,
        event.at,
        recipient.order,
        latest_start=pace.latest_start,
        deferral=get_deferral(message),
    )
    if notification is None:
        observability.log_effect("notification_sent", shop, event, effect=None)
        return
    refund = event.data if isinstance(event.data, RefundData) else None
    credit_note = event.data if isinstance(event.data, InvoiceData) else None
    language = choose_language(recipient.customer.language, environment.language)
    mail = render_notification(
        event.name,
        recipient.customer,
        recipient.order,
        environment.shop_name,
        language,
        refund,
        get_refund(shop, refund.order_id, refund.refund_id) if refund else None,
        credit_note,
        _get_link(shop, environment, credit_note.invoice_id, language.code) if credit_note else "",
        _get_guest_link(shop, environment, recipient.customer) if recipient.customer.link else "",
    )
    sender = Sender(environment.sender, environment.configuration_set)
    with holding_claim(shop, notification):
        try:
            message_id = pace.send(lambda: send_mail(sender, recipient.customer.email, mail, event.id))
        except MailRefused as refused:
            deferral = shop.new_id()
            defer_message(shop, message, refused, deferral)
            mark_deferred(shop, notification, deferral)  # this ends the claim
            return
        mark_sent(shop, notification, message_id)
    observability.log_effect(
        "notification_sent", shop, event, effect=notification.effect_id, mail=event.name, message_id=message_id
    )


def _get_link(shop: ShopContext, environment: OrderNotificationsEnvironment, invoice_id: str, language: str) -> str:
    return create_mail_link(shop, invoice_id, language).to_url(environment.public_url)


def _get_guest_link(shop: ShopContext, environment: OrderNotificationsEnvironment, guest: Customer) -> str:
    return link_to_order(guest, create_token(shop, guest), environment.page_url, environment.public_url)
