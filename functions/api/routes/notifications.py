"""Notifications: the mails that the shop sent to customers."""

from functions.api.http.context import SignedIn, resolve_customer_id, shop
from functions.api.http.fields import Id, Listed, ResponseModel
from functions.api.http.paging import Cursor, Limit, Since, Until, list_answer
from functions.api.http.router import Router
from functions.shop import order_notifications
from functions.shop.lists import ListRequest

router = Router()


class NotificationAnswer(ResponseModel):
    """A mail about an event of an order or of a followed product. The list keeps a mail for half a year.

    `status`: SENDING until the mail provider accepts the mail, then SENT.
    """

    at: str
    event: str
    order_id: str | None
    product_id: str | None
    status: str


@router.get("/customers/<customer_id>/notifications")
def notifications_of_customer(
    caller: SignedIn,
    customer_id: Id,
    since: Since = None,
    until: Until = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Listed[NotificationAnswer]:
    """List the mails to a customer, sorted by the time of the reported event, newest first."""
    customer_id = resolve_customer_id(caller, customer_id)
    request = ListRequest(caller, limit, cursor, since, until)
    page = order_notifications.list_notifications_of_customer(shop(), request, customer_id)
    return list_answer(page, NotificationAnswer.of)


@router.get("/orders/<order_id>/notifications")
def notifications_of_order(
    caller: SignedIn, order_id: Id, limit: Limit = 20, cursor: Cursor = None
) -> Listed[NotificationAnswer]:
    """List the mails about an order, newest first."""
    page = order_notifications.list_notifications_of_order(shop(), ListRequest(caller, limit, cursor), order_id)
    return list_answer(page, NotificationAnswer.of)
