"""Lambda that copies a customer's new name to the customer's open orders after a name change."""

from typing import Any

from functions import wiring
from functions.environment import CustomerNamesEnvironment, load_environment
from functions.model.events import ReceivedEvent
from functions.queues import MessageBatch
from functions.shop.names import propagate_name
from functions.shop.shop import Shop


@wiring.instrument_handler("names")
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Lambda entry point: process a batch of SQS messages and return the failed ones for retry."""
    environment = load_environment(CustomerNamesEnvironment)
    shop = wiring.create_shop(environment.table_name)
    batch = MessageBatch(
        event, wiring.dead_letter_writer(environment.failures_bucket, "names"), wiring.failure_logger("names")
    )
    return batch.apply_each(lambda renamed: propagate_customer_name(shop, renamed)).response()


def propagate_customer_name(shop: Shop, event: ReceivedEvent) -> None:
    """Copy a customer's new name to the customer's open orders, and log how many orders changed."""
    orders = propagate_name(shop, event.id, event.data.customer_id)
    wiring.log_effect("renamed", shop, event, effect=event.id if orders else None, orders=orders)
