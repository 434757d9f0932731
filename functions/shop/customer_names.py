"""Copy a customer's name to their open orders. A closed order keeps the name that it has.

A new order gets the name from the customer's profile. If the customer changes the name at the same moment, one of two
steps still updates the order:

1. The Lambda that copies orders writes the order's summary and then reads the profile (`refresh_name`).
2. The Lambda that copies customer names runs after the profile was written, and then queries the summaries
(`propagate_name`).

The later step sees both writes. Both steps write only if the profile's version is newer, so an older name never
replaces a newer one.
"""

from datetime import timedelta

from functions.dynamodb.writes import WriteConflict, copy_attributes, put_if_absent, put_if_held_by
from functions.model.copies import CUSTOMER_NAME_COPY
from functions.model.entities import OPEN_STATUSES, Customer, Effect, ErasedCustomer, Order
from functions.model.patterns import CUSTOMER_OR_ERASED_BY_ID, EFFECT_BY_ID, ORDERS_OF_CUSTOMER_CONSISTENT
from functions.model.retention import EFFECT_DAYS
from functions.model.table import EFFECT
from functions.shop.shop import Shop

REACTION = "names"
ORDERS_PER_PAGE = 100


def refresh_name(shop: Shop, order: Order) -> None:
    """Update the customer's name on an open order if the profile has a newer version. Safe to repeat.

    It sends one consistent GetItem. It sends a write only if the profile is newer than the order's copy of the name.
    """
    if customer := get_newer_customer(shop, order):
        set_customer_name(shop, order.order_id, customer)


def get_newer_customer(shop: Shop, order: Order) -> Customer | ErasedCustomer | None:
    """Return the customer if the order is open and its customer name is from an older version of the profile.

    Otherwise return None.
    """
    if order.status not in OPEN_STATUSES:
        return None
    customer = shop.table.get(CUSTOMER_OR_ERASED_BY_ID, customer_id=order.customer_id)
    return customer if customer is not None and customer.version > order.customer_version else None


def propagate_name(shop: Shop, change_id: str, customer_id: str) -> int:
    """Write a customer's current name to all their open orders. Return the number of orders updated. Safe to repeat.

    It reads the orders page by page, newest first. An Effect item stores the position for this change of the name, so a
    redelivery resumes at that position. Raises WriteConflict if another delivery of the same change runs at the same
    time.
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
        # A closed order never opens again. So a stale summary may show a closed order as open, but never the reverse.
        updated += sum(
            set_customer_name(shop, one.order_id, customer) for one in page.items if one.status in OPEN_STATUSES
        )
        if page.after is None:
            return updated
        progress = _save_progress(shop, progress, change_id, page.after)


def set_customer_name(shop: Shop, order_id: str, customer: Customer | ErasedCustomer) -> bool:
    """Write the customer's name to an order and return True.

    Return False if the order is closed, or if its name is from this or a later version of the customer's profile.
    """
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
    """Store the position of the next page of orders, and return the Effect item that contains it.

    Raises WriteConflict if another delivery has stored a position.
    """
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
