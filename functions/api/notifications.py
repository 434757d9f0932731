"""What customers were told by mail."""

from functions.api.context import SignedIn, customer_named, shop
from functions.api.fields import Answer, Id, Listed
from functions.api.paging import Asked, Cursor, Limit, page
from functions.api.routes import Router
from functions.model.patterns import A25, A25b
from functions.shop import notifications

router = Router()


class NotificationAnswer(Answer):
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
    customer_id = customer_named(caller, customer_id)
    return page(
        Asked(caller, A25, (customer_id,), cursor),
        lambda after: notifications.notifications_of_customer(shop(), caller, customer_id, limit, after),
        NotificationAnswer.of,
    )


@router.get("/orders/<order_id>/notifications")
def notifications_of_order(
    caller: SignedIn, order_id: Id, limit: Limit = 20, cursor: Cursor = None
) -> Listed[NotificationAnswer]:
    """What was told about an order, newest first."""
    return page(
        Asked(caller, A25b, (order_id,), cursor),
        lambda after: notifications.notifications_of_order(shop(), caller, order_id, limit, after),
        NotificationAnswer.of,
    )
