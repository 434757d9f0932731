"""Activity: recent order events of one customer, or of all customers on a day."""

from functions.api.http.context import SignedIn, resolve_customer_id, shop
from functions.api.http.fields import Id, Listed, ResponseModel
from functions.api.http.paging import Cursor, Day, Limit, Since, Until, list_answer
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.model.errors import NotAllowed
from functions.shop import activity
from functions.shop.lists import ListRequest

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
    request = ListRequest(caller, limit, cursor, since, until)
    return list_answer(activity.list_activity_of_customer(shop(), request, customer_id), ActivityAnswer.of)


@router.get("/activity", openapi_extensions=problem_responses(NotAllowed))
def activity_of_day(caller: SignedIn, day: Day, limit: Limit = 20, cursor: Cursor = None) -> Listed[ActivityAnswer]:
    """List the order events of all customers on a day, newest first. For staff."""
    request = ListRequest(caller, limit, cursor)
    return list_answer(activity.list_activity_of_day(shop(), request, day), ActivityAnswer.of)
