"""Read and list orders, and change their delivery address."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from functions.dynamodb.errors import TableBusy
from functions.dynamodb.keys import Instant, to_instant
from functions.dynamodb.patterns import Query
from functions.dynamodb.table import QueryPage
from functions.dynamodb.writes import Write, put_if_absent, update
from functions.model.entities import (
    ORDER_NUMBER_LENGTH,
    Address,
    ArchivedOrder,
    Order,
    OrderOwner,
    OrderStatus,
    OrderSummary,
    QueuedOrder,
    order_number,
)
from functions.model.errors import InvalidInput, NotFound, WrongState
from functions.model.patterns import (
    LINES_OF_ORDER,
    ORDER_BY_ID,
    ORDER_ITEM_COLLECTION,
    ORDER_OWNER,
    ORDERS_BY_NUMBER,
    ORDERS_BY_PHONE,
    ORDERS_BY_STATUS_NEWEST_FIRST,
    ORDERS_BY_STATUS_OLDEST_FIRST,
    ORDERS_OF_CUSTOMER,
)
from functions.model.states import apply_order_command
from functions.model.table import EARLIER_TIMELINE, ORDER, ROWS_BY_TYPE
from functions.model.timelines import split_timeline
from functions.shop.lists import ListPage, ListRequest, PagedQuery, read_page
from functions.shop.shop import ArchiveUnavailable, Caller, ShopContext, retries_on_conflict

T = TypeVar("T")
PHONE_DIGITS = 6
"""How many of the last digits of a phone number an index has. Numbers with fewer digits are not found."""
MAX_COUNTRY_DIGITS = 3
"""How many digits the code of a country has at most, such as 43 for Austria (ITU-T E.164)."""


# reading --------------------------------------------------------------------------------------------------------------
def get_order(shop: ShopContext, caller: Caller, order_id: str) -> Order | ArchivedOrder:
    """Return an order, or the stub of an archived order (access pattern A12). Raises NotFound."""
    return _require_visible(caller, shop.table.get(ORDER_BY_ID, order_id=order_id))


def get_order_or_none(shop: ShopContext, caller: Caller, order_id: str) -> Order | ArchivedOrder | None:
    """Return an order as `get_order`, but None for staff if the order does not exist. Raises NotFound."""
    return shop.table.get(ORDER_BY_ID, order_id=order_id) if caller.is_staff else get_order(shop, caller, order_id)


def _require_visible(caller: Caller, found: Order | ArchivedOrder | None) -> Order | ArchivedOrder:
    if found is None:
        raise NotFound("order")
    caller.require_access(found.customer_id, "order")
    return found


def get_unarchived_order(shop: ShopContext, order_id: str, command: str) -> Order:
    """Return an order. Raises NotFound, and WrongState, which names the `command`, if the order is archived."""
    return require_unarchived(shop.table.get(ORDER_BY_ID, order_id=order_id), command)


def require_unarchived(found: Order | ArchivedOrder | None, command: str) -> Order:
    """Return the order. Raises NotFound for None, and WrongState, which names the `command`, if it is archived."""
    if found is None:
        raise NotFound("order")
    if isinstance(found, ArchivedOrder):
        raise WrongState("order", "ARCHIVED", command)
    return found


def get_order_item_collection(shop: ShopContext, request: ListRequest, order_id: str) -> ListPage[Any]:
    """Return the order and all its items, such as invoices and payments, in key order (access pattern A12b).

    The first page begins with the order, in addition to the requested items: for an archived order, first its stub,
    then the order from the archive. Raises NotFound and ArchiveUnavailable.
    """
    order = get_order(shop, request.caller, order_id)
    archived = read_archived_items(shop, order) if isinstance(order, ArchivedOrder) else ()
    page = _read_items(shop, request, ORDER_ITEM_COLLECTION, order_id, archived)
    found = next((item for item in (*page.items, *archived) if isinstance(item, Order)), order)
    first = (order, found) if isinstance(order, ArchivedOrder) else (found,)
    others = tuple(item for item in page.items if not isinstance(item, Order | ArchivedOrder))
    return replace(page, items=(*(first if request.cursor is None else ()), *others))


def list_items_of_order(
    shop: ShopContext, request: ListRequest, pattern: Query[T], order_id: str, order: Order | ArchivedOrder | None
) -> ListPage[T]:
    """Return a page of an order's items of one type, such as its payments, in key order. Raises ArchiveUnavailable.

    `order`: the order, or None if it does not exist. If it is archived, one S3 object is read too. The caller checks
    who may see the order.
    """
    archived = read_archived_items(shop, order) if isinstance(order, ArchivedOrder) else ()
    return _read_items(shop, request, pattern, order_id, archived)


def _read_items(
    shop: ShopContext, request: ListRequest, pattern: Query[T], order_id: str, archived: Sequence[Any]
) -> ListPage[T]:
    paged = PagedQuery(shop, request, pattern, {"order_id": order_id})
    found = add_archived_items(paged.query(request.limit), archived, pattern, request.limit, paged.after)
    return paged.page(found.items, found.after)


def read_archived_items(shop: ShopContext, stub: ArchivedOrder) -> Sequence[Any]:
    """Return the items of an archived order, from its object in S3. The caller checks who may see the order.

    Raises ArchiveUnavailable. Raises TableBusy if an erasure or a restore has just changed the stub: the object that it
    named is then gone, and a repeated request reads the other one.
    """
    try:
        images = shop.read_archive(stub.object_key)
    except ArchiveUnavailable:
        if shop.table.get(ORDER_BY_ID, order_id=stub.order_id) != stub:
            raise TableBusy from None
        raise
    return [item for image in images if (item := shop.table.decode(image)) is not None]


def add_archived_items(
    page: QueryPage[Any], archived: Sequence[Any], pattern: Query[Any], limit: int, after: str | None
) -> QueryPage[Any]:
    """Return a page of an order's items from the table, with the items of its archive object at their sort keys.

    `page`: the page of `pattern` after the sort key `after`, with at most `limit` items. The table and the object may
    have the same item, such as an invoice: that of the table is taken. The page ends at a sort key, so that no item is
    shown twice or missed if the order is archived or restored before the next page.
    """
    if not archived:
        return page
    types = {name for row in pattern.rows for name in row.types}
    # The archived Order and its stub have the same sort key, but different types.
    found = {
        (str(ROWS_BY_TYPE[name].key_of(item)["SK"]["S"]), name): item
        for item in [*archived, *page.items]
        if (name := type(item).__name__) in types
    }
    keys = sorted(key for key in found if key[0] > (after or "") and (page.after is None or key[0] <= page.after))
    end = keys[limit - 1][0] if len(keys) > limit else page.after
    return QueryPage(tuple(found[key] for key in keys if end is None or key[0] <= end), end)


def get_order_owner(shop: ShopContext, caller: Caller, order_id: str) -> OrderOwner:
    """Return the order's id and the id of the customer who placed the order (access pattern A15). Raises NotFound."""
    placer = shop.table.get(ORDER_OWNER, order_id=order_id)
    return caller.require_own(placer, "order")


