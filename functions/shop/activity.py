"""What happened lately: to a customer, and to all of them in a day. Both are copies: they follow the orders."""

from functions.dynamodb.store import QueryPage
from functions.model.entities import Activity
from functions.model.errors import NotFound
from functions.model.patterns import ACTIVITY_BY_DAY, CUSTOMER_ACTIVITY
from functions.shop.shop import Caller, Shop


def list_activity_of_customer(
    shop: Shop, caller: Caller, customer_id: str, since: str, until: str, limit: int, after: str | None
) -> QueryPage[Activity]:
    """A5: what happened to a customer in [since, until), newest first, 90 days back at most. Raises NotFound."""
    if not caller.can_see(customer_id):
        raise NotFound("customer")
    return shop.table.query(
        CUSTOMER_ACTIVITY, customer_id=customer_id, since=since, until=until, limit=limit, after=after
    )


def list_activity_of_day(shop: Shop, caller: Caller, day: str, limit: int, after: str | None) -> QueryPage[Activity]:
    """A5b: what happened to all customers on a day (2026-11-21, UTC), newest first. For staff. Raises NotAllowed.

    One query for each shard, merged.
    """
    caller.require_group("staff")
    return shop.table.query(ACTIVITY_BY_DAY, day=day, limit=limit, after=after)
