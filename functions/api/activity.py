"""What happened lately: to a customer, and to all of them in a day."""

from functions.api.context import SignedIn, customer_named, shop
from functions.api.fields import Answer, Id, Listed
from functions.api.paging import Asked, Cursor, Day, Limit, Since, Until, between, page
from functions.api.problems import refuses
from functions.api.routes import Router
from functions.model.errors import NotAllowed
from functions.model.patterns import A5, A5b
from functions.shop import activity

router = Router()


class ActivityAnswer(Answer):
    """Something that happened to an order of a customer's, kept for 90 days."""

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
    """What happened to a customer lately, newest first; what is new shows a moment later."""
    customer_id = customer_named(caller, customer_id)
    low, high = between(since, until)
    return page(
        Asked(caller, A5, (customer_id, low, high), cursor),
        lambda after: activity.activity_of_customer(shop(), caller, customer_id, low, high, limit, after),
        ActivityAnswer.of,
    )


@router.get("/activity", openapi_extensions=refuses(NotAllowed))
def activity_of_day(caller: SignedIn, day: Day, limit: Limit = 20, cursor: Cursor = None) -> Listed[ActivityAnswer]:
    """What happened to all customers on a day, newest first. For staff."""
    return page(
        Asked(caller, A5b, (day,), cursor),
        lambda after: activity.activity_of_day(shop(), caller, day, limit, after),
        ActivityAnswer.of,
    )
