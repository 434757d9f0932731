"""Copy a customer's name to their open orders. A closed order keeps the name that it has.

An order is placed with the name in the customer's profile. If the customer changes the name at the same moment, one of
two steps still updates the order. The copies Lambda writes the order's summary and then reads the profile
(`refresh_name`). The names Lambda queries the summaries after the profile was written (`propagate_name`). The later
step sees both writes. Both write conditionally on the profile's version, so an older name never replaces a newer one.
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
    """Update the customer's name on an open order if the profile has a newer version.

    One consistent GetItem, and one write only if the versions differ. Repeatable.
    """
    if customer := get_newer_customer(shop, order):
        set_customer_name(shop, order.order_id, customer)


def get_newer_customer(shop: Shop, order: Order) -> Customer | ErasedCustomer | None:
    """Return the customer if the order is open and has the name of an older version of the profile, otherwise None."""
    if order.status not in OPEN_STATUSES:
        return None
    customer = shop.table.get(CUSTOMER_OR_ERASED_BY_ID, customer_id=order.customer_id)
    return customer if customer is not None and customer.version > order.customer_version else None


def propagate_name(shop: Shop, change_id: str, customer_id: str) -> int:
    """Write a customer's current name to all their open orders. Return the number of orders updated. Repeatable.

    Reads the orders page by page, newest first. The position is stored in an Effect item for this change, so a
    redelivery resumes there. Raises WriteConflict if another delivery of the same change runs at the same time.
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
        # A closed order never opens again. So a stale summary can only show too many orders as open, never too few.
        updated += sum(
            set_customer_name(shop, one.order_id, customer) for one in page.items if one.status in OPEN_STATUSES
        )
        if page.after is None:
            return updated
        progress = _save_progress(shop, progress, change_id, page.after)


def set_customer_name(shop: Shop, order_id: str, customer: Customer | ErasedCustomer) -> bool:
    """Write the name to an order. Return False if the order is closed, or has the name of this or a later version."""
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
    """Store the position of the next page. Raises WriteConflict if another delivery stored one."""
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
