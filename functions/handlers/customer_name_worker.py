"""Lambda that copies a customer's new name to the customer's open orders after a name change."""

from typing import Any

from functions.model.events import ReceivedEvent
from functions.runtime import clients, dead_letters, observability
from functions.runtime.environment import CustomerNamesEnvironment, load_environment
from functions.runtime.queue_batch import MessageBatch
from functions.shop.customer_names import propagate_name
from functions.shop.shop import Shop


@observability.instrument_handler("names")
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Lambda entry point: process a batch of SQS messages and return the failed ones for retry."""
    environment = load_environment(CustomerNamesEnvironment)
    shop = clients.create_shop(environment.table_name)
    batch = MessageBatch(
        event,
        dead_letters.dead_letter_writer(environment.failures_bucket, "names"),
        observability.failure_logger("names"),
    )
    return batch.apply_each(lambda renamed: propagate_customer_name(shop, renamed)).response()


def propagate_customer_name(shop: Shop, event: ReceivedEvent) -> None:
    """Copy a customer's new name to the customer's open orders, and log how many orders changed."""
    orders = propagate_name(shop, event.id, event.data.customer_id)
    observability.log_effect("renamed", shop, event, effect=event.id if orders else None, orders=orders)
