"""A customer's name on their open orders: copied from the profile, and kept as it was once an order is closed.

An order is placed with the name that the profile has then. A customer who takes another one while the order is written
is seen either by who makes the order's summary, and looks at the profile afterwards (`bring_up`), or by who goes over
the summaries after the profile was written (`spread`): one of the two comes last. Both write under the profile's
version, so a name never goes back, in whichever order they come.
"""

from datetime import timedelta

from functions.dynamodb.writes import WriteConflict, copy_attributes, put_if_absent, put_if_held_by
from functions.model.derived import CUSTOMER_NAME_COPY
from functions.model.entities import OPEN_STATUSES, Customer, Effect, ErasedCustomer, Order
from functions.model.lives import EFFECT_DAYS
from functions.model.patterns import CUSTOMER_OR_ERASED_BY_ID, EFFECT_BY_ID, ORDERS_OF_CUSTOMER_CONSISTENT
from functions.model.table import EFFECT
from functions.shop.shop import Shop

REACTION = "names"
ORDERS_PER_PAGE = 100


def refresh_name(shop: Shop, order: Order) -> None:
    """Let an order bear its customer's name, if it is open and has that of an earlier version. One consistent GetItem,
    and a write only where they differ. Repeatable."""
    if customer := get_newer_customer(shop, order):
        set_customer_name(shop, order.order_id, customer)


def get_newer_customer(shop: Shop, order: Order) -> Customer | ErasedCustomer | None:
    """The customer of an open order that bears the name of an earlier version of them; None of any other."""
    if order.status not in OPEN_STATUSES:
        return None
    customer = shop.table.get(CUSTOMER_OR_ERASED_BY_ID, customer_id=order.customer_id)
    return customer if customer is not None and customer.version > order.customer_version else None


def propagate_name(shop: Shop, change_id: str, customer_id: str) -> int:
    """Let all open orders of a customer bear the name that they have now. How many do, of those looked at. Repeatable.

    It goes page by page, newest first; how far it came with this change is kept in an Effect, so that another delivery
    goes on from there. Raises Changed where one is at it at the same time.
    """
    customer = shop.table.get(CUSTOMER_OR_ERASED_BY_ID, customer_id=customer_id)
    if customer is None:
        return 0
    progress = shop.table.get(EFFECT_BY_ID, effect_id=change_id, reaction=REACTION)
    updated = 0
    while True:
        after = progress.result if progress else None
        page = shop.table.query(
            ORDERS_OF_CUSTOMER_CONSISTENT, customer_id=customer_id, limit=ORDERS_PER_PAGE, after=after
        )
        # Whatever is closed stays so: a summary that comes late only shows too many as open.
        updated += sum(
            set_customer_name(shop, one.order_id, customer) for one in page.items if one.status in OPEN_STATUSES
        )
        if page.after is None:
            return updated
        progress = _save_progress(shop, progress, change_id, page.after)


def set_customer_name(shop: Shop, order_id: str, customer: Customer | ErasedCustomer) -> bool:
    """Whether the order bears this name now: it was open, and had none of a later version."""
    key = CUSTOMER_NAME_COPY.target_row.key(order_id=order_id)
    try:
        source = CUSTOMER_NAME_COPY.version_field, customer.version
        shop.table.write(
            copy_attributes(
                CUSTOMER_NAME_COPY.target_row,
                key,
                CUSTOMER_NAME_COPY.derive(customer),
                source,
                CUSTOMER_NAME_COPY.only_where,
            )
        )
    except WriteConflict:
        return False
    return True


def _save_progress(shop: Shop, progress: Effect | None, change_id: str, after: str) -> Effect:
    """Note where the next page starts."""
    noted = Effect(
        effect_id=change_id,
        reaction=REACTION,
        result=after,
        created_at=progress.created_at if progress else shop.now_instant(),
        ttl=int((shop.now() + timedelta(days=EFFECT_DAYS)).timestamp()),
    )
    shop.table.write(
        put_if_absent(EFFECT, noted) if progress is None else put_if_held_by(EFFECT, noted, "result", progress.result)
    )
    return noted
