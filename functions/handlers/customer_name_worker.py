"""Lambda that copies a customer's new name to the customer's open orders after a name change."""

from functions.model.events import ReceivedEvent
from functions.runtime import observability
from functions.runtime.environment import WorkerEnvironment
from functions.runtime.queue_batch import MessageBatch, queue_handler
from functions.shop.customer_names import propagate_name
from functions.shop.shop import ShopContext


@queue_handler(WorkerEnvironment)
def handler(batch: MessageBatch, shop: ShopContext, _environment: WorkerEnvironment) -> None:
    """Lambda entry point: copy the new name of each renamed customer to the customer's open orders."""
    batch.apply_each(lambda renamed: propagate_customer_name(shop, renamed))


def propagate_customer_name(shop: ShopContext, event: ReceivedEvent) -> None:
    """Copy a customer's new name to the customer's open orders, and log how many orders changed."""
    orders = propagate_name(shop, event.id, event.data.customer_id)
    observability.log_effect(
        "customer_name_propagated", shop, event, effect=event.id if orders else None, orders=orders
    )
