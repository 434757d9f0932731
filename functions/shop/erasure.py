"""Forgetting a customer: one write makes them unknown, what is left of them elsewhere goes afterwards.

1. The profile becomes an ErasedCustomer, which nobody can be addressed by; e-mail claim and settings go in the same
transaction. 2. What the customer wrote and follows goes, and their name from open orders (names.py). Addresses leave
their orders as these close, and the name with them: an order that is on its way still needs one. The orders in the
archive are the archive's to rewrite. 3. Only when no copy can be on its way any more is it all done: what is taken from
an order is in the stream record of that, and a reader may give that up days later.

Invoices keep the name and address they were issued with: the law wants them kept. Ids stay, and lead nowhere.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from functions.dynamodb.keys import to_instant
from functions.dynamodb.writes import delete, replace_with, update
from functions.model.entities import ArchivedOrder, ErasedCustomer, Order
from functions.model.errors import NotFound
from functions.model.patterns import (
    CUSTOMER_BY_EMAIL,
    CUSTOMER_OR_ERASED_BY_ID,
    CUSTOMER_SETTINGS,
    FOLLOW_BY_CUSTOMER_AND_PRODUCT,
    FOLLOWS_OF_CUSTOMER,
    ORDER_BY_ID,
    ORDERS_OF_CUSTOMER,
    REVIEW_BY_PRODUCT_AND_CUSTOMER,
    REVIEWS_OF_CUSTOMER,
    UNFINISHED_ERASURES,
)
from functions.model.states import CLOSED_STATUSES, apply_order_command
from functions.model.table import (
    ARCHIVED_ORDER,
    CUSTOMER,
    EMAIL_CLAIM,
    ERASED_CUSTOMER,
    FOLLOW,
    ORDER,
    REVIEW,
    SETTINGS,
)
from functions.shop.shop import Caller, Shop, delete_if_exists, retry_on_conflict

SETTLE_PERIOD = timedelta(days=14)
"""After so long every order the customer placed is listed, also one whose record the copies' reader gave up or lost,
and what a reader gave up is in the failure store: an alarm has brought somebody by then. As long as dead letters
wait."""


def erase_customer(shop: Shop, caller: Caller, customer_id: str) -> ErasedCustomer:
    """Make a customer unknown at once. Repeatable. Raises NotFound, for another's as for none."""

    def attempt() -> ErasedCustomer:
        found = (
            shop.table.get(CUSTOMER_OR_ERASED_BY_ID, customer_id=customer_id) if caller.can_see(customer_id) else None
        )
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
        claim = shop.table.get(CUSTOMER_BY_EMAIL, email_hash=found.email_hash)
        chosen = shop.table.query(CUSTOMER_SETTINGS, customer_id=customer_id).items
        shop.table.write(
            replace_with(CUSTOMER, found, ERASED_CUSTOMER, erased),
            *(delete(EMAIL_CLAIM, one) for one in [claim] if one is not None),
            *(delete(SETTINGS, one) for one in chosen),
        )
        return erased

    return retry_on_conflict(shop, attempt)


def list_unfinished_erasures(shop: Shop) -> Iterator[ErasedCustomer]:
    """R3: whose erasure is not finished, oldest first."""
    return shop.table.query_all(UNFINISHED_ERASURES, queue="ERASING")


def list_order_ids_of_customer(shop: Shop, customer_id: str) -> Iterator[str]:
    """The ids of all a customer's orders, archived ones too."""
    return (summary.order_id for summary in shop.table.query_all(ORDERS_OF_CUSTOMER, customer_id=customer_id))


def delete_reviews_and_follows(shop: Shop, customer_id: str) -> bool:
    """Delete what a customer wrote and what they follow. Whether there was anything. Repeatable."""
    found = False
    for review in shop.table.query_all(REVIEWS_OF_CUSTOMER, customer_id=customer_id):
        found |= delete_if_exists(
            shop, REVIEW, REVIEW_BY_PRODUCT_AND_CUSTOMER, product_id=review.product_id, customer_id=customer_id
        )
    for follow in shop.table.query_all(FOLLOWS_OF_CUSTOMER, customer_id=customer_id):
        found |= delete_if_exists(
            shop, FOLLOW, FOLLOW_BY_CUSTOMER_AND_PRODUCT, product_id=follow.product_id, customer_id=customer_id
        )
    return found


def remove_address_from_order(shop: Shop, order_id: str) -> tuple[Order | ArchivedOrder | None, bool]:
    """Take the address and the customer's name from an order, if it is closed. The order as it is then, and whether it
    had them. Repeatable."""

    def attempt() -> tuple[Order | ArchivedOrder | None, bool]:
        order = shop.table.get(ORDER_BY_ID, order_id=order_id)
        if not isinstance(order, Order) or order.address is None or order.status not in CLOSED_STATUSES:
            return order, False
        after = replace(apply_order_command(order, "erase", shop.now_instant()), address=None, customer_name=None)
        shop.table.write(update(ORDER, order, after))
        return after, True

    return retry_on_conflict(shop, attempt)


def point_stub_to_object(shop: Shop, stub: ArchivedOrder, object_key: str, sha256: str) -> None:
    """Have a stub name another object. Raises Changed where it is not as it was read."""
    after = replace(stub, object_key=object_key, sha256=sha256, version=stub.version + 1)
    shop.table.write(update(ARCHIVED_ORDER, stub, after))


def restart_settle_period(shop: Shop, erased: ErasedCustomer, now: datetime) -> None:
    """Note that something of a customer was there until now: traces of it may come as long again. Raises Changed."""
    after = replace(erased, updated_at=to_instant(now), version=erased.version + 1)
    shop.table.write(update(ERASED_CUSTOMER, erased, after))


def finish_erasure(shop: Shop, erased: ErasedCustomer, now: datetime) -> bool:
    """Note that nothing is left of a customer; False while something may still come. Raises Changed."""
    if to_instant(now - SETTLE_PERIOD) < erased.updated_at:
        return False
    done = replace(erased, status="ERASED", updated_at=shop.now_instant(), version=erased.version + 1)
    shop.table.write(update(ERASED_CUSTOMER, erased, done))
    return True
