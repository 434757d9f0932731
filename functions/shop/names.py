"""A customer's name on their open orders: copied from the profile, and kept as it was once an order is closed.

An order is placed with the name that the profile has then. A customer who takes another one while the order is written
is seen either by who makes the order's summary, and looks at the profile afterwards (`bring_up`), or by who goes over
the summaries after the profile was written (`spread`): one of the two comes last. Both write under the profile's
version, so a name never goes back, in whichever order they come.
"""

from datetime import timedelta

from functions.dynamodb.writes import Changed, copied, put, put_over
from functions.model.derived import NAMES
from functions.model.entities import OPEN, Customer, Effect, ErasedCustomer, Order
from functions.model.lives import EFFECT_DAYS
from functions.model.patterns import C5, C6, R1
from functions.model.table import EFFECT
from functions.shop.shop import Shop

REACTION = "names"
ORDERS_A_PAGE = 100


def bring_up(shop: Shop, order: Order) -> None:
    """Let an order bear its customer's name, if it is open and has that of an earlier version. One consistent GetItem,
    and a write only where they differ. Repeatable."""
    if customer := newer(shop, order):
        bear(shop, order.order_id, customer)


def newer(shop: Shop, order: Order) -> Customer | ErasedCustomer | None:
    """The customer of an open order that bears the name of an earlier version of them; None of any other."""
    if order.status not in OPEN:
        return None
    customer = shop.table.get(C5, customer_id=order.customer_id)
    return customer if customer is not None and customer.version > order.customer_version else None


def spread(shop: Shop, change_id: str, customer_id: str) -> int:
    """Let all open orders of a customer bear the name that they have now. How many do, of those looked at. Repeatable.

    It goes page by page, newest first; how far it came with this change is kept in an Effect, so that another delivery
    goes on from there. Raises Changed where one is at it at the same time.
    """
    customer = shop.table.get(C5, customer_id=customer_id)
    if customer is None:
        return 0
    mark = shop.table.get(R1, effect_id=change_id, reaction=REACTION)
    bear_it = 0
    while True:
        after = mark.result if mark else None
        page = shop.table.query(C6, customer_id=customer_id, limit=ORDERS_A_PAGE, after=after)
        # Whatever is closed stays so: a summary that comes late only shows too many as open.
        bear_it += sum(bear(shop, one.order_id, customer) for one in page.items if one.status in OPEN)
        if page.after is None:
            return bear_it
        mark = _so_far(shop, mark, change_id, page.after)


def bear(shop: Shop, order_id: str, customer: Customer | ErasedCustomer) -> bool:
    """Whether the order bears this name now: it was open, and had none of a later version."""
    key = NAMES.into.key(order_id=order_id)
    try:
        source = NAMES.version, customer.version
        shop.table.write(copied(NAMES.into, key, NAMES.derive(customer), source, NAMES.among))
    except Changed:
        return False
    return True


def _so_far(shop: Shop, mark: Effect | None, change_id: str, after: str) -> Effect:
    """Note where the next page starts."""
    noted = Effect(
        effect_id=change_id,
        reaction=REACTION,
        result=after,
        created_at=mark.created_at if mark else shop.instant(),
        ttl=int((shop.now() + timedelta(days=EFFECT_DAYS)).timestamp()),
    )
    shop.table.write(put(EFFECT, noted) if mark is None else put_over(EFFECT, noted, "result", mark.result))
    return noted
