"""Archive an order: lock the order in the table, list its items, and replace it with a stub.

The stub is a small item that stays in the table permanently and contains the S3 key of the archive object. The expiry
marker is an item of a closed order. DynamoDB deletes the marker when its TTL has passed, and this deletion starts the
archiving.

1. Lock: set the order's status to ARCHIVING, with a condition on the order's version. Four checks come first:
   - If the order has a new expiry marker, for example after a return, nothing is archived. The deletion of the new
     marker starts the archiving again.
   - If the order's copies, such as its summary, do not have its latest version, or the copies of its payments and
     refunds are missing, an error is raised. The archiving is then retried. The copies of an archived order can never
     be derived again.
   - If the sales totals (best sellers, sales per minute) do not include the order or one of its returns yet, an error
     is raised too. The amounts of an archived order can never be added to these totals.
   - If a refund, also a failed refund, or a dispute may still move money of the order, or if a credit note is still to
     be issued, a new expiry marker postpones the archiving.
2. List: read all items of the order's partition with strongly consistent reads.
3. Replace: after S3 has stored the archive object, delete exactly the items that the object lists, except invoices.
Then replace the order with the stub.

A command that writes another item of the order, such as a payment or a return, also checks the order's version in the
same transaction. The lock changes this version. So if the command read the order before the lock, its transaction fails
and the command is retried. Only the result of a refund in progress is written without this check, because a refund in
progress prevents the archiving. If the provider reports a payment after the archiving, the payment is stored in the
same partition as the stub. Each step is safe to repeat at any point.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from functions.dynamodb.codec import Image
from functions.dynamodb.keys import Instant, Row
from functions.dynamodb.writes import WriteConflict, replace_with, update
from functions.model import totals
from functions.model.copies import copies_of
from functions.model.entities import (
    ArchivedOrder,
    Contribution,
    FeedEntry,
    Order,
    OrderSummary,
    RefundStatus,
    archive_prefix,
)
from functions.model.patterns import ORDER_ITEM_COLLECTION
from functions.model.states import apply_order_command
from functions.model.table import (
    ARCHIVED_ORDER,
    CONTRIBUTION,
    EARLIER_TIMELINE,
    EXPIRY_MARKER,
    INVOICE,
    KEPT_EVENT,
    ORDER,
    ORDER_SUMMARY,
    PAYMENT,
    REFUND,
    RETURN,
)
from functions.model.timelines import merge_timeline
from functions.shop.cancellation import put_expiry_marker
from functions.shop.credit_notes import lacks_credit_note
from functions.shop.shop import ShopContext, retry_on_conflict

TYPES_KEPT_IN_TABLE = {ORDER.type, INVOICE.type, KEPT_EVENT.type}
"""Item types that archiving does not delete. The order item is replaced with the stub, the small item that remains of
an archived order. Invoices stay in the table, because the law requires that invoices stay readable. A KeptEvent also
stays: it is a dispute or refund that waits until its payment is in the table.
"""
REFUNDS_IN_FLIGHT: tuple[RefundStatus, ...] = ("REQUESTED", "SENT")
"""The statuses of a refund that is still being processed."""
RECHECK_DAYS = 7
"""For how many days the archiving is postponed while a refund is in progress, a dispute is open, a credit note is due,
or staff must act."""
REFUND_FAILURE_WINDOW_DAYS = 31
"""For how many days after its success a card refund may still fail.