def get_order_with_lines(shop: ShopContext, caller: Caller, order_id: str) -> tuple[Order, ArchivedOrder | None]:
    """Return an order with its lines (access pattern A13), and its stub if it is archived.

    An archived order comes from its S3 object, after the stub has shown who may see it. Raises NotFound,
    ArchiveUnavailable.
    """
    found = _require_visible(caller, shop.table.get(LINES_OF_ORDER, order_id=order_id))
    if isinstance(found, Order):
        return found, None
    return next(item for item in read_archived_items(shop, found) if isinstance(item, Order)), found


def list_orders_of_customer(shop: ShopContext, request: ListRequest, customer_id: str) -> ListPage[OrderSummary]:
    """Return the orders of a customer, newest first (access pattern A14).

    The time range is that of placing. A stream reader writes the list a moment after the order. Raises NotFound.
    """
    request.caller.require_access(customer_id)
    return read_page(shop, request, ORDERS_OF_CUSTOMER, customer_id=customer_id)


def list_orders_by_status(
    shop: ShopContext, request: ListRequest, status: OrderStatus, *, oldest_first: bool
) -> ListPage[QueuedOrder]:
    """Return the open orders with this status that were placed in the time range (access pattern A16).

    The index has no orders of a closed status, such as DELIVERED. Raises NotAllowed if the caller is not staff.
    """
    request.caller.require_group("staff")
    pattern = ORDERS_BY_STATUS_OLDEST_FIRST if oldest_first else ORDERS_BY_STATUS_NEWEST_FIRST
    return read_page(shop, request, pattern, open_status=status)


def list_orders_placed_before(
    shop: ShopContext, status: OrderStatus, before: datetime, shard: int | None = None
) -> Iterator[QueuedOrder]:
    """Yield the orders with this status that were placed before a time, oldest first.

    `shard`: reads only this shard (partition) of the index; None means all shards.
    """
    known: dict[str, str] = {"open_status": status} if shard is None else {"open_status": status, "shard": str(shard)}
    return shop.table.query_all(ORDERS_BY_STATUS_OLDEST_FIRST, until=to_instant(before), **known)


