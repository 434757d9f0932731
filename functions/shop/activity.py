"""Read the recent activity of one customer, or of all customers on one day. The newest may be missing for a moment."""

from functions.model.entities import Activity
from functions.model.patterns import ACTIVITY_BY_DAY, CUSTOMER_ACTIVITY
from functions.shop.lists import ListPage, ListRequest, read_page
from functions.shop.shop import ShopContext


def list_activity_of_customer(shop: ShopContext, request: ListRequest, customer_id: str) -> ListPage[Activity]:
    """Return a customer's activity in the time range, newest first (access pattern A5). Raises NotFound."""
    request.caller.require_access(customer_id)
    return read_page(shop, request, CUSTOMER_ACTIVITY, customer_id=customer_id)


def list_activity_of_day(shop: ShopContext, request: ListRequest, day: str) -> ListPage[Activity]:
    """Return the activity of all customers on one day in UTC, such as 2026-11-21, newest first (access pattern A5b).

    The query reads all shards of the day, and merges the results. Raises NotAllowed if the caller is not staff.
    """
    request.caller.require_group("staff")
    return read_page(shop, request, ACTIVITY_BY_DAY, day=day)
