"""Read the list of webhooks, and cache it for seconds while the Lambda is warm."""

from collections.abc import Sequence
from functools import lru_cache

from functions.model.entities import Webhook
from functions.runtime import clients
from functions.shop.shop import ShopContext
from functions.shop.webhook_deliveries import list_subscribed
from functions.shop.webhooks import MAX_WEBHOOKS_READ_AGE_SECONDS


def get_webhooks(shop: ShopContext) -> Sequence[Webhook]:
    """Return all webhooks, read at most MAX_WEBHOOKS_READ_AGE_SECONDS ago."""
    return read_webhooks(shop.table.name, int(shop.now().timestamp() // MAX_WEBHOOKS_READ_AGE_SECONDS))


@lru_cache(maxsize=1)
def read_webhooks(table_name: str, period: int) -> Sequence[Webhook]:  # noqa: ARG001  a new period is a new cache key
    return list_subscribed(clients.create_shop(table_name))
