"""List all orders, documents, payments and refunds of the shop by time, for staff.

The lists have only what never changes, such as the id and the time. So a later change of an order costs no write in a
list. The current state comes from the items themselves, with one BatchGetItem for each 100 items. A Lambda that reads
the table's stream writes the entries of orders, payments and refunds. So a new entry may be missing for a moment. The
reads are eventually consistent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from functions.dynamodb.errors import Unreadable
from functions.dynamodb.keys import Row
from functions.dynamodb.patterns import Query
from functions.dynamodb.table import QueryPage
from functions.model.entities import (
    ArchivedOrder,
    Document,
    FeedEntry,
    ListedOrder,
    ListName,
    Order,
    OrderNumber,
    OrderStatus,
    Payment,
    Refund,
)
from functions.model.patterns import (
    DOCUMENTS_NEWEST_FIRST,
    DOCUMENTS_OLDEST_FIRST,
    FEED_NEWEST_FIRST,
    FEED_OLDEST_FIRST,
    ORDERS_NEWEST_FIRST,
    ORDERS_OLDEST_FIRST,
)
from functions.model.table import ORDER, ORDER_NUMBER, PAYMENT, REFUND
from functions.shop.lists import ListPage, ListRequest, PagedQuery, read_page
from functions.shop.shop import ShopContext

T = TypeVar("T")
MAX_READ = 500
"""The maximum number of orders that one request with a status reads. They cost about 300 read units."""
CHUNK = 100


@dataclass(frozen=True)
class OrderPage(ListPage[T]):
    """A page of orders. `read`: how many orders were read. `discarded`: how many of them have another status."""

    read: int = 0
    discarded: int = 0


@dataclass(frozen=True)
class MoneyEntry(Generic[T]):
    """A payment or a refund in the list. `item`: None if it is in the archive, because its order is archived."""

    entry: FeedEntry
    item: T | None


def list_orders(
    shop: ShopContext, request: ListRequest, status: OrderStatus | None = None, *, oldest_first: bool
) -> OrderPage[Order | ArchivedOrder]:
    """Return the orders of all customers that were placed in the time range (access patterns A31 and A31b).

    Archived orders are included. With `status`, orders with another status are read and discarded. One call reads at
    most MAX_READ orders, so a page can be empty although more pages follow. An order that this code cannot read is left
    out, and logged. Raises NotAllowed if the caller is not staff.
    """
    request.caller.require_group("staff")
    pattern = ORDERS_OLDEST_FIRST if oldest_first else ORDERS_NEWEST_FIRST
    paged = PagedQuery(shop, request, pattern, {}, (status or "",))
    found: list[Order | ArchivedOrder] = []
    read, after = 0, paged.after
    while True:
        page = paged.query_after(after, CHUNK if status else request.limit)
        orders = read_orders(shop, page.items)
        for entry in page.items:
            if len(found) == request.limit:
                break
            read += 1
            after = _position(entry)
            order = orders.get(entry.order_id)
            if order is not None and status in (None, order.status):
                found.append(order)
        else:
            after = page.after
        if not status or after is None or len(found) == request.limit or read >= MAX_READ:
            return OrderPage(tuple(found), paged.seal(after), read, read - len(found))


def read_orders(shop: ShopContext, entries: Sequence[OrderNumber | ListedOrder]) -> dict[str, Order | ArchivedOrder]:
    """Return the orders of these entries, by id. Orders that this code cannot read are left out, and logged."""
    found = _read_items(shop, ORDER, [{"order_id": entry.order_id} for entry in entries])
    return {id: order for (id,), order in found.items()}


def _position(entry: ListedOrder) -> str:
    return ORDER_NUMBER.templates("gsi2")[1].render({"placed_at": entry.placed_at, "order_id": entry.order_id})


def list_documents(shop: ShopContext, request: ListRequest, *, oldest_first: bool) -> ListPage[Document]:
    """Return the invoices and credit notes issued in the time range (A32 and A32b). Raises NotAllowed."""
    request.caller.require_group("staff")
    return read_page(shop, request, DOCUMENTS_OLDEST_FIRST if oldest_first else DOCUMENTS_NEWEST_FIRST)


def list_payments(shop: ShopContext, request: ListRequest, *, oldest_first: bool) -> ListPage[MoneyEntry[Payment]]:
    """Return the payments of the time range, also failed and unmatched ones (A33 and A33b). Raises NotAllowed."""
    return _list_money(shop, request, PAYMENT, "PAYMENTS", "payment_id", oldest_first)


def list_refunds(shop: ShopContext, request: ListRequest, *, oldest_first: bool) -> ListPage[MoneyEntry[Refund]]:
    """Return the refunds of the time range, requested or reported (access patterns A33 and A33b). Raises NotAllowed."""
    return _list_money(shop, request, REFUND, "REFUNDS", "refund_id", oldest_first)


def _list_money(
    shop: ShopContext, request: ListRequest, row: Row[T], name: str, id_field: str, oldest_first: bool
) -> ListPage[MoneyEntry[T]]:
    request.caller.require_group("staff")
    page = read_page(shop, request, FEED_OLDEST_FIRST if oldest_first else FEED_NEWEST_FIRST, list=name)
    return ListPage(_read_money(shop, row, id_field, page.items), page.cursor)


def _read_money(
    shop: ShopContext, row: Row[T], id_field: str, entries: Sequence[FeedEntry]
) -> tuple[MoneyEntry[T], ...]:
    found = _read_items(shop, row, [{"order_id": entry.order_id, id_field: entry.id} for entry in entries])
    return tuple(MoneyEntry(it, found.get((it.order_id, it.id))) for it in entries)


def read_list(
    shop: ShopContext, name: ListName, *, since: str, until: str, after: str | None, limit: int
) -> QueryPage[Any]:
    """Return a page of such a list, oldest first, for code that has no caller (access patterns A31b, A32b and A33b).

    `after`: the position that came with the previous page; None at the start. Safe to repeat.
    """

    def query(pattern: Query[Any], **known: str) -> QueryPage[Any]:
        return shop.table.query(pattern, limit=limit, after=after, since=since, until=until, **known)

    match name:
        case "orders":
            page = query(ORDERS_OLDEST_FIRST)
            orders = read_orders(shop, page.items)
            return QueryPage(tuple(orders[it.order_id] for it in page.items if it.order_id in orders), page.after)
        case "invoices":
            return query(DOCUMENTS_OLDEST_FIRST)
        case "payments":
            page = query(FEED_OLDEST_FIRST, list="PAYMENTS")
            return QueryPage(_read_money(shop, PAYMENT, "payment_id", page.items), page.after)
    page = query(FEED_OLDEST_FIRST, list="REFUNDS")
    return QueryPage(_read_money(shop, REFUND, "refund_id", page.items), page.after)


def _read_items(shop: ShopContext, row: Row[Any], ids: Sequence[Mapping[str, str]]) -> dict[tuple[str, ...], Any]:
    """Return the items that exist, by the values of `ids`. Unreadable items are left out, and logged."""
    found: dict[tuple[str, ...], Any] = {}
    for image in shop.table.batch_get_raw([row.key(**one) for one in ids]):
        try:
            item = shop.table.decode(image)
        except Unreadable as error:
            shop.table.on_decode_error(image, error)
        else:
            found[tuple(getattr(item, name) for name in ids[0])] = item
    return found
