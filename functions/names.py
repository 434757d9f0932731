"""The reaction to a customer's new name: their open orders bear it."""

from typing import Any

from functions import wiring
from functions.environment import Names, current
from functions.model.events import Received
from functions.queues import Messages
from functions.shop.names import spread
from functions.shop.shop import Shop


@wiring.observed("names")
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Lambda entry point: a batch of queue messages in, the messages to send again out."""
    environment = current(Names)
    shop = wiring.shop(environment.table_name)
    messages = Messages(event, wiring.parking(environment.failures_bucket, "names"), wiring.failing("names"))
    return messages.each(lambda renamed: rename(shop, renamed)).response()


def rename(shop: Shop, renamed: Received) -> None:
    """Bring the name to one customer's open orders."""
    orders = spread(shop, renamed.id, renamed.data.customer_id)
    wiring.worked("renamed", shop, renamed, effect=renamed.id if orders else None, orders=orders)
