"""What the archive does to the table: close an order to every other writer, list what it owns, leave a stub.

1. Once its log is complete and its money has come to rest, the order becomes ARCHIVING under its version; what is
written beside it depends on the order as it was read, so whoever read it before decides anew (and a payment told of
later than that stays with the stub). An order that was returned meanwhile has another end, and one whose money may move
yet is given another: both stay until then.
2. Everything in its partition is read, consistently. 3. Once that lies in the archive, exactly what the object lists is
deleted, and the order gives place to a small stub that stays for ever. Each step can be done again at any point.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from functions.dynamodb.images import Image
from functions.dynamodb.writes import WriteConflict, replace_with, update
from functions.model.derived import LOGS
from functions.model.entities import ArchivedOrder, Order, RefundStatus
from functions.model.patterns import ORDER_ITEM_COLLECTION
from functions.model.states import apply_order_command
from functions.model.table import ARCHIVED_ORDER, EXPIRY, INVOICE, ORDER, PAYMENT, REFUND, TIMELINE
from functions.shop.ending import put_expiry_marker
from functions.shop.shop import Shop, retry_on_conflict

TYPES_KEPT_IN_TABLE = {ORDER.type, INVOICE.type}
"""What an archived order leaves in the table: its stub, and its invoices, which the law wants kept and found."""
REFUNDS_IN_FLIGHT: tuple[RefundStatus, ...] = ("REQUESTED", "SENT")
"""The states of a refund that somebody still works on."""
RECHECK_DAYS = 7
"""How long the end of an order is put off while nobody can say when its money has come to rest."""
REFUND_FAILURE_WINDOW_DAYS = 31
"""For so long a refund to a card may still come back: https://docs.stripe.com/refunds#failed-refunds "can take up to 30
days"."""


class NotReadyToArchive(Exception):
    """The order's log is not complete yet, or a refund was begun just now: the others will catch up."""


@dataclass(frozen=True)
class OrderSnapshot:
    """An order on its way out, and every image of its partition; the order's own as it was before the archive came.

    `images` is None where some are gone already: all of them are in the object, which was written before.
    """

    order: Order
    images: Sequence[Image] | None


def start_archiving(shop: Shop, order_id: str) -> OrderSnapshot | None:
    """Steps 1 and 2. None where the order is archived already, or was never there, or its end was put off.

    Raises WrongState where the order is not closed, NotReady.
    """

    def attempt() -> Order | None:
        images = shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=order_id)
        order = next((shop.table.decode(image) for image in images if image["type"]["S"] == ORDER.type), None)
        if order is None or order.status == "ARCHIVING":
            return order
        if any(shop.table.decode(image) for image in images if image["type"]["S"] == EXPIRY.type):
            return None  # a return has put its end off; this was the end before
        after = apply_order_command(order, "archive", shop.now_instant())
        if missing := _versions_missing_in_log(images, order.logged_versions):
            raise NotReadyToArchive(f"versions {missing} of the order are not in its log")
        if days := _days_until_money_settles(shop, images):
            with suppress(WriteConflict):  # it has another end by now
                shop.table.write(put_expiry_marker(shop, order, days))
            return None
        shop.table.write(update(ORDER, order, after))
        return after

    order = retry_on_conflict(shop, attempt)
    if order is None:
        return None
    images = shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=order_id)
    if _versions_missing_in_log(
        images, order.logged_versions[:-1]
    ):  # the log was complete when the archive took over: it is being deleted
        return OrderSnapshot(order, None)
    _check_no_refund_in_flight(images)  # a refund that had failed may have been sent anew just then
    return OrderSnapshot(order, [_image_before_archiving(image, images) for image in images])


def _versions_missing_in_log(images: Sequence[Image], versions: Sequence[int]) -> list[int]:
    """Those of these versions of the order that a gapless log of it has no entry for."""
    logs = {log.target_row.type for log in LOGS if log.is_gapless and log.source_row is ORDER}
    seen = {(image["type"]["S"], int(image["version"]["N"])) for image in images if image["type"]["S"] in logs}
    return sorted({number for number in versions for log in logs if (log, number) not in seen})


def _days_until_money_settles(shop: Shop, images: Sequence[Image]) -> int:
    """For how many days money of the order may move yet: what works on it, or hears of it, must find it."""
    refunds = [REFUND.decode(image) for image in images if image["type"]["S"] == REFUND.type]
    payments = [PAYMENT.decode(image) for image in images if image["type"]["S"] == PAYMENT.type]
    if any(refund.status in REFUNDS_IN_FLIGHT for refund in refunds) or any(
        payment.is_disputed for payment in payments
    ):
        return RECHECK_DAYS
    done = [refund.updated_at for refund in refunds if refund.status == "SUCCEEDED" and refund.account_id is None]
    if not done:
        return 0
    since = shop.now() - datetime.fromisoformat(max(done))
    return max(0, REFUND_FAILURE_WINDOW_DAYS - since.days)


def _check_no_refund_in_flight(images: Sequence[Image]) -> None:
    """Raises NotReady while a refund is neither done nor given up: what works on it would not find it any more."""
    refunds = [image for image in images if image["type"]["S"] == REFUND.type]
    if waiting := [image["refund_id"]["S"] for image in refunds if image["status"]["S"] in REFUNDS_IN_FLIGHT]:
        raise NotReadyToArchive(f"refunds {waiting} are on their way")


def _image_before_archiving(image: Image, images: Sequence[Image]) -> Image:
    """The order's image as its last timeline event left it; any other as it is. The archive's own step is undone. That
    it was restored has not updated an order."""
    if image["type"]["S"] != ORDER.type:
        return image
    events = [image for image in images if image["type"]["S"] == TIMELINE.type]
    last, updated = (
        _latest_event(events),
        _latest_event([event for event in events if event["event"]["S"] != "OrderRestored"]),
    )
    return {**image, "status": last["status"], "updated_at": updated["at"], "version": last["version"]}


def _latest_event(events: Sequence[Image]) -> Image:
    return max(events, key=lambda image: int(image["version"]["N"]))


def replace_order_with_stub(
    shop: Shop, order: Order, archived_images: Sequence[Image], object_key: str, sha256: str
) -> None:
    """Step 3: delete what the object lists, then turn the order into its stub. Raises Changed where it is one."""
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
        archived_at=shop.now_instant(),
    )
    shop.table.write(replace_with(ORDER, order, ARCHIVED_ORDER, stub))