def list_orders_by_number(shop: ShopContext, request: ListRequest, number: str) -> ListPage[Order | ArchivedOrder]:
    """Return the orders with this number that the caller may see (access pattern A15b), usually at most one order.

    `number`: the order number that mails show, or a whole order id, in upper or lower case. A stream reader writes the
    numbers, so a new order is found by its number only after a moment. Sends a Query, and then at most one
    BatchGetItem.
    """
    page = read_page(shop, request, ORDERS_BY_NUMBER, number.lower(), number=order_number(number))
    ids = {found.order_id for found in page.items if found.order_id.startswith(number.lower())}
    if len(number) > ORDER_NUMBER_LENGTH:
        ids.add(number.lower())
    orders = shop.table.batch_get([ORDER.key(order_id=id) for id in sorted(ids)], consistent=True)
    return ListPage(tuple(order for order in orders if request.caller.can_see(order.customer_id)), page.cursor)


def list_orders_by_phone(shop: ShopContext, request: ListRequest, phone: str) -> ListPage[Order]:
    """Return the orders whose delivery address has this phone number, newest first (access pattern A31d).

    The number is compared by its digits. One of the two may lack the country's prefix: 01 234567 is +43 1 234567.
    Archived orders are not found, and new ones after a moment. Sends a Query, and then at most one BatchGetItem. Raises
    InvalidInput if the number has fewer than PHONE_DIGITS digits, and NotAllowed.
    """
    request.caller.require_group("staff")
    hashed = hash_phone(shop, phone)
    if hashed is None:
        raise InvalidInput("phone", f"must have at least {PHONE_DIGITS} digits, such as +43 1 234567")
    page = read_page(shop, request, ORDERS_BY_PHONE, phone_digits(phone), phone_hash=hashed)
    found = shop.table.batch_get([ORDER.key(order_id=one.order_id) for one in page.items], consistent=True)
    orders = [order for order in found if isinstance(order, Order) and _has_phone(order, phone)]
    return ListPage(tuple(sorted(orders, key=lambda one: (one.placed_at, one.order_id), reverse=True)), page.cursor)


def _has_phone(order: Order, phone: str) -> bool:
    stored = phone_digits(order.address.phone) if order.address and order.address.phone else ""
    one, other = sorted((stored, phone_digits(phone)), key=len)
    return bool(one) and other.endswith(one) and len(other) - len(one) <= MAX_COUNTRY_DIGITS


def phone_digits(phone: str) -> str:
    """Return the digits of a phone number without the zeros of a prefix: 431234567 for +43 (0)1 234567."""
    return re.sub(r"\D", "", phone.replace("(0)", "")).lstrip("0")


def hash_phone(shop: ShopContext, phone: str | None) -> str | None:
    """Return the keyed hash of the last digits, which need no country's prefix, or None if there are too few."""
    digits = phone_digits(phone or "")
    return shop.derive_id("phone", digits[-PHONE_DIGITS:]) if len(digits) >= PHONE_DIGITS else None


def apply_payment(order: Order, amount: int, at: Instant) -> Order:
    """Return the order with `amount` (minor units) added to its paid amount. If it is then fully paid, it becomes PAID.

    Nothing is written. Raises WrongState if the order's status allows no payment.
    """
    paid = order.paid + amount
    if paid < order.total:
        return replace(apply_order_command(order, "pay_part", at), paid=paid)
    return replace(apply_order_command(order, "pay", at), paid=paid, paid_at=at)


# changing -------------------------------------------------------------------------------------------------------------
def save_order(before: Order, after: Order, *, may_split: bool = True) -> list[Write[Any]]:
    """Return the writes of a changed order: the order, and an item with earlier timeline entries if it has too many.

    Send them in one transaction. All commands use it, so no entry is lost. `may_split`: if there is room for a second
    item.
    """
    kept, earlier = split_timeline(after) if may_split else (after, None)
    return [update(ORDER, before, kept), *([put_if_absent(EARLIER_TIMELINE, earlier)] if earlier else [])]


@retries_on_conflict
def change_address(shop: ShopContext, caller: Caller, order_id: str, address: Address) -> Order:
    """Change the delivery address of an order before the warehouse receives the order. Safe to repeat.

    The country and the region stay, because the taxes depend on them. Raises NotFound, InvalidInput, and WrongState if
    the order's status is not PENDING or PAID.
    """
    before = require_unarchived(get_order(shop, caller, order_id), "change_address")
    if before.address == address:
        return before
    after = apply_order_command(before, "change_address", shop.now_instant())
    after = replace(after, address=address, phone_hash=hash_phone(shop, address.phone))
    for name in ("country", "region"):
        if before.address is not None and getattr(address, name) != getattr(before.address, name):
            raise InvalidInput(name, "cannot change, because the taxes depend on it: place another order")
    shop.table.write(*save_order(before, after))
    return after
