"""Erase a customer's personal data: one transaction removes the profile, later steps remove all other data.

The rows of model/table.py define which data an erasure deletes. Each row declares whose data its items hold, and the
effect of an erasure on them. This module implements these effects.

1. One transaction replaces the profile with an ErasedCustomer item, which has no name or address. The transaction also
deletes the settings and the EmailClaim item (the item that reserves the customer's e-mail address).
2. Later steps delete the customer's other items, such as reviews and follows, and remove the name from open orders. An
open order still needs its address, so the address is removed after the order closes. If an order is archived, its
archive object in S3 is rewritten without the personal data.
3. The erasure is finished when no data of the customer was found for some time, the settle period. The reason: the
stream record of a deletion still contains the deleted data. If a Lambda cannot process this record, the record may
reach the failure store (an S3 bucket) only days later. Until the erasure is finished, an hourly job also removes the
customer's data from the failure store.

Invoices keep the name and address that they were issued with, because the law requires this. Ids remain, but they
identify no person. The files of list exports have only ids, and S3 deletes them before an erasure is finished.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, get_args

from functions.dynamodb.keys import Row, to_instant
from functions.dynamodb.patterns import Get
from functions.dynamodb.writes import Write, check_absent, delete, replace_with, update
from functions.model.entities import GUEST_ID_PREFIX, ArchivedOrder, ErasedCustomer, Order, Settings, SettingsName
from functions.model.errors import NotFound
from functions.model.patterns import (
    ACCOUNTS_OF_CUSTOMER,
    CUSTOMER_BY_ID,
    CUSTOMER_OR_ERASED_BY_ID,
    CUSTOMER_SETTINGS_BY_NAME,
    ORDER_BY_ID,
    ORDERS_OF_CUSTOMER,
    UNFINISHED_ERASURES,
)
from functions.model.personal_data import FoundBy, build_owner_query, erased_rows
from functions.model.states import CLOSED_STATUSES, apply_order_command
from functions.model.table import ARCHIVED_ORDER, CUSTOMER, ERASED_CUSTOMER, ORDER, REVIEW, SETTINGS
from functions.shop import reviews
from functions.shop.companies import leave_company
from functions.shop.orders import save_order
from functions.shop.shop import Caller, ShopContext, delete_if_exists, retries_on_conflict, save_change

SETTLE_PERIOD = timedelta(days=14)
"""How long an erasure waits after the last time that data of the customer was found and removed.

An order that was placed just before may be found late: if its stream record goes to the failure store, it is missing in
the list of orders until an operator, whom an alarm calls, has processed the record. The period is as long as a
dead-letter queue keeps a failed message.
"""


@retries_on_conflict
def erase_customer(shop: ShopContext, caller: Caller, customer_id: str) -> ErasedCustomer:
    """Start the erasure of a customer: delete the profile, the settings and the claim of the e-mail address.

    Safe to repeat. Raises NotFound.
    """
    caller.require_access(customer_id)
    found = shop.table.get(CUSTOMER_OR_ERASED_BY_ID, customer_id=customer_id)
    if found is None:
        raise NotFound("customer")
    if isinstance(found, ErasedCustomer):
        return found
    now = shop.now_instant()
    erased = ErasedCustomer(
        customer_id=customer_id,
        status="ERASING",
        erased_at=now,
        created_at=found.created_at,
        updated_at=now,
        version=found.version + 1,
    )
    # A guest may have the e-mail address of a registered customer, who keeps the EmailClaim item.
    claims = ((row, _get_item(shop, row, found)) for row in erased_rows("profile"))
    shop.table.write(
        replace_with(CUSTOMER, found, ERASED_CUSTOMER, erased),
        *(delete(row, one) for row, one in claims if one is not None and one.customer_id == customer_id),
        *(_delete_settings(shop, customer_id, name) for name in get_args(SettingsName)),
        *leave_company(shop, found),
    )
    return erased


def erase_guest(shop: ShopContext, customer_id: str) -> None:
    """Start the erasure of a guest whose order is archived. Does nothing for a registered customer. Safe to repeat."""
    if not customer_id.startswith(GUEST_ID_PREFIX):
        return
    guest = shop.table.get(CUSTOMER_BY_ID, customer_id=customer_id)
    if guest is not None and guest.order_id is not None:
        erase_customer(shop, Caller(customer_id), customer_id)


def _delete_settings(shop: ShopContext, customer_id: str, name: SettingsName) -> Write[Settings]:
    """Return the write that deletes a group of settings, or a check that the group does not exist."""
    chosen = shop.table.get(CUSTOMER_SETTINGS_BY_NAME, customer_id=customer_id, name=name)
    if chosen is not None:
        return delete(SETTINGS, chosen)
    return check_absent(SETTINGS, SETTINGS.key(customer_id=customer_id, name=name))


def list_unfinished_erasures(shop: ShopContext) -> Iterator[ErasedCustomer]:
    """Return the customers whose erasure is not finished, oldest first (access pattern R3)."""
    return shop.table.query_all(UNFINISHED_ERASURES, open_status="ERASING")


def list_order_ids_of_customer(shop: ShopContext, customer_id: str) -> Iterator[str]:
    """Return the ids of all orders of a customer, including archived orders."""
    return (summary.order_id for summary in shop.table.query_all(ORDERS_OF_CUSTOMER, customer_id=customer_id))


def list_account_ids_of_customer(shop: ShopContext, customer_id: str) -> Iterator[str]:
    """Return the ids of all credit accounts of a customer."""
    return (account.account_id for account in shop.table.query_all(ACCOUNTS_OF_CUSTOMER, customer_id=customer_id))


def erase_items(shop: ShopContext, found_by: FoundBy, owner_id: str) -> bool:
    """Erase the items of a customer, of an order or of an account. Return True if anything was erased. Safe to repeat.

    `found_by`: the name of the id field, such as "customer_id"; `owner_id`: its value. The profile and the order itself
    are not erased here: `erase_customer` and `remove_address_from_order` erase them.
    """
    found = False
    for row in erased_rows(found_by):
        if row not in (CUSTOMER, ORDER):
            for item in shop.table.query_all(build_owner_query(row), **{found_by: owner_id}):
                found |= ERASE_BY_ROW.get(row, _erase_item)(shop, row, item)
    return found


@retries_on_conflict
def _erase_item(shop: ShopContext, row: Row[Any], item: Any) -> bool:
    """Delete an item, or clear its personal attributes, as its row declares. Return whether it had personal data."""
    if row.erasure == "delete":
        return delete_if_exists(shop, row, _get_by_key(row), **_key_fields(row, item))
    before = _get_item(shop, row, item)
    if before is None or not holds_personal_data(row, before):
        return False
    cleared: dict[str, Any] = {**dict.fromkeys(row.personal or ()), "version": before.version + 1}
    shop.table.write(update(row, before, replace(before, **cleared)))
    return True


def holds_personal_data(row: Row[Any], item: Any) -> bool:
    """Return whether any of the item's personal attributes has a value."""
    return any(getattr(item, name) is not None for name in row.personal or ())


