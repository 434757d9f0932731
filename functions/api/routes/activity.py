"""Activity: recent order events of one customer, or of all customers on a day."""

from functions.api.http.context import SignedIn, resolve_customer_id, shop
from functions.api.http.fields import Id, Listed, ResponseModel
from functions.api.http.paging import Cursor, Day, Limit, ListRequest, Since, Until, check_time_range, paginate
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.model.errors import NotAllowed
from functions.model.patterns import ACTIVITY_BY_DAY, CUSTOMER_ACTIVITY
from functions.shop import activity

router = Router()


class ActivityAnswer(ResponseModel):
    """An event of a customer's order. The activity list keeps an event for 90 days."""

    at: str
    event: str
    customer_id: str
    order_id: str


@router.get("/customers/<customer_id>/activity")
def activity_of_customer(
    caller: SignedIn,
    customer_id: Id,
    since: Since = None,
    until: Until = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Listed[ActivityAnswer]:
    """List a customer's recent order events, newest first. A new event appears in the list after a moment."""
    customer_id = resolve_customer_id(caller, customer_id)
    low, high = check_time_range(since, until)
    return paginate(
        ListRequest(caller, CUSTOMER_ACTIVITY, (customer_id, low, high), cursor),
        lambda after: activity.list_activity_of_customer(shop(), caller, customer_id, low, high, limit, after),
        ActivityAnswer.of,
    )


@router.get("/activity", openapi_extensions=problem_responses(NotAllowed))
def activity_of_day(caller: SignedIn, day: Day, limit: Limit = 20, cursor: Cursor = None) -> Listed[ActivityAnswer]:
    """List the order events of all customers on a day, newest first. For staff."""
    return paginate(
        ListRequest(caller, ACTIVITY_BY_DAY, (day,), cursor),
        lambda after: activity.list_activity_of_day(shop(), caller, day, limit, after),
        ActivityAnswer.of,
    )