Stripe says "can take up to 30 days": https://docs.stripe.com/refunds#failed-refunds
"""


class NotReadyToArchive(Exception):
    """The order cannot be archived yet. Retry later: a refund is in progress, or copies or totals are behind."""


@dataclass(frozen=True)
class OrderSnapshot:
    """An order that is being archived, as it was before, and the images (items as DynamoDB JSON) of its whole
    partition.

    If an earlier attempt has already deleted some items, they are missing in `images`, but the archive object has them.
    """

    order: Order
    images: Sequence[Image]

    @property
    def object_key(self) -> str:
        """The S3 key of the archive object: all attempts to archive this version of the order use the same key."""
        return f"{archive_prefix(self.order)}{self.order.version}.json"


def start_archiving(shop: ShopContext, order_id: str, expired_at: Instant) -> OrderSnapshot | None:
    """Lock an order for archiving with the status ARCHIVING, and read all its items. Safe to repeat.

    `expired_at`: when the order's expiry marker expired. Returns None if
    - the order is archived already or does not exist;
    - the order has an expiry marker, an item whose deletion at its TTL will start the archiving again;
    - a refund or a dispute may still move money of the order, or a credit note is due. Then this call writes a new
      marker.

    Raises WrongState if the order is not closed. Raises NotReadyToArchive if the copies or the sales totals do not
    include the order and its returns yet, or if a refund is in progress after the lock, for example because staff just
    retried it.
    """

    def attempt() -> Order | None:
        images = shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=order_id)
        order = next((shop.table.decode(image) for image in images if image["type"]["S"] == ORDER.type), None)
        if order is None or order.status == "ARCHIVING":
            return order
        if any(shop.table.decode(image) for image in images if image["type"]["S"] == EXPIRY_MARKER.type):
            # DynamoDB deleted an expiry marker of this order (an item with a TTL), and this deletion started the
            # archiving. Now the order has a new marker, for example because goods were returned. So archive nothing
            # now: the deletion of the new marker will start the archiving again.
            return None
        after = apply_order_command(order, "archive", shop.now_instant())
        if missing := _missing_derivations(shop, order, images, expired_at):
            raise NotReadyToArchive(", ".join(missing))
        at = max(shop.now(), datetime.fromisoformat(expired_at))
        if days := RECHECK_DAYS if lacks_credit_note(order, images) else _days_until_money_settles(images, at):
            with suppress(WriteConflict):  # an expiry marker of this or a later version of the order exists: keep it
                shop.table.write(put_expiry_marker(shop, order, days, at))
            return None
        shop.table.write(update(ORDER, order, after))
        return after

    order = retry_on_conflict(shop, attempt)
    if order is None:
        return None
    images = shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=order_id)
    _check_no_refund_in_flight(images)  # staff may have retried a failed refund just before the order was locked
    return OrderSnapshot(order, [_image_before_archiving(image, images) for image in images])


def _missing_derivations(shop: ShopContext, order: Order, images: Sequence[Image], expired_at: Instant) -> list[str]:
    """Return what the stream reader has not derived yet from the order, its money and its returns, as text.

    The copies of a change are written before its OrderSummary (see copies.py). So if the summary has the order's
    version, the other copies are complete, too. Payments and refunds each have a copy that stays. A `Contribution` item
    records the amounts of an order or return that the sales totals include. DynamoDB deletes it later, after the totals
    have become final. Then the order or return is not checked.

    `images`: all items of the order's partition, as DynamoDB JSON. `expired_at`: when the order's expiry marker
    expired. It may be in the future: `python -m local advance` deletes expiry markers early. Totals that are final then
    are not checked.
    """
    sources: list[tuple[Row[Any], Any]] = [
        (ORDER, order),
        *((RETURN, RETURN.decode(one)) for one in images if one["type"]["S"] == RETURN.type),
    ]
    at = max(shop.now_instant(), expired_at)
    expected = [found for row, item in sources if (found := totals.current_contribution(row, item, at))]
    summary = ORDER_SUMMARY.key(customer_id=order.customer_id, placed_at=order.placed_at, order_id=order.order_id)
    marks = [CONTRIBUTION.key(source=one.source_id) for one in expected]
    copied: dict[tuple[str, str], tuple[Row[Any], Any]] = {}
    for row in (PAYMENT, REFUND):
        for image in images:
            copied |= copies_of(row, row.decode(image)) if image["type"]["S"] == row.type else {}
    kept = [into.key_of(copy) for into, copy in copied.values()]
    # An eventually consistent read can only show an older version of the copies. Then the archiving is retried.
    derived = shop.table.batch_get([summary, *marks, *kept], consistent=bool(marks))
    counted = {mark.source: mark.amounts for mark in derived if isinstance(mark, Contribution)}
    missing = [one.source_id for one in expected if not one.matches(counted.get(one.source_id, {}))]
    is_copied = any(isinstance(item, OrderSummary) and item.version == order.version for item in derived)
    is_listed = len(copied) == sum(isinstance(item, FeedEntry) for item in derived)
    return [
        *(() if is_copied else (f"copies of version {order.version} are missing",)),
        *(() if is_listed else ("copies of payments or refunds are missing",)),
        *(f"totals do not include {source} yet" for source in missing),
    ]


def _days_until_money_settles(images: Sequence[Image], at: datetime) -> int:
    """Return the number of days to wait before archiving, or 0 if no money of the order can move any more.

    `at`: now, or the time to which `python -m local advance` has advanced. Refunds and disputes need the items of the
    order. The result is RECHECK_DAYS if a refund is in progress, a dispute is open (`Payment.is_disputed`), or staff
    must still decide about an unmatched payment or a failed refund. Otherwise it is the days in which the latest
    successful card refund may still fail. A failed refund does not count if nothing is left of its payment.
    """
    refunds = [REFUND.decode(image) for image in images if image["type"]["S"] == REFUND.type]
    payments = [PAYMENT.decode(image) for image in images if image["type"]["S"] == PAYMENT.type]
    gone = {payment.payment_id for payment in payments if not payment.remaining}
    if any(
        refund.status in REFUNDS_IN_FLIGHT or (refund.status == "FAILED" and refund.payment_id not in gone)
        for refund in refunds
    ) or any(payment.is_disputed or payment.status == "UNMATCHED" for payment in payments):
        return RECHECK_DAYS
    done = [refund.updated_at for refund in refunds if refund.status == "SUCCEEDED" and refund.account_id is None]
    if not done:
        return 0
    since = at - datetime.fromisoformat(max(done))
    return max(0, REFUND_FAILURE_WINDOW_DAYS - since.days)


def _check_no_refund_in_flight(images: Sequence[Image]) -> None:
    """Raise NotReadyToArchive if a refund is in progress, because archiving would delete the refund's item."""
    refunds = [image for image in images if image["type"]["S"] == REFUND.type]
    if waiting := [image["refund_id"]["S"] for image in refunds if image["status"]["S"] in REFUNDS_IN_FLIGHT]:
        raise NotReadyToArchive(f"refunds {waiting} are in progress")