def _erase_review(shop: ShopContext, _: Row[Any], review: Any) -> bool:
    return reviews.replace_with_deleted(shop, review.product_id, review.customer_id)


ERASE_BY_ROW: Mapping[Row[Any], Callable[[ShopContext, Row[Any], Any], bool]] = {REVIEW: _erase_review}
"""By row: the function that erases an item by replacing it. A DeletedReview replaces a review that a rating counts."""


def _get_by_key(row: Row[Any]) -> Get[Any]:
    return Get(id=f"{row.type} by key", description="", rows=(row,))


def _get_item(shop: ShopContext, row: Row[Any], item: Any) -> Any:
    """Return the stored item of this row. `item`: an item with the fields of its key."""
    return shop.table.get(_get_by_key(row), **_key_fields(row, item))


def _key_fields(row: Row[Any], item: Any) -> dict[str, Any]:
    return {name: getattr(item, name) for name in _get_by_key(row).required_fields}


@retries_on_conflict
def remove_address_from_order(shop: ShopContext, order_id: str) -> tuple[Order | ArchivedOrder | None, bool]:
    """Remove the address and the customer's name from an order if the order is closed. Safe to repeat.

    Returns the stored order, an ArchivedOrder if it is archived, or None; and whether this call removed anything.
    """
    order = shop.table.get(ORDER_BY_ID, order_id=order_id)
    if not isinstance(order, Order) or order.status not in CLOSED_STATUSES or not holds_personal_data(ORDER, order):
        return order, False
    cleared: dict[str, Any] = dict.fromkeys(ORDER.personal or ())
    after = replace(apply_order_command(order, "erase", shop.now_instant()), **cleared)
    shop.table.write(*save_order(order, after))
    return after, True


def point_stub_to_object(shop: ShopContext, stub: ArchivedOrder, object_key: str, sha256: str) -> None:
    """Store the S3 key and SHA-256 hash of a rewritten archive object in the order's stub. Raises WriteConflict."""
    after = replace(stub, object_key=object_key, sha256=sha256, version=stub.version + 1)
    shop.table.write(update(ARCHIVED_ORDER, stub, after))


def restart_settle_period(shop: ShopContext, erased: ErasedCustomer, now: datetime) -> None:
    """Restart the settle period `now`, because data of the customer was just removed. Raises WriteConflict."""
    after = replace(erased, updated_at=to_instant(now), version=erased.version + 1)
    shop.table.write(update(ERASED_CUSTOMER, erased, after))


def finish_erasure(shop: ShopContext, erased: ErasedCustomer, now: datetime) -> bool:
    """Mark an erasure as finished and return True; False while its SETTLE_PERIOD is not over. Raises WriteConflict."""
    if to_instant(now - SETTLE_PERIOD) < erased.updated_at:
        return False
    save_change(shop, ERASED_CUSTOMER, erased, replace(erased, status="ERASED"))
    return True
