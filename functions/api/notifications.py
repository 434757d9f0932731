"""What customers were told by mail."""

from functions.api.context import SignedIn, resolve_customer_id, shop
from functions.api.fields import Id, Listed, ResponseModel
from functions.api.paging import Cursor, Limit, ListRequest, paginate
from functions.api.routes import Router
from functions.model.patterns import NOTIFICATIONS_OF_CUSTOMER, NOTIFICATIONS_OF_ORDER
from functions.shop import notifications

router = Router()


class NotificationAnswer(ResponseModel):
    """A mail about something that happened to an order, or to a product that they follow, kept for half a year.
    SENDING: in hand, not confirmed yet."""

    at: str
    event: str
    order_id: str | None
    product_id: str | None
    status: str


@router.get("/customers/<customer_id>/notifications")
def notifications_of_customer(
    caller: SignedIn, customer_id: Id, limit: Limit = 20, cursor: Cursor = None
) -> Listed[NotificationAnswer]:
    """What a customer was told, newest first."""
    customer_id = resolve_customer_id(caller, customer_id)
    return paginate(
        ListRequest(caller, NOTIFICATIONS_OF_CUSTOMER, (customer_id,), cursor),
        lambda after: notifications.list_notifications_of_customer(shop(), caller, customer_id, limit, after),
        NotificationAnswer.of,
    )


@router.get("/orders/<order_id>/notifications")
def notifications_of_order(
    caller: SignedIn, order_id: Id, limit: Limit = 20, cursor: Cursor = None
) -> Listed[NotificationAnswer]:
    """What was told about an order, newest first."""
    return paginate(
        ListRequest(caller, NOTIFICATIONS_OF_ORDER, (order_id,), cursor),
        lambda after: notifications.list_notifications_of_order(shop(), caller, order_id, limit, after),
        NotificationAnswer.of,
    )
