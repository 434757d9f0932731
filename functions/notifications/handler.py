"""Claim, send, mark: a mail goes out once, but for a crash between the provider's acceptance and the mark."""

from typing import Any

from botocore.exceptions import ClientError

from functions import wiring
from functions.dynamodb.streams import Permanent
from functions.environment import Notifications, current
from functions.model.events import Received
from functions.notifications.mails import Mail, written
from functions.queues import Messages
from functions.shop.notifications import claim, letter, mark_sent
from functions.shop.shop import Shop

NEVER_TAKEN = {"BadRequestException", "MessageRejected"}
"""Refusals of a mail that would come again for ever (SES API v2 reference, SendEmail)."""


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
        wiring.log.info("not wanted", extra={"event": told.id, "order_id": told.data.order_id})
        return
    mine = claim(shop, told.name, told.id, told.at, about.order)
    if mine is None:
        return
    amount = getattr(told.data, "amount", None)
    mail = written(told.name, about.customer, about.order, environment.shop_name, amount)
    message_id = _send(environment.sender, about.customer.email, mail, told.id)
    mark_sent(shop, mine, message_id)
    wiring.log.info(
        "mailed",
        extra={
            "event": told.id,
            "order_id": told.data.order_id,
            "mail": told.name,
            "message_id": message_id,
            **wiring.delivered(shop, told),
        },
    )


def _send(sender: str, to: str, mail: Mail, effect_id: str) -> str:
    """Hand a mail to the provider; its id there. Raises Permanent where the provider will never take it."""
    content = {
        "Simple": {
            "Subject": {"Data": mail.subject},
            "Body": {"Text": {"Data": mail.text}, "Html": {"Data": mail.html}},
        }
    }
    try:
        answer = wiring.client("sesv2").send_email(
            FromEmailAddress=sender,
            Destination={"ToAddresses": [to]},
            Content=content,
            EmailTags=[{"Name": "effect", "Value": effect_id}],
        )
    except ClientError as error:
        if (code := error.response["Error"]["Code"]) in NEVER_TAKEN:
            raise Permanent(code) from error
        raise
    return str(answer["MessageId"])
