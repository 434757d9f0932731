"""Read the recent activity of one customer, or of all customers on one day.

Each activity item records one change of an order. A Lambda that reads the table's stream writes these items. So the
newest activity may be missing for a moment.
"""

from functions.dynamodb.table import QueryPage
from functions.model.entities import Activity
from functions.model.patterns import ACTIVITY_BY_DAY, CUSTOMER_ACTIVITY
from functions.shop.shop import Caller, ShopContext


def list_activity_of_customer(
    shop: ShopContext, caller: Caller, customer_id: str, since: str, until: str, limit: int, after: str | None
) -> QueryPage[Activity]:
    """Return a customer's activity from `since` until just before `until`, newest first (access pattern A5).

    Each activity item records one change of an order, and expires after 90 days. Raises NotFound if the caller may not
    see the customer.
    """
    caller.require_access(customer_id)
    return shop.table.query(
        CUSTOMER_ACTIVITY, customer_id=customer_id, since=since, until=until, limit=limit, after=after
    )


def list_activity_of_day(
    shop: ShopContext, caller: Caller, day: str, limit: int, after: str | None
) -> QueryPage[Activity]:
    """Return the activity (changes of orders) of all customers on one day, newest first (access pattern A5b).

    `day`: a date in UTC, for example 2026-11-21. The items of a day are spread over several index keys (shards), to
    prevent a hot key. So the query reads every shard and merges the results. Raises NotAllowed if the caller is not
    staff.
    """
    caller.require_group("staff")
    return shop.table.query(ACTIVITY_BY_DAY, day=day, limit=limit, after=after)
