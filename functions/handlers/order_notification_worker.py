"""Order notifications: claim the mail with a conditional write, send it, then mark it as sent.

A mail is sent once, except after a crash between the acceptance by SES and the mark. Then it may be sent twice.
"""

from functions.adapters.mailer import send_mail
from functions.mails.order_notifications import render_notification
from functions.model.events import ReceivedEvent
from functions.runtime import observability
from functions.runtime.environment import OrderNotificationsEnvironment
from functions.runtime.queue_batch import MessageBatch, queue_handler
from functions.shop.order_notifications import claim_order_notification, get_mail_context, mark_sent
from functions.shop.shop import Shop


@queue_handler(OrderNotificationsEnvironment)
def handler(batch: MessageBatch, shop: Shop, environment: OrderNotificationsEnvironment) -> None:
    """Lambda entry point: send the mail about each event."""
    batch.apply_each(lambda event: send_notification(shop, environment, event))


def send_notification(shop: Shop, environment: OrderNotificationsEnvironment, event: ReceivedEvent) -> None:
    """Send the mail about an event. Does nothing if it was sent before or the customer does not want it.

    If an error is raised, the queue retries the event.
    """
    customer_id = event.data.customer_id  # None if a payment matches no order: a person handles it
    recipient = customer_id and get_mail_context(shop, customer_id, event.data.order_id)
    if not recipient:
        observability.log_effect("notification_skipped", shop, event, effect=None)
        return
    notification = claim_order_notification(shop, event.name, event.id, event.at, recipient.order)
    if notification is None:
        observability.log_effect("notification_sent", shop, event, effect=None)
        return
    amount = getattr(event.data, "amount", None)
    mail = render_notification(event.name, recipient.customer, recipient.order, environment.shop_name, amount)
    message_id = send_mail(environment.sender, recipient.customer.email, mail, event.id)
    mark_sent(shop, notification, message_id)
    observability.log_effect(
        "notification_sent", shop, event, effect=notification.effect_id, mail=event.name, message_id=message_id
    )
