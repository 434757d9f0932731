"""Copy a customer's name to the customer's open orders. A closed order keeps its name.

A new order gets the name from the profile. If that changes at the same moment, one of two steps updates the order:

1. For each new order, a Lambda writes its summary, then reads the profile, and updates the order (`refresh_name`).
2. For each changed name, another Lambda reads the summaries of all the customer's orders, and updates the open orders
   (`propagate_name`). The profile already has the new name.

The step that runs last sees both. The order stores the version of the profile from which its name was copied, and a
step writes only a later one. So an old name never replaces a newer name.
"""

from datetime import timedelta

from functions.dynamodb.writes import WriteConflict, copy_attributes, put_if_absent, put_if_held_by
from functions.model.copies import CUSTOMER_NAME_COPY
from functions.model.entities import OPEN_STATUSES, Customer, ErasedCustomer, Order, ReactionProgress
from functions.model.patterns import CUSTOMER_OR_ERASED_BY_ID, ORDERS_OF_CUSTOMER_CONSISTENT, REACTION_PROGRESS_BY_ID
from functions.model.retention import EFFECT_DAYS
from functions.model.table import REACTION_PROGRESS
from functions.shop.shop import ShopContext

REACTION = "customer_name"
ORDERS_PER_PAGE = 100


def refresh_name(shop: ShopContext, order: Order) -> None:
    """Update the customer's name on an open order, if the profile has a later version than the name. Safe to repeat.

    The function reads the profile with one strongly consistent GetItem.
    """
    if customer := get_newer_customer(shop, order):
        set_customer_name(shop, order.order_id, customer)


def get_newer_customer(shop: ShopContext, order: Order) -> Customer | ErasedCustomer | None:
    """Return the customer of an open order if the profile changed after its name was copied to the order; else None."""
    if order.status not in OPEN_STATUSES:
        return None
    customer = shop.table.get(CUSTOMER_OR_ERASED_BY_ID, customer_id=order.customer_id)
    return customer if customer is not None and customer.version > order.customer_version else None


def propagate_name(shop: ShopContext, change_id: str, customer_id: str) -> int:
    """Write a customer's current name to all their open orders, and return the number of orders that this call updated.

    `change_id`: the id of this change of the name. After each page of orders, newest first, the function stores its
    position in a ReactionProgress item with this id. So the call is safe to repeat, and resumes there. Raises
    WriteConflict if another delivery of the same message runs at the same time.
    """
    customer = shop.table.get(CUSTOMER_OR_ERASED_BY_ID, customer_id=customer_id)
    if customer is None:
        return 0
    progress = shop.table.get(REACTION_PROGRESS_BY_ID, effect_id=change_id, reaction=REACTION)
    updated = 0
    while True:
        after = progress.result if progress else None
        page = shop.table.query(
            ORDERS_OF_CUSTOMER_CONSISTENT, customer_id=customer_id, limit=ORDERS_PER_PAGE, after=after
        )
        # `page` contains summaries (copies of the orders), which may be outdated. If a summary shows a closed order as
        # open, `set_customer_name` skips the order. No summary shows an open order as closed, because a closed order
        # never opens again. So this filter misses no open order.
        updated += sum(
            set_customer_name(shop, one.order_id, customer) for one in page.items if one.status in OPEN_STATUSES
        )
        if page.after is None:
            return updated
        progress = _save_progress(shop, progress, change_id, page.after)


def set_customer_name(shop: ShopContext, order_id: str, customer: Customer | ErasedCustomer) -> bool:
    """Write the customer's name to an order, and return True.

    Return False if the order is closed, has the name of as late a version, or has moved from a guest to an account.
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
                {**CUSTOMER_NAME_COPY.only_where, "customer_id": (customer.customer_id,)},
            )
        )
    except WriteConflict:
        return False
    return True


def _save_progress(
    shop: ShopContext, progress: ReactionProgress | None, change_id: str, after: str
) -> ReactionProgress:
    """Store `after`, the position of the next page of orders, in a ReactionProgress item, and return the item.

    `progress`: that with the previous position, or None. Raises WriteConflict if another delivery stored one meanwhile.
    """
    noted = ReactionProgress(
        effect_id=change_id,
        reaction=REACTION,
        result=after,
        created_at=progress.created_at if progress else shop.now_instant(),
        ttl=int((shop.now() + timedelta(days=EFFECT_DAYS)).timestamp()),
    )
    shop.table.write(
        put_if_absent(REACTION_PROGRESS, noted)
        if progress is None
        else put_if_held_by(REACTION_PROGRESS, noted, "result", progress.result)
    )
    return noted
