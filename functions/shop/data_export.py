"""Export all items that belong to a customer, page by page.

The rows of model/table.py declare which items belong to a customer (`Row.owner`). An export reads, in this order:
1. the customer's own partition (access pattern A26), and the items whose keys the profile contains;
2. the items in an index of the customer, such as reviews;
3. the partition of each order (A12b), and the archive object of an archived order;
4. the partition of each credit account (A27d).

No step scans the table. Each page ends after some items or bytes, so that it stays below the 6 MB of a Lambda's answer.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from functions.dynamodb.errors import TableBusy
from functions.dynamodb.keys import Row
from functions.dynamodb.patterns import Query
from functions.dynamodb.table import QueryPage
from functions.model.entities import ArchivedOrder, Customer, Order
from functions.model.patterns import (
    ACCOUNT_ITEM_COLLECTION,
    CUSTOMER_ITEM_COLLECTION,
    ORDER_BY_ID,
    ORDER_ITEM_COLLECTION,
)
from functions.model.personal_data import LISTS, build_owner_query, find_place, owned_rows, rows_by_profile
from functions.shop.lists import ListPage, ListRequest, PagedQuery
from functions.shop.orders import add_archived_items, read_archived_items
from functions.shop.shop import ShopContext

MAX_PAGE_BYTES = 1_000_000
"""A page ends when its items have this many bytes of JSON. Its last query can add 1 MB of DynamoDB's JSON to them."""
MAX_REQUESTS = 25
"""A page ends after this many reads, so that it ends in time even if most reads find nothing."""
COLLECTIONS: Mapping[str, Query[Any]] = {"order_id": ORDER_ITEM_COLLECTION, "account_id": ACCOUNT_ITEM_COLLECTION}
"""For the id field of an order or account: the access pattern that reads its partition."""


@dataclass(frozen=True)
class Position:
    """Where a page of an export starts.

    `step`: the id field by which the items are found, or the item type that is read from an index. `listed`: the sort
    key of the previous order or account in its list; None at the start. `after`: the sort key after which the next read
    starts, in the table or in an archive object.
    """

    step: str = "customer_id"
    listed: str | None = None
    after: str | None = None

    def to_text(self) -> str:
        """Return the position as the text for a cursor."""
        return json.dumps([self.step, self.listed, self.after])


@dataclass(frozen=True)
class ExportedItem:
    """An item that belongs to a customer: its type, and its fields."""

    type: str
    data: dict[str, Any]


def export_customer(shop: ShopContext, request: ListRequest, customer_id: str) -> ListPage[ExportedItem]:
    """Return a page of all items that belong to a customer. A page may have a few more items than its limit.

    Any page but the last, which has no `cursor`, can be short. An item that changes during the export is exported once.
    Raises NotFound, TableBusy while an order of the customer is being archived, and ArchiveUnavailable.
    """
    request.caller.require_access(customer_id)
    paged = PagedQuery(shop, request, CUSTOMER_ITEM_COLLECTION, {"customer_id": customer_id})
    after = paged.after
    position: Position | None = Position(*json.loads(after)) if after else Position()
    items: list[ExportedItem] = []
    size = requests = 0
    while position and len(items) < request.limit and size < MAX_PAGE_BYTES and requests < MAX_REQUESTS:
        found, position = _read(shop, customer_id, position, request.limit - len(items))
        exported = [ExportedItem(type(item).__name__, to_json(asdict(item))) for item in found]
        size += sum(len(json.dumps(item.data)) for item in exported)
        items += exported
        requests += 1
    return paged.page(items, position.to_text() if position else None)


def to_json(value: Any) -> Any:
    """Return a field's value as JSON shows it. Bytes become hex, and a set becomes a sorted list."""
    match value:
        case Mapping():
            return {name: to_json(one) for name, one in value.items()}
        case list() | tuple():
            return [to_json(one) for one in value]
        case set() | frozenset():
            return sorted(to_json(one) for one in value)
        case bytes():
            return value.hex()
        case str() | int() | None:
            return value
    return str(value)


Read = tuple[Sequence[Any], Position | None]
"""The items of one read, and the position of the next read; None after the last read."""


def _rows_in_indexes() -> dict[str, Row[Any]]:
    """Return, by item type, the rows whose items are found in an index of the customer."""
    places = ((row, find_place(row)) for row in owned_rows())
    return {row.type: row for row, place in places if place and place.index != "main"}


def _next_step(step: str) -> Position | None:
    steps = ["customer_id", *_rows_in_indexes(), *COLLECTIONS]
    after = steps[steps.index(step) + 1 :]
    return Position(after[0]) if after else None


def _read(shop: ShopContext, customer_id: str, at: Position, limit: int) -> Read:
    if at.step in COLLECTIONS:
        return _read_listed(shop, customer_id, at, limit)
    row = _rows_in_indexes().get(at.step)
    query = CUSTOMER_ITEM_COLLECTION if row is None else build_owner_query(row)
    page = shop.table.query(query, customer_id=customer_id, limit=limit, after=at.after)
    beside = [found for item in page.items if isinstance(item, Customer) for found in _items_of_profile(shop, item)]
    return [*page.items, *beside], replace(at, after=page.after) if page.after else _next_step(at.step)


def _items_of_profile(shop: ShopContext, customer: Customer) -> Sequence[Any]:
    """Return the items whose keys the profile contains, such as the claim of the e-mail address."""
    keys = [row.key_of(cast(Any, customer)) for row in rows_by_profile()]
    found = shop.table.batch_get(keys, consistent=True)
    return [item for item in found if item.customer_id == customer.customer_id]  # not the claim of a guest's namesake


def _read_listed(shop: ShopContext, customer_id: str, at: Position, limit: int) -> Read:
    """Read a part of the items of one order or account."""
    listed = shop.table.query(LISTS[at.step], customer_id=customer_id, limit=1, after=at.listed)
    following = Position(at.step, listed.after) if listed.after else _next_step(at.step)
    id = next((str(getattr(item, at.step)) for item in listed.items), None)
    if id is None:
        return (), following
    if at.step == "order_id":
        page = _read_order(shop, id, at.after, limit)
    else:
        page = shop.table.query(COLLECTIONS[at.step], limit=limit, after=at.after, **{at.step: id})
    return page.items, replace(at, after=page.after) if page.after else following


def _read_order(shop: ShopContext, order_id: str, after: str | None, limit: int) -> QueryPage[Any]:
    """Return a page of an order's items in the sequence of their sort keys, from the table and the archive object.

    Raises TableBusy while the order is being archived.
    """
    order = shop.table.get(ORDER_BY_ID, order_id=order_id)
    page = shop.table.query(ORDER_ITEM_COLLECTION, order_id=order_id, limit=limit, after=after)
    if isinstance(order, Order):  # the archiving may have deleted items before the query
        order = shop.table.get(ORDER_BY_ID, order_id=order_id)
    if isinstance(order, Order) and order.status == "ARCHIVING":
        raise TableBusy
    if not isinstance(order, ArchivedOrder):
        return page
    return add_archived_items(page, read_archived_items(shop, order), ORDER_ITEM_COLLECTION, limit, after)
