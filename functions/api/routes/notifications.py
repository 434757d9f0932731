"""Notifications: the mails that the shop sent to customers."""

from functions.api.http.context import SignedIn, resolve_customer_id, shop
from functions.api.http.fields import Id, Listed, ResponseModel
from functions.api.http.paging import Cursor, Limit, ListRequest, Since, Until, check_time_range, paginate
from functions.api.http.router import Router
from functions.model.patterns import NOTIFICATIONS_OF_CUSTOMER, NOTIFICATIONS_OF_ORDER
from functions.shop import order_notifications

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
    low, high = check_time_range(since, until)
    return paginate(
        ListRequest(caller, NOTIFICATIONS_OF_CUSTOMER, (customer_id, low, high), cursor),
        lambda after: order_notifications.list_notifications_of_customer(
            shop(), caller, customer_id, limit, after, low, high
        ),
        NotificationAnswer.of,
    )


@router.get("/orders/<order_id>/notifications")
def notifications_of_order(
    caller: SignedIn, order_id: Id, limit: Limit = 20, cursor: Cursor = None
) -> Listed[NotificationAnswer]:
    """List the mails about an order, newest first."""
    return paginate(
        ListRequest(caller, NOTIFICATIONS_OF_ORDER, (order_id,), cursor),
        lambda after: order_notifications.list_notifications_of_order(shop(), caller, order_id, limit, after),
        NotificationAnswer.of,
    )
