"""Claim, send, mark: a mail goes out once, but for a crash between the provider's acceptance and the mark."""

from typing import Any

from functions import wiring
from functions.environment import Notifications, current
from functions.mails import send
from functions.model.events import Received
from functions.notifications.mails import written
from functions.queues import Messages
from functions.shop.notifications import claim, letter, mark_sent
from functions.shop.shop import Shop


@wiring.observed("notifications")
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Lambda entry point: a batch of queue messages in, the messages to send again out."""
    environment = current(Notifications)
    shop = wiring.shop(environment.table_name)
    messages = Messages(
        event, wiring.parking(environment.failures_bucket, "notifications"), wiring.failing("notifications")
    )
    return messages.each(lambda told: notify(shop, environment, told)).response()


def notify(shop: Shop, environment: Notifications, told: Received) -> None:
    """Send the mail of an event, unless it was sent or nobody wants it. Raises what shall be tried again."""
    customer_id = told.data.customer_id  # None: of money that fits no order, which is a person's to look at
    about = customer_id and letter(shop, customer_id, told.data.order_id)
    if not about:
        wiring.worked("not wanted", shop, told, effect=None)
        return
    mine = claim(shop, told.name, told.id, told.at, about.order)
    if mine is None:
        wiring.worked("mailed", shop, told, effect=None)
        return
    amount = getattr(told.data, "amount", None)
    mail = written(told.name, about.customer, about.order, environment.shop_name, amount)
    message_id = send(environment.sender, about.customer.email, mail, told.id)
    mark_sent(shop, mine, message_id)
    wiring.worked("mailed", shop, told, effect=mine.effect_id, mail=told.name, message_id=message_id)