def _image_before_archiving(image: Image, images: Sequence[Image]) -> Image:
    """Return an image (item as DynamoDB JSON) as it was before the order was locked for archiving.

    The lock changed only the order's own image, and no timeline entry. The latest entry has the order's former status
    and version. The former `updated_at` is the time of the latest entry that is not OrderRestored, which does not
    change it.
    """
    if image["type"]["S"] != ORDER.type:
        return image
    rows = {row.type: row for row in (ORDER, EARLIER_TIMELINE)}
    events = merge_timeline(rows[it["type"]["S"]].decode(it) for it in images if it["type"]["S"] in rows)
    updated = next(event for event in reversed(events) if event.event != "OrderRestored")
    last = events[-1]
    return {
        **image,
        "status": {"S": last.status},
        "updated_at": {"S": updated.at},
        "version": {"N": str(last.version)},
    }


def replace_order_with_stub(
    shop: ShopContext, order: Order, archived_images: Sequence[Image], object_key: str, sha256: str
) -> None:
    """Delete the archived items of an order, except invoices, then replace the order with its stub, a small item.

    `archived_images`: the items in the archive object, as DynamoDB JSON. `object_key` and `sha256`: those of the
    object, for the stub. Raises WriteConflict if the order was already replaced.
    """
    to_delete = [image for image in archived_images if image["type"]["S"] not in TYPES_KEPT_IN_TABLE]
    shop.table.batch_delete([{"PK": image["PK"], "SK": image["SK"]} for image in to_delete])
    closed = next(ORDER.decode(image) for image in archived_images if image["type"]["S"] == ORDER.type)
    stub = ArchivedOrder(
        order_id=closed.order_id,
        customer_id=closed.customer_id,
        status=closed.status,
        placed_at=closed.placed_at,
        updated_at=closed.updated_at,
        currency=closed.currency,
        total=closed.total,
        fingerprint=closed.fingerprint,
        object_key=object_key,
        sha256=sha256,
        version=order.version + 1,
        company_id=closed.company_id,
        archived_at=shop.now_instant(),
        guest_id=closed.guest_id,
    )
    shop.table.write(replace_with(ORDER, order, ARCHIVED_ORDER, stub))
