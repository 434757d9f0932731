"""Find the personal data of a customer by the rows of table.py: for erasure, export and documentation.

A row declares an item type and names the `owner` of its items. There are three ways to find a customer's items: in the
customer's partition of the table or of an index; in the partition of one of the customer's orders or accounts; or under
a key that the customer's profile contains. No way needs a scan. A row whose items cannot be found is rejected.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from functions.dynamodb.codec import Image
from functions.dynamodb.keys import NOBODY, IndexName, Row
from functions.dynamodb.patterns import Query, overlapping_rows
from functions.model import copies, patterns
from functions.model import table as t
from functions.model.flat_columns import FLAT_LISTS

FoundBy = Literal["customer_id", "order_id", "account_id", "profile"]
PARTITIONS: Mapping[FoundBy, Row[Any]] = {"customer_id": t.CUSTOMER, "order_id": t.ORDER, "account_id": t.ACCOUNT}
"""For the id field of a customer, order or account: the row whose partition key contains this id."""
LISTS: Mapping[str, Query[Any]] = {
    "order_id": patterns.ORDERS_OF_CUSTOMER,
    "account_id": patterns.ACCOUNTS_OF_CUSTOMER,
}
"""For the id field of an order or account: the access pattern that lists a customer's orders or accounts."""


@dataclass(frozen=True)
class Place:
    """How to find a customer's items of one row: by the id `found_by`, in `index` ("main" is the table)."""

    found_by: FoundBy
    index: IndexName = "main"


def owned_rows() -> tuple[Row[Any], ...]:
    """Return the rows whose items belong to a customer."""
    return tuple(row for row in t.ROWS if row.owner != NOBODY)


def find_place(row: Row[Any]) -> Place | None:
    """Return how to find the items of a row that belong to one customer, or None if no way finds them."""
    for found_by, neighbour in PARTITIONS.items():
        if row.templates("main")[0] == neighbour.templates("main")[0]:
            return Place(found_by)
    for index in row.indexes:
        if row.templates(index)[0] == t.CUSTOMER.templates("main")[0] and t.INDEX_PROJECTIONS[index.upper()] is None:
            return Place("customer_id", index)
    key = {name for half in row.templates("main") for name in half.field_names}
    return Place("profile") if key <= t.CUSTOMER.fields.keys() else None


def build_owner_query(row: Row[Any]) -> Query[Any]:
    """Return a query that reads the items of one row in the partition of a customer, order or account."""
    place = find_place(row)
    if place is None or place.found_by == "profile":
        raise TypeError(f"{row.type} is in no partition of its owner")
    return Query(id=f"{row.type} of owner", description="", rows=(row,), index=place.index, newest_first=False)


def rows_by_profile() -> tuple[Row[Any], ...]:
    """Return the rows whose keys the customer's profile contains, such as the claim of the e-mail address."""
    return tuple(row for row in owned_rows() if find_place(row) == Place("profile"))


def erased_rows(found_by: FoundBy) -> tuple[Row[Any], ...]:
    """Return the rows whose items an erasure finds by `found_by`, and then deletes or clears."""
    places = ((row, find_place(row)) for row in owned_rows() if row.erasure in ("delete", "clear"))
    return tuple(row for row, place in places if place is not None and place.found_by == found_by)


def erasure_indexes() -> tuple[str, ...]:
    """Return the names of the indexes in which an erasure finds the items of a customer, such as "GSI1"."""
    searched = {place.index for row in erased_rows("customer_id") if (place := find_place(row))}
    if erased_rows("account_id"):
        searched.add(LISTS["account_id"].index)
    return tuple(index.upper() for index in sorted(searched - {"main"}))


def personal_attributes(image: Image) -> frozenset[str]:
    """Return the names of the personal attributes of an item. `image`: the item in DynamoDB's JSON.

    If the type of the image is not known, the result is the personal attributes of all rows.
    """
    try:
        return frozenset(t.ROWS_BY_TYPE[image["type"]["S"]].personal or ())
    except (LookupError, TypeError):
        return frozenset(name for row in t.ROWS for name in row.personal or ())


def erase_image(image: Image) -> Image | None:
    """Return an item (DynamoDB's JSON) after an erasure: unchanged, without personal attributes, or None if deleted."""
    row = t.ROWS_BY_TYPE.get(image["type"]["S"])
    match row.erasure if row else "none":
        case "delete":
            return None
        case "clear":
            return {name: value for name, value in image.items() if name not in personal_attributes(image)}
    return image


def find_undeclared_data() -> Iterator[tuple[Row[Any], str]]:
    """Yield each row with personal data that an erasure or an export would not find, with the reason."""
    for row in owned_rows():
        place = find_place(row)
        if place is None:
            why = (
                f"{row.type} belongs to a customer, but no key finds a customer's items: add a key in the partition "
                f"{t.CUSTOMER.templates('main')[0].text} (main, gsi1 or gsi3), or in that of an order or account"
            )
            yield row, why
        elif place.found_by != "profile" and (others := _neighbours_in_range(row)):
            yield row, f"{row.type} shares its keys with {others}: begin them with another word"
    for name, flat in FLAT_LISTS.items():
        if leaked := sorted(set(flat.row.personal or ()) & set(flat.columns)):
            yield flat.row, f"exports of {name} have the columns {leaked}, which are personal: remove them"
    for copied in copies.SNAPSHOTS:
        source, target = copied.source_row, copied.target_row
        if leaked := sorted(set(source.personal or ()) & target.fields.keys() - set(target.personal or ())):
            yield target, f"{target.type} copies {leaked} of {source.type}, so they are personal here, too: name them"


def _neighbours_in_range(row: Row[Any]) -> list[str]:
    """Return the other item types that the query for this row's items would read, too.

    An item type that replaces this row's items, or is replaced by them, is left out.
    """
    found = (t.ROWS_BY_TYPE[name] for name in overlapping_rows(build_owner_query(row), t.ROWS))
    return [other.type for other in found if other.replaces is not row and row.replaces is not other]
